"""Gateways that share a store: their lives, their sessions, their duties."""

import pytest

from gatepost.core.errors import SetupError
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayState
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions

NOON, LEASE = 1_800_000_000_000_000, 6_000_000


def identity(name: str, home: str = "") -> GatewayIdentity:
    return GatewayIdentity(name=name, home=home or f"home of {name}", host="host", version="1", schema_number=48)


def begin(db: Db, name: str, now: int = NOON, *, home: str = "", least: int = 1) -> int:
    return gateways.register(db, identity(name, home), LEASE, least, now)


def test_each_life_has_a_higher_epoch(db: Db) -> None:
    assert [begin(db, "a", NOON + at) for at in range(3)] == [1, 2, 3]


def test_a_restored_database_gives_an_epoch_beyond_the_one_that_was_in_use(db: Db) -> None:
    begin(db, "a")
    assert begin(db, "a", least=9) == 9


def test_the_name_of_a_living_gateway_on_another_home_is_refused(db: Db) -> None:
    begin(db, "a")
    with pytest.raises(SetupError, match=r"a gateway named 'a' lives on host; give this one another name"):
        begin(db, "a", NOON + LEASE - 1, home="another")
    assert begin(db, "a", NOON + LEASE, home="another") == 2


def test_a_life_that_is_over_cannot_be_renewed(db: Db) -> None:
    epoch = begin(db, "a")
    assert gateways.renew(db, "a", epoch, NOON + 2 * LEASE)
    assert gateways.end_life(db, "a", epoch)
    assert not gateways.renew(db, "a", epoch, NOON + 3 * LEASE)
    assert not gateways.end_life(db, "a", epoch)  # somebody else was first
    found = gateways.get(db, "a")
    assert found is not None and found.state is GatewayState.GONE


def test_who_has_not_left_is_present_whatever_its_lease_says(db: Db) -> None:
    begin(db, "a")
    begin(db, "b", NOON + 1)
    gone = begin(db, "c")
    gateways.end_life(db, "c", gone)
    assert [each.name for each in gateways.list_present(db)] == ["a", "b"]


def test_no_lease_lasts_longer_than_leases_do(db: Db) -> None:
    begin(db, "a")
    begin(db, "b", NOON + 600 * LEASE)  # the clock was set back since
    assert gateways.shorten_leases(db, NOON + LEASE) == 1
    assert [each.until for each in gateways.list_present(db)] == [NOON + LEASE] * 2


def test_a_session_is_run_by_one_gateway(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    own = sessions.find_or_add(db, sessions.SessionMode.SHARED, "acme", "fake", "fake:room/1", "", NOON).id
    assert gateways.claim_session(db, own, "a")
    assert gateways.claim_session(db, own, "a")  # it has it already
    assert not gateways.claim_session(db, own, "b")
    gateways.release_session(db, own, "b")  # not b's to give away
    assert not gateways.claim_session(db, own, "b")
    assert gateways.release_sessions(db, "a") == [own]
    assert gateways.claim_session(db, own, "b")


def test_a_duty_is_one_gateways_until_it_is_released(db: Db) -> None:
    assert gateways.claim_duties(db, ["schedule", "channel/web"], "a", NOON) == {"schedule", "channel/web"}
    assert gateways.claim_duties(db, ["schedule", "retention"], "b", NOON) == {"retention"}
    gateways.release_duties(db, "a", NOON)
    assert gateways.claim_duties(db, ["schedule"], "b", NOON) == {"schedule", "retention"}
    assert gateways.list_duties(db) == {"channel/web": "", "retention": "b", "schedule": "b"}


def test_only_a_gateway_that_is_gone_can_be_forgotten(db: Db) -> None:
    epoch = begin(db, "a")
    assert not gateways.remove(db, "a")
    gateways.end_life(db, "a", epoch)
    assert gateways.remove(db, "a")
    assert gateways.list_all(db) == []


def test_a_duty_that_is_given_up_says_who_pauses_and_how_it_went(db: Db) -> None:
    gateways.claim_duties(db, ["channel/x"], "a", NOON)
    health = '{"state":"retrying"}'
    paused = gateways.encode_duty({"a": gateways.DutyPause(NOON, NOON + 9, 1)}).decode()
    gateways.set_duty_health(db, "channel/x", "b", health, "")  # not b's to tell
    assert gateways.list_duty_rows(db)[0].health == ""
    gateways.set_duty_health(db, "channel/x", "a", health, "")
    assert not gateways.release_duty(db, "channel/x", "b", paused, NOON + 1)
    assert gateways.release_duty(db, "channel/x", "a", paused, NOON + 1)
    [row] = gateways.list_duty_rows(db)
    assert (row.gateway, row.since) == ("", NOON + 1)
    assert row.health == health
    assert row.pauses == {"a": gateways.DutyPause(NOON, NOON + 9, 1)}
