"""Patterns: globs cover what they should, expressions mean what `re` means, and none can search for ever."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Invalid
from gatepost.flow.intake.patterns import LONGEST_REGEX, MatchLimit, MatchLimitExceeded, compile_glob, compile_search

SEGMENT = st.text("abx:-", min_size=1, max_size=4)
PATH = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)
PATTERN = st.lists(st.sampled_from(["a", "b", "/", "*", "**", "?", "[ab]", "[!a]", "x"]), min_size=1, max_size=9).map(
    "".join
)


def slowly_fits(pattern: str, value: str) -> bool:
    """The meaning, spelled out by trying everything: what the compiled form is compared with."""

    def at(p: int, v: int) -> bool:
        if p == len(pattern):
            return v == len(value)
        if pattern.startswith("**", p):
            rest = p + len(pattern[p:]) - len(pattern[p:].lstrip("*"))
            return any(at(rest, later) for later in range(v, len(value) + 1))
        if pattern[p] == "*":
            end = value.find("/", v)
            return any(at(p + 1, later) for later in range(v, (end if end >= 0 else len(value)) + 1))
        if v == len(value):
            return False
        if pattern[p] == "[":
            close = pattern.index("]", p + 2)
            inner = pattern[p + 1 : close]
            fits = (value[v] not in inner[1:]) if inner[0] == "!" else value[v] in inner
            return fits and value[v] != "/" and at(close + 1, v + 1)
        return (value[v] == pattern[p] or (pattern[p] == "?" and value[v] != "/")) and at(p + 1, v + 1)

    return value != "" and at(0, 0)


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("a/**", "a", True),
        ("a/**", "a/b/c", True),
        ("a/**", "ab", False),
        ("a/*", "a/b", True),
        ("a/*", "a/b/c", False),
        ("**/x", "a/b/x", True),
        ("**/x", "x", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("**", "a/b", True),
    ],
)
def test_arizuko_10_double_stars_cover_segments_also_none(pattern: str, value: str, fits: bool) -> None:
    assert compile_glob(pattern)(value) is fits


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("google:*", "google:1/2", False),
        ("google:**", "google:1/2", True),
        ("folder:acme/**", "folder:acme", True),
        ("telegram:*/*", "telegram:group/12", True),
    ],
)
def test_arizuko_11_a_star_stays_in_its_segment(pattern: str, value: str, fits: bool) -> None:
    assert compile_glob(pattern)(value) is fits


def test_a_lone_star_means_present() -> None:
    present = compile_glob("*")
    assert present("group/12")
    assert not present("")


def test_alternatives_sets_and_question_marks_stay_within_a_segment() -> None:
    either = compile_glob("dm/*|group/[1-3]?")
    assert [either(value) for value in ("dm/9", "group/12", "group/42", "group/1/")] == [True, True, False, False]
    assert compile_glob("[]]")("]")
    assert compile_glob("a[|]b|c")("a|b")
    assert not compile_glob("a[/]b")("a/b")
    assert not compile_glob("a?b")("a/b")


def test_text_has_no_segments() -> None:
    assert compile_glob("*urgent*", True)("see https://x/y: urgent\nplease")
    assert not compile_glob("*urgent*")("a/urgent")


def test_case_matters() -> None:
    assert not compile_glob("Group/*")("group/1")


@pytest.mark.parametrize("pattern", ["[", "a[b", "a||b", "|", "[z-a]", "[!]", "x" * 513, "**/a/**/b/**/c/**/d/**"])
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        compile_glob(pattern)


def test_a_pattern_full_of_stars_does_not_search_for_ever() -> None:
    value = "a" * 500
    assert not compile_glob("*a" * 40 + "*b")(value)
    assert not compile_glob("**a*a" * 4 + "b")(value)
    assert not compile_glob("*a" * 40 + "*b", True)("a" * 60_000)


@given(PATTERN, PATH)
def test_the_compiled_form_means_what_trying_everything_means(pattern: str, value: str) -> None:
    if pattern == "*" or ("/" in pattern and any(set(segment) == {"*"} for segment in pattern.split("/"))):
        return  # these mean more than their characters do, and are spelled out above
    try:
        fits = compile_glob(pattern)
    except Invalid:
        return
    assert fits(value) is slowly_fits(pattern, value)


@given(PATH, PATH)
def test_double_stars_cover_everything_below(top: str, below: str) -> None:
    covers = compile_glob(f"{top}/**")
    assert covers(top)
    assert covers(f"{top}/{below}")
    assert compile_glob(f"**/{below}")(f"{top}/{below}")


@given(st.text(max_size=30), st.text(max_size=60), st.booleans())
def test_compiling_and_matching_are_total(pattern: str, value: str, plain: bool) -> None:
    try:
        fits = compile_glob(pattern, plain)
    except Invalid:
        return
    assert fits(value) in (True, False)


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
    "pattern",
    ["(", "(?=a)", r"(a)\1", "a*+", "(?>a)", "a{1,9999}", "x" * (LONGEST_REGEX + 1), "(a{30}){40}", r"\pL{50}"],
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
