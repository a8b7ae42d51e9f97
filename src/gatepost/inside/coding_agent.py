"""The base of coding agents: programs of others that bring tools of their own, such as Claude Code.

It runs a turn. The prompt is on the disk before the agent has it, under an id that the agent keeps. So a turn that
broke off is continued by another process without its prompt being said twice. Exactly one TurnResult or TurnFailed ends
it. A provider adds how its agent is started, how a prompt is sent, how its events are read, and how it is interrupted.
The agent calls the model through the session's way out; no key is inside. Those calls are watched: trouble that passes
is waited out by time, whatever the agent makes of it, and trouble that does not is told at once.
"""

import asyncio
import os
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from gatepost.inside import bridge, forwarder, media
from gatepost.inside.agent_loop import STILL_TRYING
from gatepost.inside.forwarder import ModelCallBegin, ModelCallEnd
from gatepost.inside.mcp_json import OURS, McpServerConfig, own_servers
from gatepost.inside.media import MediaKind
from gatepost.inside.model.client import TOLD_AFTER
from gatepost.inside.prompts.sent_prompts import SentPrompt, SentPromptLog
from gatepost.inside.provider_errors import ProviderError, parse_provider_error
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    Event,
    ItemKind,
    Misconfigured,
    PermissionRequest,
    PermissionRequestKind,
    ProviderContext,
    StatusLine,
    TurnFailed,
    TurnResult,
    UsageReport,
)
from gatepost.mailbox.runner_frames import TurnErrorClass

LONGEST_RESULT = 4000  # characters of a tool's result in the timeline
LONGEST_ERROR = 500  # characters of what an agent says about an error
DENIED = "This was not permitted."
APPROVED_PLAN = "The plan is approved. Carry it out now.\n\n{}"
LONGEST_PLAN = 19_000  # characters of a plan that is said again
MOST_RETRIES = 100
# In the streams of the three APIs. What a model says cannot look so: its quotes are escaped.
_CUT = re.compile(
    rb'"(?:finish|stop)_reason": ?"(?:length|max_tokens)"|"reason": ?"max_output_tokens"|"finishReason": ?"MAX_TOKENS"'
)
_ENDED = re.compile(
    rb'data: ?\[DONE\]|"(?:(?:finish|stop)_reason|finishReason)": ?"'
    rb'|"type": ?"(?:message_stop|response\.(?:completed|incomplete|failed))"'
)
_REFUSED = re.compile(
    rb'"finishReason": ?"(?:SAFETY|PROHIBITED_CONTENT|BLOCKLIST|RECITATION|SPII|LANGUAGE)"|"blockReason": ?"'
)
_PIECE = re.compile(rb'"(?:content|text|delta)": ?("(?:[^"\\]|\\.)+")')
HOPELESS = frozenset({TurnErrorClass.AUTH, TurnErrorClass.QUOTA, TurnErrorClass.BUDGET})


class PlanRecord(msgspec.Struct, frozen=True):
    """The plan of a turn; without one, the agent was only to make one."""

    conversation: str
    turn: str
    text: str = ""


class PlanApprovals:
    """Plans of an agent that cannot carry one out in the turn that made it: shown, approved or not; then that turn
    ends.

    A plan is on the disk before anybody is asked. So a turn that broke off while it waited asks the same again, under
    the same name, and the agent is not made to plan anew. `mode`: in which the agent goes on once its plan is approved.
    """

    def __init__(self, file: Path, mode: str) -> None:
        self._file, self._mode = file, mode
        self._waiting: tuple[str, asyncio.Event] | None = None

    def begin(self, conversation: str, turn: str) -> None:
        """A turn that is to plan."""
        self._write(PlanRecord(conversation, turn))

    def is_last_planned(self, conversation: str) -> bool:
        """Return True if the conversation's last plan was made, or to be made, here: the agent may think that it still
        is."""
        made = self._read()
        return made is not None and made.conversation == conversation

    def left(self, conversation: str, batch: Batch) -> str:
        """The plan that this turn had made when it broke off; '' if it had none, or has something else to answer."""
        made = self._read()
        if made is None or not batch.continued or (made.conversation, made.turn) != (conversation, batch.turn):
            return ""
        return made.text if all(item.kind == ItemKind.SYSTEM for item in batch.items) else ""

    def ask(self, conversation: str, turn: str, text: str) -> PermissionRequest:
        self._write(PlanRecord(conversation, turn, text))
        name = f"plan-{sha256(text.encode(errors='replace')).hexdigest()[:12]}"
        self._waiting = name, asyncio.Event()
        return PermissionRequest(
            name,
            "plan",
            {"plan": text},
            PermissionRequestKind.PLAN,
            APPROVED_PLAN.format(text[:LONGEST_PLAN]),
            self._mode,
        )

    def answer(self, request: str) -> bool:
        """Return True if this request was the one that waits. The content of the answer does not matter here: the
        gateway starts the next step."""
        if self._waiting is None or self._waiting[0] != request:
            return False
        self._waiting[1].set()
        return True

    def give_up(self) -> None:
        if self._waiting is not None:
            self._waiting[1].set()

    async def answered(self) -> None:
        if self._waiting is not None:
            await self._waiting[1].wait()
        self._waiting = None

    def _read(self) -> PlanRecord | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=PlanRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def _write(self, made: PlanRecord) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(made))
        os.replace(fresh, self._file)


class CodingAgentOptions(msgspec.Struct, frozen=True):
    """`gatepost group set FOLDER options.KEY=VALUE`"""

    mode: str = ""  # "": the first that the provider declares
    own_mcp: bool = False  # the servers of the group's .mcp.json, too, inside
    outage: float = 300.0  # seconds for which trouble of the model's endpoint is waited out


class RetryingAgentOptions(CodingAgentOptions, frozen=True):
    """Options of an agent that can be told how often it asks the model again."""

    retries: int | None = None  # None: as often as it takes to wait out an outage

    def count_retries(self, first: float, longest: float) -> int:
        """Return how many retries of one request there are, of an agent that doubles its pauses from the `first` to the
        `longest`, in seconds."""
        if self.retries is not None:
            return self.retries
        waited, pause, number = 0.0, first, 0
        while waited < self.outage and number < MOST_RETRIES:
            waited, pause, number = waited + pause, min(2 * pause, longest), number + 1
        return number


class AgentClient(Protocol):
    """The running agent: a process, or the connection to one."""

    @property
    def is_alive(self) -> bool: ...

    async def close(self) -> None: ...


class PermissionVerdict(msgspec.Struct, frozen=True):
    allow: bool
    input: dict[str, Any]

    @property
    def reason(self) -> str:
        """Why not, for the agent."""
        return str(self.input.get("reason") or DENIED)


class AttachedMedia(msgspec.Struct, frozen=True):
    """A file that the model is shown as it is."""

    path: Path
    kind: MediaKind
    data: bytes

    @property
    def mime(self) -> str:
        return media.MIMES[self.kind]


ReplyHandler = Callable[[PermissionVerdict], Awaitable[None]]
ClientT = TypeVar("ClientT", bound=AgentClient)
OptionsT = TypeVar("OptionsT", bound=CodingAgentOptions)
MessageT = TypeVar("MessageT")


class CodingAgent(Generic[ClientT, OptionsT, MessageT]):
    """`MessageT`: what the agent says, as `_events` reads it with `_receive`."""

    spec: ClassVar[ProviderSpec]  # what @provider declares
    takes_pushes = True
    busy_status: ClassVar[int] = 429  # that it sees in the place of "too many requests"
    MOST_WAITING: ClassVar[int] = 0  # messages; an agent that says more is read later. 0: any number

    def __init__(self, place: ProviderContext, kind: type[OptionsT], log: SentPromptLog, after_plan: str = "") -> None:
        """`kind`: of its options; `after_plan`: the mode in which an approved plan is carried out."""
        self._place, self._log = place, log
        self._options = parse_options(self.spec, place.options, kind)
        usual = self.spec.modes[0].id if self.spec.modes and self.spec.mode_option == "mode" else ""
        self._mode = self._options.mode or usual
        self._home = place.state / "home"
        self._plans = PlanApprovals(place.state / "plan.json", after_plan)
        self._client: ClientT | None = None
        self._conversation = ""
        self._prompt: SentPrompt | None = None  # the one that the turn began with
        self._waiting: dict[str, SentPrompt] = {}  # sent, and not taken up by the agent yet
        self._answer = self._plan = ""  # what the turn comes to
        self._spent: Counter[str] = Counter()
        self._running = False  # the agent works on the turn
        self._stop = asyncio.Event()
        self._messages: asyncio.Queue[MessageT | PermissionRequest | StatusLine | Exception]
        self._messages = asyncio.Queue(self.MOST_WAITING)
        self._model_trouble: ProviderError | None = None  # how the agent's last call of the model failed, if it did
        self._trouble_timers: list[asyncio.TimerHandle] = []
        self._requests: dict[str, ReplyHandler] = {}
        self._asking: set[asyncio.Future[PermissionVerdict | None]] = set()
        self._port = 0

    # What a provider fills in.

    async def _open(self, batch: Batch, resume: str) -> None:
        """Have a client in that conversation, or in a new one; set `_client` and `_conversation`."""
        raise NotImplementedError

    async def _send(self, client: ClientT, prompt: SentPrompt) -> None:
        raise NotImplementedError

    def _events(self, client: ClientT) -> AsyncIterator[Event]:
        """Until everything that was sent is answered. Sets `_answer` or `_plan`, and `_running` to False once the agent
        has ended the turn. Raises ProviderError."""
        raise NotImplementedError

    async def _cancel(self, client: ClientT) -> None:
        """End the running turn. `_events` notices."""
        raise NotImplementedError

    async def _follow_up(self, client: ClientT, prompt: SentPrompt) -> None:
        """Add a prompt to the running turn."""
        await self._send(client, prompt)

    async def _forget_media(self, client: ClientT, prompt: SentPrompt) -> None:
        """The endpoint refuses what came with this turn. Without it the conversation can go on."""

    # A turn.

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._reset()
        try:
            async for event in self._run(batch, resume):
                yield event
        except ProviderError as error:
            if error.about_input and self._client is not None and self._prompt is not None:
                await self._forget_media(self._client, self._prompt)
            if self._spent:
                yield UsageReport(dict(self._spent))
            stopped = self._stop.is_set()
            yield TurnFailed("interrupted") if stopped else TurnFailed(error.message, error.kind, error.retry_after)
        finally:
            await self._leave()

    def _reset(self) -> None:
        self._stop.clear()
        self._prompt, self._answer, self._plan, self._model_trouble = None, "", "", None
        self._spent.clear()
        self._waiting.clear()

    async def _run(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        await self._open(batch, resume)
        self._check_stop()
        self._plan = self._plans.left(self._conversation, batch)
        if not self._plan:
            self._prompt = self._log.begin(batch, self._conversation, self._place)
        yield ConversationStarted(self._conversation)
        self._check_stop()
        if self._prompt is not None and self._client is not None:
            self._running = True
            self._waiting[self._prompt.id] = self._prompt
            await self._send(self._client, self._prompt)
            async for event in self._events(self._client):
                yield event
            if self._spent:
                yield UsageReport(dict(self._spent))
        if self._plan:  # the agent's turn is over; ours is when the plan is approved or not
            yield self._plans.ask(self._conversation, batch.turn, self._plan)
            await self._plans.answered()
            self._check_stop()
        yield TurnResult(self._answer)

    async def _leave(self) -> None:
        """An agent that still works on the turn is ended: its words must not be taken for the next turn's."""
        self._end_trouble()
        if self._running or self._client is None or not self._client.is_alive:
            await self.close()

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise ProviderError("interrupted")

    async def _receive(self) -> MessageT | PermissionRequest | StatusLine:
        message = await self._messages.get()
        if isinstance(message, Exception):
            raise message
        return message

    def _deliver(self, message: MessageT | PermissionRequest | StatusLine | Exception) -> None:
        """From the client, whose end is an exception."""
        self._messages.put_nowait(message)

    def _forget_messages(self) -> None:
        """Forget the messages that came between two turns."""
        self._messages = asyncio.Queue(self.MOST_WAITING)

    async def push(self, batch: Batch) -> None:
        if not self._running or self._client is None:
            raise NotImplementedError("no turn is running")
        prompt = self._log.follow(batch)
        self._waiting[prompt.id] = prompt
        try:
            await self._follow_up(self._client, prompt)
        except ProviderError as error:  # the turn has just ended
            self._waiting.pop(prompt.id, None)
            self._log.remove_prompt(prompt)
            raise NotImplementedError(f"{self.spec.title} takes no more: {error.message}") from None

    async def interrupt(self) -> None:
        self._stop.set()
        self._plans.give_up()
        self._drop_requests()
        if self._client is not None and self._running:
            await self._cancel(self._client)

    async def close(self) -> None:
        client, self._client = self._client, None
        self._conversation, self._running = "", False
        self._drop_requests()
        if client is not None:
            await client.close()

    # Permissions and modes.

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        if self._plans.answer(request):
            return
        reply = self._requests.pop(request, None)
        if reply is None:
            raise LookupError(f"{self.spec.name} waits for no answer to {request}")
        await reply(PermissionVerdict(verdict == "allow", input))

    async def _ask(self, request: PermissionRequest) -> PermissionVerdict | None:
        """Have somebody decide. None: nobody will any more."""
        answered: asyncio.Future[PermissionVerdict | None] = asyncio.get_running_loop().create_future()

        async def reply(verdict: PermissionVerdict) -> None:
            if not answered.done():
                answered.set_result(verdict)

        self._requests[request.id] = reply
        self._asking.add(answered)
        try:
            await self._messages.put(request)
            return await answered
        finally:
            self._asking.discard(answered)
            self._requests.pop(request.id, None)

    def _drop_requests(self) -> None:
        self._requests.clear()
        for answered in self._asking:
            if not answered.done():
                answered.set_result(None)

    async def set_mode(self, mode: str) -> None:
        check_mode(self.spec, mode, NotImplementedError)
        self._mode = mode  # from the next prompt on

    async def fork(self, conversation: str) -> str:
        raise NotImplementedError(f"the conversations of {self.spec.name} are not copied")

    # What the agent is given.

    def _environment(self) -> dict[str, str]:
        """The way out, and a home that is kept between sandboxes."""
        self._home.mkdir(parents=True, exist_ok=True)
        return {**self._remedy(), "HOME": str(self._home)}

    def _remedy(self) -> dict[str, str]:
        run = self._place.router.parent
        if not (run / forwarder.SOCKET).exists():
            raise Misconfigured(f"{self.spec.name} has no endpoint: this sandbox has no way out")
        if not self._port:
            loop = asyncio.get_running_loop()

            def watch(seen: ModelCallBegin | ModelCallEnd) -> None:
                if isinstance(seen, ModelCallEnd):
                    loop.call_soon_threadsafe(self._receive_call_end, seen)
                else:
                    loop.call_soon_threadsafe(self._receive_call_begin)

            self._port = forwarder.start(run, watch=watch, busy_status=self.busy_status)
        return forwarder.environment(self._port)

    @property
    def _is_at_work(self) -> bool:
        """Return True while calls of the model are the turn's."""
        return self._running

    def _receive_call_begin(self) -> None:
        """The agent calls the model, maybe again."""

    def _receive_call_end(self, end: ModelCallEnd) -> None:
        """A call of the model has ended. If nobody but an operator can help, the agent need not try for minutes."""
        if not self._is_at_work:
            return
        trouble = self._model_trouble = read_call_end(end)
        if trouble is None or not trouble.kind.is_passing:
            self._end_trouble()
        if trouble is None:
            return
        if trouble.kind in HOPELESS:
            self._interject(trouble)
        elif trouble.kind.is_passing and not self._trouble_timers:
            call_later = asyncio.get_running_loop().call_later
            self._trouble_timers = [
                call_later(TOLD_AFTER, self._interject, StatusLine(STILL_TRYING)),
                call_later(self._options.outage, self._interject, trouble),
            ]

    def _interject(self, message: StatusLine | ProviderError) -> None:
        with suppress(asyncio.QueueFull):
            self._deliver(message)

    def _end_trouble(self) -> None:
        for timer in self._trouble_timers:
            timer.cancel()
        self._trouble_timers = []

    def _mcp_servers(self) -> dict[str, McpServerConfig]:
        """The group's own servers where it says so, and the gateway's."""
        program, *arguments = bridge.command(str(self._place.router))
        own = own_servers(self._place.agent, self._options.own_mcp)
        return {**own, OURS: McpServerConfig(program, arguments)}

    def _list_media(self, prompt: SentPrompt) -> list[AttachedMedia]:
        """Return what came with a prompt and is to be shown, by what the provider declares."""
        paths = [media.get_attachment_folder(self._place) / name for name in prompt.files]
        read = [(path, media.read_block(self.spec.name, path)) for path in paths]
        return [AttachedMedia(path, *block) for path, block in read if block is not None]


PROGRAMS = "/opt/gatepost/bin"  # where the host mounts those that it was told of
PACKAGES = "/opt/gatepost/npm"  # the same of Node scripts, each with the package that it needs


def read_call_end(end: ModelCallEnd) -> ProviderError | None:
    """Why a call of the model was not answered; None if it was."""
    if end.status != 200:
        return parse_provider_error(end.status, end.body)
    return None if end.whole else ProviderError("the model's answer broke off", TurnErrorClass.NETWORK)


def is_cut(end: ModelCallEnd) -> bool:
    """Return True if the model ended its answer because of a length limit."""
    return end.status == 200 and _CUT.search(end.tail) is not None


def is_refused(end: ModelCallEnd) -> bool:
    """Return True if Google's model declined to answer: its CLI asks again, and then says nothing of it."""
    return end.status == 200 and _REFUSED.search(end.tail) is not None


def is_broken_off(end: ModelCallEnd) -> bool:
    """Return True if the model's answer has no end: the stream was cut, or turned into something else."""
    return end.status == 200 and (not end.whole or _ENDED.search(end.tail) is None)


def read_last_piece(end: ModelCallEnd) -> str:
    """Return the last piece of text in the stream of an answer; '' if none is seen. It tells whose call that was: an
    agent also calls the model for a conversation's name."""
    pieces = _PIECE.findall(end.tail)
    try:
        return str(msgspec.json.decode(pieces[-1])).strip() if pieces else ""
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def parse_options(spec: ProviderSpec, given: Mapping[str, Any], kind: type[OptionsT]) -> OptionsT:
    try:
        options = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"the group's options are not as they should be: {error}") from None
    if mode := getattr(options, spec.mode_option):
        check_mode(spec, mode, Misconfigured)
    return options


def check_mode(spec: ProviderSpec, mode: str, error: type[Exception]) -> None:
    known = [each.id for each in spec.modes]
    if mode not in known:
        raise error(f"{spec.name} has no {spec.mode_option} {mode!r}, only {', '.join(known)}")


def get_patience(input: Mapping[str, Any]) -> float:
    """Seconds that a shell command may take, by its argument `timeout`, which is in milliseconds."""
    timeout = input.get("timeout")
    return timeout / 1000 if isinstance(timeout, int | float) and not isinstance(timeout, bool) else 0.0


def find_program(name: str) -> str:
    """The path of a program inside."""
    mounted = os.path.join(PROGRAMS, name)
    found = mounted if os.access(mounted, os.X_OK) else _find_script(name) or shutil.which(name)
    if found is None:
        raise Misconfigured(
            f"the program {name} is not here: gatepost connect {name}, or name it in the setting `programs`"
        )
    return found


class _Package(msgspec.Struct):
    bin: dict[str, str] | str = ""


def _find_script(name: str) -> str | None:
    """Return the script of a mounted npm package; None if there is none."""
    folder = Path(PACKAGES) / name
    try:
        scripts = msgspec.json.decode((folder / "package.json").read_bytes(), type=_Package).bin
    except (OSError, msgspec.MsgspecError):
        return None
    return str(folder / (scripts if isinstance(scripts, str) else scripts.get(name, "")))
