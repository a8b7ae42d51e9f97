"""Texts in another language: found by their English words, also with holes, and never slow for what strangers say."""

from pathlib import Path

import pytest

from gatepost.core.languages.catalogue import (
    Catalogue,
    choose_language,
    fill_text,
    list_languages,
    load_catalogue,
    read_po,
    speaking,
    translate,
)
from gatepost.flow.requests.chat_replies import WHICH

ROOT = Path(__file__).parents[3]

TEXTS = {
    "Agents": "Agenten",
    "{n} messages wait": "{n} Nachrichten warten",
    "{who} wants to send {what} to {whom}.": "{who} will {what} an {whom} senden.",
    "Nothing fails.": "Nichts ist kaputt.",
    "{n} of {total} things need a look.": "{n} von {total} Dingen brauchen einen Blick.",
    "{a} of {b}": "{b} und {a}",
    "as {a} and {b}": "wie {b} und {a}",
    "spent {amount} today": "heute {amount} ausgegeben",
    "Allowed{changed}{lasts} by {by}{words}": "Erlaubt{changed}{lasts} von {by}{words}",
    "Part {} of {0}:": "Teil {} von {0}:",
}


@pytest.fixture(scope="module")
def german() -> Catalogue:
    return Catalogue("de", TEXTS)


@pytest.mark.parametrize(
    ("english", "other"),
    [
        ("Agents", "Agenten"),
        ("12 messages wait", "12 Nachrichten warten"),
        ("Home wants to send a.txt to Ann to Bob.", "Home will a.txt an Ann to Bob senden."),
        ("Nothing fails. 1 of 29 things need a look.", "Nichts ist kaputt. 1 von 29 Dingen brauchen einen Blick."),
        ("as x and y", "wie y und x"),
        ("Allowed by Ann", "Erlaubt von Ann"),
        ("Allowed with changes by Ann: yes", "Erlaubt with changes von Ann: yes"),
        ("Part 1 of 2:", "Teil 1 von 2:"),
        ("spent $1,234.50 today", "heute 1.234,50 $ ausgegeben"),
    ],
)
def test_a_text_is_found_as_a_whole_with_holes_or_by_its_sentences(german: Catalogue, english: str, other: str) -> None:
    assert german.find(english) == other


@pytest.mark.parametrize("english", ["", "  ", "Agent", "messages wait", "1 of 2", "as  and", "x" * 5000])
def test_what_has_no_entry_stays_as_it_is(german: Catalogue, english: str) -> None:
    assert german.find(english) is None


def test_a_hole_takes_words_as_they_are_also_if_they_look_like_holes_or_entries(german: Catalogue) -> None:
    assert german.find("{n} messages wait") is None and german.find("no messages wait") is None  # no number
    assert german.find_exact("{n} messages wait") == "{n} Nachrichten warten"
    assert german.find("Agents wants to send {whom} to Agents.") == "Agents will {whom} an Agents senden."


def test_of_two_entries_the_more_exact_one_is_taken() -> None:
    both = Catalogue("de", {"{a} is now {b}": "{a} ist nun {b}", "{a} is now at rest": "{a} ruht"})
    assert both.find("Home is now at rest") == "Home ruht" and both.find("Home is now up") == "Home ist nun up"


def test_words_of_strangers_are_matched_in_linear_work() -> None:
    """Lazy expressions would take the fourth power of the length here."""
    entry = Catalogue("de", {"a {p}, {q}, {r}, {s} end": "x"})
    assert entry.find("a " + ", " * 1990 + "no") is None


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,en;q=0.5", "de"),
        ("en-GB,de;q=0.9", "en"),
        ("fr,de;q=0.3,en;q=0.2", "de"),
        ("de;q=0,en", "en"),
        ("xx;q=nonsense,de", "de"),
        ("*", "en"),
    ],
)
def test_the_browsers_wish_is_read(header: str, language: str) -> None:
    assert choose_language(header) == language


def test_a_language_that_is_not_there_is_english() -> None:
    assert translate("Agents", "tlh") == "Agents" and translate("Agents", "de") == "Agenten"
    assert translate("Agents") == "Agents" and list_languages()[0] == "en"


@pytest.mark.parametrize("language", list_languages()[1:])
def test_a_translation_has_the_holes_of_its_text(language: str) -> None:
    assert load_catalogue(language).list_faults() == []


def test_the_example_of_the_docs_is_a_language() -> None:
    page = (ROOT / "docs" / "extend" / "language.md").read_text(encoding="utf-8")
    french = Catalogue("fr", read_po(page.partition("```po\n")[2].partition("```")[0], "the example"))
    assert french.list_faults() == []
    assert french.find("Home wants to send a file") == "Home souhaite envoyer un fichier"


def test_two_holes_of_one_name_keep_what_stands_in_each() -> None:
    unnamed = Catalogue("de", {"Several: {}write {} here": "Mehrere: {}schreib {} hier"})
    assert unnamed.find("Several: now write /deny here") is None
    text = WHICH.format("To say which, ", "/approve or /deny", "- Main wants to delete a file (req-1)\n- Bob asks")
    said = translate(text, "de")
    assert "/approve" in said and said.count("req-1") == 1 and said.splitlines()[-1].startswith("- Bob")


def test_a_text_whose_holes_begin_with_a_capital_is_found_in_no_other_text() -> None:
    with speaking("de"):
        assert fill_text("{Who} wrote to {Agents}", who="Ann", agents="Home") == "Ann hat Home geschrieben"
        said = "an admin who once wrote to the gateway directly is asked there"
        assert "geschrieben" not in translate(said)
    assert fill_text("{Who} wrote to {Agents}", who="{x}", agents="Home") == "{x} wrote to Home"
