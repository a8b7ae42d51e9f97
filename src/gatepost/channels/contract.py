"""A channel: a platform adapter that translates at the edge. It knows no group and no session.

A channel is a class with `listen` and `send`; every other method is optional and says when to leave it out. Its file
holds its settings, its features and its pure `read_…` and `render_…` functions. Several instances of one channel may
run (two bots); `instance` tells them apart and is part of a room's key.

A channel of one file uses `@channel`. One that needs a library, or much code, is a folder: its `__init__.py` calls
`declare_channel`, and the rest is imported when an instance is switched on.
"""

import asyncio
import hashlib
import importlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable

from msgspec import Struct, field

from gatepost.core.clock import Clock
from gatepost.core.errors import SetupError
from gatepost.core.registry import Registry
from gatepost.core.settings import Config, Setting, setting
from gatepost.inside.sandbox_needs import DeclaredNeeds, Need, declare
from gatepost.messages.card import Card
from gatepost.messages.inbound import Inbound, Receipt, Verb
from gatepost.messages.outbound import Feature, Outbound
from gatepost.messages.text_size import TextUnit
from gatepost.store.rooms.rooms import RoomPolicy

MYSELF = "gatepost:self"  # the sender of what a bot itself said, in what its channel remembers

Receive = Callable[[Inbound], Awaitable[Receipt]]


class SpecOrigin(StrEnum):
    """The source that says that there is such an instance."""

    ALWAYS = "always"  # the kind itself: web, terminal
    FILE = "file"
    STORE = "store"  # `gatepost channel add`
    GIVEN = "given"  # made by hand, in tests


class ChannelState(StrEnum):
    """The state of a channel instance."""

    STARTING = "starting"  # it has not shown yet that it receives
    UP = "up"
    RETRYING = "retrying"  # it broke, and is started again
    DEAF = "deaf"  # it gave no sign of receiving, and is started again
    ENDED = "ended"  # nothing helps until somebody acts
    OFF = "off"


class EndReason(StrEnum):
    """Why a channel cannot go on until somebody acts."""

    TOKEN = "token"  # the platform no longer accepts the key or password
    SECOND_POLLER = "second_poller"  # another program receives in this bot's place
    RIGHTS = "rights"  # the bot lacks a right that it cannot do without
    SETTING = "setting"  # a setting is missing or wrong


class AddCheck(StrEnum):
    """A check that `gatepost channel add` makes before anything is written."""

    TOKEN, NETWORK = "wrong token", "no network"
    SECOND_POLLER, RIGHTS = "second poller", "missing rights"


class ChannelEnded(SetupError):
    """Raised by `listen`, `send` or `check`: no retry will help. `remedy` names what the operator does."""

    def __init__(self, reason: EndReason, why: str, remedy: str) -> None:
        super().__init__(f"{why}; {remedy}")
        self.reason, self.why, self.remedy = reason, why, remedy


class ChannelPulse:
    """Evidence that a channel receives.

    The channel calls `beat` for each completed poll, heartbeat or event of the platform, also for an empty one. A
    channel that is silent for longer than its `deaf_after_s` is started again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last: int | None = None  # the last beat, on the monotonic clock
        self.beats = 0
        self.misses = 0  # tries without an answer, one after another
        self._reached = asyncio.Event()
        self.note = ""  # what people should know of it although it is well

    def beat(self) -> None:
        self.last = self._clock.monotonic()
        self.beats += 1
        self.misses = 0

    def miss(self, why: str, *, at_once: bool = False) -> None:
        """Record a try to reach the platform that failed; the channel tries again by itself. `at_once`: it asks seldom,
        so that one such try says enough."""
        self.misses += 1

    def reach(self) -> None:
        """Record that the platform has taken a message: whoever waits to reach it tries at once."""
        self._reached.set()

    async def wait_until_reached(self, at_least: float, at_most: float) -> None:
        """Wait for that, from now on; so many seconds."""
        self._reached.clear()
        await asyncio.sleep(at_least)
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most - at_least):
                await self._reached.wait()

    def reset(self) -> None:
        self.last = None


PULSE: ContextVar[ChannelPulse | None] = ContextVar("PULSE", default=None)  # of the channel that listens in this task


class ChannelCursor(Protocol):
    """How far a channel has received, kept in the store. Named, for a channel that reads several streams."""

    @property
    def term(self) -> int:
        """A number that changes when this gateway gets the channel from another, or loses it.

        Values that were loaded in an earlier term may be old: load them again.
        """
        ...

    async def load(self, name: str = "") -> str:
        """'' if nothing was saved yet."""
        ...

    async def save(self, value: str, name: str = "", *, acknowledged: bool = False, durable: bool = False) -> None:
        """After `receive` has returned for all up to `value`. `acknowledged`: the platform was told so, too. `durable`:
        it outlives a kill once this returns; without it a lost save means that events come again."""
        ...

    async def update(self, change: Callable[[str], str], name: str = "", *, durable: bool = False) -> str:
        """Return what `change` makes of what is saved ('': nothing yet), saved in its place and returned. For what is
        added to where hooks come to each of several gateways: nobody saves in between. `change` has no effect of its
        own and is quick: it runs in the store's thread, and may run twice."""
        ...


class MemoryCursor:
    """For tests, and for channels that are made by hand."""

    def __init__(self) -> None:
        self.saved: dict[str, str] = {}
        self.term = 0

    async def load(self, name: str = "") -> str:
        return self.saved.get(name, "")

    async def save(self, value: str, name: str = "", *, acknowledged: bool = False, durable: bool = False) -> None:
        self.saved[name] = value

    async def update(self, change: Callable[[str], str], name: str = "", *, durable: bool = False) -> str:
        self.saved[name] = change(self.saved.get(name, ""))
        return self.saved[name]


class LateFailure(Struct, frozen=True, kw_only=True):
    """A message that `send` gave an id for, and that the platform says later it did not deliver. `key`, `platform_id`:
    those of the message. `again`: it is sent once more, and its `refusal` is `why`, by which the channel knows it."""

    key: str
    platform_id: str
    why: str
    again: bool = False


ReportFailure = Callable[[LateFailure], Awaitable[None]]
ReadSecret = Callable[[Setting[str]], Awaitable[str]]
CheckToken = Callable[[str], Awaitable[bool]]


async def _no_secrets(wanted: Setting[str]) -> str:
    return ""


async def _no_tokens(shown: str) -> bool:
    return False


async def _ignore_failure(failure: LateFailure) -> None:
    return None


class NativeCommand(Struct, frozen=True, kw_only=True):
    """A command that people give in chats, for the menu of a platform that has one."""

    name: str  # without its slash
    help: str  # one line
    usage: str = ""  # what may follow the name


class ChannelDeps(Struct, frozen=True, kw_only=True):
    """The surroundings that a channel is made with. `config` has the values of this instance, from
    `[channels.<instance>]`, under the names that the channel declared."""

    instance: str
    config: Config
    clock: Clock
    secret: ReadSecret = _no_secrets  # the value of a setting declared with secret=True; '' if it is not set
    cursor: ChannelCursor = field(default_factory=MemoryCursor)
    pulse: ChannelPulse | None = None
    folder: Path | None = None  # of its own, in the home, for what a library must keep on the disk
    commands: tuple[NativeCommand, ...] = ()  # that people may give in its rooms
    check_token: CheckToken = _no_tokens  # whether it is a valid one of `gatepost channel token` for this instance
    # Record that a sent message was not delivered. It raises Unavailable while the send itself is not recorded yet.
    report_failure: ReportFailure = _ignore_failure

    def beat(self) -> None:
        if self.pulse is not None:
            self.pulse.beat()


class BotIdentity(Struct, frozen=True, kw_only=True):
    """Our account as the platform names it, shown by `gatepost channel add` and `test`."""

    name: str  # "@mybot (My Bot)"
    link: str = ""  # by which people invite or reach it
    missing: tuple[str, ...] = ()  # rights that it lacks, and what each is for
    notes: tuple[str, ...] = ()


class ChannelPace(Struct, frozen=True, kw_only=True):
    """How fast a platform lets a bot send, in messages a second; 0: no limit is known. Edits count like messages."""

    everywhere: float = 0.0
    room: float = 0.0
    burst: int = 1  # so many at once in a room, before the pace holds
    slow_rooms: Mapping[str, float] = {}  # in place of `room`, by how the address of such a room begins
    draft_s: float = 2.0  # seconds between two edits of an answer that grows, at least

    def get_room_rate(self, address: str) -> float:
        return next((rate for begin, rate in self.slow_rooms.items() if address.startswith(begin)), self.room)

    def get_draft_interval(self, address: str, growing: int) -> float:
        """Return the seconds between two edits of one answer, while so many grow on the instance. Drafts take at most
        half of a limit: the answers must not wait for them."""
        room = self.get_room_rate(address)
        return max(self.draft_s, 2 / room if room else 0.0, 2 * growing / self.everywhere if self.everywhere else 0.0)


class ChannelGuide(Struct, frozen=True, kw_only=True):
    """The words of `gatepost channel add`."""

    before: str = ""  # where to get what it asks for
    after: str = ""  # what to do next; `<web.url>` and `<instance>` stand for the page's address and the name
    ask: tuple[Setting[Any], ...] = ()  # what it asks for, in this order; the rest has defaults
    optional: tuple[Setting[Any], ...] = ()  # those of them that may stay empty; so may lists


class Channel(Protocol):
    def __init__(self, deps: ChannelDeps) -> None: ...

    async def listen(self, receive: Receive) -> None:
        """Run until cancelled. When `receive` returns, the event is durable: only then tell the platform so."""
        ...

    async def send(self, address: str, message: Outbound) -> str:
        """Bring about one effect and return the platform's id of it.

        Raise Unavailable (with `retry_after` if told; `uncertain=True` if it may have happened), Unsupported, or any
        other GatepostError for a refusal that no retry will change.
        """
        ...


@runtime_checkable
class SupportsTyping(Protocol):
    """Optional: shows that somebody is at work. Leave it out if the platform has no such sign."""

    async def typing(self, address: str, thread: str, on: bool) -> None: ...


@runtime_checkable
class SupportsReadMarks(Protocol):
    """Optional: shows people that their messages were read. Leave it out if the platform has no such mark, and declare
    `make_read_mark_setting` with it."""

    async def mark_read(self, address: str, thread: str, messages: tuple[str, ...]) -> None:
        """Mark messages of people, by their platform ids, oldest first. An agent has taken them into a turn. Called
        again for one that is marked, do no harm."""
        ...


@runtime_checkable
class SupportsLookup(Protocol):
    """Optional: tells whether an effect with this key reached the platform. Leave it out if it cannot be known."""

    async def look_up(self, address: str, key: str) -> str | None:
        """The platform id if it is there, None if it certainly is not."""
        ...


@runtime_checkable
class SupportsHistory(Protocol):
    """Optional: tells what was said in a room earlier. Leave it out if the platform does not let bots look back."""

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        """Return the newest messages before a moment (microseconds UTC; None: the newest of all), each with its `at`.

        The bot's own messages have the sender `MYSELF`. Raise Unavailable if the platform does not answer.
        """
        ...


@runtime_checkable
class SupportsDirect(Protocol):
    """Optional: opens a private room with somebody who has not written to us there. Leave it out if only people can."""

    async def open_direct(self, sender: str) -> str:
        """The address of the room. Raise NotFound or Refused if that person cannot be reached."""
        ...


@runtime_checkable
class SupportsSubscribe(Protocol):
    """Optional: follows a thread whose messages the platform does not send by itself."""

    async def subscribe(self, address: str, thread: str) -> None: ...


@runtime_checkable
class SupportsCheck(Protocol):
    """Optional: asks the platform who we are and what we may do, and changes nothing there."""

    async def check(self) -> BotIdentity:
        """Raise ChannelEnded for a wrong key or a missing right, Unavailable if the platform does not answer."""
        ...


@runtime_checkable
class SupportsPollerCheck(Protocol):
    """Optional: finds another program that receives in this bot's place. Leave it out where several may receive."""

    async def check_poller(self) -> None:
        """Raise ChannelEnded if there is one. Called after `check`, for a new bot alone: no channel of ours receives as
        it. Acknowledge nothing, and leave an event that comes meanwhile to whoever receives."""
        ...


class HookRequest(Struct, frozen=True, kw_only=True):
    """A request of a platform to `/channels/<instance>` of the web server. Nobody has proved yet who sent it."""

    method: str
    path: str = ""  # below that, with its slash
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""  # at most `web.largest_hook_bytes`
    # To call as soon as it is proved who sent it: a place for this request, out of the way of strangers. It raises if
    # there is none now, so that the platform sends again.
    admit: Callable[[], None] = lambda: None


class HookResponse(Struct, frozen=True, kw_only=True):
    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


@runtime_checkable
class SupportsHook(Protocol):
    """Optional: takes events that the platform sends to us by HTTP. Called only while `listen` runs."""

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        """Check the signature first (401 or 403 if it is wrong), then call `request.admit()`. Answer 2xx only once
        `receive` has returned for what it brings."""
        ...


@runtime_checkable
class ChecksHookHead(Protocol):
    """Optional, beside `answer_hook`: refuses a request before its body is read, so that strangers send none."""

    async def check_hook_head(self, head: HookRequest) -> HookResponse | None:
        """Return what is answered to a request that its head alone shows to be nobody's, None to read on. `head` has no
        body. If the head alone proves who sent it, call `head.admit()`."""
        ...


ADMIT = "gatepost.admit"  # in a scope: what `admit` is in a `HookRequest`


@runtime_checkable
class SupportsStreams(Protocol):
    """Optional, in the place of `answer_hook`: answers a request to `/channels/<instance>` itself, as an ASGI
    application, because what comes or goes is too large or too long for one answer."""

    async def answer_stream(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """`root_path` of the scope ends with the instance. Prove first who asks, within seconds, and call the scope's
        `ADMIT`: without it the request is ended. Bound the body and the time."""
        ...


@runtime_checkable
class SupportsClose(Protocol):
    """Optional: ends its connections, after `listen` has ended and nothing is sent any more."""

    async def close(self) -> None: ...


@runtime_checkable
class HasOwnNames(Protocol):
    """Optional: what the bot is called, as in `/stop@mybot` or a mention. A command for another name is not ours. Leave
    it out where a platform shows a bot only what is meant for it."""

    @property
    def own_names(self) -> frozenset[str]: ...


class ChannelConnection(StrEnum):
    """How many gateways that share a store may receive as one bot."""

    ONE = "one"  # by a long poll, a socket, a mailbox: two would take each other's events
    ANY = "any"  # by webhooks, which may come to each of them


class ChannelKind(Struct, frozen=True, kw_only=True):
    """A registered channel class, with what its file declares."""

    name: str
    make: Callable[[ChannelDeps], Channel]
    features: frozenset[Feature]
    settings: tuple[Setting[Any], ...] = ()
    max_text: int = 0  # 0: no limit
    text_unit: TextUnit = TextUnit.CHARACTERS  # that `max_text` counts
    largest_file: int = 0  # bytes that it can send; 0: no limit
    always: bool = False  # runs without being switched on
    policy: RoomPolicy = RoomPolicy.STRICT  # of a room that is seen first; public: whoever can write there is let in
    # Somebody unknown who writes to it directly is told so once, and whoever decides is asked. Not where the account
    # may be a person's own, or where robots write: an answer would go to anybody.
    asks_strangers: bool = False
    needs: DeclaredNeeds = field(default_factory=DeclaredNeeds)  # in every sandbox, while it runs
    title: str = ""  # as people write the platform's name
    verbs: frozenset[Verb] = frozenset({Verb.MESSAGE})  # what it receives
    pace: ChannelPace = field(default_factory=ChannelPace)
    deaf_after_s: float = 0.0  # without a beat for so long it is started again; 0: it gives no such evidence
    guide: ChannelGuide = field(default_factory=ChannelGuide)
    tested_against: str = ""  # "Synapse 1.163", "our emulator of 2026-11"; never run against the platform: say so
    extra: str = ""  # of this package, that brings its library
    per_server: bool = False  # a person's id is unique on one server only: each instance has people of its own
    load: Callable[[], object] | None = None  # imports what `make` needs; takes long, so it is called in a thread
    connection: ChannelConnection = ChannelConnection.ONE
    # True if the platform shows a card whole, with its buttons. None: if `render_text` of it fits `max_text`.
    fits_card: Callable[[Card], bool] | None = None
    # From a room and a reaction: what to use instead, '' if it works there. None: every emoji does.
    explain_reaction: Callable[[str, str], str] | None = None
    drafts: bool = False  # an answer grows while it is written: its instance's option says so
    read_marks: bool = False  # messages that an agent takes are marked as read: its instance's option says so
    deletions_show: bool = False  # a line stays in the place of a deleted message, so interim lines are left standing
    unchecked: Mapping[AddCheck, str] = {}  # what `channel add` cannot find out, and why
    # Features of an instance, from its name and its settings. None: the same for all.
    tailor: "Callable[[ChannelKind, str, Config], ChannelKind] | None" = None

    @property
    def listens_everywhere(self) -> bool:
        """On each of several gateways that share a store."""
        return self.always or self.connection is ChannelConnection.ANY


class ChannelTraits(TypedDict, total=False):
    """Additions of a registration: fields of `ChannelKind`, with their meaning there."""

    max_text: int
    text_unit: TextUnit
    largest_file: int
    always: bool
    policy: RoomPolicy
    asks_strangers: bool
    title: str
    verbs: frozenset[Verb]
    pace: ChannelPace
    deaf_after_s: float
    guide: ChannelGuide
    tested_against: str
    extra: str
    per_server: bool
    connection: ChannelConnection
    fits_card: Callable[[Card], bool] | None
    explain_reaction: Callable[[str, str], str] | None
    deletions_show: bool
    unchecked: Mapping[AddCheck, str]
    tailor: Callable[[ChannelKind, str, Config], ChannelKind] | None


CHANNELS: Registry[ChannelKind] = Registry("channel")
DRAFTS = "drafts"  # the last name of the option by which answers grow
READ_MARKS = "read_marks"  # the last name of the option by which people see that their messages were read


def channel(
    name: str,
    *,
    features: frozenset[Feature] = frozenset(),
    settings: tuple[Setting[Any], ...] = (),
    mounts: tuple[Need, ...] = (),
    env: Mapping[str, str | Need] | None = None,
    registry: Registry[ChannelKind] = CHANNELS,
    **traits: Unpack[ChannelTraits],
) -> Callable[[type], type]:
    """Register a channel class under its platform's name; `traits` are further fields of `ChannelKind`. While it runs,
    every sandbox has its variables `env`, and its `mounts` as far as the setting `sandbox.mounts_allowed` lets them
    in."""

    def register(cls: type) -> type:
        needs = declare(f"the channel {name}", (), mounts, env)
        kind = ChannelKind(name=name, make=cls, features=features, settings=settings, needs=needs, **traits)
        registry.add(name, kind, origin=cls.__module__)
        return cls

    return register


def import_later(function: str) -> Callable[..., Any]:
    """A function of a module that is imported when it is first called. `function` is `package.module:name`."""
    module, _, name = function.partition(":")

    def call(*given: object) -> Any:
        return getattr(importlib.import_module(module), name)(*given)

    return call


def declare_channel(
    name: str,
    adapter: str,
    *,
    features: frozenset[Feature],
    settings: tuple[Setting[Any], ...] = (),
    registry: Registry[ChannelKind] = CHANNELS,
    **traits: Unpack[ChannelTraits],
) -> ChannelKind:
    """Register a channel whose class is imported when the first instance is made. `adapter` is `package.module:Class`,
    `extra` the extra of this package that brings what it imports."""
    module, _, cls = adapter.partition(":")

    def make(deps: ChannelDeps) -> Channel:
        made: Channel = _import_class(name, module, cls, kind.extra)(deps)
        return made

    def load() -> object:
        return _import_class(name, module, cls, kind.extra)

    kind = ChannelKind(name=name, make=make, load=load, features=features, settings=settings, **traits)
    registry.add(name, kind, origin=module)
    return kind


def _import_class(name: str, module: str, cls: str, extra: str) -> Callable[[ChannelDeps], Channel]:
    try:
        found: Callable[[ChannelDeps], Channel] = getattr(importlib.import_module(module), cls)
    except ModuleNotFoundError as error:
        if not extra or (error.name or "").partition(".")[0] == "gatepost":
            raise
        raise SetupError(
            f"the channel {name} needs {error.name}, which is not installed: pip install 'gatepost[{extra}]'"
        ) from None
    return found


def make_draft_setting(kind: str) -> Setting[bool]:
    """The option of a channel that can edit. Without LOOKUP or KEYED, first words whose sending was interrupted stay
    above the answer: nobody can know their id."""
    return setting(f"channels.{kind}.{DRAFTS}", False, help="Show an answer while it is written, by edits.")


def make_ca_setting(kind: str) -> Setting[str]:
    """The option of a channel whose server people run themselves. `PlatformHttp` and `make_tls` take its value."""
    words = "A file with the certificates of an authority of your own, in PEM; empty: those of the system."
    return setting(f"channels.{kind}.ca_file", "", help=words)


def make_read_mark_setting(kind: str, default: bool) -> Setting[bool]:
    """The option of a channel with `mark_read`. On by default only where people see the mark as the bot's own."""
    words = "Whether people see that a message was read, once an agent has taken it."
    return setting(f"channels.{kind}.{READ_MARKS}", default, help=words)


def get_file_folder_name(key: str) -> str:
    """The folder in which a channel that keeps files itself has those of one effect."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]
