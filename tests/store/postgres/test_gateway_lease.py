"""When a gateway renews its lease and looks at those of others."""

import msgspec
import pytest

from gatepost.core.clock import SECOND
from gatepost.core.keeper_process import read_clock
from gatepost.store import gateways
from gatepost.store.gateways import GatewayIdentity, GatewayRow
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.gateway_lease import BEAT_S, LEASE_S, LEAST_S, GatewayLease, choose_pause
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.seen_leases import SILENT_S, SeenLeases
from gatepost.testing.empty_database import EmptyDatabase

NOON = 1_800_000_000_000_000


@pytest.mark.parametrize(
    ("ends", "pause"),
    [
        ([], BEAT_S),
        ([4 * SECOND], BEAT_S),
        ([SECOND], 1 + LEAST_S),
        ([SECOND, SECOND // 2], 0.5 + LEAST_S),
        ([0], LEAST_S),
        ([-1], BEAT_S),
        ([-1, SECOND], 1 + LEAST_S),
    ],
)
def test_the_next_beat_comes_when_the_lease_of_another_ends(ends: list[int], pause: float) -> None:
    assert choose_pause([NOON + each for each in ends], NOON) == pytest.approx(pause)


def begin(url: str, name: str) -> GatewayLease:
    lease = GatewayLease(
        url, GatewayIdentity(name=name, home=f"home of {name}", host="host", version="1", schema_number=48)
    )
    lease.begin()
    return lease


def list_rows(url: str) -> dict[str, GatewayRow]:
    with open_connection(url) as opened:
        return {each.name: each for each in gateways.list_present(PostgresDb(opened.pgconn))}


def move_leases(url: str, by_s: float) -> None:
    """As it looks when somebody has set the database's clock by that much in the other direction."""
    with open_connection(url) as opened:
        PostgresDb(opened.pgconn).run("UPDATE gateways SET until = until + ?", (int(by_s * SECOND),))


def test_when_the_databases_clock_is_set_forward_nobody_who_renews_is_overdue(emptied: EmptyDatabase) -> None:
    first, second = begin(emptied.url, "a"), begin(emptied.url, "b")
    second.beat()
    move_leases(emptied.url, -3600)
    second.beat()
    assert list_rows(emptied.url)["a"].until < list_rows(emptied.url)["b"].until - 3000 * SECOND
    assert second.overdue == ()
    first.beat()
    second.beat()
    assert second.overdue == ()


def test_when_the_databases_clock_is_set_back_a_dead_gateway_does_not_live_on(emptied: EmptyDatabase) -> None:
    begin(emptied.url, "a")
    second = begin(emptied.url, "b")
    move_leases(emptied.url, 3600)
    second.beat()
    found = list_rows(emptied.url)
    assert found["a"].until <= found["b"].until
    assert second.pause == BEAT_S


def test_a_lease_that_nobody_renews_is_silent_and_a_renewed_one_is_not(emptied: EmptyDatabase) -> None:
    begin(emptied.url, "a")
    row = list_rows(emptied.url)["a"]
    begun = now = read_clock()
    seen = SeenLeases(lambda: now)
    assert not seen.is_silent(row)
    seen.set_seen([row])
    now = begun + SILENT_S
    seen.set_seen([row])
    assert seen.is_silent(row)
    renewed = msgspec.structs.replace(row, until=row.until + 1)
    seen.set_seen([renewed])
    assert not seen.is_silent(renewed) and not seen.is_silent(row)
    assert BEAT_S * 2 <= SILENT_S <= LEASE_S - BEAT_S  # who lives renews within it, and it delays no takeover
