"""A card as text, and what an answer to it means."""

import pytest

from gatepost.messages.card import Card, CardButton, CardField, parse_choice, render_text

LABELS = ("Allow once", "Allow in this conversation", "Always allow", "Deny")


def test_a_card_is_numbered_text_where_there_are_no_buttons() -> None:
    card = Card(
        title="Ada asks",
        text="why",
        fields=(CardField("text", "hello"),),
        buttons=(CardButton("t:0", "Allow"), CardButton("t:1", "Deny")),
    )
    assert render_text(card) == (
        "**Ada asks**\n\nwhy\n\n- text: hello\n\n1. Allow\n2. Deny\n\n"
        "Answer with one of these or its number. Such words may go to the agent if it speaks meanwhile;"
        " /approve or /deny is sure to count."
    )


def test_a_decided_card_says_what_was_decided_and_offers_nothing() -> None:
    shown = render_text(Card(title="Ada asks", buttons=(CardButton("t:0", "Allow"),), done="Allowed by Bob."))
    assert shown == "**Ada asks**\n\nAllowed by Bob."


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("1", 0),
        (" 4. ", 3),
        ("deny", 3),
        ("DENY!", 3),
        ("always", 2),
        ("allow once", 0),
        ("allow", None),  # which of them?
        ("0", None),
        ("5", None),
        ("٣", None),
        ("", None),
        ("d", None),  # too little to be meant
        ("deny it please", None),
        ("1" * 100, None),
    ],
)
def test_an_answer_is_a_number_a_label_or_the_beginning_of_one(said: str, meant: int | None) -> None:
    assert parse_choice(said, LABELS) == meant


def test_a_label_is_meant_as_it_stands_before_its_marks_are_left_out() -> None:
    labels = ["C", "C#", "Yes!"]
    assert [parse_choice(text, labels) for text in ("c", "C#", "yes", "yes!", "3.", "#2")] == [0, 1, 2, 2, 2, 1]
