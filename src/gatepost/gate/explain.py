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
    target = folder
    if tool.scope is Scope.ROOM and tool.scoped_by is not None and tool.scoped_by in params:
        params["jid"] = params[tool.scoped_by]
    elif tool.scope is Scope.GROUP and tool.scoped_by is not None:
        target = params.get(tool.scoped_by) or folder
    allowed, steps = policy.explain(Ask(tool.name, tool.tier, target, params, {"folder": folder}))
    if policy.subjects is not None and tool.group not in policy.subjects:
        allowed = False
        steps.append(Step("tool_groups", f"the list is cut to {', '.join(sorted(policy.subjects))}", "deny"))
    if tool.not_root and folder == ROOT_FOLDER:
        allowed = False
        steps.append(Step("structure", "root stands alone: there is nobody to do this with", "deny"))
    if tool.scope is Scope.GROUP:
        within = reaches(tool.within, folder, target)
        allowed = allowed and within
        steps.append(Step("structure", f"{target} must be {tool.within} of {folder}", "–" if within else "deny"))
    if tool.held:
        allowed = False
        steps.append(Step("approval", "a person must agree to every call, and nobody can be asked yet", "deny"))
    return allowed, steps


def plain(arguments: Mapping[str, Any]) -> dict[str, str]:
    """What rules may speak of: plain values that were given."""
    return {name: str(value) for name, value in arguments.items() if isinstance(value, str | int | float)}
