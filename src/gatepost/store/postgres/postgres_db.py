"""A connection as `Db`: prepared statements on libpq itself, which is several times as fast as a cursor."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, cast

from psycopg import errors, pq

from gatepost.store.engine import rule_cache
from gatepost.store.engine.full_text import LOOKED_AT, IndexedText, TextCondition
from gatepost.store.engine.query_tree import parse_query
from gatepost.store.port import Db, LockKind, Row
from gatepost.store.postgres.advisory_locks import (
    SHARE,
    TAKE,
    TRY_SHARE,
    LockName,
    TransactionLocks,
    make_gateway_number,
    make_name,
    make_number,
)
from gatepost.store.postgres.connection import Statement, drop_answer, execute_together, send_commit
from gatepost.store.postgres.dialect import translate, translate_definition
from gatepost.store.postgres.full_text import make_vector, render_exact, render_for_index, render_marks
from gatepost.store.postgres.values import DECODERS, decode_text, encode

MOST_PREPARED = 2000  # statements that a connection keeps
MOST_TOGETHER = 50  # rows that travel with a COMMIT, which no deadline may end
BEGIN, BEGIN_READ, COMMIT = "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "COMMIT"
LIGHT = "SET LOCAL synchronous_commit = off"
WITHIN = "SELECT set_config('statement_timeout', ?, true)"
Columns = list[tuple[int, Callable[[bytes], Any]]]

_GOOD = frozenset({pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK})
_BINARY = pq.Format.BINARY
_LAST_WORDS = frozenset({b"57P01", b"57P02", b"57P03", b"57P05", b"25P03"})  # after which the server hangs up
_MATCHES = "f.words @@ CAST(? AS tsquery)"


class PostgresFullText:
    """Full text on PostgreSQL: a `tsvector` of each message, written with it, and a GIN index over them."""

    source = "search f JOIN messages m ON m.id = f.message_id"
    key = "f.message_id"
    sees_new = False

    def prepare(self, db: Db) -> None:
        """Plan by how frequent the words are that are looked for: what is best for one is a hundred times too slow for
        another."""
        db.row("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")

    def match(self, query: str, marks: Sequence[Sequence[str]]) -> TextCondition:
        given = render_marks(marks)
        if not query:
            return TextCondition(_MATCHES, (" & ".join(given),))
        tree = parse_query(query)
        wanted, exact = render_for_index(tree), render_exact(tree)
        if not exact:
            return TextCondition("FALSE", ())
        found = " & ".join([wanted, *given])
        if wanted == exact:
            return TextCondition(_MATCHES, (found,))
        # As a function it is asked only of rows that the index found.
        return TextCondition(f"{_MATCHES} AND ts_match_vq(f.words, CAST(? AS tsquery))", (found, exact))

    def add(self, db: Db, texts: Sequence[IndexedText]) -> None:
        for each in texts:
            if each.text:
                db.append("INSERT INTO search (message_id, words) VALUES", (each.message_id, make_vector(each)))

    def renew(self, db: Db, message_id: int) -> None:
        db.flush()  # it may be among those that are new
        db.run("DELETE FROM search WHERE message_id = ?", (message_id,))
        row = db.row(
            f"SELECT id, instance, address, sender, substr(text, 1, {LOOKED_AT}) FROM messages WHERE id = ?",
            (message_id,),
        )
        if row is not None:
            self.add(db, [IndexedText(*row)])

    def index(self, db: Db, most: int) -> int:
        """Nothing ever waits."""
        return 0

    def is_behind(self, db: Db) -> bool:
        return False

    def list_unindexed(self, db: Db, most: int) -> list[tuple[int, str]]:
        return []

    def merge(self, db: Db, pages: int) -> bool:
        """The server's own vacuum does it."""
        return False


class Opening:
    """The beginning of a transaction, in one statement: the fence, the first lock, and the state of the rules. Until it
    is sent, it can take a lock and a question along.

    Each statement costs the server and this process, even if it travels with others; nearly every unit has all three.
    """

    def __init__(self, fence: str) -> None:
        """`fence` finds one value at most; without it nothing else is found."""
        self._fence = fence
        self.lock: int | None = None
        self.asks_rules = False

    def render(self) -> tuple[str, tuple[int, ...]]:
        sql = render_opening(self._fence, self.lock is not None, self.asks_rules)
        return sql, () if self.lock is None else (self.lock,)

    def read_rules(self, found: Row) -> list[Row]:
        """As if they were asked for alone."""
        return [found[-2:]] if self.asks_rules and found[-1] is not None else []


@lru_cache(maxsize=256)
def render_opening(fence: str, locks: bool, asks_rules: bool) -> str:
    """The lock is taken behind the fence's lock of its row: so does whoever takes over from a gateway."""
    if not locks and not asks_rules:
        return fence
    columns = ["value", *["pg_advisory_xact_lock(?)"] * locks, *["name, places"] * asks_rules]
    rules = " LEFT JOIN rule_state ON true" if asks_rules else ""
    return f"SELECT {', '.join(columns)} FROM ({fence}) AS fence (value){rules}"


class PostgresUpkeep:
    """Mostly nothing: PostgreSQL does by itself what SQLite's files need from us. Autovacuum uses freed space again,
    and its next ANALYZE replaces the planner's samples of keys."""

    def __init__(self, db: "PostgresDb") -> None:
        self._db = db

    def find_damage(self, table: str = "") -> str:
        return ""

    def can_shrink(self) -> bool:
        return True

    def release_pages(self, pages: int) -> int:
        return 0

    def remove_statistics(self) -> None:
        """Nothing of one person can be taken out of them; the next ANALYZE writes them anew."""

    def get_size(self) -> int:
        row = self._db.row("SELECT pg_database_size(current_database())")
        return int(row[0]) if row else 0

    def get_last_id(self, table: str) -> int:
        row = self._db.row("SELECT pg_sequence_last_value(pg_get_serial_sequence(?, 'id')::regclass)", (table,))
        return int(row[0] or 0) if row else 0

    def copy_to(self, path: Path) -> None:
        """A database has no file here."""


class PostgresDb:
    full_text = PostgresFullText()

    def __init__(self, connection: pq.abc.PGconn, *, of_writer: bool = False, gateway: str = "") -> None:
        """`of_writer`: the store has all its tables, so a change of rules renames their state; and somebody calls
        `flush` before each commit, so rows are appended together."""
        self.connection, self._of_writer, self.gateway = connection, of_writer, gateway
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._columns: dict[bytes, Columns] = {}  # of what the prepared ones find
        self._appended: list[tuple[str, Sequence[Any]]] = []
        self._locks = TransactionLocks()
        self._waiting: list[Statement] = []  # travel with the next one whose answer is needed, before it
        self._answers: dict[int, WaitingAnswer] = {}  # to those of them whose rows are asked for
        self._take: Callable[[Row | None], None] | None = None  # waits for what the fence finds
        self._opening: Opening | None = None  # is one of those that wait
        self._opening_at = 1  # which of them
        self._in_unit = self._unread = False

    def lock(self, kind: LockKind, *key: str) -> None:
        # Else each statement is by itself.
        if self._in_unit or self.connection.transaction_status == pq.TransactionStatus.INTRANS:
            self._lock(make_name(kind, key))

    def share(self, kind: LockKind) -> None:
        if not self._in_unit and self.connection.transaction_status != pq.TransactionStatus.INTRANS:
            return
        name = make_name(kind, ())
        way = self._locks.find_way(name)
        if way == TAKE:
            self.execute_later(SHARE, (make_number(name),))
        elif way and self.row(TRY_SHARE, (make_number(name),)) == (0,):
            raise self._locks.make_conflict(name)
        self._locks.add_shared(name)

    def begin_unit(
        self,
        fence: str,
        take: Callable[[Row | None], None],
        first: Iterable[LockName] = (),
        *,
        durable: bool = True,
    ) -> None:
        """A transaction that begins with its first statement, in the same round trip: `fence` is asked, and `take` gets
        what it found. Then it takes these locks before all else."""
        self._trim_prepared()
        self._locks.clear()
        self._in_unit = True
        self._waiting = [self._make_statement(BEGIN)]
        if self.gateway:  # a statement of its own: what the fence reads must be read after the lock was got
            self._waiting.append(self._make_statement(SHARE, (make_gateway_number(self.gateway),)))
        self._opening_at = len(self._waiting)
        self._waiting.append(self._make_statement(fence))
        self._take, self._opening = take, Opening(fence)
        if not durable:
            self._waiting.append(self._make_statement(LIGHT))
        for name in sorted(first):
            self._lock(name)

    def begin_read(self, within_ms: int = 0) -> None:
        """A transaction on one snapshot, that begins with its first statement. 0: each may take as long as it does."""
        if self._unread:
            self._unread = False
            drop_answer(self.connection)
        self._trim_prepared()
        self._waiting = [self._make_statement(BEGIN_READ)]
        if within_ms:
            self._waiting.append(self._make_statement(WITHIN, (str(within_ms),)))

    def end_read(self) -> None:
        """Nobody waits for its end."""
        self._waiting.clear()
        if self.connection.transaction_status != pq.TransactionStatus.IDLE:
            send_commit(self.connection)
            self._unread = True

    def prepare_commit(self) -> None:
        """Within the time of the unit. Afterwards the server has answered what the transaction began with, so that one
        can ask what became of it; and there is little left to write."""
        if self._take is not None or len(self._waiting) + len(self._appended) > MOST_TOGETHER:
            self.flush()

    def commit(self) -> None:
        """With what was appended, in one round trip."""
        self._move_appended()
        self._waiting.append(self._make_statement(COMMIT))
        self._in_unit = False
        if self._execute_waiting().command_status != COMMIT.encode():
            raise errors.InFailedSqlTransaction("a statement had failed, so nothing was written")

    def _lock(self, name: LockName) -> None:
        if not (way := self._locks.find_way(name)):
            return
        if way == TAKE and self._opening is not None and self._opening.lock is None:
            self._opening.lock = make_number(name)
            self._waiting[self._opening_at] = self._make_statement(*self._opening.render())
        elif way == TAKE:
            self.execute_later(way, (make_number(name),))
        elif self.row(way, (make_number(name),)) == (0,):
            raise self._locks.make_conflict(name)
        self._locks.add(name)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self._decode(*self._execute(sql, params))

    def row(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        found = self.rows(sql, params)
        return found[0] if found else None

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        return self._execute(sql, params)[1].command_tuples or 0

    def execute_later(self, sql: str, params: Sequence[Any] = ()) -> None:
        if self._of_writer:
            self._add_waiting(sql, params)
        else:
            self._execute(sql, params)

    def query_later(self, sql: str, params: Sequence[Any] = ()) -> Callable[[], list[Row]]:
        if not self._of_writer:
            found = self.rows(sql, params)
            return lambda: found
        answer = WaitingAnswer(self._execute_waiting)
        if sql == rule_cache.STATES and self._opening is not None and not self._opening.asks_rules:
            self._opening.asks_rules = True
            self._waiting[self._opening_at] = self._make_statement(*self._opening.render())
            self._answers[self._opening_at] = answer
        else:
            self._add_waiting(sql, params, answer)
        return answer.get_rows

    def _add_waiting(self, sql: str, params: Sequence[Any], answer: "WaitingAnswer | None" = None) -> None:
        if len(self._waiting) >= MOST_TOGETHER:
            self._execute_waiting()
        self._rename_rules(sql)
        self._waiting.append(self._make_statement(sql, params))
        if answer is not None:
            self._answers[len(self._waiting) - 1] = answer

    def append(self, insert: str, row: Sequence[Any]) -> None:
        self._appended.append((f"{insert} ({', '.join('?' * len(row))})", row))
        if not self._of_writer:
            self.flush()

    def flush(self) -> None:
        """All that was appended, in one round trip."""
        self._move_appended()
        if self._waiting:
            self._execute_waiting()

    def _move_appended(self) -> None:
        rows, self._appended = self._appended, []
        for sql, row in rows:
            self._rename_rules(sql)
            self._waiting.append(self._make_statement(sql, row))

    def discard(self) -> None:
        """Forget what was appended and what waits: its transaction was undone."""
        self._appended.clear()
        self._waiting.clear()
        self._answers.clear()
        self._take, self._opening, self._in_unit = None, None, False

    def define(self, ddl: str) -> None:
        self.command(translate_definition(ddl))

    def definition(self, name: str) -> str:
        """PostgreSQL keeps no such text."""
        return ""

    @property
    def upkeep(self) -> PostgresUpkeep:
        return PostgresUpkeep(self)

    def command(self, sql: bytes) -> list[Row]:
        """One or several statements without parameters, in one round trip; the rows of the last one, as text."""
        if self._waiting:
            self._execute_waiting()
        result = self._check(self.connection.exec_(sql))
        return [
            tuple(
                None if (cell := result.get_value(row, place)) is None else cell.decode()
                for place in range(result.nfields)
            )
            for row in range(result.ntuples)
        ]

    def _execute(self, sql: str, params: Sequence[Any]) -> tuple[bytes, pq.abc.PGresult]:
        """The name of the prepared statement, and what it found."""
        self._rename_rules(sql)
        name, values = statement = self._make_statement(sql, params)
        if self._waiting:
            self._waiting.append(statement)
            return name, self._execute_waiting()
        given = cast("list[bytes]", values)  # libpq takes None for NULL
        return name, self._check(self.connection.exec_prepared(name, given, [_BINARY] * len(values), _BINARY))

    def _execute_waiting(self) -> pq.abc.PGresult:
        """The result of the last."""
        waiting, self._waiting = self._waiting, []
        answers, self._answers = self._answers, {}
        opening, self._opening = self._opening, None
        found = execute_together(self.connection, waiting)
        if not found or found[-1].status not in _GOOD or len(found) < len(waiting):
            self._fail(found[-1] if found else None)
        if opening is not None and self._take is not None:
            take, self._take = self._take, None
            at = self._opening_at
            first = next(iter(self._decode(waiting[at][0], found[at])), None)
            take(first)
            if first is not None and (asked := answers.pop(at, None)) is not None:
                asked.rows = opening.read_rules(first)
        for place, answer in answers.items():
            answer.rows = self._decode(waiting[place][0], found[place])
        return found[-1]

    def _rename_rules(self, sql: str) -> None:
        if self._of_writer and (changed := rule_cache.find_changed_state(sql)) is not None:
            rule_cache.rename_state(self, changed)

    def _make_statement(self, sql: str, params: Sequence[Any] = ()) -> Statement:
        types, values = encode(params)
        name = self._prepared.get((sql, types))
        if name is None:
            name = b"s%d" % len(self._prepared)
            self._check(self.connection.prepare(name, translate(sql), types))
            self._prepared[sql, types] = name
        return name, values

    def _trim_prepared(self) -> None:
        """While none of them waits to be run."""
        if len(self._prepared) >= MOST_PREPARED:
            self.command(b"DEALLOCATE ALL")
            self._prepared.clear()
            self._columns.clear()

    def _decode(self, name: bytes, result: pq.abc.PGresult) -> list[Row]:
        """Return what the prepared statement of this name found."""
        count = result.ntuples
        if not count:
            return []
        columns = self._columns.get(name)
        if columns is None:
            columns = self._columns[name] = [
                (place, DECODERS.get(result.ftype(place), decode_text)) for place in range(result.nfields)
            ]
        get = result.get_value
        return [
            tuple([None if (cell := get(number, place)) is None else load(cell) for place, load in columns])
            for number in range(count)
        ]

    def _check(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status not in _GOOD:
            self._fail(result)
        return result

    def _fail(self, result: pq.abc.PGresult | None) -> NoReturn:
        """None: the connection is gone without a word."""
        state = None if result is None else result.error_field(pq.DiagnosticField.SQLSTATE)
        # libpq may not have noticed yet that the server has gone, or is about to go.
        if result is None or self.connection.status != pq.ConnStatus.OK or state is None or state in _LAST_WORDS:
            said = result.error_message if result is not None else b""
            self.connection.finish()
            raise errors.ConnectionFailure((said or b"the connection is gone").decode(errors="replace"))
        raise errors.error_from_result(result)


class WaitingAnswer:
    def __init__(self, execute: Callable[[], object]) -> None:
        self._execute = execute
        self.rows: list[Row] | None = None

    def get_rows(self) -> list[Row]:
        if self.rows is None:
            self._execute()
        assert self.rows is not None  # else it is asked for after its transaction
        return self.rows
