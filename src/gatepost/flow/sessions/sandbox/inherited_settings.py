"""Inherited settings: all that a group has from a group above it, or from the gateway, and from which.

Each is found by the rule that holds where it is used. Settings that open the machine (sandbox, mounts, own modes) are
never handed down.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from gatepost.core.money import render_usd
from gatepost.core.settings import Config
from gatepost.egress.endpoints import OPTIONS
from gatepost.flow.reports import InheritedSetting
from gatepost.flow.sessions.sandbox.effective_group import find_lender, load_effective_group
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.store.memory import memories
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScopeKind, CapSpan
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.sessions import groups, skills
from gatepost.store.sessions.groups import Group

GATEWAY = "the gateway"
LONGEST_VALUE = 80  # characters
MOST_RULES = 50  # of each group above, for tools
_CAPS = {
    CapSpan.TURN: "limit of an answer",
    CapSpan.TASK: "limit of a task's run",
    CapSpan.SESSION: "limit of a conversation",
}
NEAREST_OPTIONS = frozenset(OPTIONS.values()) | {"egress"}  # looked for in each group above, whatever provider that has


def list_inherited(db: Db, config: Config, folder: str, now: int) -> list[InheritedSetting]:
    """Return what a group has from elsewhere; none for a group that is not there."""
    group = groups.get(db, folder)
    if group is None:
        return []
    parents = groups.list_ancestors(db, folder)
    return [
        *_list_lent(db, config, group, parents),
        *_list_nearest_options(group, parents),
        *_list_limits(group, parents),
        *_list_skills(db, folder),
        *_list_rules(db, parents),
        *_list_memories(db, parents),
        *_list_money(db, folder, now),
    ]


def _list_lent(db: Db, config: Config, group: Group, parents: Sequence[Group]) -> Iterator[InheritedSetting]:
    run_as, lender = load_effective_group(db, config, group.folder), find_lender(db, config, group)
    if run_as is None or group.provider:
        return
    source = lender.folder if lender is not None else GATEWAY
    yield InheritedSetting("provider", run_as.provider or config[PROVIDER], source)
    if run_as.model and not group.model:
        yield InheritedSetting("model", run_as.model, source)
    for name, value in sorted(run_as.options.items()):
        if name not in group.options and (name not in NEAREST_OPTIONS or lender not in parents):
            yield InheritedSetting(f"options.{name}", _cut(value), source)


def _list_nearest_options(group: Group, parents: Sequence[Group]) -> Iterator[InheritedSetting]:
    for name in sorted(NEAREST_OPTIONS):
        source = next((each for each in (group, *parents) if each.options.get(name)), group)
        if source is not group:
            yield InheritedSetting(f"options.{name}", _cut(source.options[name]), source.folder)


def _list_limits(group: Group, parents: Sequence[Group]) -> Iterator[InheritedSetting]:
    nearest: dict[str, Group] = {}
    for each in (group, *parents):
        for name in each.limits:
            nearest.setdefault(name, each)
    for name, source in sorted(nearest.items()):
        if source is not group:
            yield InheritedSetting(f"limits.{name}", str(source.limits[name]), source.folder)


def _list_skills(db: Db, folder: str) -> Iterator[InheritedSetting]:
    for each in skills.list_for_agent(db, folder):
        if each.folder != folder:
            yield InheritedSetting("skill", each.name, each.folder or GATEWAY)


def _list_rules(db: Db, parents: Sequence[Group]) -> Iterator[InheritedSetting]:
    for each in parents:
        for rule in acl.list_rules(db, each.folder)[:MOST_RULES]:
            yield InheritedSetting("rule for tools", _cut(rule.text), each.folder, "grant.list")


def _list_memories(db: Db, parents: Sequence[Group]) -> Iterator[InheritedSetting]:
    for each in parents:
        if count := memories.count_shared(db, each.folder):
            yield InheritedSetting("memory of the family", f"{count} facts" if count > 1 else "1 fact", each.folder)


def _list_money(db: Db, folder: str, now: int) -> Iterator[InheritedSetting]:
    for span, cap in budgets.list_caps(db, folder).items():
        if cap.folder != folder:
            yield InheritedSetting(_CAPS[span], render_usd(cap.micro), cap.folder or GATEWAY, "budget.show")
    for status in budgets.list_applicable(db, folder, "", now):
        if status.scope.name != folder:
            source = GATEWAY if status.scope.kind is BudgetScopeKind.INSTANCE else status.scope.name
            amounts = f"{render_usd(status.spent)} of {render_usd(status.limit)} spent"
            yield InheritedSetting(f"budget of a {status.period}", amounts, source, "budget.show")


def _cut(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
