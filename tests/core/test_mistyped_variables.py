"""Variables that look like a setting and are none."""

import re
from pathlib import Path

import pytest

from gatepost import declarations
from gatepost.core.mistyped_variables import list_mistyped
from gatepost.core.settings import SETTINGS

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
