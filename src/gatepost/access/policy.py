"""The one evaluator: may this group's agent make this call? Pure; what it is given decides alone.

In order, and a denial ends it: the rules of the groups above (they bind everybody below), the group's own rules (the
last that matches), the ACL rows (a set, in which deny wins). Nobody denied: a rule or a row that allows gives the tool;
where none speaks, the tier does. An error is a denial. `explain` is `decide`, written down.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gatepost.access import acl, grants
from gatepost.access.grants import Rule
from gatepost.access.tiers import ROOT_FOLDER, Tier, tier_of
from gatepost.store.acl import ANYWHERE, Effect, Row

NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that had a say."""

    source: str  # tier | rule of FOLDER | acl N
    text: str
    says: str  # allow | deny | –: it does not speak of this call


@dataclass(frozen=True, slots=True)
class Ask:
    """One call, as far as permission goes."""

    tool: str
    tier: Tier  # the deepest that has the tool by default
    scope: str  # the group that it is about
    params: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)  # who calls: platform, user, provider, room
    also: tuple[str, ...] = ()  # principals besides the group: the room of the turn


@dataclass(frozen=True, slots=True)
class _Standing:
    """What speaks of one tool."""

    above: tuple[tuple[str, Rule], ...]
    own: tuple[Rule, ...]
    rows: tuple[Row, ...]

    def __bool__(self) -> bool:
        return bool(self.above or self.own or self.rows)


@dataclass(frozen=True, slots=True)
class Facts:
    """All rules, rows and memberships of a gateway."""

    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)  # by folder, in their order
    rows: tuple[Row, ...] = ()  # those that count
    subjects: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by folder: all that its list is cut to
    every_subject: frozenset[str] | None = None  # the same for folders that say nothing; None: no cut
    members: acl.Members = field(default_factory=dict)


class Policy:
    """Everything that has a say about one group, made ready: most calls are one look into a table."""

    __slots__ = ("_facts", "_speaks", "_standings", "_who", "above", "folder", "own", "rows", "subjects", "tier")

    def __init__(self, folder: str, facts: Facts) -> None:
        self.folder, self.tier, self._facts = folder, tier_of(folder), facts
        self.own = facts.rules.get(folder, ())
        self.above = tuple((each, rule) for each in above(folder) for rule in facts.rules.get(each, ()))
        self._who = acl.expand([f"folder:{folder}"], facts.members)
        self.rows = tuple(row for row in facts.rows if self._may_concern(row))
        self.subjects = facts.subjects.get(folder, facts.every_subject)
        self._speaks = bool(self.own or self.above or self.rows)
        self._standings: dict[str, _Standing] = {}

    @property
    def plain(self) -> bool:
        """Nothing was ever said about it: its tier is all there is."""
        return not self._speaks and self.subjects is self._facts.every_subject

    def speaks_of(self, tool: str) -> bool:
        """Whether anything but the tier has a say about this tool."""
        return self._speaks and bool(self._stand(tool))

    def decide(self, ask: Ask) -> bool:
        standing = self._stand(ask.tool) if self._speaks else None
        return self._judge(ask, standing, None) if standing else self.tier <= ask.tier

    def explain(self, ask: Ask) -> tuple[bool, list[Step]]:
        """The same, with everything that took part, in the order of its say."""
        steps: list[Step] = []
        verdict = self._judge(ask, self._stand(ask.tool), steps)
        return verdict, steps

    def visible(self, tool: str, tier: Tier) -> bool:
        """Is there any call of this tool that would be granted?"""
        standing = self._stand(tool)
        if any(_closed([rule for each, rule in standing.above if each == folder]) for folder in above(self.folder)):
            return False
        if _closed(standing.own):
            return False
        for row in standing.rows:
            if row.effect is Effect.DENY and _total(row) and self._reaches_all(row.scope):
                return False
        opened = any(not rule.deny for rule in standing.own) or any(row.effect is Effect.ALLOW for row in standing.rows)
        return opened or self.tier <= tier

    def spoken(self, tool: str) -> tuple[str, ...]:
        """What the tool's description should tell: the rules and rows that speak of it."""
        standing = self._stand(tool)
        rules = [rule.text for _, rule in standing.above] + [rule.text for rule in standing.own]
        return (*rules, *(str(row) for row in standing.rows))

    def _stand(self, tool: str) -> _Standing:
        found = self._standings.get(tool)
        if found is None:
            action = f"mcp:{tool}"
            found = self._standings[tool] = _Standing(
                above=tuple((each, rule) for each, rule in self.above if grants.names(rule, tool)),
                own=grants.matching(self.own, tool),
                rows=tuple(row for row in self.rows if acl.covers_action(row.action, action)),
            )
        return found

    def _may_concern(self, row: Row) -> bool:
        """What a room or a person is allowed gives an agent that speaks there, or for them, nothing; what they are
        denied binds it."""
        if self.folder != ROOT_FOLDER and not acl.may_reach(row.scope, self.folder):
            return False
        if acl.concerns(row, self._who):
            return True
        return row.effect is Effect.DENY and row.principal.partition(":")[0] not in ("folder", "role")

    def _judge(self, ask: Ask, standing: _Standing, steps: list[Step] | None) -> bool:
        denied = False
        for folder in above(self.folder) if standing.above else ():
            rules = [rule for each, rule in standing.above if each == folder]
            rule = grants.deciding(rules, ask.tool, ask.params)
            denied = denied or (rule is not None and rule.deny)
            _tell_rules(steps, folder, rules, rule, binds=True)
        rule = grants.deciding(standing.own, ask.tool, ask.params) if standing.own else None
        denied, allowed = denied or (rule is not None and rule.deny), rule is not None and not rule.deny
        _tell_rules(steps, self.folder, standing.own, rule, binds=False)
        who = acl.expand([*self._who, *ask.also], self._facts.members) if ask.also else self._who
        for row in standing.rows:
            hit = acl.applies(row, who, f"mcp:{ask.tool}", ask.scope, ask.params, ask.claims)
            denied = denied or (hit and row.effect is Effect.DENY)
            allowed = allowed or (hit and row.effect is Effect.ALLOW)
            if steps is not None:
                steps.append(Step(f"acl {row.id}", str(row), row.effect.value if hit else "–"))
        by_tier = self.tier <= ask.tier
        if steps is not None:
            speaks = not denied and not allowed
            text = f"{self.folder} is tier {int(self.tier)}, {ask.tool} reaches down to tier {int(ask.tier)}"
            steps.append(Step("tier", text, ("allow" if by_tier else "deny") if speaks else "–"))
        return not denied and (allowed or by_tier)

    def _reaches_all(self, scope: str) -> bool:
        return acl.covers_scope(scope, ANYWHERE if self.folder == ROOT_FOLDER else f"{self.folder}/**")


def above(folder: str) -> list[str]:
    """The groups above one, the highest first. Root stands beside the tree."""
    parts = folder.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _closed(rules: Sequence[Rule]) -> bool:
    """Whether these rules deny every call, whatever it carries."""
    for rule in reversed(rules):
        if not rule.deny:
            return False
        if not rule.params:
            return True
    return False


def _total(row: Row) -> bool:
    return not row.params and not row.predicate and row.principal.startswith(("folder:", "role:", "**"))


def _tell_rules(
    steps: list[Step] | None, folder: str, rules: Sequence[Rule], decided: Rule | None, *, binds: bool
) -> None:
    """A rule above can only deny; what it allows, it allows to the group that it was written for."""
    if steps is None:
        return
    for rule in rules:
        said = "–" if rule is not decided or (binds and not rule.deny) else ("deny" if rule.deny else "allow")
        steps.append(Step(f"rule of {folder}", rule.text, said))
