"""opencode, driven through its own server as one long-lived process.

The id of a prompt is the name that the message has in opencode's own store.
"""

import os
import shutil
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from gatepost.inside import bridge, forwarder
from gatepost.inside.agent_loop import CUT_ANSWER
from gatepost.inside.coding_agent import CodingAgent, PermissionVerdict, RetryingAgentOptions, find_program
from gatepost.inside.mcp_json import own_servers
from gatepost.inside.prompts.sent_prompts import SentPrompt, SentPromptLog
from gatepost.inside.prompts.system_prompt import system_prompt
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.contract import (
    Batch,
    DraftText,
    Event,
    Misconfigured,
    Mode,
    PermissionRequest,
    PermissionRequestKind,
    ProviderContext,
    StatusLine,
    Text,
    provider,
)
from gatepost.inside.providers.opencode.protocol import (
    AGENTS,
    APIS,
    OpencodeAttachment,
    OpencodeEvent,
    OpencodeEventReader,
    api_of,
    message_id,
    part_ids,
    read_error,
    read_retry,
    render_config,
    render_prompt,
    render_question_reply,
)
from gatepost.inside.providers.opencode.server import OpencodeError, OpencodeServer
from gatepost.mailbox.runner_frames import TurnErrorClass

NUDGES = 3  # how often opencode is reminded of what it has not taken up
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 30.0  # seconds between its retries
WAIT = 60.0  # seconds; who must wait longer for the model is told so instead
TITLE = "gatepost"  # a session that has one does not ask the model for one
PLAN, AFTER_PLAN = "plan", "allow"
_ENVIRONMENT = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",  # what lies in the group's folder is read by us alone
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_ENABLE_QUESTION_TOOL": "1",
    "OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER": "1",
}


class OpencodeOptions(RetryingAgentOptions, frozen=True):
    api: str = ""  # messages, responses or chat; "": by the model's name
    context: int = 200_000  # tokens that the model can have before it
    max_tokens: int = 8192  # of one answer

    def __post_init__(self) -> None:
        if self.api not in ("", *APIS):
            raise ValueError(f"opencode asks by {', '.join(APIS)}, not by {self.api!r}")


class OpencodeSentPromptLog(SentPromptLog):
    """opencode keeps its conversations in a database of its own: what they hold, its server says."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, file.parent, new_id=message_id)
        self.known: frozenset[str] = frozenset()

    def held(self, conversation: str, ids: Iterable[str]) -> set[str]:
        return set(ids) & self.known


@provider(
    "opencode",
    title="opencode",
    programs=("opencode",),
    package="opencode-ai",
    modes=(
        Mode("allow", "Allow", "Never asks; the sandbox is the wall."),
        Mode("ask", "Ask", "Asks before it acts."),
        Mode("plan", "Plan", "Reads and plans; once the plan is approved, carries it out in `allow`."),
    ),
    media={"image": "block", "pdf": "block"},  # as file parts
    vendor="openai",
    any_vendor=True,
    model="gpt-5-mini",
    mcp_client={
        "file": "opencode.json",
        "key": "mcp",
        "entry": {"type": "local", "enabled": True},
        "one_list": True,
    },
    options=("mode", "own_mcp", "outage", "retries", "api", "context", "max_tokens"),
    trial={"retries": 1},
)
class Opencode(CodingAgent[OpencodeServer, OpencodeOptions, OpencodeEvent]):
    def __init__(self, place: ProviderContext) -> None:
        self._sent = OpencodeSentPromptLog(place.state / "handed.json")
        super().__init__(place, OpencodeOptions, self._sent, AFTER_PLAN)
        if not place.model:
            raise Misconfigured(f"opencode must be told its model: gatepost group set {place.folder} model=NAME")
        self._program = find_program("opencode")
        self._system = ""
        self._copied: frozenset[str] = frozenset()  # messages of a fork, of which opencode tells as if they were new

    async def fork(self, conversation: str) -> str:
        try:
            server = await self._serve()
            made = str((await server.ask("POST", f"/session/{conversation}/fork", {}))["id"])
            self._copied = await self._list_messages(server, made)
        except OpencodeError as refused:
            raise NotImplementedError(f"that conversation cannot be copied: {refused}") from None
        return made

    # The process.

    async def _open(self, batch: Batch, resume: str) -> None:
        server = await self._serve()
        self._system = system_prompt(self._place, reader="read")
        self._forget_messages()
        if not resume or resume != self._conversation:
            self._conversation = await self._find(server, resume) or await self._create(server)
        known = await self._list_messages(server, self._conversation) if batch.continued else frozenset()
        self._sent.known = known

    async def _find(self, server: OpencodeServer, conversation: str) -> str:
        """'': it has no such conversation."""
        if not conversation.startswith("ses"):
            return ""
        try:
            return str((await server.ask("GET", f"/session/{conversation}"))["id"])
        except OpencodeError as refused:
            if refused.status in (400, 404):
                return ""
            raise

    async def _create(self, server: OpencodeServer) -> str:
        return str((await server.ask("POST", "/session", {"title": TITLE}))["id"])

    async def _list_messages(self, server: OpencodeServer, conversation: str) -> frozenset[str]:
        """Return what words are called in a conversation."""
        found = await server.ask("GET", f"/session/{conversation}/message")
        return frozenset(str(each["info"]["id"]) for each in found)

    async def _serve(self) -> OpencodeServer:
        if self._client is not None and self._client.is_alive:
            return self._client
        await self.close()
        log, folder = self._place.state / "stderr.txt", self._place.start
        self._client = await OpencodeServer.start([self._program], self._environment(), folder, log, self._deliver)
        return self._client

    def _environment(self) -> dict[str, str]:
        place, options, variables = self._place, self._options, super()._environment()
        api = APIS[options.api or api_of(place.model)]
        config = render_config(
            model=place.model,
            api=api,
            endpoint=variables[api.variable] + api.suffix,
            key=forwarder.PLACEHOLDER,
            command=bridge.command(str(place.router)),
            own=own_servers(place.agent, options.own_mcp),
            context=options.context,
            max_tokens=options.max_tokens,
        )
        file = self._home / "opencode.json"
        file.write_bytes(msgspec.json.encode(config))
        folders = {f"XDG_{name.upper()}_HOME": str(self._home / name) for name in ("config", "data", "cache", "state")}
        for planted in (".opencode", "config"):  # skills, agents and plug-ins of its own, which an agent can write
            shutil.rmtree(self._home / planted, ignore_errors=True)
        plugins = self._home / "config" / "opencode"
        plugins.mkdir(parents=True, exist_ok=True)
        plugins.chmod(0o555)  # where it can write, it installs packages from the network
        return {**os.environ, **variables, **folders, "OPENCODE_CONFIG": str(file), **_ENVIRONMENT}

    # A turn.

    async def _send(self, client: OpencodeServer, sent: SentPrompt) -> None:
        model, agent = self._place.model, AGENTS[self._mode]
        body = render_prompt(sent.id, sent.text, self._system, agent, model, self._shown(sent))
        await client.ask("POST", f"/session/{self._conversation}/prompt_async", body)

    def _shown(self, sent: SentPrompt) -> list[OpencodeAttachment]:
        """As far as the model's API has a place for it."""
        sees = APIS[self._options.api or api_of(self._place.model)].sees
        return [
            OpencodeAttachment(each.path.name, each.mime, each.data)
            for each in self._list_media(sent)
            if any(kind in each.mime for kind in sees)
        ]

    async def _forget_media(self, client: OpencodeServer, sent: SentPrompt) -> None:
        for part in part_ids(sent.id, len(self._shown(sent)))[1:]:
            with suppress(OpencodeError):
                await client.ask("DELETE", f"/session/{self._conversation}/message/{sent.id}/part/{part}")

    async def _cancel(self, client: OpencodeServer) -> None:
        try:
            await client.ask("POST", f"/session/{self._conversation}/abort", {})
        except OpencodeError as refused:
            self._deliver(refused)

    async def _reply(self, client: OpencodeServer, asked: PermissionRequest, verdict: PermissionVerdict) -> None:
        path: str
        body: dict[str, object]
        if asked.kind is PermissionRequestKind.QUESTION and verdict.allow:
            path, body = f"/question/{asked.id}/reply", render_question_reply(asked, verdict.input)
        elif asked.kind is PermissionRequestKind.QUESTION:
            path, body = f"/question/{asked.id}/reject", {}
        elif verdict.allow:
            path, body = f"/permission/{asked.id}/reply", {"reply": "once"}
        else:
            path, body = f"/permission/{asked.id}/reply", {"reply": "reject", "message": verdict.reason}
        try:
            await client.ask("POST", path, body)
        except OpencodeError as refused:
            raise LookupError(f"opencode waits for no answer to {asked.id}: {refused}") from None

    async def _events(self, client: OpencodeServer) -> AsyncIterator[Event]:
        reader = OpencodeEventReader(self._conversation, self._copied)
        answer, nudges, busy = "", NUDGES, False
        self._spent = reader.spent
        trouble: ProviderError | None = None
        while True:
            message = await self._receive()
            if isinstance(message, PermissionRequest):
                continue  # opencode's come as events
            if isinstance(message, StatusLine):
                yield message
                continue
            for event in reader.read(message):
                if isinstance(event, DraftText) and not self._place.is_watched():
                    continue
                if isinstance(event, PermissionRequest):
                    self._requests[event.id] = partial(self._reply, client, event)
                if isinstance(event, Text):
                    answer = event.text
                    if trouble is not None and trouble.kind is TurnErrorClass.OVERFLOW:
                        trouble = None  # it has made the conversation shorter, and gone on
                yield event
            for id in [each for each in self._waiting if each <= reader.newest]:
                del self._waiting[id]
            if message.session != self._conversation:
                continue  # a sub-agent's
            trouble = trouble or await self._trouble(client, message)
            if message.type == "session.status":
                busy = message.properties["status"]["type"] != "idle"
            if message.type != "session.idle" and (busy or message.type != "session.error"):
                continue  # only what has begun becomes idle
            if trouble is None and not self._stop.is_set() and self._waiting and nudges:
                nudges -= 1  # it came with the last word, or that idleness was the turn's before
                for sent in list(self._waiting.values()):
                    await self._send(client, sent)
                continue
            break
        self._running = self._stop.is_set() and bool(self._waiting)  # it may still begin
        self._check_stop()
        if trouble is not None:
            raise trouble
        if self._mode == PLAN and answer.strip():
            self._plan = answer  # its plans are what it says
        else:
            self._answer = CUT_ANSWER if reader.is_cut else answer

    async def _trouble(self, client: OpencodeServer, event: OpencodeEvent) -> ProviderError | None:
        """Why the turn ends badly, when opencode is idle again."""
        if event.type == "session.error":
            return read_error(event.properties.get("error") or {})
        if event.type != "session.status":
            return None
        status = event.properties.get("status") or {}
        most = self._options.count_retries(FIRST_PAUSE, LONGEST_PAUSE)
        trouble = read_retry(status, most, WAIT, time.time(), self._model_trouble)
        stopped = self._stop.is_set() and status.get("type") == "busy"
        if trouble is not None or stopped:
            await self._cancel(client)  # also one that was stopped before it had begun
        return trouble
