"""What a terminal would obey, or would not show, is shown as a sign."""

import json
import sys
import unicodedata

import pytest

from gatepost.core.terminal_text import make_json_visible, make_visible, one_line

JOINERS = {0x200C, 0x200D}
WITH_A_GLYPH = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain – ünïcode 👍", "plain – ünïcode 👍"),
        ("\x1b[2J\x07", "␛[2J␇"),
        ("\x7f\x9b", "␡\\x9b"),
        ("a\u202eb\U000e0041", "a\\u202eb\\U000e0041"),
        ("two\r\nlines\rback\ttab", "two\nlines␍back\ttab"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_control_and_format_characters_are_shown_as_signs(text: str, seen: str) -> None:
    assert make_visible(text) == seen


@pytest.mark.slow
def test_none_that_cannot_be_seen_is_forgotten() -> None:
    hidden = [
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Cs") and chr(code) not in "\n\t"
    ]
    assert {code for code in hidden if make_visible(chr(code)) == chr(code)} == JOINERS | WITH_A_GLYPH


def test_a_cell_is_one_line() -> None:
    assert one_line("\n two\n\nlines\t and  more\u2028") == "two⏎⏎lines and more\\u2028"


def test_json_means_the_same_and_holds_nothing_raw() -> None:
    value = {"text": "\x1b\x9b\u202e\U000e0041 ü", "list": [1, "\x7f"]}

    text = make_json_visible(json.dumps(value, ensure_ascii=False, indent=2))

    assert json.loads(text) == value
    assert "ü" in text and not any(unicodedata.category(char) in ("Cf", "Cc") for char in text.replace("\n", ""))
