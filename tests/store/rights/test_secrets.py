"""Secrets: the nearest holds, what was tampered with is noticed, and a rotation leaves nothing to the old key."""

from pathlib import Path

import pytest

from gatepost.core.clock import SECOND
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.keyring import FILE, Keyring, UnsealError
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.gateways import gateways, incarnations
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner, SecretUse
from gatepost.store.rights.secrets import UNREADABLE_KEPT, KeptSecrets, SecretReader, list_scopes
from gatepost.store.sessions import groups
from gatepost_testing.clock import FixedClock

NOON = 1_800_000_000_000_000
ANN = "fake:user/1"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def keyring(home: Home) -> Keyring:
    return Keyring(home, {})


@pytest.fixture
def filled(db: Db, keyring: Keyring) -> Db:
    """TOKEN for the gateway, a world, an agent in it, and a person; each value names its place."""
    for folder in ("acme", "acme/eng"):
        groups.add(db, folder, folder, "", NOON)
    users.add(db, ANN, "Ann", NOON)
    for place in (SecretOwner(), SecretOwner("acme"), SecretOwner("acme/eng"), SecretOwner(user_id=ANN)):
        secrets.put(db, keyring, place, "TOKEN", f"xyzzy of {place}", NOON)
    return db


@pytest.fixture
def held(filled: Db, store: SqliteStore, keyring: Keyring) -> SecretReader:
    return SecretReader(store, keyring, FixedClock(NOON))


def test_the_nearest_place_is_looked_at_first() -> None:
    assert list_scopes("a/b/c") == ("folder:a/b/c", "folder:a/b", "folder:a", "")
    assert list_scopes("a", ANN) == (f"user:{ANN}", "folder:a", "")
    assert list_scopes("") == ("",)


@pytest.mark.parametrize(
    ("folder", "user", "expected"),
    [
        ("acme/eng/sre", None, "xyzzy of folder acme/eng"),
        ("acme/eng", None, "xyzzy of folder acme/eng"),
        ("acme/sales", None, "xyzzy of folder acme"),
        ("acmes", None, "xyzzy of the gateway"),
        ("root", None, "xyzzy of the gateway"),
        ("acme/eng", ANN, f"xyzzy of user {ANN}"),
        ("acme/eng", "fake:user/2", "xyzzy of folder acme/eng"),
    ],
)
async def test_the_deepest_folder_wins_and_a_person_comes_first(
    held: SecretReader, folder: str, user: str | None, expected: str
) -> None:
    assert await held.get("TOKEN", folder, user) == expected


async def test_a_persons_secret_is_found_by_each_of_her_identities(held: SecretReader, filled: Db) -> None:
    identities.add(filled, "chat:user/7", ANN, "test", NOON)
    hers = await held.get("TOKEN", "acme", ANN)
    assert await held.get("TOKEN", "acme", "chat:user/7") == hers
    identities.remove(filled, "chat:user/7")
    assert await held.get("TOKEN", "acme", "chat:user/7") != hers


async def test_a_secret_that_nobody_has_is_none(held: SecretReader) -> None:
    assert await held.get("OTHER", "acme/eng", ANN) is None


async def test_every_use_is_recorded_without_the_value(held: SecretReader, filled: Db) -> None:
    await held.get("TOKEN", "acme/eng/sre", purpose="api.example.org")
    await held.get("OTHER", "acme", ANN)

    assert secrets.list_uses(filled, 10) == [
        SecretUse(NOON, "OTHER", None, "acme", ANN, "", "missing"),
        SecretUse(NOON, "TOKEN", "folder:acme/eng", "acme/eng/sre", "", "api.example.org", "used"),
    ]
    used = secrets.get(filled, SecretOwner("acme/eng"), "TOKEN")
    assert used is not None and used.used_at == NOON
    assert "xyzzy" not in repr(secrets.list_all(filled))


@pytest.mark.runs_once
async def test_the_record_of_uses_does_not_grow_for_ever(
    held: SecretReader, filled: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "USES_KEPT", 2)
    for number in range(4):
        await held.get("TOKEN", "acme", purpose=str(number))
    assert [use.purpose for use in secrets.list_uses(filled, 10)] == ["3", "2"]


@pytest.mark.parametrize("moved", ["scope", "name"])
async def test_two_rows_swapped_in_the_database_are_noticed(
    held: SecretReader, filled: Db, keyring: Keyring, moved: str
) -> None:
    """The gateway's key in the place of a group's, or one name's value under another's."""
    secrets.put(filled, keyring, SecretOwner(), "OTHER", "xyzzy too", NOON)
    swap = {
        "scope": (("", "TOKEN"), ("folder:acme", "TOKEN")),
        "name": (("", "TOKEN"), ("", "OTHER")),
    }[moved]
    found = [
        filled.row("SELECT key_id, nonce, sealed FROM secrets WHERE scope = ? AND name = ?", each) for each in swap
    ]
    for value, place in zip(reversed(found), swap, strict=True):
        assert value is not None
        filled.run(
            "UPDATE secrets SET key_id = ?, nonce = ?, sealed = ? WHERE scope = ? AND name = ?", (*value, *place)
        )

    for scope, name in swap:
        with pytest.raises(UnsealError, match=rf"the secret {name} of .* cannot be read: it was changed, or moved"):
            await held.get(name, scope.removeprefix("folder:"))
    assert [use.outcome for use in secrets.list_uses(filled, 2)] == ["unreadable", "unreadable"]


async def test_a_near_secret_that_does_not_open_is_not_passed_over_for_a_farther_one(
    held: SecretReader, filled: Db
) -> None:
    filled.run("UPDATE secrets SET sealed = ? WHERE scope = 'folder:acme/eng'", (b"\0",))
    with pytest.raises(UnsealError):
        await held.get("TOKEN", "acme/eng")
    filled.run("UPDATE secrets SET nonce = ? WHERE scope = 'folder:acme/eng'", (b"",))
    with pytest.raises(UnsealError):
        await held.get("TOKEN", "acme/eng")
    assert await held.get("TOKEN", "acme") == "xyzzy of folder acme"


async def test_a_rotation_seals_everything_anew_and_the_old_key_can_be_dropped(
    held: SecretReader, filled: Db, keyring: Keyring
) -> None:
    before = keyring.read()
    assert before is not None

    keyring.add_key()
    key_id, count = secrets.reseal(filled, keyring)

    assert (count, {each.key_id for each in secrets.list_all(filled)}) == (4, {key_id})
    assert key_id != before.current
    assert secrets.list_unused_keys(filled, keyring) == [before.current]
    keyring.remove_keys([before.current])
    assert await held.get("TOKEN", "acme/eng") == "xyzzy of folder acme/eng"
    assert all(each.updated_at == NOON for each in secrets.list_all(filled))


async def test_a_rotation_that_was_cut_off_leaves_every_secret_readable(
    held: SecretReader, store: SqliteStore, filled: Db, keyring: Keyring
) -> None:
    keyring.add_key()

    def cut_off(db: Db) -> None:
        secrets.reseal(db, keyring)
        raise SetupError("the power went")

    with pytest.raises(SetupError, match="the power went"):
        await store.write(cut_off)

    assert secrets.list_unused_keys(filled, keyring) == []  # the old key is in use, the new one current
    assert await held.get("TOKEN", "acme") == "xyzzy of folder acme"


def test_a_secret_that_does_not_open_stops_a_rotation_before_the_ring_is_touched(
    filled: Db, keyring: Keyring, home: Home
) -> None:
    before = (home.path / FILE).read_bytes()
    filled.run("UPDATE secrets SET sealed = ? WHERE scope = 'folder:acme'", (b"\0",))

    with pytest.raises(UnsealError, match=r"TOKEN of folder acme cannot be read"):
        secrets.open_all(filled, keyring)
    assert (home.path / FILE).read_bytes() == before


async def test_a_ring_kept_elsewhere_is_rotated_by_whoever_keeps_it(filled: Db, home: Home, store: SqliteStore) -> None:
    Keyring(home, {}).add_key()
    outside = Keyring(home, {"GATEPOST_KEYRING": (home.path / FILE).read_text()})
    current = outside.read()
    assert current is not None

    assert secrets.reseal(filled, outside) == (current.current, 4)

    assert len(secrets.list_unused_keys(filled, outside)) == 1
    assert await SecretReader(store, outside).get("TOKEN", "acme") == "xyzzy of folder acme"


def test_after_a_restore_without_the_ring_a_secret_is_set_anew_and_the_others_stay_shut(
    filled: Db, keyring: Keyring, home: Home
) -> None:
    (home.path / FILE).unlink()
    with pytest.raises(SetupError, match="is gone"):
        secrets.put(filled, keyring, SecretOwner(), "TOKEN", "new", NOON)
    incarnations.add(filled, IncarnationReason.COPIED, "", "", NOON)
    secrets.put(filled, keyring, SecretOwner(), "TOKEN", "new", NOON)
    ring = keyring.read()
    assert ring is not None
    opened = [each.name for each in secrets.list_all(filled) if each.key_id in ring.keys]
    assert opened == ["TOKEN"] and len(secrets.list_all(filled)) > 1


async def test_a_lost_ring_is_told_and_not_replaced(
    held: SecretReader, filled: Db, keyring: Keyring, home: Home
) -> None:
    (home.path / FILE).unlink()

    with pytest.raises(SetupError, match=r"key ring .* is gone; bring it back"):
        await held.get("TOKEN", "acme")
    with pytest.raises(SetupError, match=r"key ring .* is gone"):
        secrets.put(filled, keyring, SecretOwner(), "TOKEN", "anew", NOON)
    with pytest.raises(SetupError, match=r"key ring .* is gone"):
        secrets.reseal(filled, keyring)
    assert keyring.read() is None


def test_a_secret_goes_with_its_group_and_with_its_person(filled: Db) -> None:
    groups.remove(filled, "acme/eng")
    filled.run("DELETE FROM users WHERE id = ?", (ANN,))
    assert [(each.folder, each.user_id) for each in secrets.list_all(filled)] == [("", ""), ("acme", "")]


def test_what_is_set_again_is_replaced(filled: Db, keyring: Keyring) -> None:
    again = secrets.put(filled, keyring, SecretOwner("acme"), "TOKEN", "other", NOON + 1)
    assert (again.created_at, again.updated_at) == (NOON, NOON + 1)
    assert len(secrets.list_all(filled)) == 4
    assert secrets.remove(filled, SecretOwner("acme"), "TOKEN")
    assert not secrets.remove(filled, SecretOwner("acme"), "TOKEN")


class TestKeptSecrets:
    """Strangers have them used: the record of uses does not grow with their requests."""

    async def test_a_value_is_opened_once_until_another_one_is_set(
        self, held: SecretReader, filled: Db, store: SqliteStore, keyring: Keyring
    ) -> None:
        kept, folder = KeptSecrets(held, store, FixedClock(NOON), 10), SecretOwner("acme")
        assert {await kept.get("HOOK", "acme/eng", purpose="webhook") for _ in range(20)} == {""}
        assert len(secrets.list_uses(filled, 100)) == 1
        for value in ("first", "second"):  # within the same microsecond
            await store.write(secrets.put, keyring, folder, "HOOK", value, NOON)
            assert {await kept.get("HOOK", "acme/eng", purpose="webhook") for _ in range(20)} == {value}
        await store.write(secrets.put, keyring, SecretOwner(), "HOOK", "of the gateway", NOON)
        assert await kept.get("HOOK", "acme/eng", purpose="webhook") == "second"
        await store.write(secrets.remove, folder, "HOOK")
        assert await kept.get("HOOK", "acme/eng", purpose="webhook") == "of the gateway"
        assert len(secrets.list_uses(filled, 100)) == 4

    async def test_one_that_does_not_open_is_tried_again_after_a_while(
        self, held: SecretReader, filled: Db, store: SqliteStore, home: Home
    ) -> None:
        clock = FixedClock(NOON)
        kept, ring = KeptSecrets(held, store, clock, 10), home.path / "keyring.json"
        raw = ring.read_bytes()
        ring.unlink()
        for _ in range(20):
            with pytest.raises(SetupError, match="key ring"):
                await kept.get("TOKEN", "acme", purpose="webhook")
        assert len(secrets.list_uses(filled, 100)) == 1
        ring.touch(0o600)
        ring.write_bytes(raw)
        clock.advance(UNREADABLE_KEPT / SECOND)
        assert await kept.get("TOKEN", "acme", purpose="webhook") == "xyzzy of folder acme"

    async def test_only_so_many_are_kept(self, held: SecretReader, filled: Db, store: SqliteStore) -> None:
        kept = KeptSecrets(held, store, FixedClock(NOON), 2)
        for number in range(5):
            await kept.get(f"HOOK_{number}", "acme", purpose="webhook")
        assert len(kept._kept) == 2


def add_gateway(db: Db, name: str) -> int:
    new = GatewayIdentity(name=name, home=name, host="h", version="1", schema_number=1)
    return gateways.register(db, new, SECOND, 1, NOON)


def test_a_key_ring_is_not_made_while_other_gateways_would_lack_it(db: Db, keyring: Keyring, home: Home) -> None:
    add_gateway(db, "a")
    epoch = add_gateway(db, "b")
    for make in (
        lambda: secrets.put(db, keyring, SecretOwner(), "TOKEN", "xyzzy", NOON),
        lambda: secrets.get_ring(db, keyring),
        lambda: secrets.check_new_key(db),
    ):
        with pytest.raises(SetupError, match=r"other gateways on this store \(a, b\).*copy keyring\.json"):
            make()
    assert not (home.path / FILE).exists()
    gateways.end_life(db, "b", epoch)
    secrets.put(db, keyring, SecretOwner(), "TOKEN", "xyzzy", NOON)
    add_gateway(db, "b")
    secrets.put(db, keyring, SecretOwner(), "TOKEN", "another", NOON)  # with the ring that there is
