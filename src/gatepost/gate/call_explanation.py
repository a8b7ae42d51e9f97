"""Why a call would be let through, or not: every step of the gate that can be told without making it."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from gatepost.access.policy import AccessRequest, GroupPolicy, PolicyStep
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.access.tree_scope import may_act_on
from gatepost.tools.contract import Tool, ToolScope


def explain(tool: Tool, policy: GroupPolicy, arguments: Mapping[str, Any]) -> tuple[bool, list[PolicyStep]]:
    """In the gate's order. Which rooms a group reaches depends on its sessions and is judged at the call."""
    folder, params = policy.folder, render_params(tool, {**_list_usual_words(tool), **arguments})
    also: tuple[str, ...] = ()
    claims = {"folder": folder, "tier": str(int(policy.tier))}
    if tool.scope is ToolScope.ROOM and tool.scoped_by is not None and tool.scoped_by in params:
        params["jid"] = params[tool.scoped_by]
        also = (params["jid"],)
        claims |= {"room": params["jid"], "platform": params["jid"].partition(":")[0]}
    allowed, steps, reach = True, list[PolicyStep](), list[PolicyStep]()
    for target in list_named_groups(tool, arguments) or (folder,):
        granted, said = policy.explain(AccessRequest(tool.name, tool.tier, target, params, claims, also))
        within = target == folder or may_act_on(tool.within, folder, target)
        allowed = allowed and granted and within
        steps += [step for step in said if step not in steps]
        if tool.scope is ToolScope.GROUP:
            reach.append(
                PolicyStep("structure", f"{target} must be {tool.within} of {folder}", "–" if within else "deny")
            )
    if policy.subjects is not None and tool.group not in policy.subjects:
        allowed = False
        steps.append(PolicyStep("tool_groups", f"the list is cut to {', '.join(sorted(policy.subjects))}", "deny"))
    if tool.not_root and folder == ROOT_FOLDER:
        allowed = False
        steps.append(PolicyStep("structure", "root stands alone: there is nobody to do this with", "deny"))
    steps += reach
    ask = AccessRequest(tool.name, tool.tier, folder, params, usual=render_usual_params(tool, folder))
    holds = policy.list_holds(ask)
    steps += [
        PolicyStep("approval", f"{_render_quorum(hold.quorum)} must agree: {hold.rule!r} of {hold.folder}", "hold")
        for hold in holds
    ]
    if not holds and tool.held and not policy.allows_expressly(ask):
        steps.append(PolicyStep("approval", "a person must agree to every call of this tool", "hold"))
    return allowed, steps


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
    """What rules may speak of: everything that was said, as text. What is as it would be anyway was not said, but for
    one of a few words, such as a level: a rule must be able to name the usual one."""
    properties = tool.listed["inputSchema"]["properties"]
    usual = {name: each.get("default") for name, each in properties.items() if "enum" not in each}
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in arguments.items()
        if value is not None and (name not in usual or value != usual[name] or name in _required(tool))
    }


def render_usual_params(tool: Tool, folder: str) -> dict[str, str]:
    """What a call means that leaves everything out: the defaults, and the caller's own group."""
    usual = {name: each.get("default") for name, each in tool.listed["inputSchema"]["properties"].items()}
    if tool.scope is ToolScope.GROUP and tool.scoped_by is not None:
        usual[tool.scoped_by] = folder
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in usual.items()
        if value is not None
    }


def _list_usual_words(tool: Tool) -> dict[str, Any]:
    """What a call says that leaves out one of a few words."""
    properties = tool.listed["inputSchema"]["properties"]
    return {name: each["default"] for name, each in properties.items() if "enum" in each and "default" in each}


def _required(tool: Tool) -> Collection[str]:
    required = tool.listed["inputSchema"].get("required", ())
    return required if isinstance(required, list) else ()
