"""The rule language: checks 1 to 9 of the reference, with our differences."""

import pytest

from gatepost.access.grants import find_deciding, find_syntax_error, list_matching, parse


def says(rules: list[str], action: str, **params: str) -> bool | None:
    """None: no rule speaks of it."""
    rule = find_deciding([parse(rule) for rule in rules], action, params)
    return None if rule is None else not rule.deny


def test_arizuko_1_a_star_means_every_tool_whatever_its_name() -> None:
    assert says(["*"], "send") is True
    assert says(["*"], "github_create-issue") is True


def test_arizuko_2_the_last_rule_that_matches_wins() -> None:
    assert says(["*", "!send"], "send") is False
    assert says(["*", "!send"], "reply") is True
    assert says(["!send", "send"], "send") is True


def test_arizuko_3_no_rule_says_nothing_and_a_rule_with_params_needs_them() -> None:
    assert says([], "send") is None
    assert says(["send(jid=telegram:*)"], "send") is None


def test_arizuko_4_a_pattern_holds_for_its_parameter_and_stops_at_a_comma() -> None:
    rules = ["send(jid=telegram:*)"]
    assert says(rules, "send", jid="telegram:group/1") is True
    assert says(rules, "send", jid="discord:1") is None
    assert says(rules, "send", jid="telegram:a,b") is None
    assert says(rules, "send", jid="telegram:a)") is None


def test_arizuko_5_a_negated_parameter_must_be_absent() -> None:
    assert says(["send_file(!jid)"], "send_file") is True
    assert says(["send_file(!jid)"], "send_file", jid="x:1") is None


@pytest.mark.parametrize("text", ["foo(a=1", "send(a=1)x", "send((a=1)", "send(a=1))", "send(=1)"])
def test_arizuko_6_a_rule_that_cannot_be_read_allows_nothing(text: str) -> None:
    assert parse(text).action == ""
    assert says([text], "foo", a="1") is None
    assert says([text], "send", a="1") is None
    assert find_syntax_error(text)


def test_a_denial_whose_conditions_cannot_be_read_holds_without_them() -> None:
    assert says(["send", "!send(a=1"], "send") is False
    assert says(["send", "!send(a=1"], "reply") is None


@pytest.mark.parametrize("text", ["", "!", " send ", "send (", "!(a=1)"])
def test_a_rule_that_names_no_tool_is_not_written_down(text: str) -> None:
    assert find_syntax_error(text)


def test_arizuko_7_order_decides_between_a_general_and_a_special_rule() -> None:
    assert says(["send", "!send(jid=discord:*)"], "send", jid="discord:1") is False
    assert says(["send", "!send(jid=discord:*)"], "send", jid="telegram:1") is True
    assert says(["!send(jid=discord:*)", "send"], "send", jid="discord:1") is True


def test_arizuko_8_all_rules_that_speak_of_a_tool_are_found_for_its_description() -> None:
    rules = [parse(rule) for rule in ("send", "!send", "reply", "send(jid=tg:*)")]
    assert [rule.text for rule in list_matching(rules, "send")] == ["send", "!send", "send(jid=tg:*)"]


def test_a_bare_parameter_must_be_present_with_any_value() -> None:
    assert says(["send(thread)"], "send", thread="7") is True
    assert says(["send(thread)"], "send", thread="") is True
    assert says(["send(thread)"], "send") is None


def test_stranger_03_a_rule_full_of_stars_does_not_search_for_ever() -> None:
    rule = parse(f"send(jid={'*a' * 60}*b)")
    assert find_deciding([rule], "send", {"jid": "a" * 20_000}) is None
    assert find_deciding([rule], "send", {"jid": "a" * 20_000 + "b"}) is rule
    assert find_deciding([parse("*e*" * 40)], "e" * 20_000 + "x", {}) is not None
