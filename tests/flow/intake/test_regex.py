"""Regular expressions of routes: the meaning of `re` for ASCII, without its bad days."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Invalid
from gatepost.flow.intake.match_limits import MatchLimit, MatchLimitExceeded
from gatepost.flow.intake.regex import LONGEST, compile_search

ATOM = st.sampled_from(["a", "b", "é", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", "^", "$", r"\b", r"\.", "{"])
QUANTIFIER = st.sampled_from(["", "", "*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"])
PIECE = st.tuples(ATOM, QUANTIFIER).map(lambda pair: pair[0] + (pair[1] if pair[0][-1] not in "^$b" else ""))
EXPRESSION = st.recursive(
    PIECE,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner, QUANTIFIER).map(lambda t: f"({t[0]}|{t[1]}){t[2]}"),
        st.tuples(inner, QUANTIFIER).map(lambda t: f"(?:{t[0]}){t[1]}"),
    ),
    max_leaves=5,
)


@given(EXPRESSION, st.text("abé1 .\n{", max_size=8), st.booleans())
def test_it_finds_what_re_finds(pattern: str, text: str, ignore_case: bool) -> None:
    pattern = ("(?i)" if ignore_case else "") + pattern
    try:
        expected = re.search(pattern.replace("$", r"\Z"), text, re.ASCII) is not None
    except re.error:
        return
    try:
        search = compile_search(pattern)
    except Invalid:
        return  # too large
    assert search(text, MatchLimit()) is expected


def test_a_catastrophic_pattern_takes_time_by_the_length_of_the_text_only() -> None:
    text = "a" * 5000 + "!"
    for pattern in ("(a+)+$", "^(a|a)*$", "(a*)*b", ".*.*.*.*=", "(a?){50}a{50}b"):
        assert compile_search(pattern)(text, MatchLimit()) is False


@pytest.mark.parametrize(
    "pattern", ["(", "(?=a)", r"(a)\1", "a*+", "(?>a)", "a{1,9999}", "x" * (LONGEST + 1), "(a{30}){40}", r"\pL{50}"]
)
def test_what_cannot_be_bounded_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        compile_search(pattern)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(?=a)b", r"/(?=a)b/ cannot be used as a regular expression: (?= is not supported: look-around"),
        (r"(a)\1", r"\1 is not supported: look-around and references to groups"),
        ("a{2000}", "{2000} repeats too often; at most 1000"),
        (r"\pL{50}", "it is too large; use smaller numbers"),
        ("(a", "missing )"),
    ],
)
def test_nanoclaw_12_what_cannot_be_used_is_refused_with_the_pattern_and_the_reason(pattern: str, said: str) -> None:
    with pytest.raises(Invalid, match=re.escape(said)):
        compile_search(pattern)


@pytest.mark.parametrize("pattern", ["(?:){4000000000}", "(?:){0,4000000000}", "(?:(?:){1000}){1000}", "a{,3}"])
def test_stranger_01_a_huge_repetition_of_nothing_is_refused_at_once(pattern: str) -> None:
    with pytest.raises(Invalid, match="cannot be used as a regular expression"):
        compile_search(pattern)


def test_stranger_01_the_program_and_not_the_pattern_is_bounded() -> None:
    large = compile_search("(a{1,20}){1,20}b")
    with pytest.raises(MatchLimitExceeded):
        large("a" * 4000, MatchLimit(10_000))


def test_upper_and_lower_case_can_be_ignored() -> None:
    assert compile_search("(?i)^(bug|fehler)\\b")("BUG: it broke", MatchLimit())
    assert not compile_search("^(bug|fehler)\\b")("BUG: it broke", MatchLimit())


@pytest.mark.parametrize("pattern", ["(a|aa)+b", "(.*a){20}b", "x|y|z", "(.{1,20}){1,5}b"])
def test_an_effort_that_is_spent_ends_the_search(pattern: str) -> None:
    effort = MatchLimit(500)
    with pytest.raises(MatchLimitExceeded):
        compile_search(pattern)("ac" * 50_000, effort)
    assert compile_search(pattern)("ac" * 100, MatchLimit()) is False
