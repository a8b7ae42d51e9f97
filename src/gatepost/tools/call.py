"""One use of a tool: who calls, the room that it may reach, what it works with, and how its effects are written.

The gate has decided on permission before it makes a `ToolCall`, and has put the room that the call may reach into
`call.place`. A write goes through `call.write`, with the call's audit row in the same transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, TypeVarTuple

import msgspec
from msgspec import Struct

from gatepost.access.tiers import Tier, tier_of
from gatepost.channels.contract import Channel, ChannelKind
from gatepost.core.clock import Clock
from gatepost.core.errors import Invalid, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.fencing import FenceCheck, always, check_contact
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.settings import Config, setting
from gatepost.messages.inbound import Inbound
from gatepost.store.memory.memory_vectors import Meaning
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit, requests
from gatepost.store.rights.requests import BoundReads, Request
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.sessions import tool_calls
from gatepost.store.sessions.forks import ForkedSession
from gatepost.store.sessions.replays import StartedReplay
from gatepost.store.sessions.tool_calls import CallIdentity
from gatepost.store.sessions.turns import Turn

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CHAIN_DEPTH = setting(
    "sessions.chain_depth",
    20,
    help="How many steps from agent to agent may lie behind a message that an agent puts in; then a person must ask.",
)
READ_S = 2.0  # a tool that looks something up in the store

Progress = Callable[[float, float | None, str], None]


class CallTracker(Protocol):
    """Knows the calls of a turn, so that one that is made again is known as the same."""

    async def identify(self, turn: Turn, tool: str, arguments: Mapping[str, Any]) -> CallIdentity | None: ...

    def answered(self, call: CallIdentity) -> None: ...

    def failed(self, call: CallIdentity) -> None: ...


class OfferedTools(Protocol):
    """The tools that a session is offered besides the core."""

    @property
    def names(self) -> Collection[str]: ...

    async def unlock(self, names: Sequence[str]) -> None:
        """Add tools to the list of the session, and tell its clients."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a tool: known by the socket it came through, never by what it says."""

    folder: str
    session_id: str | None = None
    provider: str = ""
    running: Callable[[], Turn | None] | None = field(
        default=None, compare=False
    )  # who wakes the session knows its turn
    before_call: Callable[[str, str], Awaitable[None]] | None = field(
        default=None, compare=False
    )  # (tool, call): brings what the agent said before into the outbox
    keys: "CallTracker | None" = field(default=None, compare=False)  # tells a repeated call from another one
    replays: bool = False  # it repeats what another conversation was given: it may read, and has no effect
    offered: "OfferedTools | None" = field(default=None, compare=False)  # None: it is offered whatever it may call

    @property
    def tier(self) -> Tier:
        return tier_of(self.folder)

    @property
    def lane(self) -> str:
        """The caller's lane of the store's writer. Writes of one caller keep their order, and hardly delay those of
        others."""
        return self.session_id or self.folder


class ReachableRoom(Struct, frozen=True):
    """A room that a call may reach, and the thread in it."""

    instance: str
    address: str
    thread: str = ""
    folder: str = ""  # the group through which it is reached, if not the caller's own


class ChannelCapabilities(Protocol):
    """The abilities of this gateway's channels."""

    def get_kind(self, instance: str) -> ChannelKind: ...

    def explain_reaction(self, instance: str, address: str, reaction: str) -> str: ...

    def add_server(self, instance: str, inbound: Inbound) -> Inbound: ...


class BranchRenamer(Protocol):
    """Names the branch of the worktree that a session works in."""

    async def rename(self, session_id: str, name: str) -> str: ...


class ProgramRunner(Protocol):
    """Runs programs of the operator within walls."""

    async def pipe(self, folder: str, command: Sequence[str], given: bytes, largest: int, limit_s: float) -> bytes:
        """Return what the program writes after it has read `given`."""
        ...


class TopicForker(Protocol):
    """Makes conversations that go on with what another one knows."""

    async def fork_topic(self, call: "ToolCall", parent_id: str, topic: str, *, force: bool) -> ForkedSession: ...

    async def copy_session(self, call: "ToolCall", parent_id: str, title: str) -> ForkedSession:
        """Into a managed agent of its own."""
        ...


class ReplayWish(Struct, frozen=True, kw_only=True):
    """Changes in a replay; '' and nothing: as it is. `skills`: SKILL.md by the name of the skill. `turns`: the newest
    so many."""

    provider: str = ""
    model: str = ""
    agents_md: str = ""
    skills: Mapping[str, str] = {}
    turns: int = 20


class ReplayStarter(Protocol):
    """Gives the messages of a conversation to a new one."""

    async def replay_session(self, call: "ToolCall", source_id: str, wish: ReplayWish) -> StartedReplay: ...


class RoomWriter(Protocol):
    """Writes down what goes to a room, and has it delivered."""

    async def __call__(self, instance: str, address: str, fn: Callable[[Db], T], *, lane: str = "") -> T: ...


class CallHolder(Protocol):
    """Holds a call until a person has decided."""

    def find_quorum(self, held: "HeldCall") -> int:
        """How many people must agree to such a call."""

    async def hold(self, call: "ToolCall", held: "HeldCall") -> str:
        """Ask for a decision and return the id of the request. Asked again, it is the same request."""
        ...


class HostAsker(Protocol):
    """Asks people about hosts that no rule speaks of, where a group's options say so. A target is `host:port`."""

    async def is_allowed(self, caller: "Caller", target: str) -> bool:
        """Return True if somebody allowed it for this session."""
        ...

    async def ask(self, caller: "Caller", target: str, *, tool: str = "", why: str = "") -> str:
        """Return what the agent is told; '' if nobody is asked."""
        ...


class WebPage(Struct, frozen=True, kw_only=True):
    """The thing that stands at an address. `picture`: its type, if it is one, and then the bytes. `problem`: why there
    is no text. `cut`: it goes on, and what follows was not read."""

    url: str  # that answered, after redirects
    code: int  # of HTTP
    media_type: str
    title: str = ""
    text: str = ""
    picture: str = ""
    data: bytes = b""
    problem: str = ""
    cut: bool = False


class PageFetcher(Protocol):
    """Reads pages over the caller's own way out."""

    async def fetch(self, caller: "Caller", url: str, *, kept: bool) -> WebPage:
        """`kept`: the text of a moment ago will do. Raises Refused, Unavailable."""
        ...


class FoundPage(Struct, frozen=True):
    title: str
    url: str
    snippet: str


class PageSearcher(Protocol):
    """Asks the operator's search service."""

    async def search(self, caller: "Caller", turn_id: str | None, query: str, most: int) -> Sequence[FoundPage]: ...


class MeaningFinder(Protocol):
    """Asks the operator's endpoint for embeddings."""

    @property
    def least(self) -> float:
        """How near an entry must be to what is asked."""
        ...

    async def find(self, folder: str, session_id: str, turn_id: str | None, words: str) -> Meaning | None:
        """Return what words mean; None if nobody can say that soon."""
        ...


class QuestionAsker(Protocol):
    """Asks the people of a conversation."""

    async def ask(self, call: "ToolCall", asked: Mapping[str, Any], expire_s: float | None) -> Request:
        """Ask, and wait a while. The request as it stands then; what was asked before is one request."""
        ...


class HeldCall(Struct, frozen=True, kw_only=True):
    """A call as a person sees it, and as it will run."""

    arguments: Mapping[str, Any]
    about: str  # the tool and what it is done to: what an answer for the whole session speaks of
    why: str
    rule: str  # that lets such calls through from then on, '' if there is none
    rooms: Mapping[str, str] = {}  # by parameter: the channel instance of the room that it names
    quorums: tuple[int, ...] = ()  # how many must agree, by each rule that holds it; 0: as the gateway says
    preview: str = ""  # what it would change, as markdown of ours
    bound: BoundReads = BoundReads()  # what it reads besides its arguments


class CatalogEntry(Struct, frozen=True):
    """A tool as an agent is told of it."""

    name: str
    group: str
    description: str
    schema: Mapping[str, Any]
    core: bool


class ToolCatalog(Protocol):
    """Everything that a caller may call."""

    def list_entries(self) -> Sequence[CatalogEntry]: ...

    def find(self, words: Sequence[str]) -> Sequence[CatalogEntry]:
        """Return the tools that fit these words best. It may take a while: call it in a thread."""
        ...


class ToolDeps(Struct, frozen=True, kw_only=True):
    """Parts that tools work with: given once by the app."""

    store: Store
    clock: Clock
    config: Config
    home: Home
    events: EventBus
    channels: ChannelCapabilities
    writes_to: RoomWriter | None = None  # None: nothing is delivered in this process; a room is only rung
    adapters: Mapping[str, Channel] = msgspec.field(default_factory=dict)  # by instance: those that run in this process
    worktrees: BranchRenamer | None = None  # None: no sandbox runs in this process
    programs: ProgramRunner | None = None  # the same
    forker: TopicForker | None = None  # the same
    replayer: ReplayStarter | None = None  # the same
    holder: CallHolder | None = None  # None: nobody can be asked in this process
    host_asker: HostAsker | None = None  # the same for hosts
    questions: QuestionAsker | None = None  # the same
    pages: PageFetcher | None = None  # None: nothing of the web is reached from this process
    searcher: PageSearcher | None = None  # the same
    meanings: MeaningFinder | None = None  # None: words alone recall
    search_by_tool: "Callable[[ToolCall, str], Awaitable[str]] | None" = None  # of an MCP server, if it is that
    may_act: FenceCheck = always
    shared: bool = False  # other gateways change rules in the same store
    passing: FilePassing | None = None  # of files to other gateways; None: there are none
    threads: FairThreadPool = msgspec.field(
        default_factory=FairThreadPool
    )  # for work on files, shared fairly between sessions


def _allow_all(folder: str) -> bool:
    return True


def _allow_none(folder: str) -> bool:
    return False


class ToolCall(msgspec.Struct, kw_only=True):  # made for every call: three times as quick as a dataclass
    """One use of a tool, as the gate let it through."""

    deps: ToolDeps
    tool: str
    caller: Caller
    turn: Turn | None
    key: str  # the identity of what this call brings about
    now: int
    record: Callable[[], audit.AuditRecord]  # made where it is written, off the way of the answer
    progress: Progress
    to: ReachableRoom | None = None
    also: dict[str, ReachableRoom] = {}  # by parameter: the rooms of `also_scoped_by`
    allows: Callable[[str], bool] = _allow_all  # whether rules let this call be about that group, too
    allows_across: Callable[[str], bool] = _allow_none  # the same for a group of its world that is not below it
    approved: Request | None = None  # a person let it through; what it brings about settles that
    identity: CallIdentity | None = None  # in a turn: written with its first row, so that a repeated call is known
    recorded: bool = False
    catalog: ToolCatalog | None = None
    _row: str = ""  # the chain's head with the call's audit row, once that was appended

    @property
    def place(self) -> ReachableRoom:
        """The room of the call; only a tool that is scoped by a room has one."""
        if self.to is None:
            raise Invalid("chatJid", "no room is known for this call; name one")
        return self.to

    async def write(self, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        """Run `fn` in a durable transaction; the first one also holds the call's audit row."""
        answer = await self.deps.store.write(self._with_record(_bind_args(fn, args)), lane=self.caller.lane)
        self.recorded = True
        return answer

    async def write_to_room(self, fn: Callable[[Db], T]) -> T:
        """The same for what goes to the call's room, which is delivered once it is committed."""
        place, recorded = self.place, self._with_record(fn)
        if self.deps.writes_to is not None:
            answer = await self.deps.writes_to(place.instance, place.address, recorded, lane=self.caller.lane)
        else:
            try:
                answer = await self.deps.store.write(recorded, lane=self.caller.lane)
            finally:  # also when we were cancelled meanwhile: the rows may be there
                self.deps.events.room(place.instance, place.address)
        self.recorded = True
        return answer

    def _with_record(self, fn: Callable[[Db], T]) -> Callable[[Db], T]:
        if self.recorded:
            return fn

        def recorded(db: Db) -> T:
            answer = fn(db)
            self._append(db)
            return answer

        recorded.__dict__["__wrapped__"] = fn  # a unit that takes long is logged under this name
        return recorded

    def _append(self, db: Db) -> None:
        self._row = audit.append(db, self.record())
        if self.identity is not None:
            tool_calls.record_start(db, self.identity)
        if self.approved is not None and not requests.settle(db, self.approved.id, self.now):
            raise Refused(self.caller.folder, self.tool, self.approved.id, "it was done before")

    def is_committed(self, db: Db) -> bool:
        """Return True if its effect and its row are there, whoever waited for them. To be asked in a transaction:
        whatever the call had under way when it was cancelled is committed before that in its lane, or never."""
        seq, _, chained = self._row.partition(":")
        return bool(seq) and audit.continues_from(db, int(seq), chained, db.gateway)

    def chain(self, db: Db) -> OriginChain:
        """Everybody on whose behalf this call is made: of its turn, or of the session's last one. For a tool that gives
        work to an agent; Refused, if too many steps lie behind it already."""
        session_id = self.caller.session_id
        if self.turn is not None:
            found = origins.get_for_turn(db, self.turn.id)
        else:
            found = origins.get_for_session(db, session_id) if session_id is not None else OriginChain()
        origins.check_limits(found, self.caller.folder, self.tool, self.deps.config[CHAIN_DEPTH])
        return found

    def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts) -> Awaitable[T]:
        """Everybody's reads share two threads: what would hold one for long is given up."""
        return self.deps.store.read(fn, *args, within=READ_S, lane=self.caller.lane)

    def check_contact(self) -> None:
        """Right before an effect outside the store. Raises Unavailable if this gateway may have none now."""
        check_contact(self.deps.may_act)

    async def note(self) -> None:
        """For an effect outside the store: it is written down, durably, before it happens."""
        if not self.recorded:
            await self.deps.store.write(self._append, lane=self.caller.lane)
            self.recorded = True

    async def in_thread(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """For work that takes long: it holds up the caller's own calls at most."""
        return await self.deps.threads.run(self.caller.session_id or self.caller.folder, fn, *args)

    async def run_audited(self, fn: Callable[[], T]) -> T:
        """The same with the effect, which runs in a thread: whoever cancels the call does not part the two."""

        async def both() -> T:
            await self.note()
            return await self.in_thread(fn)

        return await run_to_completion(both())


def _bind_args(fn: Callable[[Db, *Ts], T], args: tuple[*Ts]) -> Callable[[Db], T]:
    if not args:
        return fn

    def unit(db: Db) -> T:
        return fn(db, *args)

    unit.__dict__["__wrapped__"] = fn
    return unit


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end. A caller that is cancelled meanwhile gets the cancellation when it is over, with the work's
    error as the cause."""
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and not task.cancelled():
        raise cancelled from task.exception()
    return task.result()
