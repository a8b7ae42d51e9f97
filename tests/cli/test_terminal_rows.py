"""Rows of a terminal: none is wider than the screen, and the last ones are those of the text's end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.cli.terminal_rows import count_rows_above, get_width, list_last_rows


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
