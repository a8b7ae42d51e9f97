"""opencode, driven through its own server as one long-lived process.

What was handed over in a turn is on the disk before opencode has it, under the name that the message has in opencode's
own store: a turn that broke off is continued by another process without its prompt being said twice. It asks the model
through the session's way out; no key is inside.
"""

import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside import bridge, forwarder, media, programs
from gatepost.inside.mcp_json import own_servers
from gatepost.inside.plan_approvals import PlanApprovals
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    Event,
    Misconfigured,
    Mode,
    PermissionRequest,
    ProviderContext,
    Text,
    TurnFailed,
    TurnResult,
    UsageReport,
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
)
from gatepost.inside.providers.opencode.server import OpencodeEnded, OpencodeError, OpencodeServer
from gatepost.inside.sent_prompts import SentPrompt, SentPromptLog
from gatepost.inside.system_prompt import system_prompt

NUDGES = 3  # how often opencode is reminded of what it has not taken up
WAIT = 60.0  # seconds; who must wait longer for the model is told so instead
TITLE = "gatepost"  # a session that has one does not ask the model for one
DENIED = "This was not permitted."
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
    "OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER": "1",
}


class OpencodeOptions(msgspec.Struct, frozen=True):
    """`gatepost group set FOLDER options.KEY=VALUE`"""

    mode: str = "allow"  # the walls are the sandbox's
    api: str = ""  # messages, responses or chat; "": by the model's name
    context: int = 200_000  # tokens that the model can have before it
    max_tokens: int = 8192  # of one answer
    retries: int = 4  # of one request to the model
    own_mcp: bool = False  # the servers of the group's .mcp.json, too, inside


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
    trial={"retries": 1},
)
class Opencode:
    takes_pushes = True

    def __init__(self, place: ProviderContext) -> None:
        self._place = place
        self._options = read_options(place.options)
        self._mode = self._options.mode
        if not place.model:
            raise Misconfigured(f"opencode must be told its model: gatepost group set {place.folder} model=NAME")
        self._program = programs.find("opencode")
        self._home = place.state / "home"
        self._handed = OpencodeSentPromptLog(place.state / "handed.json")
        self._plans = PlanApprovals(place.state / "plan.json", AFTER_PLAN)
        self._plan = ""  # what it proposes in the turn that runs
        self._server: OpencodeServer | None = None
        self._session = ""
        self._system = ""
        self._port = 0
        self._asked: set[str] = set()
        self._waiting: dict[str, SentPrompt] = {}  # handed over, and not taken up yet
        self._running = self._stopped = False

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._stopped, self._plan = False, ""
        self._waiting.clear()
        try:
            server = await self._ready(resume)
            if self._stopped:
                raise ProviderError("interrupted")
            self._plan = self._plans.left(self._session, batch)
            yield ConversationStarted(self._session)
            if not self._plan:
                self._handed.known = await self._messages(server) if batch.continued else frozenset()
                handed = self._handed.begin(batch, self._session, self._place)
                self._running = True
                await self._send_prompt(server, handed)
                async for event in self._events(server):
                    yield event
            async for event in self._end(batch.turn):
                yield event
        except OpencodeError as refused:
            yield TurnFailed(f"opencode could not go on: {refused}"[:500], "retryable")
        except ProviderError as trouble:
            if trouble.about_input:
                await self._remove_media(server, handed)
            yield TurnFailed(trouble.message, trouble.kind, trouble.retry_after)
        finally:
            if self._running or self._server is None or not self._server.alive:
                await self.close()  # what still runs is nobody's

    async def push(self, batch: Batch) -> None:
        if self._server is None or not self._running:
            raise NotImplementedError("no turn is running")
        handed = self._handed.follow(batch)
        try:
            await self._send_prompt(self._server, handed)
        except OpencodeError as refused:
            self._waiting.pop(handed.id, None)
            self._handed.remove_prompt(handed)
            raise NotImplementedError(f"opencode takes no more: {refused}") from None

    async def interrupt(self) -> None:
        self._stopped = True
        self._plans.give_up()
        if self._server is not None and self._running:
            await self._abort(self._server)

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        if self._plans.answer(request):
            return
        if self._server is None or request not in self._asked:
            raise LookupError(f"opencode waits for no answer to {request}")
        self._asked.discard(request)
        why = str(input.get("reason") or DENIED)
        reply = {"reply": "once"} if verdict == "allow" else {"reply": "reject", "message": why}
        try:
            await self._server.ask("POST", f"/permission/{request}/reply", reply)
        except OpencodeError as refused:
            raise LookupError(f"opencode waits for no answer to {request}: {refused}") from None

    async def set_mode(self, mode: str) -> None:
        if mode not in AGENTS:
            raise NotImplementedError(f"opencode has no mode {mode!r}, only {', '.join(AGENTS)}")
        self._mode = mode  # from the next message on

    async def fork(self, conversation: str) -> str:
        try:
            answer = await (await self._serve()).ask("POST", f"/session/{conversation}/fork", {})
        except OpencodeError as refused:
            raise NotImplementedError(f"that conversation cannot be copied: {refused}") from None
        return str(answer["id"])

    async def close(self) -> None:
        server, self._server = self._server, None
        self._session, self._running = "", False
        self._asked.clear()
        if server is not None:
            await server.close()

    # The process.

    async def _ready(self, resume: str) -> OpencodeServer:
        """A server, and in it that conversation."""
        place, server = self._place, await self._serve()
        self._system = system_prompt(place, reader="read")
        while not server.heard.empty():  # between two turns
            server.heard.get_nowait()
        if not resume or resume != self._session:
            self._session = await self._find(server, resume) or await self._create(server)
        return server

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

    async def _messages(self, server: OpencodeServer) -> frozenset[str]:
        """What people's words are called in the conversation."""
        found = await server.ask("GET", f"/session/{self._session}/message")
        return frozenset(str(each["info"]["id"]) for each in found)

    async def _serve(self) -> OpencodeServer:
        if self._server is not None and self._server.alive:
            return self._server
        await self.close()
        environment = self._environment()
        log = self._place.state / "stderr.txt"
        self._server = await OpencodeServer.start([self._program], environment, self._place.start, log)
        return self._server

    def _environment(self) -> dict[str, str]:
        place, options = self._place, self._options
        run = place.router.parent
        if not (run / forwarder.SOCKET).exists():
            raise Misconfigured("opencode has no endpoint: this sandbox has no way out")
        self._port = self._port or forwarder.start(run)
        self._home.mkdir(parents=True, exist_ok=True)
        ways = forwarder.environment(self._port)
        api = APIS[options.api or api_of(place.model)]
        config = render_config(
            model=place.model,
            api=api,
            endpoint=ways[api.variable] + api.suffix,
            key=forwarder.PLACEHOLDER,
            command=bridge.command(str(place.router)),
            own=own_servers(place.agent, options.own_mcp),
            context=options.context,
            max_tokens=options.max_tokens,
        )
        file = self._home / "opencode.json"
        file.write_bytes(msgspec.json.encode(config))
        folders = {f"XDG_{name.upper()}_HOME": str(self._home / name) for name in ("config", "data", "cache", "state")}
        plugins = self._home / "config" / "opencode"
        plugins.mkdir(parents=True, exist_ok=True)
        plugins.chmod(0o555)  # where it can write, it installs packages from the network
        own = {"HOME": str(self._home), "OPENCODE_CONFIG": str(file)}
        return {**os.environ, **ways, **folders, **own, **_ENVIRONMENT}

    # A turn.

    async def _send_prompt(self, server: OpencodeServer, handed: SentPrompt) -> None:
        self._waiting[handed.id] = handed
        body = render_prompt(handed.id, handed.text, self._system, AGENTS[self._mode], self._shown(handed))
        await server.ask("POST", f"/session/{self._session}/prompt_async", body)

    def _shown(self, handed: SentPrompt) -> list[OpencodeAttachment]:
        """As far as the model's API has a place for it."""
        sees = APIS[self._options.api or api_of(self._place.model)].sees
        found = []
        for name in handed.files:
            path = media.get_attachment_folder(self._place) / name
            if (read := media.read_block("opencode", path)) is not None:
                mime = media.MIMES[read[0]]
                if any(kind in mime for kind in sees):
                    found.append(OpencodeAttachment(path.name, mime, read[1]))
        return found

    async def _remove_media(self, server: OpencodeServer, handed: SentPrompt) -> None:
        """The endpoint does not take what came with these words: without it the conversation can go on."""
        for part in part_ids(handed.id, len(self._shown(handed)))[1:]:
            with suppress(OpencodeError):
                await server.ask("DELETE", f"/session/{self._session}/message/{handed.id}/part/{part}")

    async def _abort(self, server: OpencodeServer) -> None:
        try:
            await server.ask("POST", f"/session/{self._session}/abort", {})
        except OpencodeError as refused:
            server.heard.put_nowait(OpencodeEnded(str(refused)))

    async def _events(self, server: OpencodeServer) -> AsyncIterator[Event]:
        """Until it has answered everything that was handed over."""
        ears, said, nudges, busy = OpencodeEventReader(self._session), "", NUDGES, False
        trouble: ProviderError | None = None
        while True:
            heard = await server.heard.get()
            if isinstance(heard, OpencodeEnded):
                raise ProviderError(
                    "interrupted" if self._stopped else f"opencode ended: {heard.why}"[:500], "retryable"
                )
            for event in ears.hear(heard):
                if isinstance(event, PermissionRequest):
                    self._asked.add(event.id)
                said = event.text if isinstance(event, Text) else said
                yield event
            self._waiting = {id: each for id, each in self._waiting.items() if id > ears.newest}
            if heard.session != self._session:
                continue  # a sub-agent's
            trouble = trouble or await self._trouble(server, heard)
            if heard.type == "session.status":
                busy = heard.properties["status"]["type"] != "idle"
            if heard.type != "session.idle" and (busy or heard.type != "session.error"):
                continue  # only what has begun becomes idle
            if trouble is None and not self._stopped and self._waiting and nudges:
                nudges -= 1  # it came with the last word, or that idleness was the turn's before
                for handed in list(self._waiting.values()):
                    await self._send_prompt(server, handed)
                continue
            break
        self._running = self._stopped and bool(self._waiting)  # it may still begin
        if ears.spent:
            yield UsageReport(dict(ears.spent))
        if self._stopped:
            raise ProviderError("interrupted")
        if trouble is not None:
            raise trouble
        if self._mode == PLAN and said.strip():
            self._plan = said
        else:
            yield TurnResult(said)

    async def _end(self, turn: str) -> AsyncIterator[Event]:
        """opencode's part is over, and so is the turn, unless a plan is to be approved: its plans are what it says."""
        if self._plan:
            yield self._plans.ask(self._session, turn, self._plan)
            await self._plans.answered()
            if self._stopped:
                raise ProviderError("interrupted")
            yield TurnResult()

    async def _trouble(self, server: OpencodeServer, told: OpencodeEvent) -> ProviderError | None:
        """Why the turn ends badly, when opencode is idle again."""
        if told.type == "session.error":
            return read_error(told.properties.get("error") or {})
        if told.type != "session.status":
            return None
        status = told.properties.get("status") or {}
        trouble = read_retry(status, self._options.retries, WAIT, time.time())
        if trouble is not None or (self._stopped and status.get("type") == "busy"):
            await self._abort(server)  # also one that was stopped before it had begun
        return trouble


def read_options(given: dict[str, Any]) -> OpencodeOptions:
    try:
        options = msgspec.convert(given, OpencodeOptions, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"the group's options are not as they should be: {error}") from None
    if options.mode not in AGENTS:
        raise Misconfigured(f"opencode has no mode {options.mode!r}, only {', '.join(AGENTS)}")
    if options.api not in ("", *APIS):
        raise Misconfigured(f"opencode asks by {', '.join(APIS)}, not by {options.api!r}")
    return options
