"""How platforms count a text, and where it may be cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.messages.text_size import (
    LONGEST_CLUSTER,
    WIDEST,
    TextUnit,
    find_boundary,
    find_end,
    fits,
    is_boundary,
    measure,
    shorten,
)

CLUSTERS = [
    "e\u0301",  # a letter with its accent
    "n\u0303\u0323",
    "👩\u200d👩\u200d👧\u200d👦",
    "❤\ufe0f",
    "👍🏽",
    "🧑🏿\u200d🚀",
    "🇩🇪",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # Scotland
    "1\ufe0f\u20e3",
    "\u1112\u1161\u11ab",  # Hangul as jamo
    "\ud55c\u11ab",
    "각",
    "\r\n",
    "क्षि",
    "நி",
    " \u0301",  # a space that carries an accent
]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_nothing_that_people_read_as_one_sign_is_torn(cluster: str) -> None:
    text = f"a{cluster}b"
    assert [at for at in range(len(text) + 1) if is_boundary(text, at)] == [0, 1, len(text) - 1, len(text)]


def test_flags_are_pairs_from_where_their_row_begins() -> None:
    assert [at for at in range(9) if is_boundary("🇩🇪🇫🇷🇮🇹🇪🇸", at)] == [0, 2, 4, 6, 8]


def test_letters_beside_each_other_are_signs_of_their_own() -> None:
    text = "aé漢字🙂🙂ж한국"
    assert all(is_boundary(text, at) for at in range(len(text) + 1))


def test_a_pile_of_accents_is_cut_all_the_same_and_the_way_back_has_a_bound() -> None:
    text = "e" + "\u0301" * 1000
    assert find_boundary(text, 500, 0) == 500
    assert find_boundary("x" * 10 + "e" + "\u0301" * (LONGEST_CLUSTER - 2), 20, 0) == 10


@given(st.text(max_size=60), st.sampled_from(TextUnit), st.integers(0, 120), st.integers(0, 10))
def test_what_is_found_to_fit_fits_and_one_more_would_not(text: str, unit: TextUnit, room: int, start: int) -> None:
    start = min(start, len(text))
    end = find_end(text, start, room, unit)
    assert measure(text[start:end], unit) <= room
    assert end == len(text) or measure(text[start : end + 1], unit) > room


@given(st.lists(st.sampled_from([*CLUSTERS, "a", "漢"]), max_size=30), st.sampled_from(TextUnit), st.integers(1, 60))
def test_a_shortened_text_is_within_its_limit_and_says_that_it_is_cut(
    signs: list[str], unit: TextUnit, limit: int
) -> None:
    text = "".join(signs)
    short = shorten(text, limit, unit)
    assert measure(short, unit) <= limit
    assert short == text or short.endswith("…") or limit < measure("…", unit)


def test_a_text_that_is_short_whatever_it_holds_is_not_measured() -> None:
    class Unmeasurable(str):
        def encode(self, *_: object) -> bytes:
            raise AssertionError("it was measured")

        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("it was measured")

    assert all(fits(Unmeasurable("x" * 100), 100 * WIDEST[unit], unit) for unit in TextUnit)


def test_platforms_count_an_emoji_in_their_own_way() -> None:
    assert [measure("a🙂é", unit) for unit in TextUnit] == [3, 4, 7, 7, 4]
    assert measure("a&b <c>", TextUnit.ESCAPED) == len("a&amp;b &lt;c&gt;")


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("hello", 5),
        ("main.py", 23),
        ("see README.md", 27),
        ("a.b", 3),
        ("3.14", 4),
        ("https://example.com/" + "x" * 300, 23),
        ("http://host.internal/a", 7 + 23 + 2),
        ("漢字", 4),
        ("🙂", 2),
        ("@ann", 5),
        ("…", 2),
    ],
)
def test_a_text_is_weighed_as_x_does_or_a_little_more(text: str, weight: int) -> None:
    assert measure(text, TextUnit.WEIGHTED) == weight
