"""Rows of the access list: checks 10 to 14 of the reference, and what may be given on."""

import sys
from collections import Counter

import pytest

from gatepost.access.acl import (
    authorize,
    covers_action,
    covers_scope,
    expand_roles,
    find_refusal_reason,
    list_valid_rows,
    makes_cycle,
    matches_principal,
    matches_scope,
)
from gatepost.store.rights.acl import OPERATOR, AclEffect, AclRow

ADA = "telegram:user/9"


def row(number: int, principal: str, action: str, scope: str = "**", *, deny: bool = False, **more: object) -> AclRow:
    effect = AclEffect.DENY if deny else AclEffect.ALLOW
    return AclRow(id=number, principal=principal, action=action, scope=scope, effect=effect, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("glob", "folder", "matches"),
    [
        ("a/**", "a", True),
        ("a/**", "a/b/c", True),
        ("a/**", "ab", False),
        ("a/*", "a/b", True),
        ("a/*", "a/b/c", False),
        ("**/x", "a/b/x", True),
        ("**/x", "x", True),
        ("**", "a/b", True),
        ("a/?", "a/b", True),
        ("a/[bc]", "a/c", True),
        ("a/[!bc]", "a/c", False),
        ("a/[", "a/[", True),
        ("a/[z-a]", "a/b", False),
        ("*", "", True),
        ("a.b", "axb", False),
    ],
)
def test_arizuko_10_scopes_are_globs_over_segments(glob: str, folder: str, matches: bool) -> None:
    assert matches_scope(glob, folder) is matches


@pytest.mark.parametrize(
    ("pattern", "principal", "matches"),
    [
        ("google:*", "google:1", True),
        ("google:*", "google:1/2", False),
        ("google:**", "google:1/2", True),
        ("folder:acme/**", "folder:acme", True),
        ("folder:acme/**", "folder:acmes", False),
        ("*", "google:1", False),
        ("**", "google:1", True),
        ("google:1", "google:1", True),
    ],
)
def test_arizuko_11_principals_are_matched_in_their_name_space(pattern: str, principal: str, matches: bool) -> None:
    assert matches_principal(pattern, principal) is matches


@pytest.mark.parametrize(
    ("held", "wanted", "covers"),
    [
        ("admin", "interact", True),
        ("admin", "mcp:send", True),
        ("admin", "egress", False),
        ("mcp:*", "interact", False),
        ("mcp:*", "mcp:github_create-issue", True),
        ("mcp:send*", "mcp:send_file", False),
        ("*", "egress", True),
    ],
)
def test_arizuko_12_actions_form_a_lattice(held: str, wanted: str, covers: bool) -> None:
    assert covers_action(held, wanted) is covers


def test_arizuko_13_a_denial_beats_an_allowance_on_the_same_triple() -> None:
    rows = [row(1, ADA, "interact", "acme"), row(2, ADA, "interact", "acme", deny=True)]
    assert authorize(rows, frozenset([ADA]), "interact", "acme") is False


def test_arizuko_13_three_levels_of_roles_grant_and_nobody_becomes_a_member_of_itself() -> None:
    members = {ADA: ["role:a"], "role:a": ["role:b"], "role:b": ["role:c"]}
    who = expand_roles([ADA], members)

    assert authorize([row(1, "role:c", "admin", "acme/**")], who, "mcp:send", "acme/eng") is True
    assert makes_cycle("role:c", "role:a", members)
    assert makes_cycle("role:a", "role:a", members)
    assert not makes_cycle("role:x", "role:a", members)


@pytest.mark.parametrize(
    ("held", "wanted", "covers"),
    [
        ("acme/*", "acme/**", False),
        ("acme/*", "acme/e*", False),
        ("acme/*", "acme/eng", True),
        ("acme/**", "acme", True),
        ("acme/**", "acme/eng/**", True),
        ("acme/**", "acmes", False),
        ("**", "anything/**", True),
        ("acme", "acme", True),
    ],
)
def test_arizuko_14_what_is_held_covers_what_is_given_on(held: str, wanted: str, covers: bool) -> None:
    assert covers_scope(held, wanted) is covers


def test_conditions_that_cannot_be_read_hold_for_a_denial_alone() -> None:
    who = frozenset([ADA])
    assert authorize([row(1, ADA, "interact", params="(x")], who, "interact", "acme") is None
    assert authorize([row(1, ADA, "interact", params="(x", deny=True)], who, "interact", "acme") is False


def test_a_predicate_speaks_of_who_calls_and_needs_a_value() -> None:
    rows, who = [row(1, ADA, "interact", predicate="platform=slack, user")], frozenset([ADA])
    assert authorize(rows, who, "interact", "acme", claims={"platform": "slack", "user": "u"}) is True
    assert authorize(rows, who, "interact", "acme", claims={"platform": "slack", "user": ""}) is None
    assert authorize(rows, who, "interact", "acme", claims={"platform": "irc", "user": "u"}) is None


def test_only_who_holds_with_the_option_gives_on_and_never_more() -> None:
    held = [row(1, ADA, "admin", "acme/**", grant_option=True)]

    def given(principal: str, action: str, scope: str, **more: object) -> str:
        return find_refusal_reason(held, {}, ADA, row(9, principal, action, scope, **more))  # type: ignore[arg-type]

    assert given("role:eng", "mcp:send", "acme/eng") == ""
    assert "does not hold" in given("role:eng", "mcp:send", "other")
    assert "does not hold" in given("role:eng", "egress", "acme/eng")
    assert "only the operator can deny" in given("role:eng", "mcp:send", "acme/eng", deny=True)
    assert "pattern" in given("role:*", "mcp:send", "acme/eng")
    assert "does not hold" in find_refusal_reason(
        [row(1, ADA, "admin", "acme/**")], {}, ADA, row(9, "role:eng", "mcp:send", "acme")
    )


def test_what_the_giver_is_denied_itself_cannot_be_given_on() -> None:
    held = [row(1, ADA, "admin", "acme/**", grant_option=True), row(2, ADA, "mcp:send", "acme/eng", deny=True)]
    assert "is denied" in find_refusal_reason(held, {}, ADA, row(9, "role:eng", "mcp:send", "acme/**"))


def test_what_was_given_on_counts_for_nothing_once_its_giver_has_lost_it() -> None:
    first = row(1, ADA, "admin", "acme/**", grant_option=True)
    second = row(2, "role:eng", "mcp:send", "acme/eng", granted_by=ADA, grant_option=True)
    third = row(3, "role:sre", "mcp:send", "acme/eng", granted_by="role:eng")

    assert list_valid_rows([third, second, first], {}) == (first, second, third)
    assert list_valid_rows([second, third], {}) == ()


def test_two_who_gave_to_each_other_what_nobody_gave_them_hold_nothing() -> None:
    one = row(1, "role:a", "admin", granted_by="role:b", grant_option=True)
    two = row(2, "role:b", "admin", granted_by="role:a", grant_option=True)
    assert list_valid_rows([one, two], {}) == ()


def test_the_operator_gives_everything() -> None:
    assert find_refusal_reason([], {ADA: [OPERATOR]}, ADA, row(1, "**", "*", deny=True)) == ""


def test_stranger_03_a_scope_of_many_double_stars_takes_time_by_the_folders_length_alone() -> None:
    deep = "/".join("a" * 100)
    assert not matches_scope("/".join(["**", "a"] * 24) + "/b", deep)
    assert matches_scope("/".join(["**", "a"] * 24), deep)
    assert not matches_scope("*a" * 60 + "b", "a" * 250)


def count_calls(people: int) -> int:
    """Return how many functions are called to judge the rows that somebody gave to so many."""
    actions = [f"op:{number}.read" for number in range(15)]
    own = [row(number, ADA, each, "acme/**", grant_option=True) for number, each in enumerate(actions)]
    given = [
        row(100 * person + number, f"web:user/{people}-{person}", each, "acme/**", granted_by=ADA)
        for person in range(1, people + 1)
        for number, each in enumerate(actions)
    ]
    calls = Counter[str]()
    sys.setprofile(lambda frame, event, arg: calls.update([event]))
    try:
        valid = list_valid_rows([*own, *given], {})
    finally:
        sys.setprofile(None)
    assert len(valid) == len(own) + len(given)
    return calls["call"]


def test_what_somebody_gave_to_hundreds_is_judged_in_linear_time() -> None:
    """It is judged with each change of a row, in the writer: 200 people who were invited took a second."""
    assert count_calls(80) < 3 * count_calls(40)
