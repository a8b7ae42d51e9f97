"""Three answers for a kind of thing, and the rules that they become."""

import random

import pytest

from gatepost.access.choices import (
    IN_ROOMS,
    Permission,
    find_general,
    find_permission,
    get_strictest,
    list_exceptions,
    list_room_answers,
    put_answer,
    put_room_answer,
)
from gatepost.access.grants import find_deciding, find_granting, parse
from gatepost.access.subjects import Subject, make_effects

SPEAKS = make_effects([Subject.SPEAK])
FILES = make_effects([Subject.SPEAK, Subject.HAND_OUT])


def decide(rules: list[str], tool: str, room: str = "web:home") -> str:
    effects = FILES if tool == "send_file" else SPEAKS
    rule = find_deciding([parse(each) for each in rules], tool, {}, effects=effects, room=room)
    return rule.effect if rule is not None else "tier"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], Permission.YES),
        (["hold speak"], Permission.ASK),
        (["!speak"], Permission.NO),
        (["hold speak", "!speak"], Permission.NO),
        (["!speak", "speak"], Permission.YES),
        (["!speak", "hold *"], Permission.NO),
        (["hold *"], Permission.ASK),
        (["hold speak(jid=web:*)"], Permission.YES),
        (["hold send"], Permission.YES),
        (["!hand_out"], Permission.YES),
    ],
)
def test_the_answer_is_that_of_the_rules_without_conditions(rules: list[str], expected: Permission) -> None:
    assert find_permission([parse(each) for each in rules], Subject.SPEAK) is expected


@pytest.mark.parametrize("permission", Permission)
def test_an_answer_takes_the_place_of_an_earlier_one_and_leaves_everything_else(permission: Permission) -> None:
    rules = ["speak", "hold speak(jid=discord:*)", "!speak", "like", "hold hand_out"]
    made = put_answer([parse(each) for each in rules], Subject.SPEAK, permission)
    assert find_permission([parse(each) for each in made], Subject.SPEAK) is permission
    kept = [each for each in made if each not in ("!speak", "hold speak")]
    assert kept == ["speak", "hold speak(jid=discord:*)", "like", "hold hand_out"]
    assert put_answer([parse(each) for each in made], Subject.SPEAK, permission) == made


def test_exceptions_hold_in_front_of_a_stricter_answer() -> None:
    rules = ["like", "speak(jid=web:*)"]
    never = put_answer([parse(each) for each in rules], Subject.SPEAK, Permission.NO)
    assert [decide(never, "send", "discord:1"), decide(never, "send"), decide(never, "like", "discord:1")] == [
        "deny",
        "allow",
        "allow",
    ]
    asks = put_answer([parse(each) for each in rules], Subject.SPEAK, Permission.ASK)
    assert [decide(asks, "send_file", "discord:1"), decide(asks, "like", "discord:1")] == ["hold", "allow"]


def effective(rules: list[str], tool: str, room: str) -> int:
    """Return how strict the rules are about a call: 0 allowed beyond its tier, 1 as its tier says, 2 held, 3 denied."""
    parsed, effects = [parse(each) for each in rules], FILES if tool == "send_file" else SPEAKS
    granting = find_granting(parsed, tool, {}, effects, room)
    if granting is not None and granting.deny:
        return 3
    deciding = find_deciding(parsed, tool, {}, effects=effects, room=room)
    return 2 if deciding is not None and deciding.hold else 1 if granting is None else 0


def test_no_never_gives_what_was_not_given_and_ask_lets_nothing_pass_that_waited() -> None:
    """Whatever rules stand there, in whatever order and however often: an exception that was outweighed stays so."""
    drawn = random.Random(5)
    words = [
        "speak",
        "!speak",
        "hold speak",
        "like",
        "!send",
        "hold send_file",
        "speak(jid=web:*)",
        "hold hand_out",
        "!*",
    ]
    calls = [(tool, room) for tool in ("send", "like", "send_file") for room in ("web:home", "discord:1")]
    for _ in range(2000):
        rules = drawn.choices(words, k=drawn.randint(0, 6))
        parsed = [parse(each) for each in rules]
        never = put_answer(parsed, Subject.SPEAK, Permission.NO)
        asks = put_answer(parsed, Subject.SPEAK, Permission.ASK)
        for call in calls:
            before = effective(rules, *call)
            assert effective(never, *call) >= before, (rules, call)
            assert effective(asks, *call) >= min(before, 2), (rules, call)
        for made in (never, asks):
            assert sorted(each for each in made if each not in ("!speak", "hold speak")) == sorted(
                each for each in rules if each not in ("!speak", "hold speak")
            )


def test_an_exception_that_was_outweighed_stays_so() -> None:
    assert put_answer([parse("like"), parse("!speak")], Subject.SPEAK, Permission.ASK) == ["like", "hold speak"]
    assert put_answer([parse("hold speak"), parse("like")], Subject.SPEAK, Permission.NO) == ["!speak", "like"]


def test_exceptions_are_rules_of_a_room_or_of_a_tool_that_does_it() -> None:
    rules = [parse(each) for each in ("hold speak", "!speak(jid=discord:*)", "hold send_file", "schedule_task")]
    found = list_exceptions(rules, Subject.SPEAK, ["send", "send_file"])
    assert [each.text for each in found] == ["!speak(jid=discord:*)", "hold send_file"]


def test_the_strictest_answer_holds() -> None:
    assert get_strictest([Permission.ASK, Permission.NO, Permission.YES]) is Permission.NO
    assert get_strictest([]) is Permission.YES


def test_a_rule_about_everything_is_found_if_it_restricts() -> None:
    found = find_general([parse(each) for each in ("!*", "*", "hold speak")])
    assert found is not None and found.text == "!*"
    assert find_general([parse("*")]) is None


ROOM = "telegram:group/1"


@pytest.mark.parametrize("general", [[], ["hold speak"], ["!speak"], ["like", "!speak", "speak"]])
@pytest.mark.parametrize(
    ("permission", "effect"), [(Permission.YES, "allow"), (Permission.ASK, "hold"), (Permission.NO, "deny")]
)
def test_an_answer_for_a_room_decides_there_and_nowhere_else(
    general: list[str], permission: Permission, effect: str
) -> None:
    made = put_room_answer([parse(each) for each in general], Subject.SPEAK, permission, ROOM)
    assert decide(made, "send", ROOM) == effect
    assert decide(made, "send", "web:home") == decide(general, "send", "web:home")
    granting = find_granting([parse(each) for each in made], "send", {}, SPEAKS, ROOM)
    assert (granting is not None and granting.deny) is (permission is Permission.NO)
    assert list_room_answers([parse(each) for each in made], Subject.SPEAK) == {ROOM: permission}


def test_another_answer_for_a_room_takes_the_place_of_the_first_and_leaves_patterns() -> None:
    first = put_room_answer([parse("!speak"), parse("hold speak(jid=web:*)")], Subject.SPEAK, Permission.ASK, ROOM)
    assert first == ["!speak", "hold speak(jid=web:*)", f"speak(jid={ROOM})", f"hold speak(jid={ROOM})"]
    again = put_room_answer([parse(each) for each in first], Subject.SPEAK, Permission.NO, ROOM)
    assert again == ["!speak", "hold speak(jid=web:*)", f"!speak(jid={ROOM})"]


def test_only_what_is_done_in_rooms_has_an_answer_for_one() -> None:
    assert {Subject.SPEAK, Subject.HAND_OUT} == IN_ROOMS
