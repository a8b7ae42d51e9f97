"""Prompts: what an agent is told before a word is said, and what that costs."""

import asyncio
from collections.abc import Sequence

from gatepost.access.policy import GroupPolicy
from gatepost.core.errors import NotFound
from gatepost.core.settings import Config
from gatepost.flow.prompt_cost import PromptCost, measure_prompt
from gatepost.flow.sessions.runner.runner_welcome import render_rules_everywhere
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.gate.policies import visible_tools
from gatepost.serve.control.arguments.prompts import ShowPromptArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.serve.control.operations.access import load_group_policy, load_tools
from gatepost.store.port import Db
from gatepost.store.sessions import pinned_rules, skills
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.pinned_rules import PinnedRule
from gatepost.store.sessions.skills import EffectiveSkill


@operation
async def show(deps: OperationDeps, args: ShowPromptArgs) -> PromptCost:
    group, policy, rules, found = await deps.store.read(_load, deps.config, args.folder)
    tools = deps.extra["tools"] if "tools" in deps.extra else load_tools(deps.home)

    def measure() -> PromptCost:
        said = render_rules_everywhere(rules)
        return measure_prompt(deps.home, group, said, found, visible_tools(tools, policy), policy)

    return await asyncio.to_thread(measure)


def _load(
    db: Db, config: Config, folder: str
) -> tuple[Group, GroupPolicy, Sequence[PinnedRule], Sequence[EffectiveSkill]]:
    group = load_effective_group(db, config, folder)
    if group is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    rules, found = pinned_rules.list_for_group(db, folder), skills.list_effective(db, folder)
    return group, load_group_policy(db, config, folder), rules, found
