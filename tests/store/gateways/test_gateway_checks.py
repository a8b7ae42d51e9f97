"""What gateways on one store must have in common, and what else is told of them."""

import shutil
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.store.gateways.gateway_checks import (
    DRAIN_ASKED,
    check_companions,
    check_rotation,
    find_order,
    join_digest,
    list_differences,
    split_digest,
)
from gatepost.store.gateways.gateway_identity import digest_settings, find_mark, make_identity
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayRow, GatewayState, LeaseRenewal

NOON, LEASE = 1_800_000_000_000_000, 6_000_000


def make_row(
    name: str = "b",
    *,
    keys: str = "",
    schema: int = 49,
    state: GatewayState = GatewayState.RUNNING,
    until: int = NOON + LEASE,
    config: str = "",
    plugins: str = "",
) -> GatewayRow:
    return GatewayRow(
        name=name,
        epoch=1,
        state=state,
        until=until,
        home="its home",
        host="second",
        version="1",
        schema_number=schema,
        listen="",
        capacity=8,
        config_digest=config,
        plugin_digest=plugins,
        key_ids=keys,
        started_at=NOON,
        connections=0,
    )


def make_own(*, keys: str = "", config: str = "", plugins: str = "") -> GatewayIdentity:
    return GatewayIdentity(
        name="a",
        home="h",
        host="first",
        version="1",
        schema_number=49,
        key_ids=keys,
        config_digest=config,
        plugin_digest=plugins,
    )


def keys(*names: str) -> str:
    return join_digest(dict.fromkeys(names, "-"))


def test_a_key_ring_that_lacks_a_key_of_a_living_gateway_keeps_one_from_joining() -> None:
    with pytest.raises(SetupError, match="lacks key-2, which the gateway 'b' on second has") as refused:
        check_companions(make_own(keys=keys("key-1")), [make_row(keys=keys("key-1", "key-2"))], NOON)
    assert "copy keyring.json" in str(refused.value)

    check_companions(make_own(keys=keys("key-1", "key-2")), [make_row(keys=keys("key-1"))], NOON)


@pytest.mark.parametrize(
    "other",
    [
        make_row(schema=48, state=GatewayState.GONE),
        make_row(schema=48, until=NOON - 1),
        make_row("a", schema=48),  # an earlier life of this one
    ],
    ids=["gone", "dead", "itself"],
)
def test_what_does_not_live_keeps_nobody_from_joining(other: GatewayRow) -> None:
    check_companions(make_own(), [other], NOON)


def test_no_key_is_made_while_another_gateway_lives_that_would_not_have_it() -> None:
    with pytest.raises(SetupError, match="gatepost gateway drain b"):
        check_rotation("this home", "", [make_row(keys=keys("k1"))], NOON)
    for other in (make_row(state=GatewayState.GONE), make_row(until=NOON - 1)):
        check_rotation("this home", "", [other], NOON)
    check_rotation("its home", "", [make_row()], NOON)  # this gateway itself


def test_a_key_that_all_have_may_seal_while_they_live() -> None:
    check_rotation("this home", "k2", [make_row(keys=keys("k1", "k2"))], NOON)
    with pytest.raises(SetupError, match=r"'b' on .* lacks k2"):
        check_rotation("this home", "k2", [make_row(keys=keys("k1"))], NOON)


def test_a_living_gateway_of_another_schema_is_named() -> None:
    with pytest.raises(
        SetupError, match=r"gateway 'b' on second \(gatepost 1\) runs with schema 48, this one knows 49"
    ):
        check_companions(make_own(), [make_row(schema=48)], NOON)


def test_a_gateway_whose_schema_was_overtaken_is_to_end() -> None:
    assert find_order(make_own(), LeaseRenewal(GatewayState.RUNNING, 49)) == ""
    assert find_order(make_own(), LeaseRenewal(GatewayState.DRAINING, 49)) == DRAIN_ASKED
    assert "schema 50, this one knows 49" in find_order(make_own(), LeaseRenewal(GatewayState.RUNNING, 50))


def test_what_differs_between_gateways_is_named_and_keeps_nobody_from_joining(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "gatepost.toml").write_text(text)
        return join_digest(digest_settings(tmp_path / "gatepost.toml"))

    ours = digest('timezone = "UTC"\nlisten = ":1"\n[sessions]\nbatch = 3\n[gateway]\nname = "a"\n')
    theirs = digest(
        'timezone = "Asia/Tokyo"\nlisten = ":2"\n[sessions]\nbatch = 3\nwindow = 2\n[gateway]\nname = "b"\n'
    )
    own = make_own(config=ours, plugins="tools/x.py 1", keys=keys("key-1"))
    other = make_row(config=theirs, plugins="tools/x.py 2")

    check_companions(own, [other], NOON)
    assert [(each.gateway, each.what) for each in list_differences(own, [other], NOON)] == [
        ("b", "its gatepost.toml differs from this one's in sessions.window, timezone"),
        ("b", "its plug-ins differ from this one's in tools/x.py"),
        ("b", "its key ring lacks key-1, so it opens no secret that was sealed with it"),
    ]
    assert list(list_differences(own, [make_row(config=theirs, state=GatewayState.GONE)], NOON)) == []


def test_a_gateway_says_of_itself_which_keys_plug_ins_and_settings_it_has(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    ring = Keyring(home, {}).add_key()
    (home.plugins / "tools").mkdir(parents=True, exist_ok=True)
    (home.plugins / "tools" / "own.py").write_text("A = 1\n")
    (home.path / "gatepost.toml").write_text('timezone = "UTC"\n')

    found = make_identity(home, Config(), 49, "127.0.0.1:8420", 8)
    assert (found.listen, found.capacity) == ("127.0.0.1:8420", 8)
    assert list(split_digest(found.key_ids)) == [ring.current]
    assert list(split_digest(found.plugin_digest)) == ["tools/own.py"]
    assert list(split_digest(found.config_digest)) == ["timezone"]
    assert "UTC" not in found.config_digest


def test_a_copied_home_is_another_home(tmp_path: Path) -> None:
    own, copied = Home(tmp_path / "own"), Home(tmp_path / "copied")
    own.prepare()
    mark = find_mark(own)
    assert find_mark(own) == mark
    shutil.copytree(own.path, copied.path)
    assert find_mark(copied) != mark
