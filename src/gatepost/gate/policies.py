"""The policies of all groups, from the store, kept until somebody rings that they changed."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from gatepost.access.acl import list_valid_rows
from gatepost.access.grants import GrantRule, parse
from gatepost.access.policy import AccessRules, GroupPolicy
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.event_bus import EventBus
from gatepost.core.registry import Registry
from gatepost.core.settings import Config, setting
from gatepost.store import acl, groups
from gatepost.store.port import Db, Store, quick
from gatepost.tools.contract import Tool

TOOL_GROUPS = setting(
    "tools.groups",
    (),
    help="Cut every group's tool list to these subjects, as `gatepost tools` names them; none: all. Tools cost tokens.",
)


@quick
def load_policy_facts(db: Db, every_subject: tuple[str, ...] = ()) -> AccessRules:
    """Everything that decides, in one snapshot."""
    rules: dict[str, list[GrantRule]] = defaultdict(list)
    for rule in acl.list_rules(db):
        rules[rule.folder].append(parse(rule.text))
    members = acl.list_members(db)
    return AccessRules(
        rules={folder: tuple(each) for folder, each in rules.items()},
        rows=list_valid_rows(acl.list_rows(db), members),
        members=members,
        subjects={
            each.folder: cut for each in groups.list_all(db) if (cut := parse_tool_groups(each.options)) is not None
        },
        every_subject=frozenset(every_subject) or None,
    )


def parse_tool_groups(options: Mapping[str, Any]) -> frozenset[str] | None:
    """What a group's own list is cut to (`gatepost group set FOLDER tool_groups=messages,history`); None: no word."""
    said = options.get("tool_groups")
    if said is None:
        return None
    names = said.split(",") if isinstance(said, str) else said if isinstance(said, list) else ()
    return frozenset(str(name).strip() for name in names)


def visible_tools(tools: Registry[Tool], policy: GroupPolicy) -> list[Tool]:
    """What a group sees: what it may call in some way, within what its list is cut to."""
    return [
        tool
        for name, tool in tools.items()
        if policy.visible(name, tool.tier)
        and (policy.subjects is None or tool.group in policy.subjects)
        and not (tool.not_root and policy.folder == ROOT_FOLDER)
    ]


class Policies:
    """Called with a folder. Who changes what decides rings `bells.tools` after it is committed, and nobody who calls
    after that is judged by the old word."""

    def __init__(self, store: Store, bells: EventBus, config: Config) -> None:
        self._store, self._config = store, config
        self._facts: AccessRules | None = None
        self._known: dict[str, GroupPolicy] = {}
        self._forgotten = 0  # how often: what was read before that is not kept
        bells.on_tools(self._forget)
        bells.on_group(self._forget)

    async def __call__(self, folder: str) -> GroupPolicy:
        found = self._known.get(folder)
        if found is None:
            forgotten = self._forgotten
            facts = self._facts
            if facts is None:
                facts = await self._store.read(load_policy_facts, self._config[TOOL_GROUPS])
            found = GroupPolicy(folder, facts)
            if forgotten == self._forgotten:
                self._facts, self._known[folder] = facts, found
        return found

    def _forget(self, folder: str | None) -> None:
        self._forgotten += 1
        self._facts = None
        self._known.clear()
