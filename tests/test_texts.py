"""Every text of page, cards, notices and chat commands is in each language that there is."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gatepost.core.languages.catalogue import list_languages

ROOT = Path(__file__).parents[1]
PLANTED = '''
"""A docstring."""
LABEL = "Look again"
def render(count, name, agent):
    _log.warning("Nobody reads this in another language")
    known = {"some key": 1}["some key"]
    paths = "/a/path", "op:x", re.compile(r"(?P<a>.+) b")
    return f"{count} message{'' if count == 1 else 's'} of {agent.name} wait"
'''


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("list_texts", ROOT / "scripts" / "list_texts.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("language", list_languages()[1:])
def test_no_text_is_missing(script: ModuleType, language: str) -> None:
    missing = script.list_missing(language)
    assert missing == [], f"python scripts/list_texts.py {language} >> src/gatepost/core/languages/{language}.po"


def test_heads_of_columns_and_what_stands_in_them_are_read_from_the_notes_on_fields(script: ModuleType) -> None:
    source = """
class Row:
    gives: Annotated[str, shown("Gives", head="gives", render=render_gives)]
    left: Annotated[int | None, option("How many."), shown("Uses left", ShownAs.NUMBER, empty="any", word="a use")]
    file: Annotated[str, shown("SKILL.md", ShownAs.CODE)]
"""
    assert list(script.read_columns(source)) == ["Gives", "Uses left", "any", "a use"]
    assert {"Known since", "Gives", "Uses left"} <= {*script.list_texts()}


def test_texts_are_read_from_the_source_with_holes_and_in_each_of_their_forms(script: ModuleType) -> None:
    assert set(script.read_texts(PLANTED)) == {
        "Look again",
        "{count} message of {name} wait",
        "{count} messages of {name} wait",
    }
