"""An agent that speaks the Agent Client Protocol on its stdin and stdout.

The protocol has no system prompt, so the group's is the first thing that a conversation is told, and again when it has
changed. Messages that the agent repeats when it loads a conversation are not sent again. The agent is a stranger's
program: nothing it says or leaves out holds up the runner. Nor is it relied on to tell how its calls of the model
ended.
"""

import asyncio
import os
import shlex
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from gatepost import __version__
from gatepost.inside import workspace_files
from gatepost.inside.acp import protocol
from gatepost.inside.acp.protocol import AcpEventBuilder
from gatepost.inside.agent_loop import CUT_ANSWER
from gatepost.inside.coding_agent import (
    CodingAgent,
    CodingAgentOptions,
    find_program,
    is_broken_off,
    is_cut,
    is_refused,
    read_last_piece,
)
from gatepost.inside.forwarder import ModelCallEnd
from gatepost.inside.jsonrpc_process import UNKNOWN_METHOD, Json, JsonRpcFailure, JsonRpcProcess
from gatepost.inside.mcp_client import McpClient
from gatepost.inside.prompts import prompt
from gatepost.inside.prompts.sent_prompts import AcpSentPromptLog, SentPrompt
from gatepost.inside.prompts.system_prompt import render_rules, system_prompt
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.contract import (
    Batch,
    DraftText,
    Event,
    Misconfigured,
    PermissionRequest,
    ProviderContext,
    StatusLine,
    Text,
)
from gatepost.mailbox.runner_frames import TurnErrorClass

FORGOTTEN = (
    "Your earlier conversation could not be opened again: you do not remember what was said in it. The files in your"
    " folder are as you left them."
)
CHANGED = "What you were told about yourself has changed. From here on this holds:"
GRACE = 3.0  # seconds in which a cancelled turn may end by itself
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a prompt that the agent gave up is given again
MOST_CUT = 8  # calls of a turn whose ends are remembered
# Updates after which a prompt has done something, and must not be given again.
_DONE = frozenset({"agent_message_chunk", "tool_call", "tool_call_update"})

T = TypeVar("T")


class AcpOptions(CodingAgentOptions, frozen=True):
    """Its `mode` is one of the agent's own."""

    command: str = ""
    agent: str = ""  # its name in the ACP registry, in the place of a command
    env: dict[str, str] | list[str] | str = ""  # of the agent, as `A=b` or a table
    permissions: str = "allow"  # or ask: the walls are the sandbox's
    instructions: str = ""  # told, or own: it reads AGENTS.md itself; "": as is known of that program
    auth: str = ""  # one of the agent's ways to log in
    patience: float = 60.0  # seconds for an answer of the agent's own, not the model's

    def __post_init__(self) -> None:
        if self.instructions not in ("", "told", "own"):
            raise ValueError(f"the option instructions is told or own, not {self.instructions!r}")


def read_command(command: str) -> list[str]:
    """The program's path, and its arguments."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError as error:
        raise Misconfigured(f"the option command is no command: {error}: {command}") from None
    return [find_program(program), *arguments]


def read_env(given: dict[str, str] | list[str] | str) -> dict[str, str]:
    """A table, a list of `A=b`, or those in one line."""
    if isinstance(given, dict):
        return given
    found = {}
    for each in shlex.split(given) if isinstance(given, str) else given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise Misconfigured(f"the option env has {each[:80]!r}, which is not NAME=VALUE")
        found[name] = value
    return found


AcpMessage = protocol.SessionUpdate | protocol.PromptResponse | protocol.AnswerRestart | protocol.ContextOverflowed


class AcpAgent(CodingAgent[JsonRpcProcess, AcpOptions, AcpMessage]):
    takes_pushes = False
    MOST_WAITING: ClassVar[int] = 256
    REPLAY_PAUSE: ClassVar[float] = 0.0  # seconds without an update after which a repeated conversation is over

    def __init__(self, place: ProviderContext) -> None:
        self._replay = AcpSentPromptLog(place.state)
        super().__init__(place, AcpOptions, self._replay)
        self._command = read_command(self._options.command or self._get_command())
        self._program = os.path.basename(self._command[0])
        self._agent = protocol.InitializeResponse()
        self._opened = protocol.AcpSession()
        self._forgot = False  # the conversation that was to go on is not there any more
        self._titles: dict[str, str] = {}  # of the turn's tool calls, as they were first named
        self._prompting: asyncio.Task[None] | None = None
        self._system: str | None = None  # the system prompt that goes with this prompt, if any
        self._loading = False
        self._updates = 0  # of the program's conversation, so far
        self._has_acted = False  # the agent said or did something for this prompt
        self._has_worked = False  # the same, but for words
        self._was_refused = False  # the model declined to answer when it was asked last
        self._broken_ending = ""  # of the model's answer that broke off last
        self._cut_endings: deque[str] = deque(maxlen=MOST_CUT)  # of the model's answers that reached their limit

    def _get_command(self) -> str:
        """How the agent is started, where the group's option `command` does not say it."""
        raise NotImplementedError

    def _get_variables(self, egress: Mapping[str, str]) -> dict[str, str]:
        """How the agent is told its model and the way out, beside the usual variables."""
        return {}

    def _reads_agents_file(self) -> bool:
        """Return True if the program is known to read AGENTS.md where it is started: told as well, it would have it
        twice."""
        return False

    async def push(self, batch: Batch) -> None:
        raise NotImplementedError("the protocol has no follow-ups")

    async def _cancel(self, client: JsonRpcProcess) -> None:
        if self._prompting is None:
            return
        try:
            async with asyncio.timeout(GRACE):
                await client.notify("session/cancel", {"sessionId": self._conversation})
                await asyncio.wait({self._prompting})
        except (TimeoutError, ProviderError):
            client.end("interrupted")

    async def set_mode(self, mode: str) -> None:
        if self._client is not None and self._client.is_alive and self._conversation:
            try:
                await self._choose("mode", protocol.mode_setter(self._opened), mode)
            except Misconfigured as error:
                raise NotImplementedError(str(error)) from None
            except ProviderError as trouble:
                raise LookupError(trouble.message) from None
        self._mode = mode

    async def _leave(self) -> None:
        """One that ended when it was told to may stay."""
        prompting, self._prompting = self._prompting, None
        if prompting is not None:
            self._running = self._running and not (prompting.done() and self._stop.is_set())
            prompting.cancel()
            await asyncio.wait({prompting})
        self._drop_requests()
        await super()._leave()
        left = self._messages
        self._forget_messages()
        while not left.empty():  # somebody may wait for room in it
            left.get_nowait()
            await asyncio.sleep(0)

    # The agent.

    async def _open(self, batch: Batch, resume: str) -> None:
        """It may never answer, and is waited for no longer than the turn goes on."""
        if self._client is None or not self._client.is_alive or not resume or resume != self._conversation:
            await self._unless_stopped(self._start(batch, resume))

    async def _start(self, batch: Batch, resume: str) -> None:
        await self.close()
        self._forgot = False
        self._client = await JsonRpcProcess.start(
            self._command,
            env=self._environment(),
            cwd=self._place.start,
            notified=self._handle_update,
            asked=self._handle_request,
        )
        self._agent = await self._request("initialize", protocol.initialize(__version__), protocol.InitializeResponse)
        if self._agent.protocol_version != protocol.VERSION:
            raise Misconfigured(
                f"{self._program} speaks version {self._agent.protocol_version} of the Agent Client Protocol; version"
                f" {protocol.VERSION} is needed"
            )
        if self._options.auth:
            await self._request("authenticate", {"methodId": self._options.auth}, Json)
        await self._open_conversation(resume, repeat=batch.continued)
        if self._mode:
            await self._choose("mode", protocol.mode_setter(self._opened), self._mode)
        if (setter := protocol.model_setter(self._opened)) is not None:
            memory = self._place.state / "usual-model.txt"
            if model := model_to_choose(memory, self._conversation, setter, self._place.model):
                await self._choose("model", setter, model)

    async def _open_conversation(self, resume: str, *, repeat: bool) -> None:
        """The conversation that is known, else a new one. To have it repeated costs time: for a turn that broke off."""
        can_load, can_resume = self._agent.agent_capabilities.load_session, self._agent.can_resume
        if resume and (can_load or can_resume):
            load = can_load and (repeat or not can_resume)
            self._conversation, self._loading = resume, load
            (self._replay.start_replay if load else self._replay.skip_replay)()
            self._prepare_to_load(resume)
            try:
                self._opened = await self._open_session("session/load" if load else "session/resume", resume)
                await self._wait_for_replay()
                return
            except JsonRpcFailure:
                self._conversation = ""  # it has none of that name any more
            finally:
                self._loading = False
        self._forgot = bool(resume)
        self._replay.start_replay()
        try:
            self._opened = await self._open_session("session/new", "")
        except JsonRpcFailure as error:
            raise protocol.make_provider_error(self._program, error) from None
        self._conversation = self._opened.session_id
        if not self._conversation:
            raise ProviderError(f"{self._program} began a conversation without an id")

    def _prepare_to_load(self, conversation: str) -> None:
        """Make ready what the agent has stored of a conversation."""

    async def _wait_for_replay(self) -> None:
        """Wait until an agent that repeats a conversation after its answer has done so: no update comes any more."""
        seen = -1
        while self._loading and self.REPLAY_PAUSE and seen != self._updates:
            seen = self._updates
            await asyncio.sleep(self.REPLAY_PAUSE)

    async def _open_session(self, method: str, session: str) -> protocol.AcpSession:
        params: Json = {"cwd": str(self._place.start), "mcpServers": protocol.mcp_servers(self._mcp_servers())}
        if session:
            params["sessionId"] = session
        found: protocol.AcpSession | None = await self._request(method, params, protocol.AcpSession, raw=True)
        return found or protocol.AcpSession()  # some answer null

    async def _choose(self, what: str, setter: protocol.SessionSetter | None, value: str) -> None:
        if setter is None:
            raise Misconfigured(f"{self._program} has no choice of {what}")
        if value not in setter.known:
            raise Misconfigured(f"{self._program} has no {what} {value!r}, only {', '.join(setter.known)}")
        params = {"sessionId": self._conversation, setter.key: value, **setter.also}
        await self._request(setter.method, params, Json)

    async def _request(self, method: str, params: Json, kind: type[T], *, raw: bool = False) -> T:
        """`raw`: an error is the caller's to read, unless it is that nobody is logged in."""
        assert self._client is not None
        try:
            answer = await self._client.ask(method, params, self._options.patience)
            return msgspec.json.decode(b"{}" if answer == b"null" else answer, type=kind)
        except JsonRpcFailure as error:
            if raw and error.code != protocol.AUTH_REQUIRED:
                raise
            raise self._read_failure(error) from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ProviderError(f"{self._program} answered {method} with what is not understood: {error}") from None

    def _read_failure(self, error: JsonRpcFailure) -> ProviderError | Misconfigured:
        if error.code != protocol.AUTH_REQUIRED:
            return protocol.make_provider_error(self._program, error)
        reason = " ".join(error.message.split())[:200]
        methods = ", ".join(method.id for method in self._agent.auth_methods or ()) or "it names none"
        return Misconfigured(
            f"{self._program} wants somebody to log in ({reason}), and nobody can inside a"
            " sandbox: give it what it needs by the group's option env, or choose one of its ways that need nobody with"
            f" the option auth ({methods})"
        )

    def _environment(self) -> dict[str, str]:
        usual = super()._environment()
        return {**os.environ, **usual, **self._get_variables(usual), **read_env(self._options.env)}

    def _remedy(self) -> dict[str, str]:
        """It may need none."""
        try:
            return super()._remedy()
        except Misconfigured:
            return {}

    # The turn.

    async def _send(self, client: JsonRpcProcess, sent: SentPrompt) -> None:
        """A command is one only if it is all that an agent hears."""
        own = self._options.instructions == "own" or (not self._options.instructions and self._reads_agents_file())
        system = system_prompt(self._place, reader="your own tools", without=("AGENTS.md",) if own else ())
        known = sent.text.startswith("/") or self._replay.has_system_prompt(self._conversation, system)
        self._system = None if known else system
        self._titles.clear()
        self._has_acted = self._has_worked = self._was_refused = False
        self._broken_ending = ""
        self._cut_endings.clear()
        self._prompting = asyncio.create_task(self._prompt_agent(client, self._blocks(sent)))

    async def _events(self, client: JsonRpcProcess) -> AsyncIterator[Event]:
        events = AcpEventBuilder()
        while True:
            message = await self._receive()
            if isinstance(message, StatusLine):
                yield message
                continue
            if isinstance(message, protocol.AnswerRestart):
                events.drop_broken(message.ending)
                continue
            if isinstance(message, protocol.ContextOverflowed):
                for event in events.expect_summary():
                    yield event
                continue
            if self._prompt is not None and self._waiting.pop(self._prompt.id, None) is not None:
                self._replay.record_sent(self._conversation, self._prompt, self._system)
            if isinstance(message, protocol.PromptResponse):
                break
            for event in events.finish() if isinstance(message, PermissionRequest) else events.add(message):
                yield event
            if isinstance(message, PermissionRequest):
                yield message
            elif message.session_update == "agent_message_chunk" and self._place.is_watched():
                yield DraftText(events.written())
        self._spent.update(protocol.usage_of(message))
        text = events.rest()
        if self._model_trouble is not None and not self._stop.is_set() and message.stop_reason == "end_turn":
            raise self._model_trouble  # what it takes for the end is none
        refused = message.stop_reason == "refusal" or (self._was_refused and not text)
        if trouble := self._find_trouble("refusal" if refused else message.stop_reason, text):
            if text:
                yield Text(text)
            raise ProviderError(trouble, TurnErrorClass.REFUSAL if refused else TurnErrorClass.FATAL)
        cut = text and (message.stop_reason == "max_tokens" or self._ends_with_cut(text))
        self._answer, self._running = f"{text}\n\n{CUT_ANSWER}" if cut else text, False

    @property
    def _is_at_work(self) -> bool:
        return self._prompting is not None and not self._prompting.done()

    def _find_trouble(self, stop_reason: str, text: str) -> str:
        """Why a turn that has ended is not answered; '' if it is."""
        if self._stop.is_set() or stop_reason == "cancelled":
            return "interrupted"
        if stop_reason == "refusal" and not text:
            return f"{self._program} declined to answer"
        if stop_reason == "max_turn_requests":
            return f"{self._program} did not come to an end in its steps"
        return ""

    def _blocks(self, sent: SentPrompt) -> list[Json]:
        blocks = []
        if self._system is not None:
            known = self._replay.had_system_prompt(self._conversation)
            changed = f"{prompt.render_note('changed', CHANGED)}\n\n" if known else ""
            blocks.append(protocol.text_block(f"{changed}{self._system}\n\n"))
        elif not sent.text.startswith("/"):  # it may have made its conversation shorter, and does not say so
            blocks += [protocol.text_block(f"{each}\n\n") for each in render_rules(self._place)]
        if self._forgot:
            blocks.append(protocol.text_block(prompt.render_note("forgotten", FORGOTTEN) + "\n"))
            self._forgot = False
        can = self._agent.agent_capabilities.prompt_capabilities
        shown = [protocol.media_block(can, each.kind, each.data) for each in self._list_media(sent)]
        return [*blocks, *(block for block in shown if block is not None), protocol.text_block(sent.text)]

    async def _prompt_agent(self, client: JsonRpcProcess, blocks: list[Json]) -> None:
        """Send a prompt, and queue its outcome behind everything that the agent said meanwhile.

        An agent that gives up a model in passing trouble before it did anything gets the prompt again, by time. So does
        one that gives up at an answer that broke off, if it did no more than say it: that part is taken back.
        """
        now, pause = asyncio.get_running_loop().time, FIRST_PAUSE
        end = now() + self._options.outage
        while True:
            outcome = await self._ask_agent(client, blocks)
            if isinstance(outcome, ProviderError) and self._broken_ending:
                outcome = ProviderError("the model's answer broke off", TurnErrorClass.NETWORK)
                again = not self._has_worked
            else:
                passing = outcome is self._model_trouble and self._model_trouble.kind.is_passing
                again = passing and not self._has_acted
            if not again or now() + pause > end:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop.wait()
            if self._stop.is_set():
                break
            pause = min(2 * pause, LONGEST_PAUSE)
        await self._messages.put(outcome)

    async def _ask_agent(self, client: JsonRpcProcess, blocks: list[Json]) -> protocol.PromptResponse | Exception:
        try:
            answer = await client.ask("session/prompt", {"sessionId": self._conversation, "prompt": blocks}, None)
            return msgspec.json.decode(answer, type=protocol.PromptResponse)
        except JsonRpcFailure as error:
            return self._read_prompt_failure(error)
        except ProviderError as trouble:
            return trouble
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return ProviderError(f"{self._program} ended its turn with what is not understood: {error}")

    def _read_prompt_failure(self, error: JsonRpcFailure) -> ProviderError | Misconfigured:
        """How its last call of the model failed says more than the agent's words, unless these name a trouble that
        waiting does not end."""
        told, seen = self._read_failure(error), self._model_trouble
        vague = isinstance(told, ProviderError) and (told.kind.is_passing or told.kind is TurnErrorClass.FATAL)
        return seen if seen is not None and vague else told

    # How its calls of the model end.

    def _receive_call_begin(self) -> None:
        ending, self._broken_ending = self._broken_ending, ""
        if ending and self._is_at_work:
            self._note(protocol.AnswerRestart(ending))

    def _receive_call_end(self, end: ModelCallEnd) -> None:
        super()._receive_call_end(end)
        self._was_refused = is_refused(end)
        if is_broken_off(end):
            self._broken_ending = read_last_piece(end)
        elif is_cut(end) and (piece := read_last_piece(end)):
            self._cut_endings.append(piece)
        elif self._is_at_work and (trouble := self._model_trouble) and trouble.kind is TurnErrorClass.OVERFLOW:
            self._note(protocol.ContextOverflowed())

    def _note(self, seen: protocol.AnswerRestart | protocol.ContextOverflowed) -> None:
        with suppress(asyncio.QueueFull):
            self._deliver(seen)

    def _ends_with_cut(self, text: str) -> bool:
        """Return True if the model's answer reached its limit: not every agent tells that."""
        return text.rstrip().endswith(tuple(self._cut_endings))

    # What the agent says and asks.

    async def _handle_update(self, method: str, params: bytes) -> None:
        if method != "session/update":
            return
        try:
            notice = msgspec.json.decode(params, type=protocol.SessionNotification)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return  # not as this version has it; the turn may still end well
        kind = notice.update.session_update
        if notice.session_id != self._conversation:
            return
        self._updates += 1
        if self._loading and kind == "user_message_chunk":
            self._replay.add_replayed(protocol.text_of(notice.update.content))
        elif kind in protocol.AT_WORK and self._prompting is not None and not self._prompting.done():
            if notice.update.tool_call_id and notice.update.title:
                self._titles.setdefault(notice.update.tool_call_id, notice.update.title)
            self._has_acted = self._has_acted or kind in _DONE
            self._has_worked = self._has_worked or (kind in _DONE and kind != "agent_message_chunk")
            await self._messages.put(notice.update)

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
        if self._options.permissions == "allow" or await is_gateway_tool(
            self._place.router, asked.tool_call, self._titles
        ):
            return protocol.render_outcome(protocol.pick_option(asked.options, allow=True))
        key, given = protocol.key_of(asked.tool_call, self._requests), protocol.input_of(asked.tool_call)
        title = protocol.clean_title(str(asked.tool_call.get("title") or ""))
        verdict = await self._ask(PermissionRequest(key, title, given))
        return protocol.render_outcome(
            None if verdict is None else protocol.pick_option(asked.options, allow=verdict.allow)
        )

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


def model_to_choose(memory: Path, conversation: str, setter: protocol.SessionSetter, wanted: str) -> str:
    """Return the model to choose; '' if none is. `memory` is the file that knows the conversation's first model.

    The protocol cannot ask for the model that a conversation had before anything was chosen, and an agent may store a
    chosen one with the conversation. So it is remembered, for a group that no longer chooses a model.
    """
    known, usual = _read_default_model(memory)
    if known != conversation:
        usual = setter.current
        memory.write_text(f"{conversation}\n{usual}", encoding="utf-8")
    if wanted:
        return wanted if wanted != setter.current else ""
    return usual if usual in setter.known and usual != setter.current else ""


def _read_default_model(memory: Path) -> tuple[str, str]:
    try:
        known, _, usual = memory.read_text(encoding="utf-8").partition("\n")
    except (FileNotFoundError, UnicodeDecodeError):
        return "", ""
    return known, usual


async def is_gateway_tool(router: Path, asked: Json, titles: Mapping[str, str]) -> bool:
    """Return True if an agent that asks wants one of the gateway's own tools: the gate judges those, and nobody is
    asked twice. `titles` are those of the turn's calls, as they were first named.

    An agent names a tool only by a title, which says little: for a command it is the command. So the call must never
    have had another title, must be of no other kind, and the gateway must have a tool of just that name.
    """
    name = get_gateway_tool_name(asked, titles.get(str(asked.get("toolCallId") or "")))
    if not name:
        return False
    try:
        tools = await McpClient.connect(router)
        try:
            return name in {each.name for each in await tools.list_tools()}
        finally:
            await tools.close()
    except (OSError, msgspec.ValidationError):
        return False


def get_gateway_tool_name(asked: Json, first: str | None) -> str:
    """Return the name of the gateway's tool that it would be; '' if it can be none."""
    title = str(asked.get("title") or "")
    if asked.get("kind") not in (None, "", "other") or first not in (None, title):
        return ""
    begins = protocol.OURS.match(title)
    return title[begins.end() :] if begins else ""
