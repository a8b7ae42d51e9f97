"""The one evaluator: may this group's agent make this call? Pure; what it is given decides alone.

Three sources are read in this order, and a denial ends it. First come the rules of the groups above, which bind
everybody below. Then the group's own rules, of which the last that matches counts. Then the ACL rows, a set in which
deny wins. If nothing denied, a rule or a row that allows gives the tool; if none applies, the tier decides. An error is
a denial. `explain` is `decide`, written down.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Struct, field

from gatepost.access import acl, grants
from gatepost.access.grants import GrantRule
from gatepost.access.subjects import NO_EFFECTS, ROOM_PARAM, ToolEffects, find_subject
from gatepost.access.tiers import ROOT_FOLDER, Tier, tier_of, world_of
from gatepost.core.record_fields import shown
from gatepost.messages.inbound import get_claimed, is_untrusted
from gatepost.store.rights.acl import ANYWHERE, AclEffect, AclRow

NOTHING: Mapping[str, str] = {}
# Tools that a row which names them may widen to other groups of the same world. They have no effect there.
ACROSS = frozenset({"list_sessions", "read_session"})


class PolicyStep(Struct, frozen=True):
    """One thing that had a say."""

    source: Annotated[str, shown("By", head="who speaks")]  # tier | rule of FOLDER | acl N
    text: Annotated[str, shown("Rule", head="what it is")]
    says: Annotated[str, shown("Says")]  # allow | deny | –: it does not speak of this call


class AccessRequest(Struct, frozen=True):
    """One call, as far as permission goes."""

    tool: str
    tier: Tier  # the deepest that has the tool by default
    scope: str  # the group that it is about
    params: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)  # who calls: platform, user, provider, room
    also: tuple[str, ...] = ()  # principals besides the group: the room of the turn
    usual: Mapping[str, str] = field(default_factory=dict)  # what holds for parameters that were left out
    effects: ToolEffects = NO_EFFECTS
    room: str | None = None  # for rules about subjects; None: it is not known, and may be any


class GroupHold(Struct, frozen=True):
    """The rule that holds a call. `binds`: it is of a group above, so no rule of the group itself lifts it."""

    folder: str
    rule: str
    binds: bool
    quorum: int = 0  # how many must agree; 0: as the gateway says

    def render(self) -> str:
        """Return the reason why a person is asked."""
        return f"the rule “{self.rule}” of {self.folder} asks for a person"


class _ToolRules(Struct, frozen=True):
    """The rules that speak of one tool."""

    above: tuple[tuple[str, GrantRule], ...]
    own: tuple[GrantRule, ...]
    rows: tuple[AclRow, ...]

    def __bool__(self) -> bool:
        return bool(self.above or self.own or self.rows)


class AccessRules(Struct, frozen=True):
    """All rules, rows and memberships of a gateway."""

    rules: Mapping[str, tuple[GrantRule, ...]] = field(default_factory=dict)  # by folder, in their order
    rows: tuple[AclRow, ...] = ()  # those that count
    tool_groups: Mapping[str, frozenset[str]] = msgspec.field(
        default_factory=dict
    )  # by folder: all that its list is cut to
    every_tool_group: frozenset[str] | None = None  # the same for folders that say nothing; None: no cut
    asking: Mapping[str, bool] = msgspec.field(default_factory=dict)  # by folder: whether people are asked about hosts
    asks_usually: bool = True  # the same for folders that say nothing
    searches: bool = False  # the operator has named a service that searches the web
    members: acl.RoleMemberships = field(default_factory=dict)


class GroupPolicy:
    """Everything that has a say about one group, made ready: most calls are one look into a table."""

    __slots__ = (
        "_across",
        "_facts",
        "_speaks",
        "_tool_rules",
        "_who",
        "above",
        "asks_about_hosts",
        "folder",
        "holds",
        "own",
        "rows",
        "searches",
        "tier",
        "tool_groups",
    )

    def __init__(self, folder: str, facts: AccessRules) -> None:
        self.folder, self.tier, self._facts = folder, tier_of(folder), facts
        self.own = facts.rules.get(folder, ())
        self.above = tuple((each, rule) for each in list_ancestors(folder) for rule in facts.rules.get(each, ()))
        self._who = acl.expand_roles([f"folder:{folder}"], facts.members)
        self._across = any(_widens(row) and acl.concerns(row, self._who) for row in facts.rows)
        self.rows = tuple(row for row in facts.rows if self._may_concern(row))
        self.tool_groups = facts.tool_groups.get(folder, facts.every_tool_group)
        said = (facts.asking.get(each) for each in (folder, *reversed(list_ancestors(folder))))
        self.asks_about_hosts = next((each for each in said if each is not None), facts.asks_usually)
        self.searches = facts.searches
        self._speaks = bool(self.own or self.above or self.rows)
        self.holds = any(rule.hold for rule in self.own) or any(rule.hold for _, rule in self.above)
        self._tool_rules: dict[str, _ToolRules] = {}

    @property
    def plain(self) -> bool:
        """Nothing was ever said about it: its tier is all there is."""
        usual = self._facts
        return (
            not self._speaks
            and self.tool_groups is usual.every_tool_group
            and self.asks_about_hosts is usual.asks_usually
        )

    def has_rules_for(self, tool: str, effects: ToolEffects) -> bool:
        """Return True if anything but the tier has a say about this tool."""
        return self._speaks and bool(self._find_rules(tool, effects))

    def decide(self, ask: AccessRequest) -> bool:
        tool_rules = self._find_rules(ask.tool, ask.effects) if self._speaks else None
        return self._evaluate(ask, tool_rules, None) if tool_rules else self.tier <= ask.tier

    def explain(self, ask: AccessRequest) -> tuple[bool, list[PolicyStep]]:
        """The same, with everything that took part, in the order of its say."""
        steps: list[PolicyStep] = []
        verdict = self._evaluate(ask, self._find_rules(ask.tool, ask.effects), steps)
        return verdict, steps

    def list_holds(self, ask: AccessRequest) -> tuple[GroupHold, ...]:
        """Return what makes a call wait for a person: rules of groups above, which bind, and the group's own last
        word."""
        tool_rules = self._find_rules(ask.tool, ask.effects) if self._speaks else None
        if not tool_rules:
            return ()
        found = [
            GroupHold(folder, rule.text, True, rule.quorum)
            for folder in (list_ancestors(self.folder) if tool_rules.above else ())
            if (rule := _find_last([each for at, each in tool_rules.above if at == folder], ask)) is not None
            and rule.hold
        ]
        own = _find_last(tool_rules.own, ask)
        held = (GroupHold(self.folder, own.text, False, own.quorum),) if own is not None and own.hold else ()
        return (*found, *held)

    def allows_expressly(self, ask: AccessRequest) -> bool:
        """Return True if the group's own last word about a call allows it."""
        tool_rules = self._find_rules(ask.tool, ask.effects) if self._speaks else None
        rule = _find_last(tool_rules.own, ask) if tool_rules else None
        return rule is not None and not rule.deny and not rule.hold

    def reaches_across(self, tool: str, effects: ToolEffects) -> bool:
        """Return True if a row gives this group a tool beyond its own part of the tree, for some call."""
        return any(_widens(row) and row.action == f"mcp:{tool}" for row in self._find_rules(tool, effects).rows)

    def decide_across(self, ask: AccessRequest) -> bool:
        """May a call be about a group of its world that is not below it? Only by a row that names the tool: neither a
        tier, nor a rule, nor a row about all tools reaches that far."""
        if ask.scope == ROOT_FOLDER or world_of(ask.scope) != world_of(self.folder):
            return False
        who, action = self._who, f"mcp:{ask.tool}"
        rows = [row for row in self._find_rules(ask.tool, ask.effects).rows if _widens(row) and row.action == action]
        given = any(acl.applies(row, who, action, ask.scope, ask.params, ask.claims) for row in rows)
        return given and self.decide(ask)

    def grants_itself(self, ask: AccessRequest) -> bool:
        """Return True if the group's own rules or its tier grant a call, without any row of the access list."""
        rule = _find_granting(self._find_rules(ask.tool, ask.effects).own, ask)
        return self.tier <= ask.tier if rule is None else not rule.deny

    def list_named_params(self, tool: str, effects: ToolEffects) -> tuple[str, ...]:
        """The parameters that rules about a tool look at: calls that agree in these are alike to all of them."""
        tool_rules = self._find_rules(tool, effects)
        rules = [*(rule for _, rule in tool_rules.above), *tool_rules.own]
        return tuple(sorted({param.name for rule in rules for param in rule.params}))

    def visible(self, tool: str, tier: Tier, effects: ToolEffects) -> bool:
        """Is there any call of this tool that would be granted?"""
        tool_rules = self._find_rules(tool, effects)
        if any(
            _denies_all([rule for each, rule in tool_rules.above if each == folder])
            for folder in list_ancestors(self.folder)
        ):
            return False
        if _denies_all(tool_rules.own):
            return False
        for row in tool_rules.rows:
            if row.effect is AclEffect.DENY and _is_unconditional(row) and self._reaches_all(row.scope):
                return False
        opened = any(not rule.deny and not rule.hold for rule in tool_rules.own) or any(
            row.effect is AclEffect.ALLOW for row in tool_rules.rows
        )
        return opened or self.tier <= tier

    def list_rules_for(self, tool: str, effects: ToolEffects) -> tuple[str, ...]:
        """Return what the tool's description should tell: the rules and rows that speak of it."""
        tool_rules = self._find_rules(tool, effects)
        rules = [rule.text for _, rule in tool_rules.above] + [rule.text for rule in tool_rules.own]
        return (*rules, *(str(row) for row in tool_rules.rows))

    def list_restrictions(self, tool: str, effects: ToolEffects) -> tuple[GrantRule, ...]:
        """The rules that may deny or hold a call of this tool, those above first."""
        tool_rules = self._find_rules(tool, effects)
        return tuple(rule for rule in (*(rule for _, rule in tool_rules.above), *tool_rules.own) if rule.restricts)

    def list_hold_rules(self, tool: str, effects: ToolEffects) -> tuple[str, ...]:
        return tuple(rule.text for rule in self.list_restrictions(tool, effects) if rule.hold)

    def _find_rules(self, tool: str, effects: ToolEffects) -> _ToolRules:
        found = self._tool_rules.get(tool)
        if found is None:
            found = self._tool_rules[tool] = _ToolRules(
                above=tuple((each, rule) for each, rule in self.above if grants.matches_action(rule, tool, effects)),
                own=grants.list_matching(self.own, tool, effects),
                rows=tuple(
                    row
                    for row in self.rows
                    if acl.covers_action(row.action, _name_action(row, tool, effects))
                    and (tool in ACROSS or self._is_near(row))
                ),
            )
        return found

    def _is_near(self, row: AclRow) -> bool:
        """Return True if it may be about the group's own part of the tree."""
        return not self._across or self.folder == ROOT_FOLDER or acl.may_reach(row.scope, self.folder)

    def _may_concern(self, row: AclRow) -> bool:
        """Return True if a row may apply to this agent. An agent that acts in a room or for a person takes over their
        denials, and none of what they are allowed."""
        if self.folder != ROOT_FOLDER and not acl.may_reach(row.scope, self.folder) and not self._speaks_across(row):
            return False
        if acl.concerns(row, self._who):
            return True
        return row.effect is AclEffect.DENY and row.principal.partition(":")[0] not in ("folder", "role")

    def _speaks_across(self, row: AclRow) -> bool:
        """Return True if it gives a part of its world that is not below it, or takes back what another row gives
        there."""
        if not self._across or not acl.may_reach(row.scope, world_of(self.folder)):
            return False
        return _widens(row) or (
            row.effect is AclEffect.DENY and any(acl.covers_action(row.action, f"mcp:{tool}") for tool in ACROSS)
        )

    def _evaluate(self, ask: AccessRequest, tool_rules: _ToolRules, steps: list[PolicyStep] | None) -> bool:
        denied = False
        for folder in list_ancestors(self.folder) if tool_rules.above else ():
            rules = [rule for each, rule in tool_rules.above if each == folder]
            rule = _find_granting(rules, ask)
            denied = denied or (rule is not None and rule.deny)
            _explain_rules(steps, folder, rules, rule, binds=True)
        rule = _find_granting(tool_rules.own, ask) if tool_rules.own else None
        denied, allowed = denied or (rule is not None and rule.deny), rule is not None and not rule.deny
        _explain_rules(steps, self.folder, tool_rules.own, rule, binds=False)
        who = acl.expand_roles([*self._who, *ask.also], self._facts.members) if ask.also else self._who
        claimed = [get_claimed(each) for each in ask.also if is_untrusted(each)]
        bound = acl.expand_roles([*who, *claimed], self._facts.members) if claimed else who
        for row in tool_rules.rows:
            # A name that is only claimed gives nothing, and what it is denied stays denied.
            concerned = bound if row.effect is AclEffect.DENY else who
            action = _name_action(row, ask.tool, ask.effects)
            params = _choose_params(row, ask)
            act = (row, concerned, action, ask.scope, params, ask.claims)
            hit = acl.applies(*act) or acl.denies_by_other_name(*act, self._facts.members)
            denied = denied or (hit and row.effect is AclEffect.DENY)
            allowed = allowed or (hit and row.effect is AclEffect.ALLOW)
            if steps is not None:
                steps.append(PolicyStep(f"acl {row.id}", str(row), row.effect.value if hit else "–"))
        by_tier = self.tier <= ask.tier
        if steps is not None:
            speaks = not denied and not allowed
            text = f"{self.folder} is tier {int(self.tier)}, {ask.tool} reaches down to tier {int(ask.tier)}"
            steps.append(PolicyStep("tier", text, ("allow" if by_tier else "deny") if speaks else "–"))
        return not denied and (allowed or by_tier)

    def _reaches_all(self, scope: str) -> bool:
        return acl.covers_scope(scope, ANYWHERE if self.folder == ROOT_FOLDER else f"{self.folder}/**")


def list_ancestors(folder: str) -> list[str]:
    """The groups above one, the highest first. Root stands beside the tree."""
    parts = folder.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _find_last(rules: Sequence[GrantRule], ask: AccessRequest) -> GrantRule | None:
    """Return the rule of one group that decides. A parameter that was left out is read twice: as absent, and as its
    default."""
    readings = (ask.params, {**ask.usual, **ask.params})
    return grants.find_deciding(rules, ask.tool, *readings, effects=ask.effects, room=ask.room)


def _find_granting(rules: Sequence[GrantRule], ask: AccessRequest) -> GrantRule | None:
    return grants.find_granting(rules, ask.tool, ask.params, ask.effects, ask.room)


def _choose_params(row: AclRow, ask: AccessRequest) -> Mapping[str, str]:
    """Tools name their parameters differently: a row about a subject looks at the room alone."""
    if not acl.names_subject(row):
        return ask.params
    return {ROOM_PARAM: ask.room} if ask.room is not None else NOTHING


def _name_action(row: AclRow, tool: str, effects: ToolEffects) -> str:
    """A tool as a row sees it: under its own name, or as the subject that the row names."""
    subject = find_subject(row.action.removeprefix("mcp:"))
    if subject not in effects.subjects or (effects.presumed and row.effect is AclEffect.ALLOW):
        return f"mcp:{tool}"
    return f"mcp:{subject}"


def _widens(row: AclRow) -> bool:
    return row.effect is AclEffect.ALLOW and row.action.removeprefix("mcp:") in ACROSS


def _denies_all(rules: Sequence[GrantRule]) -> bool:
    """Return True if these rules deny every call, whatever it carries."""
    for rule in reversed(rules):
        if rule.hold:
            continue
        if not rule.deny:
            return False
        if not rule.params:
            return True
    return False


def _is_unconditional(row: AclRow) -> bool:
    return not row.params and not row.predicate and row.principal.startswith(("folder:", "role:", "**"))


def _explain_rules(
    steps: list[PolicyStep] | None, folder: str, rules: Sequence[GrantRule], decided: GrantRule | None, *, binds: bool
) -> None:
    """A rule above can only deny; what it allows, it allows to the group that it was written for."""
    if steps is None:
        return
    for rule in rules:
        said = "–" if rule is not decided or (binds and not rule.deny) else ("deny" if rule.deny else "allow")
        said = rule.effect if rule.hold else said
        steps.append(PolicyStep(f"rule of {folder}", rule.text, said))
