"""The policies of all groups, from the store, kept until somebody rings that they changed."""

from collections import defaultdict
from collections.abc import Container, Mapping
from enum import StrEnum
from typing import Any

from gatepost.access.acl import list_valid_rows
from gatepost.access.grants import GrantRule, parse
from gatepost.access.policy import AccessRules, GroupPolicy
from gatepost.access.subjects import NO_EFFECTS
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.event_bus import EventBus
from gatepost.core.registry import Registry
from gatepost.core.settings import Config, setting
from gatepost.egress import rules as host_rules
from gatepost.gate.call_explanation import is_offered_group
from gatepost.gate.named_call import FIND_TOOLS
from gatepost.store.engine import rule_cache
from gatepost.store.port import Db, Store, inline_read
from gatepost.store.rights import acl
from gatepost.store.sessions import groups
from gatepost.tools.contract import Tool


class SearchKind(StrEnum):
    SEARXNG = "searxng"
    BRAVE = "brave"
    TAVILY = "tavily"
    KAGI = "kagi"
    CONNECTOR = "connector"  # a tool of an MCP server


SEARCH_SERVICE = setting(
    "search.service",
    "",
    choices=("", *SearchKind),
    help="Who answers search_web: searxng, brave, tavily, kagi, or connector, which is the tool that search.tool names."
    " Empty: agents have no search_web. The key is the secret SEARCH_API_KEY.",
)
TOOL_GROUPS = setting(
    "tools.groups",
    (),
    help="The tools of every agent: empty, a dozen at the start and the others by find_tools; `all`, the whole list at"
    " the start; names of groups of tools, as `gatepost tools` shows them, these alone.",
)


OFFER_SETTINGS = (TOOL_GROUPS, host_rules.UNKNOWN_HOSTS, SEARCH_SERVICE)


@inline_read
def load_policy_facts(
    db: Db, every_tool_group: tuple[str, ...] = (), asks_usually: bool = True, searches: bool = False
) -> AccessRules:
    """Everything that decides, in one snapshot."""
    rules: dict[str, list[GrantRule]] = defaultdict(list)
    for rule in acl.list_rules(db):
        rules[rule.folder].append(parse(rule.text))
    members, known = acl.list_members(db), groups.list_all(db)
    return AccessRules(
        rules={folder: tuple(each) for folder, each in rules.items()},
        rows=list_valid_rows(acl.list_rows(db), members),
        members=members,
        tool_groups={each.folder: cut for each in known if (cut := parse_tool_groups(each.options)) is not None},
        every_tool_group=frozenset(every_tool_group) or None,
        asking={each.folder: word for each in known if (word := host_rules.find_own_word(each.options)) is not None},
        asks_usually=asks_usually,
        searches=searches,
    )


def load_changed_facts(
    db: Db, known: str, every_tool_group: tuple[str, ...] = (), asks_usually: bool = True, searches: bool = False
) -> tuple[str, AccessRules | None]:
    """The state of the rules, and what decides unless that is the known one."""
    state = rule_cache.get_state(db)
    if state == known and state:
        return state, None
    return state, load_policy_facts(db, every_tool_group, asks_usually, searches)


def read_offer_settings(config: Config) -> tuple[tuple[str, ...], bool, bool]:
    """Return what the settings say about tools that are offered to every group."""
    return config[TOOL_GROUPS], config[host_rules.UNKNOWN_HOSTS] == host_rules.ASK, bool(config[SEARCH_SERVICE])


def parse_tool_groups(options: Mapping[str, Any]) -> frozenset[str] | None:
    """Return what a group's own list is cut to (`gatepost group set FOLDER options.tool_groups=messages`); None: no
    word."""
    said = options.get("tool_groups")
    if said is None:
        return None
    names = said.split(",") if isinstance(said, str) else said if isinstance(said, list) else ()
    return frozenset(str(name).strip() for name in names)


def visible_tools(tools: Registry[Tool], policy: GroupPolicy) -> list[Tool]:
    """Return what a group sees: what it may call in some way, within what its list is cut to."""
    return [
        tool
        for name, tool in tools.items()
        if policy.visible(name, tool.tier, tool.effects)
        and is_offered_group(tool, policy)
        and not (tool.not_root and policy.folder == ROOT_FOLDER)
        and not (tool.asks_about_hosts and not policy.asks_about_hosts)
        and not (tool.searches and not policy.searches)
    ]


def starts_small(policy: GroupPolicy, visible: Container[str]) -> bool:
    """Return True if sessions start with the core alone. Without find_tools, or if a person is asked about each use of
    it, they would never see the rest."""
    held = policy.list_hold_rules(FIND_TOOLS, NO_EFFECTS)
    return policy.tool_groups is None and FIND_TOOLS in visible and not held


class Policies:
    """The policy of each group, found by its folder. Code that changes a rule rings `events.tools` after the commit;
    calls after that are judged by the new rules. If other gateways change rules, too, `renew` comes first: their bells
    arrive later, or not at all."""

    def __init__(self, store: Store, events: EventBus, config: Config) -> None:
        self._store = store
        self._usual = read_offer_settings(config)
        self._facts: AccessRules | None = None
        self._state = ""  # that the rules were in when these facts were read; '': none that is known
        self._known: dict[str, GroupPolicy] = {}
        self._forgotten = 0  # how often: what was read before that is not kept
        events.on_tools(self._forget)
        events.on_group(self._forget)

    async def __call__(self, folder: str) -> GroupPolicy:
        found = self._known.get(folder)
        if found is None:
            forgotten = self._forgotten
            facts = self._facts
            if facts is None:
                facts = await self._store.read(load_policy_facts, *self._usual)
            found = GroupPolicy(folder, facts)
            if forgotten == self._forgotten:
                self._facts, self._known[folder] = facts, found
        return found

    async def renew(self, folder: str) -> bool:
        """Compare with the state of the rules in the store, and read them again if they changed. True if so: what was
        made of them is of no use any more. Those of one folder come back in the order in which they asked."""
        forgotten = self._forgotten
        state, facts = await self._store.read(load_changed_facts, self._state, *self._usual, lane=f"rules {folder}")
        if facts is None and state == self._state:
            return False
        self._forget(None)
        if facts is not None and forgotten == self._forgotten - 1:  # nobody has rung while they were read
            self._state, self._facts = state, facts
        return True

    def _forget(self, folder: str | None) -> None:
        self._forgotten += 1
        self._facts, self._state = None, ""
        self._known.clear()
