"""Three answers to whether an agent may do a kind of thing, and the rules of its group that say so.

A rule without conditions about a subject is its answer. Other rules are exceptions where they stand behind it: of the
rules that match a call the last decides.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

from gatepost.access.grants import GrantRule
from gatepost.access.subjects import ROOM_PARAM, Subject

EVERYTHING = "*"
# What is done in a room. A restriction of another subject to one room would hold everywhere: its calls have no room.
IN_ROOMS = frozenset({Subject.SPEAK, Subject.HAND_OUT})


class Permission(StrEnum):
    YES = "yes"  # what its place in the tree gives it
    ASK = "ask"  # a person agrees to each call
    NO = "no"


# The rule of each answer; none for what needs none.
_ANSWERS: dict[Permission, Callable[[Subject], tuple[str, ...]]] = {
    Permission.YES: lambda subject: (),
    Permission.ASK: lambda subject: (f"hold {subject}",),
    Permission.NO: lambda subject: (f"!{subject}",),
}
_STRICTNESS = {Permission.YES: 0, Permission.ASK: 1, Permission.NO: 2}


def find_permission(rules: Sequence[GrantRule], subject: Subject) -> Permission:
    """Return the answer of a group's own rules, without their exceptions. A denial binds whatever stands behind it
    about everything."""
    plain = [rule for rule in rules if _is_about(rule, subject)]
    granting = [rule for rule in plain if not rule.hold]
    if granting and granting[-1].deny:
        return Permission.NO
    last = plain[-1] if plain else None
    return Permission.ASK if last is not None and last.hold else Permission.YES


def get_strictest(found: Sequence[Permission]) -> Permission:
    return max(found, key=_STRICTNESS.__getitem__, default=Permission.YES)


def list_exceptions(rules: Sequence[GrantRule], subject: Subject, tools: Sequence[str]) -> list[GrantRule]:
    """Return the rules that say otherwise for a room, or for one of the tools that do this."""
    return [rule for rule in rules if (rule.subject is subject and rule.params) or rule.action in tools]


def find_general(rules: Sequence[GrantRule]) -> GrantRule | None:
    """Return the last rule about everything that forbids or asks; None if there is none."""
    return next((each for each in reversed(rules) if _is_general(each) and each.restricts), None)


def put_answer(rules: Sequence[GrantRule], subject: Subject, permission: Permission) -> list[str]:
    """Return the rules of a group in their order, with this answer in the place of an earlier one.

    It stands where the last rule about the whole subject stood, so no exception that this one outweighs gets its force
    back. Without such a rule it stands before everything.
    """
    plain = [at for at, rule in enumerate(rules) if _is_plain(rule, subject)]
    answer = _ANSWERS[permission](subject)
    texts = [] if plain else [*answer]
    for at, rule in enumerate(rules):
        if not (_is_plain(rule, subject) and rule.restricts):
            texts.append(rule.text)
        if plain and at == plain[-1]:
            texts += answer
    return texts


def put_room_answer(rules: Sequence[GrantRule], subject: Subject, permission: Permission, room: str) -> list[str]:
    """Return the rules of a group with this answer for one room, behind all others: the last that matches decides.

    Asking in a room allows the subject there first, where the group denies all of it.
    """
    call = f"{subject}({ROOM_PARAM}={room})"
    kept = [rule for rule in rules if find_room(rule, subject) != room]
    if permission is Permission.NO:
        answer = [f"!{call}"]
    elif permission is Permission.ASK:
        answer = [call] * (find_permission(kept, subject) is Permission.NO) + [f"hold {call}"]
    else:
        answer = [call]
    return [*(rule.text for rule in kept), *answer]


def find_room(rule: GrantRule, subject: Subject) -> str:
    """Return the one room that a rule about a subject is about; '' for another rule, or a pattern of rooms."""
    if rule.subject is not subject or len(rule.params) != 1:
        return ""
    [param] = rule.params
    named = param.name == ROOM_PARAM and not param.absent and param.pattern is not None
    return param.pattern if named and param.pattern and "*" not in param.pattern else ""


def list_room_answers(rules: Sequence[GrantRule], subject: Subject) -> dict[str, Permission]:
    """Return the answer for each room that has one of its own."""
    found: dict[str, Permission] = {}
    for rule in rules:
        if room := find_room(rule, subject):
            found[room] = Permission.NO if rule.deny else Permission.ASK if rule.hold else Permission.YES
    return found


def _is_about(rule: GrantRule, subject: Subject) -> bool:
    return _is_plain(rule, subject) or _is_general(rule)


def _is_plain(rule: GrantRule, subject: Subject) -> bool:
    return rule.subject is subject and not rule.params


def _is_general(rule: GrantRule) -> bool:
    return rule.action == EVERYTHING and not rule.params
