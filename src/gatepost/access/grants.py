"""Grants: what a group may call. The default comes from the tool's tier; rules change it.

A rule is `[!|hold |hold[2] ]action[(param=glob, !param, param)]`, and `*` in it is anything. The action is a tool, or a
subject, which stands for every tool that declares it (`subjects.py`). Among rules the last that matches wins; where
none matches, the tier decides. `hold` gives nothing and takes nothing: a call that is granted waits for a person, or
for so many, unless a later rule of the same group allows it. A typing error never widens access. A rule that cannot be
read allows nothing. A denial or a hold whose conditions or number cannot be read applies without them.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from gatepost.access.subjects import NO_EFFECTS, ROOM_PARAM, Subject, ToolEffects, find_subject
from gatepost.core.linear_patterns import matches_wildcard

MOST_QUORUM = 20  # people whom a rule may ask for
_HOLD = re.compile(r"hold(?: |\[([^]]*)\] ?)")


class ParamCondition(Struct, frozen=True):
    """One condition. `pattern` None: it is enough that the parameter is there (or, if `absent`, that it is not)."""

    name: str
    pattern: str | None = None
    absent: bool = False


class GrantRule(Struct, frozen=True):
    text: str
    action: str  # "" for one that could not be read
    deny: bool = False
    hold: bool = False
    params: tuple[ParamCondition, ...] = ()
    quorum: int = 0  # of a hold: how many must agree; 0: as the gateway says

    @property
    def subject(self) -> Subject | None:
        """The subject that it names; None: it names a tool, or a pattern of tools."""
        return find_subject(self.action)

    @property
    def restricts(self) -> bool:
        return self.deny or self.hold

    @property
    def effect(self) -> str:
        """As people read it."""
        return "deny" if self.deny else "allow" if not self.hold else f"hold[{self.quorum}]" if self.quorum else "hold"

    @property
    def call(self) -> str:
        """The rule without its effect."""
        return _split_effect(self.text)[1]


def parse(text: str) -> GrantRule:
    effect, call = _split_effect(text)
    deny, hold = effect == "!", effect.startswith("hold")
    quorum = _parse_quorum(effect) or 0
    action, paren, rest = call.strip().partition("(")
    if not paren:
        return GrantRule(text, action, deny, hold, quorum=quorum)
    params = parse_params(rest[:-1]) if rest.endswith(")") else None
    if params is None:
        return GrantRule(text, action if deny or hold else "", deny, hold, quorum=quorum)
    return GrantRule(text, action, deny, hold, params, quorum)


def _split_effect(text: str) -> tuple[str, str]:
    """Return what a rule does, as it is written, and the calls it speaks of."""
    if text.startswith("!"):
        return "!", text[1:]
    found = _HOLD.match(text)
    return (found[0], text[found.end() :]) if found else ("", text)


def _parse_quorum(effect: str) -> int | None:
    """How many must agree; 0: nothing is said of it; None: it cannot be read."""
    found = _HOLD.fullmatch(effect)
    if found is None or found[1] is None:
        return 0
    readable = found[1].isascii() and found[1].isdecimal() and len(found[1]) <= 2 and effect.endswith(" ")
    return int(found[1]) if readable and 1 <= int(found[1]) <= MOST_QUORUM else None


def parse_params(text: str) -> tuple[ParamCondition, ...] | None:
    """Conditions, separated by commas; None if they cannot be read."""
    if "(" in text or ")" in text:
        return None
    found = tuple(_parse_param(piece.strip()) for piece in text.split(",") if piece.strip())
    return found if all(each.name for each in found) else None


def _parse_param(piece: str) -> ParamCondition:
    name, equals, pattern = piece.lstrip("!").partition("=")
    if piece.startswith("!"):
        return ParamCondition(name.strip(), absent=True)
    return ParamCondition(name.strip(), pattern.strip() if equals else None)


def matches_action(rule: GrantRule, action: str, effects: ToolEffects = NO_EFFECTS) -> bool:
    if (subject := rule.subject) is not None:
        return subject in effects.subjects and (rule.restricts or not effects.presumed)
    return bool(rule.action) and matches_wildcard(rule.action, action)


def check_condition(param: ParamCondition, params: Mapping[str, str], *, deny: bool = False) -> bool:
    if param.absent:
        return param.name not in params
    value = params.get(param.name)
    if value is None:
        return False
    if param.pattern is None:
        return True
    # `,` and `)` would let a value reach past the rule it is written in; a denial is not to be evaded by them. They
    # cannot stand in a pattern, so only a star could cover them.
    return (deny or not ("," in value or ")" in value)) and matches_wildcard(param.pattern, value)


def list_matching(rules: Sequence[GrantRule], action: str, effects: ToolEffects = NO_EFFECTS) -> tuple[GrantRule, ...]:
    """Every rule that speaks of this action, for the tool's description."""
    return tuple(rule for rule in rules if matches_action(rule, action, effects))


def find_deciding(
    rules: Sequence[GrantRule],
    action: str,
    *readings: Mapping[str, str],
    effects: ToolEffects = NO_EFFECTS,
    room: str | None = None,
) -> GrantRule | None:
    """The last rule that matches a call in one of its readings; None: none does. `room`: of the call, as rules about
    subjects see it."""
    for rule in reversed(rules):
        if not matches_action(rule, action, effects):
            continue
        if _check_room(rule, room) if rule.subject else any(_check_conditions(rule, each) for each in readings):
            return rule
    return None


def _check_conditions(rule: GrantRule, params: Mapping[str, str]) -> bool:
    return all(check_condition(param, params, deny=rule.restricts) for param in rule.params)


def _check_room(rule: GrantRule, room: str | None) -> bool:
    return all(check_subject_condition(param, room, restricts=rule.restricts) for param in rule.params)


def check_subject_condition(param: ParamCondition, room: str | None, *, restricts: bool) -> bool:
    """A call whose room is not known may be about any room, so every restriction holds for it and no allowance. The
    same is true of a condition that subjects do not have."""
    if param.name != ROOM_PARAM or room is None:
        return restricts
    return check_condition(param, {ROOM_PARAM: room}, deny=restricts)


def find_granting(
    rules: Sequence[GrantRule],
    action: str,
    params: Mapping[str, str],
    effects: ToolEffects = NO_EFFECTS,
    room: str | None = None,
) -> GrantRule | None:
    """The last rule that matches a call and allows or denies it."""
    return find_deciding([rule for rule in rules if not rule.hold], action, params, effects=effects, room=room)


def holds_already(rules: Sequence[GrantRule], new: GrantRule) -> bool:
    """Return True if the rules have this one, and none behind it may say otherwise of the same call."""
    at = max((at for at, rule in enumerate(rules) if is_same(rule, new)), default=None)
    return at is not None and not any(rule.effect != new.effect and _may_meet(rule, new) for rule in rules[at + 1 :])


def is_same(one: GrantRule, other: GrantRule) -> bool:
    """Return True for two that mean the same, however they are written."""
    return one.effect == other.effect and one.action == other.action and {*one.params} == {*other.params}


def _may_meet(one: GrantRule, other: GrantRule) -> bool:
    """Two tools are never called by one call. Of subjects and patterns that is not known here."""
    named = not any(rule.subject or "*" in rule.action for rule in (one, other))
    return one.action == other.action if named else True


def find_syntax_error(text: str) -> str:
    """Return what is wrong with a rule that is to be written down; '' if nothing is."""
    effect, call = _split_effect(text)
    if _parse_quorum(effect) is None:
        return f"{text!r}: write hold[2] and the tool; the number of people who must agree is 1 to {MOST_QUORUM}"
    action, paren, rest = call.partition("(")
    if not action or re.match(r"hold\b", action) or "!" in action or action.split() != [action]:
        return f"{text!r} names no tool; write send, speak(jid=telegram:*), !speak, hold speak or hold[2] send"
    if paren and (not rest.endswith(")") or parse_params(rest[:-1]) is None):
        return f"{text!r}: what follows the tool must be (param=glob, !param, param)"
    return ""
