"""Where the store is, and that nobody sees the password of a database."""

from pathlib import Path

import apsw
import pytest

from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.log import hide_secrets
from gatepost.core.settings import Config
from gatepost.store.engine import place
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.open_store import open_store, prepare_store
from gatepost.store.engine.place import URL, StorePlace, check_library, find_place, has_store, hide_password
from gatepost.store.engine.readonly import get_version, read_store
from gatepost.store.engine.sqlite_copy import copy_store
from gatepost.store.gateways.gateway_identity import find_mark

ADDRESS = "postgresql://ann:hush%40hush@db.example:5433/ledger?sslmode=require&sslpassword=hush%40too"


def test_without_a_setting_it_is_the_file_of_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert find_place(home) == StorePlace(tmp_path / "gatepost.db")
    assert not has_store(home)


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gatepost.toml").write_text('[store]\nurl = "postgresql://one/two"\n')
    assert find_place(Home(tmp_path)).url == "postgresql://one/two"
    monkeypatch.setenv("GATEPOST_STORE_URL", ADDRESS)
    assert find_place(Home(tmp_path)).url == ADDRESS
    assert has_store(Home(tmp_path))


def test_an_address_is_shown_without_its_passwords() -> None:
    assert hide_password(ADDRESS) == "postgresql://ann:…@db.example:5433/ledger?sslmode=require"
    assert hide_password("postgresql:///ledger?host=/run/postgresql") == "postgresql:///ledger?host=/run/postgresql"
    assert hide_password("") == ""


@pytest.mark.parametrize(
    "wrong",
    [
        "host=db password=hush",
        "mysql://ann:hush@db/ledger",
        "postgresql://ann:hu@sh@db/ledger",
        "postgresql://ann:hu/sh@db/ledger",
        "postgresql://ann:hu#sh@db/ledger",
        "postgresql://ann:hu sh@db/ledger",
        ["hush"],
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_being_repeated(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(SetupError, match="postgresql://USER:PASSWORD@HOST:5432/DATABASE") as told:
        settings.load(tmp_path, environ={}, given={URL.name: wrong})
    assert "hu" not in str(told.value).replace("%", "")


def test_the_log_hides_the_password_of_an_address() -> None:
    shown = hide_secrets(f"cannot reach {ADDRESS}&password=hush, or postgres://ann:hu@sh@db/x")
    assert "hu" not in shown
    assert "db.example:5433/ledger" in shown


def test_a_missing_library_names_the_command_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "find_spec", lambda name: None)
    check_library(StorePlace(tmp_path))
    with pytest.raises(SetupError, match=r"pip install 'gatepost\[postgres\]'"):
        open_store(Home(tmp_path), settings.load(tmp_path, environ={}, given={URL.name: ADDRESS}))


def test_a_home_of_a_database_gets_no_empty_file_in_its_place(tmp_path: Path) -> None:
    home, belongs = Home(tmp_path), r"belongs to a database, and none is named; set store\.url or GATEPOST_STORE_URL"
    with pytest.raises(SetupError, match=r"there is no store in .*; `gatepost up` makes one"):
        read_store(home, get_version)
    find_mark(home)
    for act in (lambda: prepare_store(home, Config(), SystemClock()), lambda: read_store(home, get_version)):
        with pytest.raises(SetupError, match=belongs):
            act()
    with pytest.raises(SetupError, match=belongs):
        copy_store(find_place(home), tmp_path / "copy.db")
    assert not home.store.exists()
    migrate(home.store, SystemClock())  # as `store copy` to the home does
    assert prepare_store(home, Config(), SystemClock()) > 0


@pytest.mark.parametrize("lived", [True, False])
@pytest.mark.parametrize("table", ["", "notes (a)", "schema_version (version, script)"])
def test_a_database_without_a_store_in_it_is_no_store_and_that_of_others_is_never_migrated(
    tmp_path: Path, table: str, lived: bool
) -> None:
    home = Home(tmp_path)
    if lived:
        (tmp_path / "groups" / "root").mkdir(parents=True)
    connection = apsw.Connection(str(home.store))
    connection.execute(f"CREATE TABLE {table or 'gone (a)'}")
    if not table:
        connection.execute("DROP TABLE gone")
    connection.close()
    before = home.store.read_bytes()
    if not table and not lived:
        assert prepare_store(home, Config(), SystemClock()) > 0
        return
    match = "database of something else" if table else "--new-store"
    acts = {
        "up": lambda: prepare_store(home, Config(), SystemClock()),
        "read": lambda: read_store(home, get_version),
        "backup": lambda: copy_store(find_place(home), tmp_path / "copy.db"),
    }
    for name, act in acts.items():
        with pytest.raises(SetupError, match=match):
            act()
        assert home.store.read_bytes() == before, name
    if table:
        with pytest.raises(SetupError, match=match):
            prepare_store(home, Config(), SystemClock(), new=True)
        assert home.store.read_bytes() == before
    else:
        assert prepare_store(home, Config(), SystemClock(), new=True) > 0
