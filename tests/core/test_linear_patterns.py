"""Patterns of others: what a glob covers, what an expression may ask, and that none leaves its segment."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.linear_patterns import (
    LONGEST,
    BadPattern,
    compile_linear_regex,
    glob_to_regex,
    is_glob,
    matches_wildcard,
)


def fits(glob: str, text: str, *, plain: bool = False, across: bool = False) -> bool:
    return compile_linear_regex(glob_to_regex(glob, plain=plain, across=across)).fits(text)


@pytest.mark.parametrize(
    ("glob", "inside", "outside"),
    [
        ("acme", ["acme"], ["acme/eng", "acmes", "my/acme", "ACME", ""]),
        ("acme/*", ["acme/eng", "acme/"], ["acme", "acme/eng/1", "acme-2/eng"]),
        ("acme/**", ["acme", "acme/eng", "acme/eng/1"], ["acme-2", "acmes/eng", "my/acme"]),
        ("acme/**/clerk", ["acme/clerk", "acme/a/clerk", "acme/a/b/clerk"], ["acme/xclerk", "acme/clerk/1", "clerk"]),
        ("**/clerk", ["clerk", "acme/clerk", "acme/a/clerk"], ["acme/xclerk", "clerks"]),
        ("**", ["", "acme", "acme/eng/1"], []),
        ("a/**/**/b", ["a/b", "a/x/b"], ["ab", "a/xb"]),
        ("a/***", ["a", "a/b/c"], ["ab"]),  # more than two stars mean what two do
        ("a**", ["a", "ab"], ["a/b"]),  # within a segment two stars are one
        ("room/?", ["room/1"], ["room/", "room/12", "room//"]),
        ("a.c", ["a.c"], ["abc"]),
        ("a+(b)", ["a+(b)"], ["aab", "ab"]),
        ("x/[a-c]", ["x/a", "x/c"], ["x/d", "x/-", "x/"]),
        ("x/[!a-c]", ["x/d"], ["x/a", "x/", "x//"]),
        ("x/[^a]", ["x/b"], ["x/a"]),
        ("x/[]a]", ["x/]", "x/a"], ["x/b"]),
        ("x/[a-]", ["x/a", "x/-"], ["x/b"]),
        ("x[.-0]y", ["x.y", "x0y"], ["x/y", "x1y"]),  # the slash lies between these two, and is in no set
        ("x[/]y", ["x[/]y"], ["x/y"]),  # a slash ends the segment, and so the bracket is never closed
        ("x[y", ["x[y"], ["xy"]),  # never closed: a bracket like any other sign
    ],
)
def test_a_glob_covers_whole_segments(glob: str, inside: list[str], outside: list[str]) -> None:
    assert [text for text in inside if not fits(glob, text)] == []
    assert [text for text in outside if fits(glob, text)] == []


def test_stars_side_by_side_may_cross_segments_where_that_is_asked_for() -> None:
    assert fits("a**", "a/b/c", across=True)
    assert not fits("a*", "a/b", across=True)


def test_plain_text_has_no_segments() -> None:
    assert fits("deploy *", "deploy to a/b", plain=True)
    assert fits("a?c", "a/c", plain=True)
    assert fits("[!a]", "/", plain=True)
    assert fits("[/]", "/", plain=True)
    assert not fits("deploy *", "please deploy it", plain=True)


def test_a_star_also_covers_a_line_break() -> None:
    """Else a second line would slip by a rule that denies."""
    assert fits("rm *", "rm a\nb", plain=True)
    assert fits("x/*", "x/a\nb")


@pytest.mark.parametrize("glob", ["x[z-a]", "x[]", "[!]"])
def test_a_set_without_characters_is_refused(glob: str) -> None:
    with pytest.raises(BadPattern, match=r"names no character|: z-a runs backwards"):
        glob_to_regex(glob)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("a" * (LONGEST + 1), "at most 8192 are possible"),
        (r"(?=a)b", "look-around"),
        (r"(a)\1", "references to groups"),
        ("a{,5}", "write {0,9}"),
        ("a{10000}", "at most 1000"),
        ("a{1001}", "at most 1000"),
        ("(a{100}){100}", "too often|too large"),
        (r"(\pL{1000}){1}", "too large"),
        ("(a", "missing"),
        ("[z-a]", "range"),
    ],
)
def test_an_expression_that_is_not_possible_says_why(expression: str, why: str) -> None:
    with pytest.raises(BadPattern, match=why):
        compile_linear_regex(expression)


def test_the_longest_expression_that_is_possible_is_compiled() -> None:
    assert compile_linear_regex("|".join(["ab"] * 100)).occurs_in("xxabxx")
    with pytest.raises(BadPattern, match="too large"):  # short enough to be read, and its program is too long
        compile_linear_regex("ab?" * (LONGEST // 3))


def test_an_expression_occurs_anywhere_or_covers_all() -> None:
    found = compile_linear_regex(r"\d{3}")
    assert found.occurs_in("call 112 now") and not found.occurs_in("call 11 now")
    assert found.fits("112") and not found.fits("1123")
    assert not compile_linear_regex("a.c").occurs_in("a\nc")


def test_half_a_character_is_judged_and_breaks_nothing() -> None:
    assert compile_linear_regex("a.b").fits("a\ud800b")


def test_only_the_signs_of_globs_make_one() -> None:
    assert all(map(is_glob, ["a*", "a?", "[a"]))
    assert not any(map(is_glob, ["acme/eng", "a+b", "a]", ""]))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("abc", "abc", True), ("abc", "abcd", False), ("", "", True), ("", "a", False),
        ("*", "", True), ("*", "any\nthing", True), ("**", "", True),
        ("a*a", "a", False), ("a*a", "aa", True),  # one letter is not both ends
        ("ab*ba", "aba", False), ("*.example.com", "example.com", False), ("*.example.com", "a.example.com", True),
        ("a*b*c", "a-b-c", True), ("a*b*c", "a-c-b", False), ("a*b*c", "abbc", True), ("a*bc*c", "abc", False),
        ("*x*", "axb", True), ("*x*", "ab", False), ("a?c", "abc", False), ("a?c", "a?c", True), ("[a]", "a", False),
    ],
)  # fmt: skip
def test_a_wildcard_is_a_star_and_nothing_else(pattern: str, text: str, expected: bool) -> None:
    assert matches_wildcard(pattern, text) is expected


@given(st.text("ab*", max_size=7), st.text("ab", max_size=9))
def test_a_wildcard_fits_what_trying_everything_fits(pattern: str, text: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
    assert matches_wildcard(pattern, text) is expected
