"""The key ring: whose file it is, where else it may be kept, and what it never says."""

import base64
import json
import stat
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.keyring import FILE, Keyring, UnsealError

PLACE = ("folder:acme", "TOKEN")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def keyring(home: Home) -> Keyring:
    return Keyring(home, {})


def written(**keys: bytes) -> str:
    encoded = {name: base64.b64encode(key).decode() for name, key in keys.items()}
    return json.dumps({"current": next(iter(keys), ""), "keys": encoded})


def test_a_home_has_no_ring_until_a_key_is_made(keyring: Keyring, home: Home) -> None:
    assert keyring.read() is None

    ring = keyring.add_key()

    assert keyring.read() == ring
    assert stat.S_IMODE((home.path / FILE).stat().st_mode) == 0o600
    assert [path.name for path in home.path.iterdir()] == [FILE]


def test_a_value_opens_in_its_own_place_alone(keyring: Keyring) -> None:
    ring = keyring.add_key()
    sealed = ring.seal(b"xyzzy", PLACE)

    assert ring.open(sealed, PLACE) == b"xyzzy"
    assert b"xyzzy" not in sealed.data
    for other in (("folder:acme", "OTHER"), ("folder:acm", "eTOKEN"), ("", "TOKEN")):
        with pytest.raises(UnsealError, match="changed, or moved"):
            ring.open(sealed, other)


def test_the_same_value_is_sealed_differently_each_time(keyring: Keyring) -> None:
    ring = keyring.add_key()
    assert ring.seal(b"xyzzy", PLACE).data != ring.seal(b"xyzzy", PLACE).data


def test_a_new_key_seals_while_the_old_one_still_opens_until_it_is_dropped(keyring: Keyring) -> None:
    old = keyring.add_key()
    sealed = old.seal(b"xyzzy", PLACE)

    new = keyring.add_key()
    assert new.current != old.current
    assert new.open(sealed, PLACE) == b"xyzzy"
    assert new.seal(b"xyzzy", PLACE).key_id == new.current

    keyring.remove_keys({old.current, new.current})
    left = keyring.read()
    assert left is not None and list(left.keys) == [new.current]  # the current one stays
    with pytest.raises(UnsealError, match=f"sealed with the key {old.current}, which is not in the key ring"):
        left.open(sealed, PLACE)


def test_the_ring_never_shows_a_key(keyring: Keyring) -> None:
    ring = keyring.add_key()
    assert repr(ring) == f"KeySet(current={ring.current!r})"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_ring_that_others_can_reach_is_refused(keyring: Keyring, home: Home, mode: int) -> None:
    keyring.add_key()
    (home.path / FILE).chmod(mode)
    with pytest.raises(SetupError, match=r"open to others; `chmod 600`"):
        keyring.read()


def test_a_link_is_not_followed(keyring: Keyring, home: Home) -> None:
    (home.path / "elsewhere").write_text(written(k=b"x" * 32))
    (home.path / FILE).symlink_to(home.path / "elsewhere")
    with pytest.raises(SetupError, match="cannot be read"):
        keyring.read()


@pytest.mark.parametrize(
    "text",
    ["", "hunter2", "{}", "[]", '{"current": "hunter2", "keys": {}}', written(), written(k=b"hunter2")],
)
def test_a_damaged_ring_is_neither_used_nor_replaced_nor_repeated(keyring: Keyring, home: Home, text: str) -> None:
    (home.path / FILE).touch(0o600)
    (home.path / FILE).write_text(text)

    for use in (keyring.read, keyring.add_key):
        with pytest.raises(SetupError, match="damaged or none") as error:
            use()
        assert "hunter2" not in str(error.value)
    assert (home.path / FILE).read_text() == text


def test_the_environment_comes_before_the_file_and_is_never_written(home: Home) -> None:
    Keyring(home, {}).add_key()
    before = (home.path / FILE).read_bytes()
    given = Keyring(home, {"GATEPOST_KEYRING": written(mine=b"x" * 32)})

    ring = given.read()

    assert ring is not None and ring.current == "mine" and not given.is_file
    with pytest.raises(SetupError, match="kept in GATEPOST_KEYRING; gatepost does not change it"):
        given.add_key()
    assert (home.path / FILE).read_bytes() == before


def test_a_systemd_credential_is_read(home: Home, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "gatepost.keyring").write_text(written(mine=b"x" * 32))

    ring = Keyring(home, {"CREDENTIALS_DIRECTORY": str(credentials)}).read()

    assert ring is not None and ring.current == "mine"
    assert Keyring(home, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).is_file  # a unit with other credentials only
