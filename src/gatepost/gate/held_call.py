"""A call that waits for a person. It has the arguments as the call will run, the scope of an answer for the whole
session, and the rule that lets such calls through from then on. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gatepost.access import grants
from gatepost.access.grants import ParamCondition
from gatepost.access.policy import AccessRequest, GroupHold, GroupPolicy
from gatepost.store.rights.requests import BoundReads
from gatepost.tools.call import HeldCall, ToolCall
from gatepost.tools.contract import Tool, ToolScope

LONGEST_RULE = 500  # characters


def make_held_call(
    tool: Tool,
    call: ToolCall,
    arguments: Mapping[str, Any],
    targets: Sequence[str],
    holds: Sequence[GroupHold],
    policy: GroupPolicy,
    ask: AccessRequest,
    why: str = "",
) -> HeldCall:
    """`targets`: the groups that the call is about. `why`: if no rule holds it. The rooms of a turn are named: it runs
    when the turn is over."""
    whole = dict(arguments)
    place, rooms, threads = "", dict[str, str](), dict[str, str]()
    if tool.scope is ToolScope.ROOM and tool.scoped_by is not None and call.to is not None:
        whole[tool.scoped_by] = call.to.address
        whole |= {name: room.address for name, room in call.also.items()}
        named_rooms = {tool.scoped_by: call.to, **call.also}
        rooms = {name: room.instance for name, room in named_rooms.items()}
        threads = {name: room.thread for name, room in named_rooms.items()}
        place = f"{call.to.instance} {call.to.address}"
    elif tool.scope is ToolScope.GROUP:
        place = ", ".join(targets)
    said = [hold.render() for hold in holds]
    named = policy.list_named_params(tool.name, tool.effects)
    lifted = policy.grants_itself(ask) and not any(hold.binds for hold in holds)
    return HeldCall(
        arguments=whole,
        about=make_about(
            tool.name,
            place,
            holds,
            {name: ask.params.get(name) for name in named},
            whole if tool.scoped_by is None else {},
        ),
        why=", ".join(said) or why or "every call of this tool needs a person",
        rule=_make_rule(tool, ask.params, named) if lifted else "",
        rooms=rooms,
        bound=BoundReads(threads=threads),
        quorums=tuple(hold.quorum for hold in holds),
    )


def make_about(
    tool: str,
    place: str,
    holds: Sequence[GroupHold],
    values: Mapping[str, str | None],
    arguments: Mapping[str, Any],
) -> str:
    """The same tool in the same place, held by the same rules for the same values. `arguments`: all of them, where no
    parameter names the place, so that an answer speaks of the same call alone."""
    held = [(hold.folder, hold.rule) for hold in holds]
    whole = msgspec.json.encode([place, held, values, arguments], order="sorted")
    return f"{tool} {hashlib.sha256(whole).hexdigest()}"


def _make_rule(tool: Tool, params: Mapping[str, str], named: Sequence[str]) -> str:
    """The narrowest rule that lets this through again: the same tool in the same place, with the same values of
    whatever a rule looks at. So it changes nothing but the hold: no denial and no other hold is lifted by it. '' if no
    rule says just that, as where no parameter names a place."""
    if tool.scoped_by is None and (tool.scope is not None or _has_parameters(tool)):
        return ""
    names = dict.fromkeys([*((tool.scoped_by,) if tool.scoped_by is not None else ()), *named])
    if tool.scope is ToolScope.ROOM:
        names.pop("jid", None)  # another name of the room
    conditions = tuple(
        ParamCondition(name, params[name]) if name in params else ParamCondition(name, absent=True) for name in names
    )
    texts = [f"!{each.name}" if each.absent else f"{each.name}={each.pattern}" for each in conditions]
    rule = f"{tool.name}({', '.join(texts)})" if texts else tool.name
    exact = rule.isprintable() and "*" not in rule and len(rule) <= LONGEST_RULE
    return rule if exact and grants.parse(rule).params == conditions else ""


def _has_parameters(tool: Tool) -> bool:
    """Return True if two calls can differ. A connector's tool may take some that its schema does not name."""
    schema = tool.listed["inputSchema"]
    return bool(schema.get("properties")) or schema.get("additionalProperties") is not False
