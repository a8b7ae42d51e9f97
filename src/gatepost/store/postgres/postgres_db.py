"""A connection as `Db`: prepared statements on libpq itself, which is several times as fast as a cursor."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from psycopg import Error, errors, pq

from gatepost.store import rule_cache
from gatepost.store.port import LockKind, Row
from gatepost.store.postgres.advisory_locks import LockName, TransactionLocks, make_name, make_number
from gatepost.store.postgres.dialect import translate, translate_definition
from gatepost.store.postgres.postgres_full_text import PostgresFullText
from gatepost.store.postgres.upkeep import PostgresUpkeep
from gatepost.store.postgres.values import DECODERS, decode_text, encode

MOST_PREPARED = 2000  # statements that a connection keeps
_GOOD = frozenset({pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK})
_BINARY = pq.Format.BINARY
_LAST_WORDS = frozenset({b"57P01", b"57P02", b"57P03", b"57P05", b"25P03"})  # after which the server hangs up


class PostgresDb:
    full_text = PostgresFullText()

    def __init__(self, connection: pq.abc.PGconn, *, of_writer: bool = False) -> None:
        """`of_writer`: the store has all its tables, so a change of rules renames their state; and somebody calls
        `flush` before each commit, so rows are appended together."""
        self.connection, self._of_writer = connection, of_writer
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._appended: list[tuple[str, Sequence[Any]]] = []
        self._locks = TransactionLocks()

    def alone(self, kind: LockKind, *key: str) -> None:
        if self.connection.transaction_status == pq.TransactionStatus.INTRANS:  # else each statement is by itself
            self._lock(make_name(kind, key))

    def start_unit(self, first: Iterable[LockName] = ()) -> None:
        """A transaction has begun; it takes these locks before all else."""
        self._locks.clear()
        for name in sorted(first):
            self._lock(name)

    def _lock(self, name: LockName) -> None:
        if not (way := self._locks.find_way(name)):
            return
        if self.row(way, (make_number(name),)) == (0,):
            raise self._locks.make_conflict(name)
        self._locks.add(name)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return _decode(self._execute(sql, params))

    def row(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        found = self.rows(sql, params)
        return found[0] if found else None

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        return self._execute(sql, params).command_tuples or 0

    def append(self, insert: str, row: Sequence[Any]) -> None:
        self._appended.append((f"{insert} ({', '.join('?' * len(row))})", row))
        if not self._of_writer:
            self.flush()

    def flush(self) -> None:
        """All that was appended, in one round trip."""
        if not self._appended:
            return
        rows, self._appended = self._appended, []
        if len(rows) == 1:
            self._execute(*rows[0])
            return
        ready = []
        for sql, row in rows:
            types, values = encode(row)
            self._rename_rules(sql)
            ready.append((self._prepare(sql, types), values))
        self._execute_together(ready)

    def discard(self) -> None:
        """Forget what was appended: its transaction was undone."""
        self._appended.clear()

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
        result = self._check(self.connection.exec_(sql))
        return [
            tuple(
                None if (cell := result.get_value(row, place)) is None else cell.decode()
                for place in range(result.nfields)
            )
            for row in range(result.ntuples)
        ]

    def _execute(self, sql: str, params: Sequence[Any]) -> pq.abc.PGresult:
        self._rename_rules(sql)
        types, values = encode(params)
        name = self._prepare(sql, types)
        given = cast("list[bytes]", values)  # libpq takes None for NULL
        return self._check(self.connection.exec_prepared(name, given, [_BINARY] * len(values), _BINARY))

    def _rename_rules(self, sql: str) -> None:
        if self._of_writer and (changed := rule_cache.find_changed_state(sql)) is not None:
            rule_cache.rename_state(self, changed)

    def _prepare(self, sql: str, types: tuple[int, ...]) -> bytes:
        name = self._prepared.get((sql, types))
        if name is None:
            if len(self._prepared) >= MOST_PREPARED:
                self.command(b"DEALLOCATE ALL")
                self._prepared.clear()
            name = b"s%d" % len(self._prepared)
            self._check(self.connection.prepare(name, translate(sql), types))
            self._prepared[sql, types] = name
        return name

    def _execute_together(self, ready: Sequence[tuple[bytes, list[bytes | None]]]) -> None:
        connection = self.connection
        connection.enter_pipeline_mode()
        failed: pq.abc.PGresult | None = None
        try:
            for name, values in ready:
                connection.send_query_prepared(name, values, [_BINARY] * len(values), _BINARY)
            connection.pipeline_sync()
            while True:
                result = connection.get_result()
                if result is None:
                    if connection.status != pq.ConnStatus.OK:
                        break
                    continue
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    break
                if result.status == pq.ExecStatus.FATAL_ERROR and failed is None:
                    failed = result
        finally:
            _leave_pipeline(connection)
        if failed is not None:
            self._check(failed)

    def _check(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status not in _GOOD:
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            # libpq may not have noticed yet that the server has gone, or is about to go.
            if self.connection.status != pq.ConnStatus.OK or state is None or state in _LAST_WORDS:
                text = (result.error_message or b"the connection is gone").decode(errors="replace")
                self.connection.finish()
                raise errors.ConnectionFailure(text)
            raise errors.error_from_result(result)
        return result


def _leave_pipeline(connection: pq.abc.PGconn) -> None:
    """One that cannot be left is of no more use."""
    try:
        if connection.status == pq.ConnStatus.OK:
            connection.exit_pipeline_mode()
    except Error:
        connection.finish()


def _decode(result: pq.abc.PGresult) -> list[Row]:
    count = result.ntuples
    if not count:
        return []
    get = result.get_value
    columns = [(place, DECODERS.get(result.ftype(place), decode_text)) for place in range(result.nfields)]
    return [
        tuple([None if (cell := get(number, place)) is None else load(cell) for place, load in columns])
        for number in range(count)
    ]
