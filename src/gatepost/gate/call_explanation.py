"""Why a call would be let through, or not: every step of the gate that can be told without making it."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from gatepost.access.grants import GrantRule
from gatepost.access.policy import AccessRequest, GroupPolicy, PolicyStep
from gatepost.access.subjects import MEANINGS, Subject
from gatepost.access.tiers import ROOT_FOLDER, may_act_on
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.tools.contract import Tool, ToolScope, list_room_aliases

APPROVAL = "approval"  # the source of what people are asked for
BY_TOOL = "tool"  # the source of a verdict on one of the tools that do what a subject means
MOST_NAMED = 20  # tools in one line
EVERY_GROUP = "all"  # in place of groups of tools: the whole list from the start
ANSWERS = "an agent's answer in the room of its own turn is no call: neither a denial nor a hold of speak stops it"


def make_request(tool: Tool, scope: str, params: Mapping[str, str], room: str | None) -> AccessRequest:
    """`room`: as rules about subjects see it; None: it is not known."""
    return AccessRequest(tool.name, tool.tier, scope, params, effects=tool.effects, room=room)


def explain(tool: Tool, policy: GroupPolicy, arguments: Mapping[str, Any]) -> tuple[bool, list[PolicyStep]]:
    """In the gate's order. Which rooms a group reaches depends on its sessions and is judged at the call."""
    names = list_room_aliases(tool.scoped_by, tool.listed["inputSchema"]["properties"])
    arguments = {names.get(name, name): value for name, value in arguments.items()}
    folder, params = policy.folder, render_params(tool, {**_list_usual_words(tool), **arguments})
    also: tuple[str, ...] = ()
    claims = {"folder": folder, "tier": str(int(policy.tier))}
    if tool.scope is ToolScope.ROOM and tool.scoped_by is not None and tool.scoped_by in params:
        params |= name_room(tool, params[tool.scoped_by])
        also = (params["jid"],)
        claims |= {"room": params["jid"], "platform": params["jid"].partition(":")[0]}
    named_later = tool.here or tool.scope is ToolScope.ROOM  # the room of the turn, about which nothing is said here
    room = params.get("jid") if tool.scope is ToolScope.ROOM else None
    request = make_request(tool, folder, params, "" if room is None and named_later else room)
    allowed, steps, reach = True, list[PolicyStep](), list[PolicyStep]()
    for target in list_named_groups(tool, arguments) or (folder,):
        granted, said = policy.explain(replace(request, scope=target, claims=claims, also=also))
        within = target == folder or may_act_on(tool.within, folder, target)
        allowed = allowed and granted and within
        steps += [step for step in said if step not in steps]
        if tool.scope is ToolScope.GROUP:
            reach.append(
                PolicyStep("structure", f"{target} must be {tool.within} of {folder}", "–" if within else "deny")
            )
    if not is_offered_group(tool, policy):
        allowed = False
        cut = ", ".join(sorted(policy.tool_groups or ()))
        steps.append(PolicyStep("tool_groups", f"the list is cut to {cut}", "deny"))
    if tool.not_root and folder == ROOT_FOLDER:
        allowed = False
        steps.append(PolicyStep("structure", "root stands alone: there is nobody to do this with", "deny"))
    if tool.asks_about_hosts and not policy.asks_about_hosts:
        allowed = False
        steps.append(PolicyStep("options.egress", "nobody is asked about hosts in this group", "deny"))
    if tool.searches and not policy.searches:
        allowed = False
        steps.append(PolicyStep("search.service", "no service that searches the web is set", "deny"))
    steps += reach
    ask = replace(request, usual=render_usual_params(tool, folder))
    holds = policy.list_holds(ask)
    if tool.holds_if is not None:
        steps.append(PolicyStep(APPROVAL, "a person must agree, if one allowed what it would change", "–"))
    steps += [
        PolicyStep(APPROVAL, f"{_render_quorum(hold.quorum)} must agree: {hold.rule!r} of {hold.folder}", "hold")
        for hold in holds
    ]
    if not holds and tool.held and not policy.allows_expressly(ask):
        steps.append(PolicyStep(APPROVAL, "a person must agree to every call of this tool", "hold"))
    return allowed, steps


def explain_subject(
    tools: Registry[Tool], policy: GroupPolicy, subject: Subject, arguments: Mapping[str, Any]
) -> tuple[bool, list[PolicyStep]]:
    """The same for every tool that does this, as far as it takes these arguments: what speaks of them, then each tool.
    It is allowed if one of them is."""
    said, found = list[PolicyStep](), list[PolicyStep]()
    for name, tool in sorted(tools.items()):
        if subject not in tool.effects.subjects or tool.effects.presumed:
            continue
        properties = tool.listed["inputSchema"]["properties"]
        known = {*properties, *list_room_aliases(tool.scoped_by, properties)}
        given = {key: value for key, value in arguments.items() if key in known}
        allowed, steps = explain(tool, policy, given)
        said += [step for step in steps if step.source != "tier" and step.says != "–" and step not in said]
        held = find_hold(steps)
        found.append(PolicyStep(BY_TOOL, name, "deny" if not allowed else "hold" if held else "allow"))
    return any(step.says != "deny" for step in found), [*said, *found]


def find_hold(steps: Collection[PolicyStep]) -> str:
    """Return what makes a call wait for a person; '' if nothing does. A rule that says hold may be outweighed."""
    return next((step.text for step in steps if (step.source, step.says) == (APPROVAL, "hold")), "")


def is_offered_group(tool: Tool, policy: GroupPolicy) -> bool:
    """Return False if the operator has cut the tools of a group to others."""
    return policy.tool_groups is None or EVERY_GROUP in policy.tool_groups or tool.group in policy.tool_groups


def list_gaps(tools: Registry[Tool], rule: GrantRule, known: Collection[str] = ()) -> list[str]:
    """Return what a restriction leaves open: other tools that do the same, if it names one tool; an agent's answers, if
    it is about speaking. `known`: rules of the group, which may cover these already."""
    if not rule.restricts:
        return []
    if rule.subject is Subject.SPEAK or rule.action == "*":
        return [ANSWERS]
    if (tool := tools.get(rule.action)) is None:
        return []
    found = []
    for subject in sorted(tool.effects.subjects) if not tool.effects.presumed else ():
        alike = [each for name, each in tools.items() if name != tool.name and subject in each.effects.subjects]
        declared = [each.name for each in alike if not each.effects.presumed]
        if not alike:
            continue
        named = ", ".join(declared[:MOST_NAMED]) + (" …" if len(declared) > MOST_NAMED else "")
        unknown = "tools of connectors that declare nothing" if len(declared) < len(alike) else ""
        wider = rule.text.removesuffix(rule.call) + subject + _render_room(tool, rule)
        if wider in known or rule.text.removesuffix(rule.call) + subject in known:
            continue
        found.append(f"{' and '.join(filter(None, [named, unknown]))} {MEANINGS[subject]} as well: {wider} covers all")
    return found


def _render_room(tool: Tool, rule: GrantRule) -> str:
    """The condition on the room, as rules about subjects have it."""
    names = ("jid", tool.scoped_by) if tool.scope is ToolScope.ROOM else ("jid",)
    room = next((each.pattern for each in rule.params if each.name in names and each.pattern is not None), None)
    return f"(jid={room})" if room is not None else ""


def _render_quorum(quorum: int) -> str:
    return f"{quorum} people" if quorum > 1 else "a person"


def list_named_groups(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The groups that a call names; none: it is about the caller's own."""
    if tool.scope is not ToolScope.GROUP:
        return ()
    if tool.about is not None:
        return tuple(tool.about(arguments))
    named = arguments.get(tool.scoped_by) if tool.scoped_by else None
    return (named,) if isinstance(named, str) and named else ()


def render_params(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments that rules may match, as text. A value equal to its default counts as left out. A value from
    an enum (a level, say) does not, because a rule must be able to name the usual one."""
    properties = tool.listed["inputSchema"]["properties"]
    usual = {name: each.get("default") for name, each in properties.items() if "enum" not in each}
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in arguments.items()
        if value is not None and (name not in usual or value != usual[name] or name in _required(tool))
    }


def render_usual_params(tool: Tool, folder: str) -> dict[str, str]:
    """Return what a call means that leaves everything out: the defaults, and the caller's own group."""
    usual = {name: each.get("default") for name, each in tool.listed["inputSchema"]["properties"].items()}
    if tool.scope is ToolScope.GROUP and tool.scoped_by is not None:
        usual[tool.scoped_by] = folder
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in usual.items()
        if value is not None
    }


def name_room(tool: Tool, address: str) -> dict[str, str]:
    """The room of a call under each name by which a rule may look at it."""
    names = ("jid", *tool.former_names, *((tool.scoped_by,) if tool.scoped_by is not None else ()))
    return dict.fromkeys(names, address)


def _list_usual_words(tool: Tool) -> dict[str, Any]:
    """Return what a call says that leaves out one of a few words."""
    properties = tool.listed["inputSchema"]["properties"]
    return {name: each["default"] for name, each in properties.items() if "enum" in each and "default" in each}


def _required(tool: Tool) -> Collection[str]:
    required = tool.listed["inputSchema"].get("required", ())
    return required if isinstance(required, list) else ()
