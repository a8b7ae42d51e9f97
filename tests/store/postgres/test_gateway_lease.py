"""When a gateway renews its lease and looks at those of others."""

import msgspec
import pytest

from gatepost.core.clock import SECOND
from gatepost.core.process.keeper_process import read_clock
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayRow
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.gateway_lease import (
    BEAT_S,
    LEASE_S,
    LEAST_S,
    SILENT_S,
    GatewayLease,
    LeaseTimes,
    SeenLeases,
    choose_pause,
)
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost_testing.empty_database import EmptyDatabase


class Holder:
    """A gateway that renews its lease by a clock which the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.times = LeaseTimes(lambda: self.now)
        self.times.renewed(self.now)

    def renew_for(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + BEAT_S)
            self.times.renewed(self.now)

    def may_judge(self, overdue_s: float) -> bool:
        return self.times.find_judging(overdue_s) <= 0


@pytest.mark.parametrize(
    ("waits", "pause"),
    [
        ([], BEAT_S),
        ([4.0], BEAT_S),
        ([1.0], 1 + LEAST_S),
        ([1.0, 0.5], 0.5 + LEAST_S),
        ([0.0], LEAST_S),
        ([float("inf")], BEAT_S),
    ],
)
def test_the_next_beat_comes_when_another_may_be_judged(waits: list[float], pause: float) -> None:
    assert choose_pause(waits) == pytest.approx(pause)


def test_who_was_in_contact_for_a_whole_lease_judges_everybody() -> None:
    holder = Holder()
    holder.renew_for(LEASE_S)
    assert holder.may_judge(0.01) and holder.may_judge(1000.0)


def test_who_has_just_come_judges_nobody_whose_lease_was_over_before() -> None:
    holder = Holder()
    holder.renew_for(LEASE_S - 0.1)
    assert not holder.may_judge(LEASE_S)
    assert holder.times.find_judging(LEASE_S) == pytest.approx(0.1)


def test_who_has_just_come_judges_one_that_let_two_beats_pass_meanwhile() -> None:
    holder = Holder()
    holder.renew_for(4.0)
    assert holder.may_judge(0.5)  # its lease went on for 3.5 seconds
    assert not holder.may_judge(1.5)  # … for 2.5


def test_nobody_is_judged_right_after_a_renewal_that_failed() -> None:
    """The database was away for all: a lease that ended meanwhile, or ends soon, says nothing."""
    holder = Holder()
    holder.renew_for(100.0)
    holder.times.broken()
    assert not holder.may_judge(0.5)
    holder.renew_for(3.0)
    assert not holder.may_judge(0.5) and not holder.may_judge(10.0)
    holder.renew_for(LEASE_S)
    assert holder.may_judge(10.0)


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


@pytest.mark.slow
def test_when_the_databases_clock_is_set_forward_nobody_who_renews_is_overdue(emptied: EmptyDatabase) -> None:
    first, second = begin(emptied.url, "a"), begin(emptied.url, "b")
    second.beat()
    move_leases(emptied.url, -3600)
    second.beat()
    assert list_rows(emptied.url)["a"].until < list_rows(emptied.url)["b"].until - 3000 * SECOND
    assert second.dead == ()
    first.beat()
    second.beat()
    assert second.dead == ()


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
    assert seen.find_silence(row) > 0
    seen.set_seen([row])
    now = begun + SILENT_S
    seen.set_seen([row])
    assert seen.find_silence(row) <= 0
    renewed = msgspec.structs.replace(row, until=row.until + 1)
    seen.set_seen([renewed])
    assert seen.find_silence(renewed) > 0 and seen.find_silence(row) > 0
    assert BEAT_S * 2 <= SILENT_S <= LEASE_S - BEAT_S  # who lives renews within it, and it delays no takeover


def test_an_outage_is_told_once_and_so_is_its_end(emptied: EmptyDatabase, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    lease, there = begin(emptied.url, "a"), emptied.url
    for _ in range(2):
        lease.url = "postgresql://ann@127.0.0.1:1/ledger"
        with open_connection(there) as opened:
            PostgresDb(opened.pgconn).rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%/a lease'"
            )
        for _ in range(3):
            lease.beat()
        lease.url = there
        for _ in range(3):
            lease.beat()
    told = [each.getMessage() for each in caplog.records if each.name == "gateways"]
    assert told == ["the lease cannot be renewed", "the lease is renewed again"] * 2
