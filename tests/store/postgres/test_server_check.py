"""What a start says of a database that cannot keep a store. Each case is a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.postgres.database_time import make_database_clock
from gatepost.store.postgres.gateway_lease import GatewayLease
from gatepost.store.postgres.migrate import migrate_postgres
from gatepost.store.postgres.server_check import ServerFacts, check_server, find_unfit, wait_for_server
from gatepost.store.postgres.snapshot import read_postgres_snapshot
from gatepost.store.sessions import groups
from gatepost_testing.servers import pooler
from gatepost_testing.servers.pooler import Pooler, find_pgbouncer
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from gatepost_testing.servers.server_process import find_ports

pytestmark = pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is missing: apt-get install {PACKAGE}")
NOWHERE = "postgresql://ann:hush-hush@127.0.0.1:1/ledger"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as started:
        started.add_database("plain")
        yield started


def check(url: str, *, lanes: int = 4, unsafe: bool = True) -> str:
    """Return what it says; '' if all is well."""
    try:
        check_server(url, lanes=lanes, unsafe=unsafe)
    except SetupError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_a_usual_server_is_fit(server: PostgresServer) -> None:
    assert check(server.url("plain")) == ""


@pytest.mark.slow
def test_a_database_that_stays_away_is_named_without_its_password() -> None:
    lines: list[str] = []
    with pytest.raises(SetupError, match=r"database ledger on 127\.0\.0\.1, port 1 does not let us in") as told:
        wait_for_server(NOWHERE, lines.append, wait_s=2.5)
    assert lines
    assert not any("hush-hush" in text for text in (*lines, str(told.value)))


@pytest.mark.slow
def test_a_database_that_comes_meanwhile_is_waited_for(server: PostgresServer) -> None:
    server.stop()
    wait_for_server(server.url("plain"), lambda line: server.start())
    assert check(server.url("plain")) == ""


@pytest.mark.slow
@pytest.mark.parametrize("url", ["postgresql://postgres@/nowhere", "postgresql://nobody@/plain"])
def test_a_database_or_user_that_is_not_there_is_not_waited_for(server: PostgresServer, url: str) -> None:
    lines: list[str] = []
    with pytest.raises(SetupError, match=r"does not exist; check .* CREATE (DATABASE|ROLE .*) makes it"):
        wait_for_server(f"{url}?host={server.folder}", lines.append)
    assert lines == []


@pytest.fixture(scope="module")
def strict() -> Iterator[str]:
    """The address, without its user, of a server on TCP that asks for a password and knows no TLS."""
    with PostgresServer(port=str(port := find_ports(1)[0])) as server:
        server.stop()
        with Path(server.folder, "data", "postgresql.conf").open("a") as file:
            file.write("listen_addresses = '127.0.0.1'\n")
        Path(server.folder, "data", "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        server.start()
        yield f"127.0.0.1:{port}/plain"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://ann:wrong@{}", "; check user and password in store.url"),
        ("postgresql://ann@{}", "; the server wants one: write it into store.url"),
        ("postgresql://ann:x@{}?sslmode=verify-full", "; turn TLS on there (ssl = on), or write sslmode=disable"),
        ("postgresql://ann:hush@127.0.0.1:five/plain", "'five' is no number up to 65535"),
        ("postgresql://ann:hush@127.0.0.1:65536/plain", "'65536' is no number up to 65535"),
        ("postgresql://ann:hush@{}?sslmod=require", "unknown option 'sslmod'; did you mean 'sslmode'?"),
        ("postgresql://ann:hush@{}?sslmode=sure", "sslmode=sure; it can be disable, allow, prefer, require"),
    ],
)
def test_what_waiting_does_not_mend_is_said_at_once_with_its_way_out(strict: str, url: str, says: str) -> None:
    lines: list[str] = []
    with pytest.raises(SetupError) as told:
        wait_for_server(url.format(strict), lines.append)
    assert says in str(told.value)
    assert lines == [] and "hush" not in str(told.value)


def test_a_database_at_which_a_fenced_gateway_could_write_is_refused() -> None:
    facts = ServerFacts(
        version_num=150_000, version="15", is_standby=False, encoding="UTF8", fsync="on", isolation="serializable"
    )
    assert "could still write" in find_unfit(facts, unsafe=False)
    assert find_unfit(facts, unsafe=True) == ""


def test_fsync_off_is_for_tests_alone(server: PostgresServer) -> None:
    assert "has fsync=off, so a crash of its machine loses messages" in check(server.url("plain"), unsafe=False)


def test_a_version_before_13_is_too_old() -> None:
    facts = ServerFacts(version_num=120_017, version="12.17", is_standby=False, encoding="UTF8", fsync="on")
    assert find_unfit(facts, unsafe=False) == "is PostgreSQL 12.17, which is too old; gatepost needs 13 or newer"


def test_another_encoding_than_utf8_is_refused(server: PostgresServer) -> None:
    server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    assert "database latin on" in (said := check(server.url("latin")))
    assert "is encoded in LATIN1; make one with CREATE DATABASE … ENCODING 'UTF8'" in said


def test_too_few_connections_are_counted_before_they_are_needed(server: PostgresServer) -> None:
    server.execute("CREATE DATABASE small CONNECTION LIMIT 5")
    assert "allows 5 connections, and a gateway needs 10; raise the database's CONNECTION LIMIT" in check(
        server.url("small")
    )
    assert "allows 197 connections, and a gateway needs 306; raise max_connections" in check(
        server.url("plain"), lanes=300
    )


def test_a_user_who_may_make_no_tables_is_told_the_grant(server: PostgresServer) -> None:
    server.execute("CREATE ROLE guest LOGIN")
    server.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", "plain")
    said = check(server.url("plain").replace("postgres@", "guest@"))
    assert "GRANT CREATE, USAGE ON SCHEMA public TO guest" in said


@pytest.mark.slow
def test_a_standby_is_refused() -> None:
    with PostgresServer() as server:
        server.add_database("plain")
        server.stop()
        Path(server.folder, "data", "standby.signal").touch()
        server.start()
        assert "is a standby, which nobody can write to; name the primary in store.url" in check(server.url("plain"))


@pytest.mark.skipif(find_pgbouncer() is None, reason=f"PgBouncer is missing: apt-get install {pooler.PACKAGE}")
@pytest.mark.parametrize(("mode", "trouble"), [("transaction", "is behind a pooler that changes"), ("session", "")])
def test_a_pooler_is_noticed_unless_it_keeps_connections(server: PostgresServer, mode: str, trouble: str) -> None:
    with Pooler(server, "plain", mode) as between:
        said = check(between.url)
    assert trouble in said if trouble else said == "", said


@pytest.mark.skipif(find_pgbouncer() is None, reason=f"PgBouncer is missing: apt-get install {pooler.PACKAGE}")
@pytest.mark.parametrize(("mode", "is_refused"), [("transaction", True), ("session", False)])
def test_a_command_refuses_a_pooler_that_changes_connections(
    server: PostgresServer, mode: str, is_refused: bool
) -> None:
    migrate_postgres(server.add_database(mode), SystemClock())
    with Pooler(server, mode, mode) as between:
        for ask in (
            lambda: make_database_clock(between.url),
            lambda: read_postgres_snapshot(between.url, groups.list_all),
        ):
            if is_refused:
                with pytest.raises(SetupError, match=r"use its session mode, or name the database itself in store.url"):
                    ask()
            else:
                ask()


def test_a_gateway_for_which_there_are_no_connections_left_is_refused_before_it_starts(server: PostgresServer) -> None:
    url = server.add_database("many")
    migrate_postgres(url, SystemClock())
    server.execute("ALTER DATABASE many CONNECTION LIMIT 20")

    def begin(name: str) -> GatewayLease:
        own = GatewayIdentity(name=name, home=name, host="host", version="1", schema_number=50, connections=8)
        lease = GatewayLease(url, own)
        lease.begin()
        return lease

    for name in "ab":
        begin(name)
    with pytest.raises(
        SetupError, match=r"20 connections for gateways, 2 that run use up to 16 .* raise the database's"
    ):
        begin("c")
    server.execute("UPDATE gateways SET until = 0 WHERE name = 'a'", "many")
    begin("c")
