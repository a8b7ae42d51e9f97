"""codex: OpenAI's Codex, driven through its app-server as one long-lived process.

What was handed over in a turn is on the disk before Codex has it, under an id that Codex keeps in its own transcript:
a turn that broke off is continued by another process without its prompt being said twice. Its own sandbox is off, ours
is the wall. It asks the model through the session's way out; no key is inside.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from gatepost.inside import bridge, forwarder, media, programs
from gatepost.inside.mcp_json import own_servers
from gatepost.inside.plan_approvals import PlanApprovals
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.codex.app_server import (
    AppServer,
    AppServerEnded,
    AppServerError,
    AppServerNotification,
    AppServerRequest,
)
from gatepost.inside.providers.codex.protocol import (
    SERVER,
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
    ConversationStarted,
    Event,
    Misconfigured,
    Mode,
    ProviderContext,
    Text,
    TurnFailed,
    TurnResult,
    UsageReport,
    provider,
)
from gatepost.inside.sent_prompts import SentPrompt, SentPromptLog
from gatepost.inside.system_prompt import system_prompt

PLAN, AFTER_PLAN = "plan", "on-request"
# When Codex asks before it acts, in its own words; while it plans, before everything that is not known to be harmless.
POLICIES = {"never": "never", "on-request": "on-request", "untrusted": "untrusted", PLAN: "untrusted"}
MODES = tuple(POLICIES)


class CodexOptions(msgspec.Struct, frozen=True):
    """`gatepost group set FOLDER options.KEY=VALUE`"""

    mode: str = "never"  # the walls are the sandbox's
    retries: int = 4  # of one request to the model
    effort: str = ""  # how long the model thinks; "": as the model's vendor says
    own_mcp: bool = False  # the servers of the group's .mcp.json, too, inside


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
    trial={"retries": 1},
)
class Codex:
    takes_pushes = True

    def __init__(self, place: ProviderContext) -> None:
        self._place = place
        self._options = read_options(place.options)
        self._mode = self._options.mode
        self._program = programs.find("codex")
        self._home = place.state / "home"
        self._handed = SentPromptLog(place.state / "handed.json", self._home / "sessions", "*/*/*/rollout-*-{}.jsonl")
        self._plans = PlanApprovals(place.state / "plan.json", AFTER_PLAN)
        self._plan = ""  # what it proposes in the turn that runs
        self._server: AppServer | None = None
        self._thread = self._model = self._effort = ""
        self._turn = ""  # the one that runs, as Codex names it
        self._last = ""  # the one before
        self._port = 0
        self._asked: dict[str, AppServerRequest] = {}
        self._waiting: dict[str, SentPrompt] = {}  # handed over, and not taken up yet
        self._spent: Counter[str] = Counter()
        self._totals: dict[str, Counter[str]] = {}  # by thread: what it says that was spent in all
        self._stopped = False

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._stopped, self._plan = False, ""
        self._spent.clear()
        self._waiting.clear()
        try:
            server = await self._ready(resume)
            if self._stopped:
                raise ProviderError("interrupted")
            self._plan = self._plans.left(self._thread, batch)
            yield ConversationStarted(self._thread)
            if not self._plan:
                handed = self._handed.begin(batch, self._thread, self._place)
                await self._begin(server, handed)
                async for event in self._events(server):
                    yield event
            async for event in self._end(batch.turn):
                yield event
        except AppServerError as refused:
            yield TurnFailed(f"Codex could not go on: {refused}"[:500], "retryable")
        except ProviderError as trouble:
            if trouble.about_input and handed.files:
                await self._forget_turn(server)
            if self._spent:
                yield UsageReport(dict(self._spent))
            yield TurnFailed(trouble.message, trouble.kind, trouble.retry_after)
        finally:
            if self._turn or self._server is None or not self._server.alive:
                await self.close()  # what still runs is nobody's

    async def push(self, batch: Batch) -> None:
        if self._server is None or not self._turn:
            raise NotImplementedError("no turn is running")
        handed = self._handed.follow(batch)
        self._waiting[handed.id] = handed
        try:
            await self._server.ask("turn/steer", expectedTurnId=self._turn, **self._input(handed))
        except AppServerError as refused:  # it has just ended
            self._waiting.pop(handed.id, None)
            self._handed.remove_prompt(handed)
            raise NotImplementedError(f"Codex takes no more: {refused}") from None

    async def interrupt(self) -> None:
        self._stopped = True
        self._plans.give_up()
        if self._server is not None and self._turn:
            await self._interrupt(self._server)

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        if self._plans.answer(request):
            return
        asked = self._asked.pop(request, None)
        if asked is None or self._server is None:
            raise LookupError(f"codex waits for no answer to {request}")
        self._server.answer(asked.id, render_answer(asked, allow=verdict == "allow"))

    async def set_mode(self, mode: str) -> None:
        if mode not in MODES:
            raise NotImplementedError(f"codex has no mode {mode!r}, only {', '.join(MODES)}")
        self._mode = mode  # from the next turn on

    async def fork(self, conversation: str) -> str:
        try:
            answer = await (await self._serve()).ask("thread/fork", threadId=conversation, excludeTurns=True)
        except AppServerError as refused:
            raise NotImplementedError(f"that conversation cannot be copied: {refused}") from None
        return str(answer["thread"]["id"])

    async def close(self) -> None:
        server, self._server = self._server, None
        self._thread = self._turn = ""
        self._asked.clear()
        if server is not None:
            await server.close()

    # The process.

    async def _ready(self, resume: str) -> AppServer:
        """Codex in that conversation. It looks at its AGENTS.md before every turn, and tells the model what changed."""
        place, server = self._place, await self._serve()
        system = system_prompt(place, reader="your shell")
        (self._home / "AGENTS.md").write_text(system, encoding="utf-8")
        while not server.heard.empty():  # between two turns
            if isinstance(said := server.heard.get_nowait(), AppServerRequest):
                server.respond_error(said.id, "nobody is here")
        if not resume or resume != self._thread:
            known = self._handed.path(resume) is not None
            about: dict[str, object] = {"cwd": str(place.start), "approvalPolicy": POLICIES[self._mode]}
            if model := place.model or (await self._usual(server) if known else ""):
                about["model"] = model
            if known:
                answer = await server.ask("thread/resume", threadId=resume, excludeTurns=True, **about)
            else:
                answer = await server.ask("thread/start", **about)
            self._thread = str(answer["thread"]["id"])
            self._model, self._effort = str(answer.get("model") or ""), str(answer.get("reasoningEffort") or "")
        return server

    async def _usual(self, server: AppServer) -> str:
        """The model that a new conversation would have: one that goes on keeps its own where none is named."""
        listed = await server.ask("model/list")
        return next((str(each["model"]) for each in listed.get("data") or [] if each.get("isDefault")), "")

    async def _serve(self) -> AppServer:
        if self._server is not None and self._server.alive:
            return self._server
        await self.close()
        environment = self._environment()
        (self._home / "config.toml").write_text(await self._config(environment), encoding="utf-8")
        log = self._place.state / "stderr.txt"
        self._server = await AppServer.start([self._program, "app-server"], environment, self._place.start, log)
        await self._server.ask(
            "initialize", clientInfo={"name": SERVER, "version": "1"}, capabilities={"experimentalApi": True}
        )
        self._server.tell("initialized")
        return self._server

    def _environment(self) -> dict[str, str]:
        run = self._place.router.parent
        if not (run / forwarder.SOCKET).exists():
            raise Misconfigured("codex has no endpoint: this sandbox has no way out")
        self._port = self._port or forwarder.start(run)
        self._home.mkdir(parents=True, exist_ok=True)
        own = {"CODEX_HOME": str(self._home), "HOME": str(self._home), "RUST_LOG": "error"}
        return {**os.environ, **forwarder.environment(self._port), **own}

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
            retries=self._options.retries,
            effort=self._options.effort,
            catalog=str(catalog) if plain else "",
        )

    # A turn.

    def _input(self, handed: SentPrompt) -> dict[str, object]:
        """With pictures it gets their paths, and reads them before it answers."""
        paths = [media.get_attachment_folder(self._place) / name for name in handed.files]
        pictures = [
            {"type": "localImage", "path": str(path)}
            for path in paths
            if media.get_file_handling("codex", path) is media.MediaHandling.BLOCK
        ]
        text = {"type": "text", "text": handed.text}
        return {"threadId": self._thread, "input": [*pictures, text], "clientUserMessageId": handed.id}

    async def _begin(self, server: AppServer, handed: SentPrompt) -> None:
        self._waiting[handed.id] = handed
        about: dict[str, object] = {"approvalPolicy": POLICIES[self._mode], **self._input(handed)}
        plan = self._mode == PLAN
        if plan or self._plans.is_last_planned(self._thread):  # what it was in, it stays in unless it is told
            about["collaborationMode"] = render_collaboration(plan=plan, model=self._model, effort=self._effort)
        if plan:
            self._plans.begin(self._thread, handed.turn)
        answer = await server.ask("turn/start", **about)
        self._turn = str(answer["turn"]["id"])
        if self._stopped:
            await self._interrupt(server)

    async def _forget_turn(self, server: AppServer) -> None:
        """The endpoint does not take what came with it: without it the conversation can go on."""
        with suppress(AppServerError):
            await server.ask("thread/revert", threadId=self._thread, beforeTurnId=self._last)

    async def _interrupt(self, server: AppServer) -> None:
        try:
            await server.ask("turn/interrupt", threadId=self._thread, turnId=self._turn)
        except AppServerError as refused:
            if server.alive and "no active turn" not in str(refused):
                server.heard.put_nowait(AppServerEnded(str(refused)))

    async def _events(self, server: AppServer) -> AsyncIterator[Event]:
        """Until it has answered everything that was handed over."""
        said = ""
        while True:
            heard = await server.heard.get()
            if isinstance(heard, AppServerEnded):
                raise ProviderError("interrupted" if self._stopped else f"Codex ended: {heard.why}"[:500], "retryable")
            if isinstance(heard, AppServerRequest):
                if (permission := read_permission(heard, server.name)) is None:
                    server.respond_error(heard.id, "there is nobody to ask")
                else:
                    self._asked[permission.id] = heard
                    yield permission
                continue
            for event in self._hear(heard):
                said = event.text if isinstance(event, Text) else said
                yield event
            if heard.method == "turn/completed" and self._is_ours(heard):
                self._turn, self._last = "", self._turn
                if (trouble := read_turn_error(heard.params["turn"], self._stopped)) is not None:
                    raise trouble
                if not self._waiting:
                    break
                for handed in list(self._waiting.values()):  # it ended before it took them up
                    await self._begin(server, handed)
        yield UsageReport(dict(self._spent))
        if self._plan:
            yield Text(self._plan)
        else:
            yield TurnResult(said)

    async def _end(self, turn: str) -> AsyncIterator[Event]:
        """Its turn is over, and so is ours, unless a plan is to be approved."""
        if self._plan:
            yield self._plans.ask(self._thread, turn, self._plan)
            await self._plans.answered()
            if self._stopped:
                raise ProviderError("interrupted")
            yield TurnResult()

    def _is_ours(self, told: AppServerNotification) -> bool:
        """Rather than a sub-agent's, or of a turn that was ended."""
        turn = told.params.get("turnId") or (told.params.get("turn") or {}).get("id")
        return told.params.get("threadId") == self._thread and turn == self._turn

    def _count(self, told: AppServerNotification) -> None:
        """It tells the same request more than once; the sum of its thread does not move then."""
        thread, total = str(told.params.get("threadId")), read_usage(told.params, "total")
        if self._totals.get(thread) != total:
            self._totals[thread] = total
            self._spent.update(read_usage(told.params), requests=1)

    def _hear(self, told: AppServerNotification) -> list[Event]:
        if told.method == "thread/tokenUsage/updated":  # a sub-agent's, too
            self._count(told)
        elif told.method in ("item/started", "item/completed") and self._is_ours(told):
            item = told.params["item"]
            if item.get("type") == "plan" and told.method == "item/completed":
                self._plan = str(item.get("text") or "").strip()
            if item.get("type") == "userMessage":
                self._waiting.pop(item.get("clientId") or "", None)
            return read_item(item, ended=told.method == "item/completed")
        return []


def read_options(given: dict[str, Any]) -> CodexOptions:
    try:
        options = msgspec.convert(given, CodexOptions, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"the group's options are not as they should be: {error}") from None
    if options.mode not in MODES:
        raise Misconfigured(f"codex has no mode {options.mode!r}, only {', '.join(MODES)}")
    return options
