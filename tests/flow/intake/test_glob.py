"""Globs: what covers what, and that no pattern can be made to search for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Invalid
from gatepost.flow.intake.glob import compile_glob

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
