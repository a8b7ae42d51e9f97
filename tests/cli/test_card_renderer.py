"""A card on a terminal: readable, with numbers, and short once it is decided."""

from gatepost.cli import output
from gatepost.cli.card_renderer import render_card
from gatepost.cli.conversation import StreamedMessage, render_message
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
