"""Why a call would be let through, or not: every step of the gate that can be told without making it."""

from collections.abc import Mapping
from typing import Any

from gatepost.access.policy import Ask, Policy, Step
from gatepost.access.structure import reaches
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.tools.contract import Scope, Tool


def explain(tool: Tool, policy: Policy, arguments: Mapping[str, Any]) -> tuple[bool, list[Step]]:
    """In the gate's order. Which rooms a group reaches depends on its sessions and is judged at the call."""
    folder = policy.folder
    params = plain(arguments)
    target, fits, reach = folder, True, list[Step]()
    if tool.scope is Scope.ROOM and tool.scoped_by is not None and tool.scoped_by in params:
        params["jid"] = params[tool.scoped_by]
    for target in groups_of(tool, arguments):
        within = reaches(tool.within, folder, target)
        fits = fits and within
        reach.append(Step("structure", f"{target} must be {tool.within} of {folder}", "–" if within else "deny"))
    allowed, steps = policy.explain(Ask(tool.name, tool.tier, target, params, {"folder": folder}))
    if policy.subjects is not None and tool.group not in policy.subjects:
        allowed = False
        steps.append(Step("tool_groups", f"the list is cut to {', '.join(sorted(policy.subjects))}", "deny"))
    if tool.not_root and folder == ROOT_FOLDER:
        allowed = False
        steps.append(Step("structure", "root stands alone: there is nobody to do this with", "deny"))
    allowed = allowed and fits
    steps += reach
    if tool.held:
        allowed = False
        steps.append(Step("approval", "a person must agree to every call, and nobody can be asked yet", "deny"))
    return allowed, steps


def groups_of(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The groups that a call names; none: it is about the caller's own."""
    if tool.scope is not Scope.GROUP:
        return ()
    if tool.about is not None:
        return tuple(tool.about(arguments))
    named = arguments.get(tool.scoped_by) if tool.scoped_by else None
    return (named,) if isinstance(named, str) and named else ()


def plain(arguments: Mapping[str, Any]) -> dict[str, str]:
    """What rules may speak of: plain values that were given."""
    return {name: str(value) for name, value in arguments.items() if isinstance(value, str | int | float)}
