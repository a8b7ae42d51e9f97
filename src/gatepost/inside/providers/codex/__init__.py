"""codex: OpenAI's Codex, driven through its app-server as one long-lived process.

Codex keeps the ids of prompts in its own transcript. Its own sandbox is off, ours is the wall.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from math import inf

from gatepost.inside import bridge, media
from gatepost.inside.agent_loop import CUT_ANSWER, SUMMING_UP
from gatepost.inside.coding_agent import CodingAgent, PermissionVerdict, RetryingAgentOptions, find_program
from gatepost.inside.drafts import add_piece
from gatepost.inside.mcp_json import OURS, own_servers
from gatepost.inside.prompts import prompt
from gatepost.inside.prompts.sent_prompts import SentPrompt, SentPromptLog
from gatepost.inside.prompts.system_prompt import system_prompt
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.codex.app_server import (
    AppServer,
    AppServerError,
    AppServerNotification,
    AppServerRequest,
)
from gatepost.inside.providers.codex.protocol import (
    is_cut,
    is_refused,
    read_item,
    read_permission,
    read_turn_error,
    read_usage,
    render_answer,
    render_collaboration,
    render_config,
    simplify_models,
)
from gatepost.inside.providers.contract import (
    Batch,
    DraftText,
    Event,
    Mode,
    PermissionRequest,
    ProviderContext,
    StatusLine,
    Text,
    provider,
)
from gatepost.jsonrpc.messages import render_notification
from gatepost.mailbox.runner_frames import TurnErrorClass

PLAN, AFTER_PLAN = "plan", "on-request"
SUMMED_UP = (
    "The conversation had become too long for you, so its older part was summed up. The last message before that is not"
    " answered yet: answer it now."
)
MOST_REFUSALS = 2  # of a turn; with the first, Codex tells the model about it
FIRST_PAUSE = 0.2  # seconds between its retries; each is twice as long as the one before
# When Codex asks before it acts, in its own words; while it plans, before everything that is not known to be harmless.
POLICIES = {"never": "never", "on-request": "on-request", "untrusted": "untrusted", PLAN: "untrusted"}


class CodexOptions(RetryingAgentOptions, frozen=True):
    effort: str = ""  # how long the model thinks; "": as the model's vendor says


@provider(
    "codex",
    title="Codex",
    programs=("codex",),
    package="@openai/codex",
    modes=(
        Mode("never", "Never ask", "Never asks; the sandbox is the wall."),
        Mode("on-request", "On request", "Asks when it thinks that it should."),
        Mode("untrusted", "Untrusted", "Asks before every command that is not known to be harmless."),
        Mode("plan", "Plan", "Plans first; once the plan is approved, carries it out `on-request`."),
    ),
    media={"image": "block"},  # as `localImage`; its protocol knows no other kind
    vendor="openai",
    model="gpt-5.5",
    mcp_client={"file": "~/.codex/config.toml", "key": "mcp_servers", "toml": True},
    options=("mode", "own_mcp", "outage", "retries", "effort"),
    trial={"retries": 1},
)
class Codex(CodingAgent[AppServer, CodexOptions, AppServerNotification]):
    busy_status = 503  # after a 429 it would not ask again

    def __init__(self, place: ProviderContext) -> None:
        transcripts = place.state / "home" / "sessions"
        log = SentPromptLog(place.state / "handed.json", transcripts, "*/*/*/rollout-*-{}.jsonl")
        super().__init__(place, CodexOptions, log, AFTER_PLAN)
        self._program = find_program("codex")
        self._model = self._effort = ""
        self._turn = ""  # the one that runs, as Codex names it
        self._last = ""  # the one before
        self._written = "", ""  # the message that the model is at, by its name
        self._totals: dict[str, Counter[str]] = {}  # by thread: what it says that was spent in all

    async def fork(self, conversation: str) -> str:
        try:
            answer = await (await self._serve()).ask("thread/fork", threadId=conversation, excludeTurns=True)
        except AppServerError as refused:
            raise NotImplementedError(f"that conversation cannot be copied: {refused}") from None
        return str(answer["thread"]["id"])

    async def close(self) -> None:
        await super().close()
        self._turn = ""

    # The process.

    async def _open(self, batch: Batch, resume: str) -> None:
        """Codex looks at its AGENTS.md before every turn, and tells the model what changed."""
        place, server = self._place, await self._serve()
        (self._home / "AGENTS.md").write_text(system_prompt(place, reader="your shell"), encoding="utf-8")
        self._forget_messages()
        if resume and resume == self._conversation:
            return
        known = self._log.path(resume) is not None
        about: dict[str, object] = {"cwd": str(place.start), "approvalPolicy": POLICIES[self._mode]}
        if model := place.model or (await self._usual(server) if known else ""):
            about["model"] = model
        if known:
            answer = await server.ask("thread/resume", threadId=resume, excludeTurns=True, **about)
        else:
            answer = await server.ask("thread/start", **about)
        self._conversation = str(answer["thread"]["id"])
        self._model, self._effort = str(answer.get("model") or ""), str(answer.get("reasoningEffort") or "")

    async def _usual(self, server: AppServer) -> str:
        """The model that a new conversation would have: one that goes on keeps its own where none is named."""
        listed = await server.ask("model/list")
        return next((str(each["model"]) for each in listed.get("data") or [] if each.get("isDefault")), "")

    async def _serve(self) -> AppServer:
        if self._client is not None and self._client.is_alive:
            return self._client
        await self.close()
        environment = self._environment()
        (self._home / "config.toml").write_text(await self._config(environment), encoding="utf-8")
        self._client = await AppServer.start(
            [self._program, "app-server"],
            env=environment,
            folder=self._place.start,
            notified=self._deliver,
            asked=self._handle_request,
        )
        about = {"name": OURS, "version": "1"}
        await self._client.ask("initialize", clientInfo=about, capabilities={"experimentalApi": True})
        await self._client.write(render_notification("initialized"))
        return self._client

    def _environment(self) -> dict[str, str]:
        own = {"CODEX_HOME": str(self._home), "RUST_LOG": "error"}
        return {**os.environ, **super()._environment(), **own}

    async def _config(self, environment: Mapping[str, str]) -> str:
        """config.toml, and beside it what Codex knows about models, made plain."""
        process = await asyncio.create_subprocess_exec(
            *(self._program, "debug", "models", "--bundled"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environment),
        )
        known, _ = await process.communicate()
        catalog = self._home / "models.json"
        if plain := simplify_models(known):
            catalog.write_bytes(plain)
        return render_config(
            endpoint=environment["OPENAI_BASE_URL"],
            command=bridge.command(str(self._place.router)),
            own=own_servers(self._place.agent, self._options.own_mcp),
            folder=str(self._place.start),
            retries=self._options.count_retries(FIRST_PAUSE, inf),
            effort=self._options.effort,
            catalog=str(catalog) if plain else "",
        )

    async def _handle_request(self, asked: AppServerRequest) -> None:
        server = self._client
        if server is None:
            return
        permission = read_permission(asked, server.name) if self._running else None
        if permission is None:
            await server.respond_error(asked.id, "there is nobody to ask")
            return

        async def reply(verdict: PermissionVerdict) -> None:
            answer = render_answer(asked, allow=verdict.allow, given=verdict.input, reason=verdict.reason)
            await server.answer(asked.id, answer)

        self._requests[permission.id] = reply
        self._deliver(permission)

    # A turn.

    def _input(self, sent: SentPrompt) -> dict[str, object]:
        """With pictures it gets their paths, and reads them before it answers."""
        paths = [media.get_attachment_folder(self._place) / name for name in sent.files]
        pictures = [
            {"type": "localImage", "path": str(path)}
            for path in paths
            if media.get_file_handling(self.spec.name, path) is media.MediaHandling.BLOCK
        ]
        text = {"type": "text", "text": sent.text}
        return {"threadId": self._conversation, "input": [*pictures, text], "clientUserMessageId": sent.id}

    async def _send(self, client: AppServer, sent: SentPrompt) -> None:
        about: dict[str, object] = {"approvalPolicy": POLICIES[self._mode], **self._input(sent)}
        plan = self._mode == PLAN
        if plan or self._plans.is_last_planned(self._conversation):  # it stays in that mode unless it is told
            about["collaborationMode"] = render_collaboration(plan=plan, model=self._model, effort=self._effort)
        if plan:
            self._plans.begin(self._conversation, sent.turn)
        answer = await client.ask("turn/start", **about)
        self._turn, self._running = str(answer["turn"]["id"]), True
        if self._stop.is_set():
            await self._cancel(client)

    async def _follow_up(self, client: AppServer, sent: SentPrompt) -> None:
        if not self._turn:
            raise ProviderError("no turn is running")
        await client.ask("turn/steer", expectedTurnId=self._turn, **self._input(sent))

    async def _forget_media(self, client: AppServer, sent: SentPrompt) -> None:
        if sent.files:
            with suppress(AppServerError):
                await client.ask("thread/revert", threadId=self._conversation, beforeTurnId=self._last)

    async def _cancel(self, client: AppServer) -> None:
        if not self._turn:
            return
        try:
            await client.ask("turn/interrupt", threadId=self._conversation, turnId=self._turn)
        except AppServerError as refused:
            if client.is_alive and "no active turn" not in str(refused):
                self._deliver(refused)

    async def _events(self, client: AppServer) -> AsyncIterator[Event]:
        answer, compacted, refusals = "", False, 0
        while True:
            message = await self._receive()
            if isinstance(message, PermissionRequest | StatusLine):
                yield message
                continue
            if message.method == "error" and self._is_ours(message) and is_refused(message.params.get("error") or {}):
                refusals += 1
                if refusals >= MOST_REFUSALS:
                    raise ProviderError("the model declined to answer", TurnErrorClass.REFUSAL)
            for event in self._read_notice(message):
                answer = event.text if isinstance(event, Text) else answer
                yield event
            if message.method == "turn/completed" and self._is_ours(message):
                turn = message.params["turn"]
                self._turn, self._last, self._running = "", self._turn, False
                trouble = None if is_cut(turn) else read_turn_error(turn, self._stop.is_set())
                if trouble is not None and trouble.kind is TurnErrorClass.OVERFLOW and not compacted:
                    compacted, self._running = True, True
                    yield StatusLine(SUMMING_UP)
                    await self._compact(client, trouble)
                    continue
                if trouble is not None:
                    raise trouble
                answer = CUT_ANSWER if is_cut(turn) else answer
                if not self._waiting:
                    break
                for sent in list(self._waiting.values()):  # it ended before it took them up
                    await self._send(client, sent)
        if self._plan:
            yield Text(self._plan)
        else:
            self._answer = answer

    async def _compact(self, client: AppServer, trouble: ProviderError) -> None:
        """Have the conversation summed up, and the turn that was too large for the model gone on with."""
        await client.ask("thread/compact/start", threadId=self._conversation)
        while True:
            message = await self._receive()
            if isinstance(message, PermissionRequest | StatusLine):
                continue
            if message.method == "turn/started" and message.params.get("threadId") == self._conversation:
                self._turn = str(message.params["turn"]["id"])
            elif message.method == "turn/completed" and self._is_ours(message):
                break
        if message.params["turn"].get("status") != "completed":
            raise trouble
        self._check_stop()
        note = {"type": "text", "text": prompt.render_note("compacted", SUMMED_UP)}
        about: dict[str, object] = {"approvalPolicy": POLICIES[self._mode], "threadId": self._conversation}
        answer = await client.ask("turn/start", input=[note], **about)
        self._turn = str(answer["turn"]["id"])

    def _is_ours(self, notice: AppServerNotification) -> bool:
        """Rather than a sub-agent's, or of a turn that was ended."""
        turn = notice.params.get("turnId") or (notice.params.get("turn") or {}).get("id")
        return notice.params.get("threadId") == self._conversation and turn == self._turn

    def _count(self, notice: AppServerNotification) -> None:
        """It tells the same request more than once; the sum of its thread does not move then."""
        thread, total = str(notice.params.get("threadId")), read_usage(notice.params, "total")
        if self._totals.get(thread) != total:
            self._totals[thread] = total
            self._spent.update(read_usage(notice.params), requests=1)

    def _read_notice(self, notice: AppServerNotification) -> list[Event]:
        if notice.method == "thread/tokenUsage/updated":  # a sub-agent's, too
            self._count(notice)
        elif notice.method == "item/agentMessage/delta" and self._is_ours(notice):
            return self._read_delta(str(notice.params.get("itemId")), str(notice.params.get("delta") or ""))
        elif notice.method in ("item/started", "item/completed") and self._is_ours(notice):
            item, self._written = notice.params["item"], ("", "")
            if item.get("type") == "plan" and notice.method == "item/completed":
                self._plan = str(item.get("text") or "").strip()
            if item.get("type") == "userMessage":
                self._waiting.pop(item.get("clientId") or "", None)
            return read_item(item, ended=notice.method == "item/completed")
        return []

    def _read_delta(self, item: str, piece: str) -> list[Event]:
        known, written = self._written
        self._written = item, add_piece(written if known == item else "", piece)
        return [DraftText(self._written[1])] if self._place.is_watched() else []
