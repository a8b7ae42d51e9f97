"""A card on a terminal: readable, with numbers, and short once it is decided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.cli import output
from gatepost.cli.conversation import (
    StreamedMessage,
    count_rows_above,
    get_width,
    list_last_rows,
    render_card,
    render_message,
)
from gatepost.messages.card import Card, CardButton, CardField
from gatepost.messages.inbound import Direction

ASKED = Card(
    title="Home asks to use send (q-1)",
    text="a rule holds it",
    fields=(CardField("text", "two\nlines"), CardField("chatJid", "terminal:main")),
    buttons=(CardButton("t:0", "Allow once"), CardButton("t:1", "Deny")),
)
DECIDED = Card(title=ASKED.title, fields=ASKED.fields, done="Allowed by terminal:owner.")


def shown(line: output.Line) -> list[str]:
    return "".join(piece if isinstance(piece, str) else piece.text for piece in line).split("\n")


def message(card: Card, verb: str = "card") -> StreamedMessage:
    return StreamedMessage(id=1, direction=Direction.OUT, verb=verb, thread="", text="x", card=card)


def test_a_card_shows_its_fields_and_numbered_answers() -> None:
    assert shown(render_card(ASKED)) == [
        "Home asks to use send (q-1)",
        "  a rule holds it",
        "  text:    two",
        "  lines",
        "  chatJid: terminal:main",
        "  1. Allow once",
        "  2. Deny",
        "  Answer with one of these or its number. Such words may go to the agent if it speaks meanwhile;"
        " /approve or /deny is sure to count.",
    ]


def test_its_title_and_numbers_are_bold_and_nothing_of_an_agents_text_is() -> None:
    bold = [piece.text for piece in render_card(ASKED) if not isinstance(piece, str) and piece.color == "bold"]
    assert bold == [ASKED.title, "1.", "2."]


def test_a_decided_card_is_its_title_and_the_decision() -> None:
    assert shown(render_message(message(DECIDED, verb="edit"), "")) == [ASKED.title, "  Allowed by terminal:owner."]


def test_a_card_that_asks_is_shown_in_every_thread_and_another_only_in_its_own() -> None:
    assert shown(render_message(message(ASKED), "another"))[0] == ASKED.title
    assert shown(render_message(message(DECIDED, verb="edit"), "another"))[0] == ASKED.title
    assert render_message(message(Card(title="for reading")), "another") == ()
    assert shown(render_message(message(Card(title="for reading")), "")) == ["for reading"]


def test_a_long_name_of_a_field_is_apart_from_its_value() -> None:
    card = Card(title="x", fields=(CardField("perhaps answered before", "1"), CardField("a", "2")))
    assert "  perhaps answered before: 1" in shown(render_card(card))


# Rows of a terminal: none is wider than the screen, and the last ones are those of the text's end.


def test_a_short_text_is_its_own_lines() -> None:
    assert list_last_rows("one\n\ntwo\n", 40, 8) == ["one", "", "two"]
    assert list_last_rows("  \n", 40, 8) == []


def test_a_long_line_is_cut_at_blanks_and_a_long_word_anywhere() -> None:
    assert list_last_rows("the quick brown fox", 11, 8) == ["the quick", "brown fox"]
    assert list_last_rows("abcdefghij", 5, 8) == ["abcd", "efgh", "ij"]


def test_of_a_long_text_the_end_is_shown() -> None:
    assert list_last_rows("\n".join(map(str, range(100))), 40, 3) == ["97", "98", "99"]


def test_what_a_terminal_would_obey_is_shown_as_a_sign() -> None:
    assert list_last_rows("a\x1b[2Jb", 40, 8) == ["a␛[2Jb"]


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("👍", 2)])
def test_a_sign_has_its_width_on_the_screen(text: str, width: int) -> None:
    assert get_width(text) == width


def test_a_typed_line_that_goes_on_in_the_next_row_is_counted() -> None:
    assert [count_rows_above("x" * size, 10) for size in (0, 9, 10, 25)] == [0, 0, 1, 2]


@pytest.mark.slow
@given(st.text(max_size=300), st.integers(min_value=4, max_value=30), st.integers(min_value=1, max_value=5))
def test_no_row_reaches_the_edge_and_no_more_rows_than_wanted(text: str, columns: int, most: int) -> None:
    rows = list_last_rows(text, columns, most)
    assert len(rows) <= most
    assert all(get_width(row) < columns for row in rows)
