"""Text at the edge: always encodable, on one line where it must be, and an order to stop is known by its form."""

import pytest

from gatepost.messages.text import LONGEST_ORDER, clean, may_stop, one_line


@pytest.mark.parametrize(
    ("text", "cleaned"), [("a\x00b", "ab"), ("a\ud800b", "a?b"), ("\x00\udfff", "?"), ("a\r\n\tb \U0001f44d", None)]
)
def test_only_what_cannot_be_kept_is_taken_away(text: str, cleaned: str | None) -> None:
    found = clean(text)
    assert found == (text if cleaned is None else cleaned)
    assert found.encode() and "\x00" not in found


def test_a_name_is_one_line_of_what_can_be_seen() -> None:
    assert one_line(" Ann\n\tLee\u202e \x00x\ud800 ") == "Ann Lee x?"
    assert one_line("\u200b\n") == ""


@pytest.mark.parametrize(
    "text",
    [
        "/stop",
        "\\stop",
        "/STOP",
        "/stop@gate_bot now",
        "@gate /stop",
        "please\n/stop",
        "@gate stop",
        "@gate stop!",
        "x" * 99 + " /stop",
    ],
)
def test_what_may_be_an_order_to_stop_waits_for_nobody(text: str) -> None:
    assert may_stop(text)


@pytest.mark.parametrize(
    "text",
    ["stop", "/stopping", "a/stop", "do not stop it", "", None, 7, "/stop" + " " * LONGEST_ORDER, "x" * 200 + " /stop"],
)
def test_other_texts_keep_their_place(text: object) -> None:
    assert not may_stop(text)
