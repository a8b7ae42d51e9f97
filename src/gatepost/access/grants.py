"""Grants: what a group may call. The default comes from the tool's tier; rules change it.

A rule is `[!]action[(param=glob, !param, param)]`. Among rules the last that matches wins; where none matches, the
tier decides. A rule that cannot be read matches nothing, so that a slip of the pen never widens access.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gatepost.access.tiers import Tier


@dataclass(frozen=True, slots=True)
class Param:
    """One condition. `pattern` None: it is enough that the parameter is there (or, if `absent`, that it is not)."""

    name: str
    pattern: str | None = None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    action: str  # "" for one that could not be read
    deny: bool = False
    params: tuple[Param, ...] = ()


def parse(text: str) -> Rule:
    deny = text.startswith("!")
    action, paren, rest = text[deny:].partition("(")
    if not paren:
        return Rule(text, action, deny)
    if not rest.endswith(")") or ")" in rest[:-1] or "(" in rest:
        return Rule(text, "")
    pieces = [piece.strip() for piece in rest[:-1].split(",")]
    return Rule(text, action, deny, tuple(_param(piece) for piece in pieces if piece))


def _param(piece: str) -> Param:
    name, equals, pattern = piece.lstrip("!").partition("=")
    if piece.startswith("!"):
        return Param(name.strip(), absent=True)
    return Param(name.strip(), pattern.strip() if equals else None)


@lru_cache(maxsize=1024)
def _glob(pattern: str, any_char: str) -> re.Pattern[str]:
    return re.compile(any_char.join(re.escape(part) for part in pattern.split("*")) + r"\Z", re.DOTALL)


def _names(rule: Rule, action: str) -> bool:
    return bool(rule.action) and _glob(rule.action, ".*").match(action) is not None


def _holds(param: Param, params: Mapping[str, str]) -> bool:
    if param.absent:
        return param.name not in params
    value = params.get(param.name)
    if value is None:
        return False
    # `,` and `)` would let a value reach past the rule it is written in
    return param.pattern is None or _glob(param.pattern, "[^,)]*").match(value) is not None


def matching(rules: Sequence[Rule], action: str) -> tuple[Rule, ...]:
    """Every rule that speaks of this action, for the tool's description."""
    return tuple(rule for rule in rules if _names(rule, action))


def verdict(rules: Sequence[Rule], action: str, params: Mapping[str, str]) -> bool | None:
    """What the rules say about a call; None: nothing."""
    for rule in reversed(rules):
        if _names(rule, action) and all(_holds(param, params) for param in rule.params):
            return not rule.deny
    return None


def visible(action: str, tool_tier: Tier, caller_tier: Tier, rules: Sequence[Rule] = ()) -> bool:
    """Is there any call of this tool that would be granted?"""
    shown = caller_tier <= tool_tier
    for rule in matching(rules, action):
        if not rule.deny:
            shown = True
        elif not rule.params:
            shown = False
    return shown


def granted(
    action: str, tool_tier: Tier, caller_tier: Tier, params: Mapping[str, str], rules: Sequence[Rule] = ()
) -> bool:
    """May this call, with these parameters, be made?"""
    said = verdict(rules, action, params)
    return caller_tier <= tool_tier if said is None else said
