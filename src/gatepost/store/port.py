"""The store's port: what entity functions are given (`Db`) and what everybody else calls (`Store`).

Entity functions are plain and synchronous, on a transaction. Callers say `await store.write(fn, …)` and
`await store.read(fn, …)`; there is no await inside a transaction. SQL stands only in this package and in `mailbox/`.

The portable subset: `?` placeholders; times are integer microseconds UTC; cursors are ids; expected conflicts are
`ON CONFLICT`; no LIKE, GLOB or JSON operators.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from gatepost.store.engine.full_text import FullText

from gatepost.store.engine.upkeep import Upkeep

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
F = TypeVar("F", bound=Callable[..., Any])

Row = tuple[Any, ...]

# Whether a database that is away is reported after some seconds. Else it is waited for: a flow of the gateway has
# nothing better to do, but whoever asked over HTTP, or for a tool call, is to be told.
FAILS_SOON: ContextVar[bool] = ContextVar("FAILS_SOON", default=False)


class FailingSoon:
    """Within it, who asks the store is told soon that it is away. A class, not a generator: every tool call has one."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = FAILS_SOON.set(True)

    def __exit__(self, *_: object) -> None:
        FAILS_SOON.reset(self._token)


class LockKind(StrEnum):
    """A thing that a transaction may have to itself. They are taken in this order, so that nobody waits in a circle."""

    DEFAULTS = "defaults"  # the rows of a first start
    RULES = "rules"  # routes as a whole, uids, a panic
    SECRETS = "secrets"  # which key of the ring they need
    ROOM = "room"  # ids of its messages rise in the order of commits; its effects are looked for, then made
    SESSION = "session"  # numbers of its timeline
    QUOTA = "quota"  # what is counted, then added to
    MONEY = "money"
    AUDIT = "audit"  # the head of the chain
    CURSOR = "cursor"  # what a channel keeps, read and then added to


class OutdatedDecision(Exception):
    """Raised by a unit whose statement found that what it had decided by was changed by another meanwhile: it is run
    again. With one writer nobody does."""


class Db(Protocol):
    """One transaction of the store."""

    def lock(self, kind: LockKind, *key: str) -> None:
        """Until this transaction ends nobody else has that key: say it before you look at what you decide by. One that
        is given out of the order may have the unit run again. With one writer there is nothing to do."""
        ...

    def share(self, kind: LockKind) -> None:
        """Nobody has this kind alone until this transaction ends. Others may share it meanwhile."""
        ...

    @property
    def gateway(self) -> str:
        """Which gateway this is, if several may share the store; '' for one by itself, and for commands."""
        ...

    @property
    def full_text(self) -> "FullText":
        """The index over the words of messages."""
        ...

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """All rows: with rows left unread of an UPDATE … RETURNING, COMMIT fails."""
        ...

    def row(self, sql: str, params: Sequence[Any] = ()) -> Row | None: ...

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """How many rows were changed."""
        ...

    def execute_later(self, sql: str, params: Sequence[Any] = ()) -> None:
        """A write of which nobody needs to know how many rows it changed. It is done in its turn, before what follows,
        and may travel with that."""
        ...

    def query_later(self, sql: str, params: Sequence[Any] = ()) -> Callable[[], list[Row]]:
        """Rows that are needed later, if at all: it is done in its turn, before what follows, and may travel with that.
        Call what is returned within the same transaction."""
        ...

    def append(self, insert: str, row: Sequence[Any]) -> None:
        """Insert a row of which nobody needs the id: `insert` ends with VALUES. Rows are written together, in their
        order, before the transaction ends; who reads them within it calls `flush` first."""
        ...

    def flush(self) -> None: ...

    def define(self, ddl: str) -> None:
        """Data definition; `{id}`, `{int}`, `{text}`, `{real}`, `{blob}`, `{strict}` come from the dialect."""
        ...

    def definition(self, name: str) -> str:
        """The text that a table or an index was made by, '' if there is none of that name. For migrations that repair:
        a dialect that keeps no such text says '', and has no store that needs them."""
        ...

    @property
    def upkeep(self) -> Upkeep:
        """Return what the engine's files need besides rows."""
        ...


class Store(Protocol):
    async def write(self, fn: Callable[[Db, *Ts], T], *args: *Ts, durable: bool = True, lane: str = "") -> T:
        """Run `fn` in a transaction and return when it is committed; `durable`: and on the disk.

        `lane`: a session's id, or a room. Units of one lane run in the order in which they were given; lanes take
        turns, so a flood in one hardly delays another. There is no order between lanes but that of waiting.
        """
        ...

    def post(self, fn: Callable[[Db, *Ts], object], *args: *Ts, lane: str) -> None:
        """The same without waiting and without the disk: it is written before what is written after it in its lane."""
        ...

    async def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts, within: float | None = None, lane: str = "") -> T:
        """Run `fn` on one snapshot. `within`: what takes longer than so many seconds fails (Unavailable). `lane`: of
        whom; one that reads much at once waits for itself, and nobody else does."""
        ...

    def rewrite_files(self) -> None:
        """In a thread, while nobody else uses the store: nothing of deleted rows is left in its files."""
        ...

    def truncate_log(self) -> bool:
        """In a thread: the log holds nothing of deleted rows. False: somebody reads what it holds; try again."""
        ...


class OpenStore(Store, Protocol):
    """The store of whoever opened it."""

    @property
    def refused_writes(self) -> int:
        """Units that were not run, because they came after another gateway had taken over from this one."""
        ...

    def find_trouble(self) -> str:
        """Why it cannot be read as a whole, or not be written; '' if it can, as far as is known. A database that is
        away is waited for, and told of elsewhere."""
        ...

    def pop_trouble(self) -> str:
        """Return the last trouble that a write met since this was last asked, although it may be over; '' if none."""
        ...

    def set_unit_timeout(self, seconds: float) -> None:
        """From now on a unit has so long; one that takes longer is undone."""
        ...

    def interrupt_overdue(self) -> None:
        """From another thread, often: end a unit that has had its time."""
        ...

    def stop_waiting(self) -> None:
        """From now on a database that is away is waited for by nobody: the gateway stops."""
        ...

    def close(self) -> str:
        """Write what was accepted and close, within bounds. '' if that is done; else what did not end in time."""
        ...


def inline_read(fn: F) -> F:
    """Mark a read as a look-up by key: SQLite runs it where it is called, which is ten times cheaper than a thread."""
    fn.__dict__["inline_read"] = True
    return fn
