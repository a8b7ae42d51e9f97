"""What the doctor says of gateways that share a store."""

import pytest

from gatepost.channels.contract import ChannelState
from gatepost.core.clock import SECOND, iso
from gatepost.flow.gateways.duties import DutyHealth
from gatepost.serve.health.gateway_checks import check_gateways, judge_clock, judge_devices
from gatepost.store.gateways import gateways, group_places
from gatepost.store.gateways.gateways import DutyRow, GatewayIdentity, encode_duty
from gatepost.store.port import Db

NOON, LEASE = 1_800_000_000_000_000, 6_000_000


def make_own(name: str = "a", *, config: str = "", keys: str = "") -> GatewayIdentity:
    return GatewayIdentity(
        name=name, home=name, host="first", version="1", schema_number=49, config_digest=config, key_ids=keys
    )


def test_the_living_are_named_and_the_dead_are_a_warning(db: Db) -> None:
    gateways.register(db, make_own(), LEASE, 1, NOON)
    gateways.register(db, make_own("b", config="timezone 1"), LEASE, 1, NOON)
    gateways.register(db, make_own("c"), LEASE, 1, NOON - 2 * LEASE)

    assert [(each.level, each.text) for each in check_gateways(db, make_own(), NOON, 0)] == [
        ("ok", "a is running on first"),
        ("ok", "b is running on first"),
        ("warn", "c on first is dead, and nobody has taken over from it yet"),
        ("warn", "b: its gatepost.toml differs from this one's in timezone"),
    ]


def test_one_that_is_gone_is_named_until_it_is_forgotten_with_the_groups_that_wait_for_it(db: Db) -> None:
    gateways.register(db, make_own(), LEASE, 1, NOON)
    gateways.register(db, make_own("b"), LEASE, 1, NOON - 2 * LEASE)
    group_places.claim(db, "acme", "b", NOON)
    gateways.end_life(db, "b", 1)

    found = check_gateways(db, make_own(), NOON, 0)
    assert [(each.level, each.text) for each in found] == [
        ("ok", "a is running on first"),
        ("warn", f"b on first is gone since {iso(NOON - LEASE)}"),
        ("warn", "acme waits for gateway b, which is gone: what is written to it is kept"),
    ]
    assert "`gatepost gateway forget b`" in found[1].remedy

    gateways.remove(db, "b")
    assert [each.subject for each in check_gateways(db, make_own(), NOON, 0)] == ["gateways", "groups"]


def test_that_this_gateway_is_down_is_no_trouble_of_the_others(db: Db) -> None:
    gateways.register(db, make_own(), LEASE, 1, NOON)
    gateways.end_life(db, "a", 1)
    assert check_gateways(db, make_own(), NOON, 0) == []


def test_secrets_that_do_not_open_here_are_a_failure(db: Db) -> None:
    db.run(
        "INSERT INTO secrets (scope, name, key_id, nonce, sealed, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        ("", "X", "key-1", b"n", b"s", NOON, NOON),
    )
    [found] = check_gateways(db, make_own(), NOON, 0)
    assert (found.level, found.subject) == ("fail", "keys") and "key-1" in found.text
    assert check_gateways(db, make_own(keys="key-1 -"), NOON, 0) == []


@pytest.mark.parametrize(("offset", "said"), [(600, "600 s behind"), (-600, "600 s ahead of"), (1, "")])
def test_a_clock_that_is_off_is_told_with_its_side(offset: int, said: str) -> None:
    found = [each.text for each in judge_clock(offset * SECOND)]
    assert bool(found) == bool(said)
    assert said in "".join(found)


def test_what_a_takeover_means_for_the_keys_of_a_device_is_said() -> None:
    health = encode_duty(DutyHealth(ChannelState.UP, 1, device=True)).decode()
    row = DutyRow("channel/matrix", "a", 1, health, "")
    [found] = judge_devices([row], 2)
    assert found.text == "matrix keeps the keys of its device on a; for another gateway it is a new device"
    assert list(judge_devices([row], 1)) == []
