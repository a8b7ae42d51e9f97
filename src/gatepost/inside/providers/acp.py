"""acp: any agent that speaks the Agent Client Protocol on its stdin and stdout, started by a command of the group's.

The protocol has no system prompt, so the group's is the first thing that a conversation is told, and again when it has
changed. What was handed over is on the disk before the agent has it; what the agent repeats when it loads that
conversation is not said again. The agent is a stranger's program: nothing it says or leaves out holds up the runner.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import msgspec

from gatepost import __version__
from gatepost.inside import bridge, forwarder, media, prompt
from gatepost.inside.acp import gateway_tools, protocol, workspace_files
from gatepost.inside.acp.default_model import model_to_choose
from gatepost.inside.acp.event_builder import AcpEventBuilder
from gatepost.inside.acp.options import list_self_read_files, read_command, read_env, read_options
from gatepost.inside.acp.sent_prompts import AcpSentPromptLog
from gatepost.inside.jsonrpc_process import UNKNOWN_METHOD, Json, JsonRpcFailure, JsonRpcProcess
from gatepost.inside.mcp_json import McpServerConfig, own_servers
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
from gatepost.inside.sent_prompts import SentPrompt
from gatepost.inside.system_prompt import system_prompt

FORGOTTEN = (
    "Your earlier conversation could not be opened again: you do not remember what was said in it. The files in your"
    " folder are as you left them."
)
CHANGED = "What you were told about yourself has changed. From here on this holds:"
READERS = frozenset({"opencode"})  # they read AGENTS.md where they are started
GRACE = 3.0  # seconds in which a cancelled turn may end by itself
MOST_WAITING = 256  # updates; an agent that says more is read later

T = TypeVar("T")


class AcpPromptEnded(msgspec.Struct, frozen=True):
    """The prompt was answered."""

    stopped: protocol.PromptResponse


@provider(
    "acp",
    title="any agent that speaks ACP",
    modes=(Mode("allow", "Allow", "Never asks; the sandbox is the wall."), Mode("ask", "Ask", "Asks before it acts.")),
    mode_option="permissions",
    media={"image": "block", "audio": "both"},  # the agent says which blocks it takes
    vendor="anthropic",
    any_vendor=True,
    command_options=("command",),
)
class Acp:
    takes_pushes = False

    def __init__(self, place: ProviderContext) -> None:
        self._place = place
        self._options = read_options(place.options)
        self._command = read_command(self._options)
        self._name = os.path.basename(self._command[0])
        self._mode = self._options.mode
        self._replay = AcpSentPromptLog(place.state)
        self._peer: JsonRpcProcess | None = None
        self._agent = protocol.InitializeResponse()
        self._opened = protocol.AcpSession()
        self._conversation = ""
        self._forgot = False  # the conversation that was to go on is not there any more
        self._port = 0
        self._heard: asyncio.Queue[protocol.SessionUpdate | PermissionRequest | AcpPromptEnded | Exception] = (
            asyncio.Queue(MOST_WAITING)
        )
        self._asked: dict[str, asyncio.Future[bool | None]] = {}
        self._titles: dict[str, str] = {}  # of the turn's tool calls, as they were first named
        self._prompting: asyncio.Task[None] | None = None
        self._loading = False
        self._stop = asyncio.Event()

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._stop.clear()
        well = False
        try:
            await self._unless_stopped(self._ready(batch, resume))
            handed = self._replay.begin(batch, self._conversation, self._place)
            yield ConversationStarted(self._conversation)
            if self._stop.is_set():
                raise ProviderError("interrupted")
            async for event in self._turn(batch, handed):
                well = isinstance(event, TurnResult)
                yield event
        except ProviderError as trouble:
            stopped = self._stop.is_set()
            yield (
                TurnFailed("interrupted") if stopped else TurnFailed(trouble.message, trouble.kind, trouble.retry_after)
            )
        finally:
            await self._leave(well=well)

    async def push(self, batch: Batch) -> None:
        raise NotImplementedError("the protocol has no follow-ups")

    async def interrupt(self) -> None:
        self._stop.set()
        self._answer_all(None)
        peer, prompting = self._peer, self._prompting
        if peer is None or prompting is None:
            return
        try:
            async with asyncio.timeout(GRACE):
                await peer.tell("session/cancel", {"sessionId": self._conversation})
                await asyncio.wait({prompting})
        except (TimeoutError, ProviderError):
            peer.end("interrupted")

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        asked = self._asked.get(request)
        if asked is None or asked.done():
            raise LookupError(f"{self._name} waits for no answer to {request}")
        asked.set_result(verdict == "allow")

    async def set_mode(self, mode: str) -> None:
        if self._peer is not None and self._peer.is_alive and self._conversation:
            try:
                await self._choose("mode", protocol.mode_setter(self._opened), mode)
            except Misconfigured as error:
                raise NotImplementedError(str(error)) from None
            except ProviderError as trouble:
                raise LookupError(trouble.message) from None
        self._mode = mode

    async def fork(self, conversation: str) -> str:
        raise NotImplementedError("the conversations of an ACP agent are not copied")

    async def close(self) -> None:
        peer, self._peer = self._peer, None
        self._answer_all(None)
        if peer is not None:
            await peer.close()

    def _answer_all(self, allow: bool | None) -> None:
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(allow)

    async def _leave(self, *, well: bool) -> None:
        """What it still says must not be taken for the next turn's. One that ended when it was told to may stay."""
        prompting, self._prompting = self._prompting, None
        kept = well or (prompting is not None and prompting.done() and self._stop.is_set())
        if prompting is not None:
            prompting.cancel()
            await asyncio.wait({prompting})
        self._answer_all(None)
        if not kept:
            await self.close()
        left, self._heard = self._heard, asyncio.Queue(MOST_WAITING)
        while not left.empty():  # somebody may wait for room in it
            left.get_nowait()
            await asyncio.sleep(0)

    # The agent.

    async def _ready(self, batch: Batch, resume: str) -> None:
        """An agent in that conversation."""
        if self._peer is not None and self._peer.is_alive and resume and resume == self._conversation:
            return
        await self.close()
        self._conversation, self._forgot = "", False
        self._peer = await JsonRpcProcess.start(
            self._command,
            env=self._environment(),
            cwd=self._place.start,
            notified=self._handle_update,
            asked=self._handle_request,
        )
        self._agent = await self._ask("initialize", protocol.initialize(__version__), protocol.InitializeResponse)
        if self._agent.protocol_version != protocol.VERSION:
            raise Misconfigured(
                f"{self._name} speaks version {self._agent.protocol_version} of the Agent Client Protocol; version"
                f" {protocol.VERSION} is needed"
            )
        if self._options.auth:
            await self._ask("authenticate", {"methodId": self._options.auth}, Json)
        await self._open(resume, repeat=batch.continued)
        if self._mode:
            await self._choose("mode", protocol.mode_setter(self._opened), self._mode)
        if (setter := protocol.model_setter(self._opened)) is not None:
            memory = self._place.state / "usual-model.txt"
            if model := model_to_choose(memory, self._conversation, setter, self._place.model):
                await self._choose("model", setter, model)

    async def _open(self, resume: str, *, repeat: bool) -> None:
        """The conversation that is known, else a new one. To have it repeated costs time: for a turn that broke off."""
        can_load, can_resume = self._agent.agent_capabilities.load_session, self._agent.can_resume
        if resume and (can_load or can_resume):
            load = can_load and (repeat or not can_resume)
            self._conversation, self._loading = resume, load
            (self._replay.listen if load else self._replay.skip_replay)()
            try:
                self._opened = await self._open_session("session/load" if load else "session/resume", resume)
                return
            except JsonRpcFailure:
                self._conversation = ""  # it has none of that name any more
            finally:
                self._loading = False
        self._forgot = bool(resume)
        self._replay.listen()
        try:
            self._opened = await self._open_session("session/new", "")
        except JsonRpcFailure as error:
            raise protocol.make_provider_error(self._name, error) from None
        self._conversation = self._opened.session_id
        if not self._conversation:
            raise ProviderError(f"{self._name} began a conversation without an id")

    async def _open_session(self, method: str, session: str) -> protocol.AcpSession:
        program, *arguments = bridge.command(str(self._place.router))
        servers = own_servers(self._place.agent, self._options.own_mcp)
        servers[protocol.SERVER] = McpServerConfig(program, arguments)
        params: Json = {"cwd": str(self._place.start), "mcpServers": protocol.mcp_servers(servers)}
        if session:
            params["sessionId"] = session
        return await self._ask(method, params, protocol.AcpSession, raw=True) or protocol.AcpSession()

    async def _choose(self, what: str, setter: protocol.SessionSetter | None, value: str) -> None:
        if setter is None:
            raise Misconfigured(f"{self._name} has no choice of {what}")
        if value not in setter.known:
            raise Misconfigured(f"{self._name} has no {what} {value!r}, only {', '.join(setter.known)}")
        params = {"sessionId": self._conversation, setter.key: value, **setter.also}
        await self._ask(setter.method, params, Json)

    async def _ask(self, method: str, params: Json, kind: type[T], *, raw: bool = False) -> T:
        """`raw`: an error is the caller's to read, unless it is that nobody is logged in."""
        assert self._peer is not None
        try:
            answer = await self._peer.ask(method, params, self._options.patience)
            return msgspec.json.decode(b"{}" if answer == b"null" else answer, type=kind)
        except JsonRpcFailure as error:
            self._check_login(error)
            if raw:
                raise
            raise protocol.make_provider_error(self._name, error) from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ProviderError(f"{self._name} answered {method} with what is not understood: {error}") from None

    def _check_login(self, error: JsonRpcFailure) -> None:
        if error.code != protocol.AUTH_REQUIRED:
            return
        ways = ", ".join(method.id for method in self._agent.auth_methods or ()) or "it names none"
        raise Misconfigured(
            f"{self._name} wants somebody to log in ({' '.join(error.message.split())[:200]}), and nobody can inside a"
            " sandbox: give it what it needs by the group's option env, or choose one of its ways that need nobody with"
            f" the option auth ({ways})"
        )

    def _environment(self) -> dict[str, str]:
        home = self._place.state / "home"
        home.mkdir(parents=True, exist_ok=True)
        run = self._place.router.parent
        if not self._port and (run / forwarder.SOCKET).exists():
            self._port = forwarder.start(run)
        way_out = forwarder.environment(self._port) if self._port else {}
        return {**os.environ, **way_out, "HOME": str(home), **read_env(self._options.env)}

    # The turn.

    async def _turn(self, batch: Batch, handed: SentPrompt) -> AsyncIterator[Event]:
        place = self._place
        read = list_self_read_files(self._options, self._name in READERS)
        system: str | None = system_prompt(place, reader="your own tools", without=read)
        # A command is one only if it is all that an agent hears.
        if batch.prompt.startswith("/") or self._replay.has_system_prompt(self._conversation, system or ""):
            system = None
        self._titles.clear()
        self._prompting = asyncio.create_task(self._prompt(self._blocks(batch, handed, system)))
        taken, saying = False, AcpEventBuilder()
        while True:
            heard = await self._heard.get()
            if not taken and not isinstance(heard, Exception):
                self._replay.take(self._conversation, handed, system)
                taken = True
            if isinstance(heard, Exception):
                raise heard
            if isinstance(heard, AcpPromptEnded):
                break
            for event in saying.finish() if isinstance(heard, PermissionRequest) else saying.hear(heard):
                yield event
            if isinstance(heard, PermissionRequest):
                yield heard
        for event in self._end(heard.stopped, saying):
            yield event

    def _blocks(self, batch: Batch, handed: SentPrompt, system: str | None) -> list[Json]:
        blocks = []
        if system is not None:
            known = self._replay.had_system_prompt(self._conversation)
            blocks.append(
                protocol.text_block(
                    f"{prompt.render_note('changed', CHANGED)}\n\n{system}\n\n" if known else f"{system}\n\n"
                )
            )
        if self._forgot:
            blocks.append(protocol.text_block(prompt.render_note("forgotten", FORGOTTEN) + "\n"))
            self._forgot = False
        can = self._agent.agent_capabilities.prompt_capabilities
        for name in handed.files:
            read = media.read_block("acp", media.get_attachment_folder(self._place) / name)
            block = protocol.media_block(can, *read) if read is not None else None
            if block is not None:
                blocks.append(block)
        return [*blocks, protocol.text_block(handed.text)]

    async def _prompt(self, blocks: list[Json]) -> None:
        """What it comes to stands behind everything that the agent said meanwhile."""
        assert self._peer is not None
        try:
            answer = await self._peer.ask("session/prompt", {"sessionId": self._conversation, "prompt": blocks}, None)
            await self._heard.put(AcpPromptEnded(msgspec.json.decode(answer, type=protocol.PromptResponse)))
        except JsonRpcFailure as error:
            try:
                self._check_login(error)
                await self._heard.put(protocol.make_provider_error(self._name, error))
            except Misconfigured as login:
                await self._heard.put(login)
        except ProviderError as trouble:
            await self._heard.put(trouble)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            await self._heard.put(ProviderError(f"{self._name} ended its turn with what is not understood: {error}"))

    def _end(self, stopped: protocol.PromptResponse, saying: AcpEventBuilder) -> list[Event]:
        events: list[Event] = [UsageReport(dict(numbers))] if (numbers := protocol.usage_of(stopped)) else []
        text = saying.rest()
        if self._stop.is_set() or stopped.stop_reason == "cancelled":
            return [*events, *([Text(text)] if text else []), TurnFailed("interrupted")]
        if stopped.stop_reason == "refusal" and not text:
            return [*events, TurnFailed(f"{self._name} declined to answer")]
        if stopped.stop_reason == "max_turn_requests":
            return [
                *events,
                *([Text(text)] if text else []),
                TurnFailed(f"{self._name} did not come to an end in its steps"),
            ]
        return [*events, TurnResult(text)]

    # What the agent says and asks.

    async def _handle_update(self, method: str, params: bytes) -> None:
        if method != "session/update":
            return
        try:
            told = msgspec.json.decode(params, type=protocol.SessionNotification)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return  # not as this version has it; the turn may still end well
        kind = told.update.session_update
        if told.session_id != self._conversation:
            return
        if self._loading and kind == "user_message_chunk":
            self._replay.hear(protocol.text_of(told.update.content))
        elif kind in protocol.AT_WORK and self._prompting is not None and not self._prompting.done():
            if told.update.tool_call_id and told.update.title:
                self._titles.setdefault(told.update.tool_call_id, told.update.title)
            await self._heard.put(told.update)

    async def _handle_request(self, method: str, params: bytes) -> Json:
        if method == "session/request_permission":
            return await self._judge(msgspec.json.decode(params, type=protocol.AcpPermissionRequest))
        if method == "fs/read_text_file":
            return workspace_files.read_text(self._place, params)
        if method == "fs/write_text_file":
            return workspace_files.write_text(self._place, params)
        raise JsonRpcFailure(UNKNOWN_METHOD, f"{method}: there is no such thing here; use your own tools")

    async def _judge(self, asked: protocol.AcpPermissionRequest) -> Json:
        if self._stop.is_set() or self._prompting is None:
            return protocol.render_outcome(None)
        if self._options.permissions == "allow" or await gateway_tools.is_gateway_tool(
            self._place.router, asked.tool_call, self._titles
        ):
            return protocol.render_outcome(protocol.pick_option(asked.options, allow=True))
        key, given = protocol.key_of(asked.tool_call, self._asked), protocol.input_of(asked.tool_call)
        title = protocol.clean_title(str(asked.tool_call.get("title") or ""))
        answer = self._asked[key] = asyncio.get_running_loop().create_future()
        await self._heard.put(PermissionRequest(key, title, given))
        try:
            allow = await answer
        finally:
            del self._asked[key]
        return protocol.render_outcome(None if allow is None else protocol.pick_option(asked.options, allow=allow))

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                raise ProviderError("interrupted")
            task.result()
        finally:
            task.cancel()
            stop.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)
