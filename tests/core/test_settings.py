import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost import declarations
from gatepost.core.errors import SetupError
from gatepost.core.settings import SETTINGS, Setting, list_mistyped, load, load_declared, setting


@pytest.fixture
def color() -> Iterator[Setting[str]]:
    yield setting("paint.color", "red", help="Of the gate.", choices=("red", "green"))
    SETTINGS.drop("paint.color")


@pytest.fixture
def coats() -> Iterator[Setting[int]]:
    yield setting("paint.coats", 2, help="How many.")
    SETTINGS.drop("paint.coats")


def test_values_rise_from_default_to_file_to_environment_to_command_line(tmp_path: Path, coats: Setting[int]) -> None:
    file = tmp_path / "gatepost.toml"
    env = {"GATEPOST_PAINT_COATS": "4"}

    assert load(tmp_path, {})[coats] == 2
    file.write_text("[paint]\ncoats = 3\n")
    assert (load(tmp_path, {})[coats], load(tmp_path, {}).source(coats)) == (3, str(file))
    assert (load(tmp_path, env)[coats], load(tmp_path, env).source(coats)) == (4, "GATEPOST_PAINT_COATS")
    assert load(tmp_path, env, {"paint.coats": 5})[coats] == 5


def test_an_unknown_key_is_an_error_with_its_dotted_path(tmp_path: Path, coats: Setting[int]) -> None:
    (tmp_path / "gatepost.toml").write_text("[paint]\ncoat = 3\n")

    with pytest.raises(SetupError, match=r"'paint\.coat'; did you mean 'paint\.coats'\?"):
        load(tmp_path, {})


def test_a_table_that_is_given_a_value_is_told_what_stands_in_it(tmp_path: Path, coats: Setting[int]) -> None:
    (tmp_path / "gatepost.toml").write_text("paint = 3\n")

    with pytest.raises(SetupError, match=r"unknown setting 'paint', which is a table: \[paint\], with coats"):
        load(tmp_path, {})


def test_a_value_that_does_not_fit_names_where_it_stands(tmp_path: Path, coats: Setting[int]) -> None:
    with pytest.raises(SetupError, match=r"GATEPOST_PAINT_COATS: paint\.coats = 'many' is not a whole number"):
        load(tmp_path, {"GATEPOST_PAINT_COATS": "many"})
    with pytest.raises(SetupError, match="is negative"):
        load(tmp_path, {"GATEPOST_PAINT_COATS": "-1"})


def test_a_choice_is_one_of_those_declared(tmp_path: Path, color: Setting[str]) -> None:
    with pytest.raises(SetupError, match="not one of red, green"):
        load(tmp_path, {"GATEPOST_PAINT_COLOR": "blue"})


def test_a_file_that_is_no_toml_says_where(tmp_path: Path) -> None:
    (tmp_path / "gatepost.toml").write_text("a = = 1")

    with pytest.raises(SetupError, match=r"gatepost\.toml is not valid TOML"):
        load(tmp_path, {})


def test_a_setting_is_declared_once(coats: Setting[int]) -> None:
    with pytest.raises(SetupError, match=r"two settings are named 'paint\.coats'"):
        setting("paint.coats", 1, help="Again.")


def test_peeking_reads_what_it_wants_and_judges_nothing_else(tmp_path: Path, coats: Setting[int]) -> None:
    (tmp_path / "gatepost.toml").write_text("[paint]\ncoats = 3\n[some.plugin]\nkey = 1\n")

    assert load_declared(tmp_path, coats, environ={})[coats] == 3
    assert load_declared(tmp_path, coats, environ={"GATEPOST_PAINT_COATS": "9"})[coats] == 9
    assert load_declared(tmp_path, environ={})[coats] == 3


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True, scope="module")
def declared() -> None:
    declarations.load_package()


@pytest.mark.parametrize("name", ["GATEPOST_STOREURL", "GATEPOST_STORE_UR", "GATEPOST_STORE_URI"])
def test_one_that_is_near_a_setting_is_told_which(name: str) -> None:
    assert list_mistyped({name: "x"}) == [f"nothing reads the variable {name}; did you mean GATEPOST_STORE_URL?"]


def test_settings_and_variables_of_our_own_are_none() -> None:
    """Everything that the source names."""
    named = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"GATEPOST_[A-Z0-9_]*[A-Z0-9]", path.read_text())
    }
    settings = {each.variable for _, each in SETTINGS.items()}
    assert {"GATEPOST_HOME", "GATEPOST_KEYRING"} <= named - settings
    assert list_mistyped(dict.fromkeys(named | settings, "x")) == []


@pytest.mark.parametrize("name", ["PORT", "SERVICE_HOST", "SERVICE_PORT", "PORT_8080_TCP_ADDR", "IMAGE", "VERSION"])
def test_variables_that_others_give_our_name_are_none(name: str) -> None:
    assert list_mistyped({f"GATEPOST_{name}": "x", "STOREURL": "x"}) == []
