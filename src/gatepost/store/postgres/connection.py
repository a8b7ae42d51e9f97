"""Connections to PostgreSQL: how they are made, what each is told, and several statements in one round trip.

Nothing here shows a password: errors name host, port and database.
"""

import re
import select
import time
from collections.abc import Sequence

import psycopg
from psycopg import Error, conninfo, errors, pq

from gatepost.core.errors import SetupError, did_you_mean
from gatepost.store.engine.place import WRITE

CONNECT_S = 5
LOCK_MS, IDLE_MS, TCP_MS = 2000, 3000, 3000
LAST_PORT = 65535
TLS_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_UNKNOWN_OPTION = re.compile(r'invalid URI query parameter: "(\w{1,40})"')
OLDEST = 130_000  # the first version with everything that is used here
Statement = tuple[bytes, list[bytes | None]]  # the name of a prepared one, and its values
_BINARY = pq.Format.BINARY


def open_connection(url: str, name: str = "gatepost", *, statement_ms: int = 0) -> psycopg.Connection:
    """Every statement on it commits by itself. `psycopg.OperationalError` if there is none to be had."""
    connection = psycopg.connect(
        url,
        autocommit=True,
        application_name=name,
        client_encoding="UTF8",
        connect_timeout=CONNECT_S,
        keepalives=1,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=2,
        tcp_user_timeout=TCP_MS,
    )
    # Not as options of the connection, which a pooler refuses.
    set_up = (
        f"SET lock_timeout = {LOCK_MS}; SET idle_in_transaction_session_timeout = {IDLE_MS};"
        f" SET statement_timeout = {statement_ms}; SET client_min_messages = warning;"
        " SET timezone = 'UTC'; SET standard_conforming_strings = on; SET bytea_output = 'hex'"
    )
    try:
        _execute_soon(connection.pgconn, set_up.encode())
    except psycopg.Error:
        connection.close()
        raise
    return connection


def _execute_soon(connection: pq.abc.PGconn, sql: bytes) -> None:
    """Commands that the server has nothing to wait for. One that does not answer is of no use."""
    connection.send_query(sql)
    connection.flush()
    answers, until = select.poll(), time.monotonic() + CONNECT_S
    answers.register(connection.socket, select.POLLIN)
    while True:
        while connection.is_busy():
            if not answers.poll(max(0.0, until - time.monotonic()) * 1000):
                raise psycopg.OperationalError("the server let us in and does not answer")
            connection.consume_input()
        result = connection.get_result()
        if result is None:
            return
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise errors.error_from_result(result)


def render_application(gateway: str) -> str:
    """How the connections of a gateway are known to the server, each with a word of its own behind it."""
    return f"gatepost/{gateway}" if gateway else "gatepost"


def render_place(url: str) -> str:
    """Host, port and database, for people: never the password."""
    given = conninfo.conninfo_to_dict(url)
    host, port = given.get("host") or "the local socket", given.get("port") or 5432
    return f"database {given.get('dbname') or given.get('user') or '?'} on {host}, port {port}"


def check_url(url: str) -> None:
    """Check the address for errors that no server could make good. The message repeats no part that may hold a
    password."""
    try:
        given = conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        option = _UNKNOWN_OPTION.search(str(error))
        if option is not None:
            names = (each.keyword.decode() for each in pq.Conninfo.get_defaults())
            raise SetupError(f"store.url has an unknown option {option[1]!r}{did_you_mean(option[1], names)}") from None
        raise SetupError(f"store.url cannot be read; {WRITE}") from None
    for port in str(given.get("port") or "").split(","):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= LAST_PORT):
            raise SetupError(f"store.url has no port in the place of one: {port[:20]!r} is no number up to 65535")
    mode = given.get("sslmode")
    if mode is not None and mode not in TLS_MODES:
        raise SetupError(f"store.url says sslmode={mode}; it can be {', '.join(TLS_MODES)}")


def is_usable(connection: pq.abc.PGconn) -> bool:
    return connection.status == pq.ConnStatus.OK


def read_settings(connection: psycopg.Connection, names: Sequence[str]) -> dict[str, str]:
    rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", (list(names),)).fetchall()
    return {str(name): str(value) for name, value in rows}


def execute_together(connection: pq.abc.PGconn, statements: Sequence[Statement]) -> list[pq.abc.PGresult]:
    """Their results, in order. The first that fails is the last: what stands behind it is not run."""
    connection.enter_pipeline_mode()
    found: list[pq.abc.PGresult] = []
    try:
        for name, values in statements:
            connection.send_query_prepared(name, values, [_BINARY] * len(values), _BINARY)
        connection.pipeline_sync()
        _flush(connection)
        while True:
            result = _get_result(connection)
            if result is None:
                if connection.status != pq.ConnStatus.OK:
                    break
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            if result.status != pq.ExecStatus.PIPELINE_ABORTED:
                found.append(result)
    finally:
        _leave_pipeline(connection)
    return found


def send_commit(connection: pq.abc.PGconn) -> None:
    """End a transaction that has only read. Nobody waits for the answer: `drop_answer`, before the next statement."""
    connection.send_query(b"COMMIT")
    _flush(connection)


def drop_answer(connection: pq.abc.PGconn) -> None:
    while _get_result(connection) is not None:
        pass


def _flush(connection: pq.abc.PGconn) -> None:
    """Send everything that is queued; psycopg's connections do not wait when they send. Answers that come meanwhile are
    read, so that the two sides do not wait for each other."""
    while connection.flush():
        waiting = select.poll()
        waiting.register(connection.socket, select.POLLIN | select.POLLOUT)
        if any(event & select.POLLIN for _, event in waiting.poll()):
            connection.consume_input()


def _get_result(connection: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """psycopg's own `get_result` waits with the interpreter's lock held: nothing else of the process would go on."""
    if connection.is_busy():
        waiting = select.poll()
        waiting.register(connection.socket, select.POLLIN)
        while connection.is_busy():
            waiting.poll()
            connection.consume_input()
    return connection.get_result()


def _leave_pipeline(connection: pq.abc.PGconn) -> None:
    """One that cannot be left is of no more use."""
    try:
        if connection.status == pq.ConnStatus.OK:
            connection.exit_pipeline_mode()
    except Error:
        connection.finish()
