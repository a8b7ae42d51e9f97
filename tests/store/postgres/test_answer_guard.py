"""Connections that stay open and silent: whoever waits on one goes on with another."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest

from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.port import Db
from gatepost.store.postgres import connection
from gatepost.store.postgres.gateway_lease import GatewayLease
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.servers.stalling_proxy import StallingProxy
from gatepost_testing.waiting import PATIENCE_S, block_until

ADD = "INSERT INTO trusted_setups (project, digest, trusted_by, trusted_at) VALUES (?, '', '', 0)"


@pytest.fixture
def proxy(emptied: EmptyDatabase) -> Iterator[StallingProxy]:
    with StallingProxy(emptied.url) as started:
        yield started


def add(db: Db, name: str) -> None:
    db.run(ADD, (name,))


def list_added(db: Db) -> list[str]:
    return [row[0] for row in db.rows("SELECT project FROM trusted_setups ORDER BY project")]


async def watch(store: PostgresStore) -> None:
    """As the watchdog does."""
    while True:
        store.interrupt_overdue()
        await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_units_on_silent_connections_are_run_again_on_others(proxy: StallingProxy) -> None:
    store = PostgresStore(proxy.url, unit_s=0.5)
    watching = asyncio.create_task(watch(store))
    try:
        await asyncio.gather(*(store.write(add, f"before {number}") for number in range(8)))
        proxy.stall()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(store.write(add, f"after {number}") for number in range(8)))
            found = await store.read(list_added)
        assert found == [f"{word} {number}" for word in ("after", "before") for number in range(8)]
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await asyncio.to_thread(store.close)


@pytest.mark.slow
def test_a_lease_on_a_silent_connection_is_renewed_on_another(proxy: StallingProxy) -> None:
    identity = GatewayIdentity(name="a", home="home", host="host", version="1", schema_number=48)
    lease = GatewayLease(proxy.url, identity)
    lease.begin()
    lease.start(lambda: None)
    try:
        proxy.stall()
        stalled_at = lease.stops_at
        block_until(lambda: lease.stops_at > stalled_at, "the lease to be renewed")
        assert lease.epoch == 1 and not lease.is_over
    finally:
        lease.stop()


def test_a_server_that_lets_in_and_falls_silent_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        letting_in = threading.Thread(target=let_in, args=(server,))
        letting_in.start()
        with pytest.raises(psycopg.OperationalError, match="does not answer"):
            connection.open_connection(f"postgresql://ann@127.0.0.1:{server.getsockname()[1]}/x?sslmode=disable")
        letting_in.join(PATIENCE_S)


def let_in(server: socket.socket) -> None:
    """Say that all is well, as PostgreSQL does, and then nothing."""
    visitor, _ = server.accept()
    with visitor:
        visitor.recv(4096)
        visitor.sendall(b"R\0\0\0\x08\0\0\0\0" + b"Z\0\0\0\x05I")
        while visitor.recv(4096):
            pass
