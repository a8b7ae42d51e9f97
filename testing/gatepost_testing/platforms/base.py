"""The common side of every emulated platform for a test: people who do things, a record of what they see, and faults.

    with TelegramPlatform() as platform:
        platform.configure(config_values, secrets)      # how to point the channel at it
        message = platform.send("hello", room="team", sender="ann")
        platform.wait_for(lambda: platform.texts("team") == ["hello back"])

People, rooms and threads have short names here (`ann`, `team`); `get_address` and `get_sender` give what the channel
calls them. The room `direct:ann` is the private chat of the bot with ann; every other room is a group with everybody.
The server runs in a thread of its own, so that a gateway in another process or in the test's loop can use it. All
methods may be called from any thread.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from gatepost_testing.servers.loop_thread import AsgiServer, LoopThread
from gatepost_testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from gatepost_testing.certificates import ServerCertificate

Asgi = Callable[..., Any]
# As platforms do. Uvicorn's own 5 s are also those after which our client gives up an idle connection, so that it sent
# now and then into one that was about to be closed, and what it sent was uncertain.
KEEP_ALIVE_S = 75


class PlatformFault(StrEnum):
    """A fault of a request of the bot, or of its connection."""

    UNAUTHORIZED = "unauthorized"  # the token is revoked, from now on until `heal`
    CONFLICT = "conflict"  # another program receives in this bot's place, until `heal`
    NO_RIGHTS = "no_rights"  # the bot lacks a right that it cannot do without, until `heal`
    FORBIDDEN = "forbidden"  # the bot lacks the right, for one send
    RATE_LIMIT = "rate_limit"  # one send is told to wait (`retry_after` of the platform, default 0.2 s)
    BUSY = "busy"  # one send gets 5xx and does not happen
    NO_ANSWER = "no_answer"  # one send happens, and the connection ends without an answer
    HELD_POLL = "held_poll"  # the receiving connection stays open and brings nothing, until `heal`
    DROPPED = "dropped"  # every open connection is closed, now
    DUPLICATE = "duplicate"  # the next event is delivered twice
    REORDER = "reorder"  # the next two events are delivered in the other order
    FORGOTTEN = "forgotten"  # one acknowledgement of the bot is lost


LASTING = frozenset(
    {PlatformFault.UNAUTHORIZED, PlatformFault.CONFLICT, PlatformFault.NO_RIGHTS, PlatformFault.HELD_POLL}
)


class NotOffered(Exception):
    """People cannot do this on this platform."""


class GivenFile(Struct, frozen=True):
    name: str
    data: bytes
    mime: str = "application/octet-stream"


class GivenMessage(Struct, frozen=True):
    """A message that somebody writes. `thread`: the platform's id of a thread, as `ShownMessage.thread` or an event has
    it, or of the message under which one begins. `mention`: the bot is named in the platform's own way."""

    text: str
    room: str
    sender: str
    thread: str
    reply_to: str
    files: Sequence[GivenFile]
    mention: bool

    def render_named(self, name: str) -> str:
        """The text, with that name before it if the bot is named."""
        return f"{name} {self.text}" if self.mention else self.text


class ShownMessage(Struct, kw_only=True):
    """A message as people on the platform see it now. Only what the platform has is filled in."""

    id: str
    room: str
    sender: str  # "bot", or a person's short name
    text: str  # as people read it: markup of the platform resolved to its plain words
    raw: Any = None  # what was sent, as the platform got it
    thread: str = ""
    reply_to: str = ""
    files: list[GivenFile] = []
    buttons: list[str] = []  # labels, in order
    reactions: list[tuple[str, str]] = []  # (emoji, who)
    edits: int = 0
    deleted: bool = False
    pinned: bool = False
    voice: bool = False
    key: str = ""  # the nonce or client id that it was sent with


class PingRule(Struct, frozen=True):
    """How words wake people on a platform: with a sound or a mark, though nobody addressed them."""

    list_pings: Callable[[Any], list[str]]  # of this platform: each wakes somebody if it stands in a message as it is
    find_woken: Callable[[ShownMessage], list[str]]  # what in this message does


class EmulatedPlatform(LoopThread):
    """A subclass names its `kind`, serves `make_app`, keeps what is said in `self.record`, and delivers events."""

    kind: ClassVar[str]  # the channel that speaks to it
    cannot: ClassVar[frozenset[str]] = frozenset()  # names of the methods below that raise NotOffered
    has_groups: ClassVar[bool] = True  # False: only private chats, as `direct:ann`
    has_direct: ClassVar[bool] = True  # False: no private chats
    reads_markdown: ClassVar[bool] = False  # True: people's programs show markdown, and `text` has its marks
    only_mentions: ClassVar[bool] = False  # True: a bot gets only what names it
    ping_rule: ClassVar[PingRule | None] = None  # None: words alone wake nobody, or nothing can be done about it
    calls_hooks: ClassVar[bool] = False  # True: it brings its events to `hook_url`, and no connection is held
    repeats: ClassVar[bool] = True  # False: what is said while the bot is away is lost, as on IRC
    sample_file: ClassVar[tuple[str, str]] = ("data.bin", "application/octet-stream")  # name and type of one it takes
    retry_after: float = 0.2
    answer_s: float = 0.0  # for which it keeps back the answer to what it has done; Telegram's does
    hook_url: str = ""  # of a platform that sends its events by HTTP: where to, `…/channels/<instance>`
    hook_secret: str = ""  # with which it signs them; `emulation.make_platform` sets one that nobody knows
    folder: Path | None = None  # of the channel, where its library keeps something on the disk

    host: str = "127.0.0.1"  # where it listens; another one is set before it starts
    certificate: "ServerCertificate | None" = None  # of a platform behind TLS, for its host; set before it starts

    def __init__(self) -> None:
        super().__init__(f"emulated {self.kind}")
        self.changed = threading.Condition()  # an RLock inside: held while `record` or other state is touched
        self.record: list[ShownMessage] = []
        self.requests: list[tuple[str, str]] = []  # (method, path) of everything that the bot asked for
        self._once: list[PlatformFault] = []
        self._lasting: set[PlatformFault] = set()
        self._app_server: AsgiServer | None = None
        self.port = 0

    # How it is run.

    def make_app(self) -> Asgi:
        """The ASGI application. Its handlers run in the platform's own loop."""
        raise NotImplementedError

    async def _open(self, port: int) -> None:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer waits 40 ms for its second half
        bound.bind((self.host, port))
        bound.listen(256)
        self.port = int(bound.getsockname()[1])
        self._app_server = await AsgiServer.start(
            self.make_app(),
            bound,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=KEEP_ALIVE_S,
            ws_ping_interval=None,
            ssl_certfile=self.certificate.chain if self.certificate else None,
            ssl_keyfile=self.certificate.key if self.certificate else None,
        )

    async def _close(self) -> None:
        if self._app_server is not None:
            await self._app_server.close()
        await self._cancel_others()

    def list_connections(self) -> list[Any]:
        return self._app_server.list_connections() if self._app_server is not None else []

    @property
    def url(self) -> str:
        return f"{'https' if self.certificate else 'http'}://{self.host}:{self.port}"

    def call_soon(self, fn: Callable[..., None], *args: Any) -> None:
        """Run something in the platform's own loop, from any thread."""
        self._loop.call_soon_threadsafe(fn, *args)

    # How a channel is pointed at it.

    def get_settings(self) -> dict[str, Any]:
        """Values of the channel's settings, by their last name (`api_url`)."""
        raise NotImplementedError

    def get_secrets(self) -> dict[str, str]:
        """The same for those that are secrets (`token`)."""
        raise NotImplementedError

    def get_address(self, room: str) -> str:
        """Return what the channel calls a room."""
        raise NotImplementedError

    def get_sender(self, person: str) -> str:
        """Return what the channel calls a person."""
        raise NotImplementedError

    # Actions of people. Each returns the platform's id of the message that it is about, as the channel names it.

    def send(
        self,
        text: str,
        *,
        room: str = "team",
        sender: str = "ann",
        thread: str = "",
        reply_to: str = "",
        files: Sequence[GivenFile] = (),
        mention: bool = False,
    ) -> str:
        """Somebody writes."""
        return self.receive(GivenMessage(text, room, sender, thread, reply_to, files, mention))

    def receive(self, given: GivenMessage) -> str:
        """Return what `send` was called with."""
        raise NotImplementedError

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        raise NotOffered

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        raise NotOffered

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        raise NotOffered

    def join(self, room: str, *, sender: str = "ann") -> str:
        raise NotOffered

    def click(self, room: str, message: str, label: str, *, sender: str = "ann") -> str:
        """Press the button with this label."""
        raise NotOffered

    def open_pane(self, person: str = "ann") -> str:
        """Somebody opens the pane of the assistant; the thread that begins in their private chat."""
        raise NotOffered

    # Visible state.

    def list_shown(self, room: str = "", *, by_bot: bool = True) -> list[ShownMessage]:
        """Return what is there now, oldest first, without what was deleted."""
        with self.changed:
            return [
                each
                for each in self.record
                if room in ("", each.room) and not each.deleted and (each.sender == "bot") == by_bot
            ]

    def texts(self, room: str = "") -> list[str]:
        """Return what the bot says in a room."""
        return [each.text for each in self.list_shown(room)]

    def find(self, message: str) -> ShownMessage:
        with self.changed:
            return next(each for each in self.record if each.id == message)

    def list_woken(self) -> list[str]:
        """Return what in the bot's words wakes somebody."""
        if self.ping_rule is None:
            raise NotOffered
        return [found for each in self.list_shown() for found in self.ping_rule.find_woken(each)]

    def get_typing(self) -> list[str]:
        """The rooms in which the bot showed that it is at work, each time anew."""
        raise NotOffered

    def get_title(self, thread: str) -> str:
        """Return the title of a pane."""
        raise NotOffered

    def wait_for(self, holds: Callable[[], bool], timeout: float = PATIENCE_S) -> bool:
        """Until this holds of the platform; False if it does not within the bound."""
        with self.changed:
            return self.changed.wait_for(holds, timeout)

    async def until(self, holds: Callable[[], bool], timeout: float = PATIENCE_S) -> None:
        """The same for a test whose own loop must go on meanwhile; it fails with what can be seen."""
        if not await asyncio.to_thread(self.wait_for, holds, timeout):
            raise AssertionError(f"waited {timeout:g} s in vain; the bot said: {self.texts()}")

    def notify(self) -> None:
        with self.changed:
            self.changed.notify_all()

    # Faults.

    def fault(self, *faults: PlatformFault) -> None:
        """Each happens once, those of one request or event in this order; those of `LASTING` hold until `heal`."""
        with self.changed:
            for each in faults:
                if each in LASTING:
                    self._lasting.add(each)
                elif each is not PlatformFault.DROPPED:
                    self._once.append(each)
        if PlatformFault.DROPPED in faults:
            asyncio.run_coroutine_threadsafe(self.drop_connections(), self._loop).result(PATIENCE_S)

    def crash(self) -> None:
        """The whole server is gone, until `come_back`: of those that drive a real one."""
        raise NotOffered

    def come_back(self) -> None:
        """The server is there again on the same ports, with what it kept, and so are its people."""
        raise NotOffered

    def heal(self) -> None:
        with self.changed:
            self._once.clear()
            self._lasting.clear()
            self.changed.notify_all()

    def is_faulty(self, fault: PlatformFault) -> bool:
        """Return True if a lasting fault holds."""
        with self.changed:
            return fault in self._lasting

    def claim_fault(self, *kinds: PlatformFault) -> PlatformFault | None:
        """The first single fault of these kinds; it is then used up. One that this platform never claims stays where
        it is, and does not stand before the others."""
        with self.changed:
            found = next((each for each in self._once if each in kinds), None)
            if found is not None:
                self._once.remove(found)
            return found

    def list_unused(self) -> list[PlatformFault]:
        """The single faults that have not happened yet."""
        with self.changed:
            return list(self._once)

    def abort_connection(self, scope: Mapping[str, Any]) -> None:
        """End the connection of one request without an answer (`NO_ANSWER`). `scope` is that of ASGI; the caller runs
        in the platform's loop, and what it returns afterwards reaches nobody."""
        for connection in self.list_connections():
            if scope.get("client") is not None and getattr(connection, "client", None) == tuple(scope["client"]):
                connection.transport.abort()

    async def drop_connections(self) -> None:
        """Close every connection without a word. Runs in the platform's loop."""
        for connection in self.list_connections():
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
