"""Pages that are files, in the reader's language: markup stays, and what people read or hear changes."""

import json
import re
from typing import Any

import pytest

from gatepost.core.languages.catalogue import load_catalogue
from gatepost.serve.web.static_pages import STATIC, list_script_texts, make_script_texts, translate_page

PAGES = sorted(path.name for path in STATIC.glob("*.html"))
TAG = re.compile(r"<(/?\w+)")


@pytest.mark.parametrize("name", PAGES)
def test_only_words_of_a_page_change(name: str) -> None:
    before, after = (STATIC / name).read_text(encoding="utf-8"), translate_page(name, "de")
    kept = after.replace(make_script_texts("de") + "\n", "")
    assert TAG.findall(kept) == TAG.findall(before)
    for attribute in ("id", "class", "href", "src", "name", "type"):
        pattern = re.compile(rf'\b{attribute}="([^"]*)"')
        assert pattern.findall(kept) == pattern.findall(before)
    assert '<html lang="de">' in after


def test_the_texts_of_scripts_come_with_the_page_and_cannot_end_their_element() -> None:
    assert "Back to the newest" in list_script_texts() and len(list_script_texts()) > 100
    brought = make_script_texts("de").partition(">")[2].rpartition("<")[0]
    assert "<" not in brought and json.loads(brought)["Reply"] == "Antworten"
    assert make_script_texts("en") == ""


def test_every_text_of_the_scripts_is_in_german() -> None:
    german = load_catalogue("de")
    assert [text for text in list_script_texts() if german.find_exact(text) is None] == []


async def test_the_browser_says_which_language_before_anybody_is_signed_in(site: Any) -> None:
    async with site.browser() as browser:
        german = await browser.get("/", headers={"accept-language": "de"})
        english = await browser.get("/")
    assert '<html lang="de">' in german.text and '<html lang="en">' in english.text
    assert "accept-language" in german.headers["vary"] and "accept-language" in english.headers["vary"]
