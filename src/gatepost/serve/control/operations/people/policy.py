"""Policy: why a group's agent may call a tool, or not."""

import asyncio

from gatepost.access.policy import GroupPolicy
from gatepost.access.tiers import check_folder
from gatepost.core import settings
from gatepost.core.errors import NotFound
from gatepost.core.home import Home
from gatepost.core.registry import Registry, load_folder, load_package
from gatepost.core.settings import Config
from gatepost.gate import connectors
from gatepost.gate.aliases import ALIASES
from gatepost.gate.call_explanation import explain as explain_tool
from gatepost.gate.call_explanation import list_gaps
from gatepost.gate.connectors import CONNECTORS
from gatepost.gate.policies import TOOL_GROUPS, load_policy_facts, visible_tools
from gatepost.serve.control.arguments.people.policy import CallExplanation, ExplainCallArgs, ListToolsArgs, VisibleTool
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.tools.contract import TOOLS, Tool


@operation
async def list_tools(deps: OperationDeps, args: ListToolsArgs) -> list[VisibleTool]:
    tools = deps.extra["tools"] if "tools" in deps.extra else load_tools(deps.home)
    policy = await deps.store.read(load_group_policy, deps.config, args.folder)
    return await asyncio.to_thread(_list_visible, tools, policy)  # a group may have very many rules


def _list_visible(tools: Registry[Tool], policy: GroupPolicy) -> list[VisibleTool]:
    return [
        VisibleTool(
            name=each.name,
            group=each.group,
            effects=sorted(each.effects.subjects),
            summary=" ".join(each.description.strip().partition("\n\n")[0].split()),
            held=list(policy.list_hold_rules(each.name, each.effects)),
        )
        for each in visible_tools(tools, policy)
    ]


@operation
async def explain(deps: OperationDeps, args: ExplainCallArgs) -> CallExplanation:
    tools = deps.extra["tools"] if "tools" in deps.extra else load_tools(deps.home)
    policy = await deps.store.read(load_group_policy, deps.config, args.folder)
    return await asyncio.to_thread(explain_call, tools, policy, args)


def load_tools(home: Home) -> Registry[Tool]:
    """Gatepost's own, the home's, and what connectors last told of theirs."""
    load_package("gatepost.tools")
    load_folder(home.plugins / "tools", "tools")
    tools = TOOLS.copy()
    connectors.load_cached_tools(home, settings.load_declared(home.path, CONNECTORS)[CONNECTORS], tools)
    return tools


def load_group_policy(db: Db, config: Config, folder: str) -> GroupPolicy:
    if groups.get(db, check_folder(folder)) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    return GroupPolicy(folder, load_policy_facts(db, config[TOOL_GROUPS]))


def explain_call(tools: Registry[Tool], policy: GroupPolicy, args: ExplainCallArgs) -> CallExplanation:
    """As the gate decides it, for a call outside of any turn."""
    name, arguments = args.tool, args.arguments
    if name in ALIASES and name not in tools:
        arguments, name = ALIASES[name].translate(arguments), ALIASES[name].tool
    tool = tools[name]
    allowed, steps = explain_tool(tool, policy, arguments)
    restrictions = policy.list_restrictions(name, tool.effects)
    known = {rule.text for rule in restrictions}
    gaps = [gap for rule in restrictions for gap in list_gaps(tools, rule, known)]
    return CallExplanation(policy.folder, name, allowed, steps, list(dict.fromkeys(gaps)))
