"""The check whether a database can keep a store: asked at a start, answered with one sentence and the way out."""

import time
from collections.abc import Callable

import psycopg
from msgspec import Struct
from psycopg import errors

from gatepost.core.errors import SetupError
from gatepost.store.engine.place import CONNECTIONS_BESIDE
from gatepost.store.port import Db
from gatepost.store.postgres.connection import OLDEST, check_url, open_connection, read_settings, render_place
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.refusals import find_refusal, render_error, render_refusal

WAIT_S = 10.0  # for a database that starts at the same time as we do
EVERY_S = 1.0
COMMANDS = 2  # connections of commands, and of whoever looks at the database by hand
NOTICE_S = 2.0  # for a notification that we send to ourselves
CHANNEL = "gatepost_start"
LOOKS = 3  # for a pooler that gives our backend to somebody else
ISOLATION = "default_transaction_isolation"


class ConnectionLimit(Struct, frozen=True):
    """`most` connections of this kind, without those of other programs. `name`: the setting to raise."""

    name: str
    most: int


def wait_for_server(url: str, say: Callable[[str], None], wait_s: float = WAIT_S) -> None:
    """Return when it answers. `say` gets a line for each second without an answer."""
    check_url(url)
    until = time.monotonic() + wait_s
    while True:
        begun = time.monotonic()
        try:
            open_connection(url, "gatepost start").close()
            return
        except psycopg.OperationalError as error:
            if find_refusal(error) is not None or time.monotonic() + EVERY_S > until:
                raise SetupError(render_refusal(url, error)) from None
            say(f"the {render_place(url)} does not answer, trying again: {render_error(error)}")
            time.sleep(max(0.0, EVERY_S - (time.monotonic() - begun)))


def check_server(url: str, *, lanes: int, unsafe: bool) -> None:
    place = render_place(url)
    check_url(url)
    try:
        with open_connection(url, "gatepost start") as connection, open_connection(url, "gatepost start") as second:
            trouble = (
                find_unfit(_read_facts(connection), unsafe=unsafe)
                or _find_pooler(connection, second)
                or _find_few_connections(connection, lanes)
                or _find_missing_right(connection)
            )
            if trouble:
                raise SetupError(f"the {place} {trouble}")
    except psycopg.OperationalError as error:
        raise SetupError(render_refusal(url, error)) from None


class ServerFacts(Struct, frozen=True, kw_only=True):
    version_num: int
    version: str
    is_standby: bool
    encoding: str
    fsync: str
    isolation: str = "read committed"  # of transactions that name none


def _read_facts(connection: psycopg.Connection) -> ServerFacts:
    said = read_settings(connection, ("server_version_num", "server_version", "fsync", ISOLATION))
    encoding = "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()"
    return ServerFacts(
        version_num=int(said["server_version_num"]),
        version=said["server_version"],
        is_standby=bool(_ask(connection, "SELECT pg_is_in_recovery()")),
        encoding=str(_ask(connection, encoding)),
        fsync=said["fsync"],
        isolation=said[ISOLATION],
    )


def find_unfit(server: ServerFacts, *, unsafe: bool) -> str:
    """Return what is wrong with it, and the way out; '' if nothing."""
    if server.version_num < OLDEST:
        return f"is PostgreSQL {server.version}, which is too old; gatepost needs 13 or newer"
    if server.is_standby:
        return "is a standby, which nobody can write to; name the primary in store.url"
    if server.encoding != "UTF8":
        return f"is encoded in {server.encoding}; make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
    if server.fsync == "off" and not unsafe:
        return "has fsync=off, so a crash of its machine loses messages; set fsync=on (for tests: --unsafe)"
    if server.isolation != "read committed" and not unsafe:
        # A transaction that sees the store as it was before it got its gateway's lock would write after a takeover.
        return (
            f"has {ISOLATION}={server.isolation}, at which a gateway that was taken over from could still write; set it"
            " to 'read committed' for this database or user"
        )
    return ""


def _find_few_connections(connection: psycopg.Connection, lanes: int) -> str:
    """Return what the server lets in, the database, the user; each may have a limit of its own."""
    wanted = lanes + CONNECTIONS_BESIDE + COMMANDS
    found = min(read_limits(PostgresDb(connection.pgconn)), key=lambda each: each.most, default=None)
    if found is None or found.most >= wanted:
        return ""
    return f"allows {found.most} connections, and a gateway needs {wanted}; raise {found.name} or lower store.lanes"


def _find_missing_right(connection: psycopg.Connection) -> str:
    schema = _ask(connection, "SELECT current_schema()")
    if schema is None:
        return "has no schema to make tables in; CREATE SCHEMA public, or set search_path for this user"
    if not _ask(connection, "SELECT has_schema_privilege(current_schema(), 'CREATE')"):
        user = _ask(connection, "SELECT current_user")
        return f"lets nobody but its owner make tables; GRANT CREATE, USAGE ON SCHEMA {schema} TO {user}"
    return ""


def check_pooler(url: str, connection: psycopg.Connection) -> None:
    """Raise SetupError if this connection changes between transactions. A pooler gives out other numbers than those of
    the server's processes; where there is none, nothing more is asked."""
    if _ask(connection, "SELECT pg_backend_pid()") == connection.pgconn.backend_pid:
        return
    with open_connection(url, "gatepost command") as second:
        if trouble := _find_pooler(connection, second):
            raise SetupError(f"the {render_place(url)} {trouble}")


def _find_pooler(connection: psycopg.Connection, second: psycopg.Connection) -> str:
    """Return the trouble with a pooler that changes connections between transactions; '' if there is none. Such a
    pooler may give our backend to somebody else. Its number then changes while another transaction is under way, or
    nobody gets the notices that were listened for."""
    trouble = (
        "is behind a pooler that changes connections between transactions, which breaks locks and notifications;"
        " use its session mode, or name the database itself in store.url"
    )
    try:
        pid = _ask(connection, "SELECT pg_backend_pid()")
        connection.execute(f"LISTEN {CHANNEL}")
        for _ in range(LOOKS):
            with second.transaction():
                second.execute("SELECT 1")  # it may hold what was our backend
                if _ask(connection, "SELECT pg_backend_pid()") != pid:
                    return trouble
        word = f"{pid}"
        second.execute("SELECT pg_notify(%s, %s)", (CHANNEL, word))
        heard = _wait_for_notice(connection, word)
        connection.execute(f"UNLISTEN {CHANNEL}")
    except (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement, errors.FeatureNotSupported):
        return trouble
    return "" if heard else trouble


def _wait_for_notice(connection: psycopg.Connection, word: str) -> bool:
    until = time.monotonic() + NOTICE_S
    while (left := until - time.monotonic()) > 0:
        if any(each.payload == word for each in connection.notifies(timeout=min(left, 0.2), stop_after=1)):
            return True
    return False


def _ask(connection: psycopg.Connection, sql: str) -> object:
    row = connection.execute(sql.encode()).fetchone()
    return row[0] if row else None


def read_limits(db: Db) -> list[ConnectionLimit]:
    """Return how many connections a gateway may have: by the server, and by the database and the user if they say."""
    row = db.row(
        "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        " - COALESCE(current_setting('reserved_connections', true), '0')::int"
        " - (SELECT COUNT(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL AND datid IS NOT NULL"
        " AND NOT starts_with(COALESCE(application_name, ''), 'gatepost'))::int,"
        " (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),"
        " (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)"
    )
    names = ("max_connections", "the database's CONNECTION LIMIT", "the user's CONNECTION LIMIT")
    found = zip(names, row or (), strict=False)
    return [ConnectionLimit(name, int(most)) for name, most in found if name == names[0] or most >= 0]
