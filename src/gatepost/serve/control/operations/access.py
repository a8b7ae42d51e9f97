"""Access: grants, explanations of policy, and pinned rules.

Every change of a grant reaches the agents' tool lists at once. Agents that are awake take up a pinned rule after their
turn.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from gatepost.access.acl import list_valid_rows
from gatepost.access.choices import Permission, put_answer, put_room_answer
from gatepost.access.grants import parse
from gatepost.access.policy import GroupPolicy
from gatepost.access.subjects import Subject, find_subject
from gatepost.access.tiers import check_folder
from gatepost.core import settings
from gatepost.core.clock import DAY
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.records import extend
from gatepost.core.registry import Registry, load_folder, load_package
from gatepost.core.settings import Config
from gatepost.flow import grant_changes
from gatepost.gate import connectors
from gatepost.gate.aliases import ALIASES
from gatepost.gate.call_explanation import ANSWERS, explain_subject, list_gaps
from gatepost.gate.call_explanation import explain as explain_tool
from gatepost.gate.connectors import CONNECTORS
from gatepost.gate.policies import load_policy_facts, read_offer_settings, visible_tools
from gatepost.messages import address as addresses
from gatepost.messages.inbound import OPERATOR
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.access import (
    AclListItem,
    AddAclRowArgs,
    AddGrantRuleArgs,
    AddPinnedRuleArgs,
    AddRoleMemberArgs,
    AllGrants,
    CallExplanation,
    ChoosePermissionArgs,
    ExplainCallArgs,
    GrantRuleRemoval,
    GroupPermission,
    ListGrantsArgs,
    ListPinnedRulesArgs,
    ListToolsArgs,
    NewGrantRule,
    NewPinnedRule,
    NewRoleMember,
    PermissionPreview,
    PreviewPermissionArgs,
    RemoveAclRowArgs,
    RemoveGrantRuleArgs,
    RemovePinnedRuleArgs,
    RemoveRoleMemberArgs,
    RoleMember,
    VisibleTool,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.control.declaration import list_declarations
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import groups, pinned_rules
from gatepost.store.sessions.pinned_rules import PinnedRule
from gatepost.tools.contract import TOOLS, Tool

PREVIEWED = 7 * DAY  # of recorded calls, which say what an answer would have done
LONGEST_RULE = 2000  # characters
LONGEST_RULES_TOGETHER = 8000  # of one group: they are part of every turn


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
    return GroupPolicy(folder, load_policy_facts(db, *read_offer_settings(config)))


def explain_call(tools: Registry[Tool], policy: GroupPolicy, args: ExplainCallArgs) -> CallExplanation:
    """As the gate decides it, for a call outside of any turn."""
    name, arguments = args.tool, args.arguments
    if name in ALIASES and name not in tools:
        arguments, name = ALIASES[name].translate(arguments), ALIASES[name].tool
    if (subject := find_subject(name)) is not None:
        allowed, steps = explain_subject(tools, policy, subject, arguments)
        return CallExplanation(policy.folder, name, allowed, steps, [ANSWERS] if subject is Subject.SPEAK else [])
    tool = tools[name]
    allowed, steps = explain_tool(tool, policy, arguments)
    restrictions = policy.list_restrictions(name, tool.effects)
    known = {rule.text for rule in restrictions}
    gaps = [gap for rule in restrictions for gap in list_gaps(tools, rule, known)]
    return CallExplanation(policy.folder, name, allowed, steps, list(dict.fromkeys(gaps)))


T = TypeVar("T")


async def _write_grants(deps: OperationDeps, change: Callable[[Db], T], **details: str) -> T:
    answer = await deps.write(change, **details)
    deps.events.tools(None)  # it binds the groups below, too
    return answer


@operation
async def add_grant_rule(deps: OperationDeps, args: AddGrantRuleArgs) -> NewGrantRule:
    given = (args.folder, args.rule, deps.caller, deps.clock.now())
    number, new = await _write_grants(deps, lambda db: grant_changes.add_rule(db, *given))
    tools = deps.extra["tools"] if "tools" in deps.extra else load_tools(deps.home)
    known = {each.text for each in await deps.store.read(acl.list_rules, args.folder)}
    gaps = list_gaps(tools, parse(args.rule), known)
    return NewGrantRule(id=number, folder=args.folder, rule=args.rule, new=new, not_covered=gaps)


@operation
async def choose_permission(deps: OperationDeps, args: ChoosePermissionArgs) -> GroupPermission:
    given = (args.folder, args.subject, args.permission, deps.caller, deps.clock.now(), args.room)
    rules = await _write_grants(deps, lambda db: grant_changes.set_permission(db, *given))
    return GroupPermission(folder=args.folder, subject=args.subject, permission=args.permission, rules=rules)


@operation
async def preview_permission(deps: OperationDeps, args: PreviewPermissionArgs) -> PermissionPreview:
    tools = deps.extra["tools"] if "tools" in deps.extra else load_tools(deps.home)
    names = [name for name, each in tools.items() if args.subject in each.effects.subjects]
    if args.room:
        grant_changes.check_ruled_room(args.subject, args.room)
    return await deps.store.read(_preview_permission, args, names, deps.clock.now() - PREVIEWED)


def _preview_permission(db: Db, args: PreviewPermissionArgs, tools: list[str], since: int) -> PermissionPreview:
    if groups.get(db, args.folder) is None:
        raise NotFound("group", args.folder, "`gatepost group list` shows them")
    rules = [parse(each.text) for each in acl.list_rules(db, args.folder)]
    if args.room:
        texts = put_room_answer(rules, args.subject, args.permission, args.room)
    else:
        texts = put_answer(rules, args.subject, args.permission)
    new = Counter(texts) - Counter(rule.text for rule in rules)
    found = audit.count_calls(db, f"agent:{args.folder}", tools, since, args.room)
    return PermissionPreview(
        calls=found.calls,
        more=found.more,
        exact=", ".join(new) or "no further rule",
        text=render_preview(args.permission, found.calls, more=found.more),
    )


def render_preview(permission: Permission, calls: int, *, more: bool) -> str:
    """Return what an answer would have done, in a sentence."""
    number = f"at least {calls}" if more and calls else str(calls)
    if not calls:
        return (
            "It did nothing of the kind in the last week." if not more else "Nothing of the kind is known of last week."
        )
    if permission is Permission.ASK:
        return f"This would have asked {number} {'time' if calls == 1 else 'times'} in the last week."
    these = f"{number} {'call' if calls == 1 else 'calls'} of the last week"
    return f"This would have refused {these}." if permission is Permission.NO else f"{these} would have asked nobody."


@operation
async def remove_grant_rule(deps: OperationDeps, args: RemoveGrantRuleArgs) -> GrantRuleRemoval:
    def remove(db: Db) -> GrantRuleRemoval:
        there = [each.text for each in acl.list_rules(db, args.folder)]
        gone = acl.remove_rule(db, args.folder, args.rule)
        if not gone:
            raise NotFound("rule", f"{args.rule} of {args.folder}", "`gatepost grant list` shows them")
        was_last = gone == 1 and there[-1] == args.rule
        return GrantRuleRemoval(folder=args.folder, rule=args.rule, removed=gone, was_last=was_last)

    return await _write_grants(deps, remove)


@operation
async def add_acl_row(deps: OperationDeps, args: AddAclRowArgs) -> AclRow:
    now = deps.clock.now()
    _check_right_exists(args.action)
    new = AclRow(
        id=0,
        principal=args.principal,
        action=args.action,
        scope=args.scope,
        effect=AclEffect.DENY if args.deny else AclEffect.ALLOW,
        params=args.params,
        predicate=args.predicate,
        grant_option=args.grant_option,
        granted_by=args.by if deps.caller == OPERATOR else deps.caller,  # nobody else gives in another's name
    )
    return await _write_grants(deps, lambda db: grant_changes.add_row(db, new, now), row=str(new), by=new.granted_by)


def _check_right_exists(action: str) -> None:
    """A row about a right that no operation needs would say nothing."""
    rights = sorted({each.info.right for each in list_declarations()})
    if action.startswith("op:") and action not in ("op:*", *(f"op:{each}" for each in rights)):
        raise Invalid("action", f"{action!r}; rights are: op:*, {', '.join(f'op:{each}' for each in rights)}")


@operation
async def remove_acl_row(deps: OperationDeps, args: RemoveAclRowArgs) -> AclRow:
    def remove(db: Db) -> AclRow:
        gone = acl.remove(db, args.id)
        if gone is None:
            raise NotFound("row", str(args.id), "`gatepost grant list` shows them")
        return gone

    return await _write_grants(deps, remove)


@operation
async def add_role_member(deps: OperationDeps, args: AddRoleMemberArgs) -> NewRoleMember:
    now = deps.clock.now()
    new = await _write_grants(deps, lambda db: grant_changes.add_member(db, args.child, args.role, deps.caller, now))
    return NewRoleMember(args.child, args.role, new)


@operation
async def remove_role_member(deps: OperationDeps, args: RemoveRoleMemberArgs) -> RoleMember:
    def remove(db: Db) -> None:
        if not acl.remove_member(db, args.child, args.role):
            raise NotFound("membership", f"{args.child} in {args.role}", "`gatepost grant list` shows them")

    await _write_grants(deps, remove)
    return RoleMember(args.child, args.role)


def _is_role(principal: str) -> bool:
    return principal.startswith(acl.ROLE)


@read_operation
def list_grants(db: Db, args: ListGrantsArgs, now: int) -> AllGrants:
    """Rules in their order, rows with whether they count, and memberships."""
    rows, members = acl.list_rows(db), acl.list_members(db)
    counting = {row.id for row in list_valid_rows(rows, members)}
    return AllGrants(
        rules=acl.list_rules(db, args.folder or None),
        rows=[extend(AclListItem, row, counts=row.id in counting) for row in rows],
        members=[RoleMember(child, each) for child, above in members.items() for each in above if _is_role(each)],
    )


@operation
async def add_pinned_rule(deps: OperationDeps, args: AddPinnedRuleArgs) -> NewPinnedRule:
    text = clean(args.text).strip()
    if not text or len(text) > LONGEST_RULE:
        raise Invalid("text", f"a pinned rule has 1 to {LONGEST_RULE} characters; longer texts belong in AGENTS.md")
    room = str(addresses.parse(args.room, "room")) if args.room else ""
    now = deps.clock.now()

    def insert(db: Db) -> NewPinnedRule:
        if groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        db.lock(LockKind.RULES, "pinned", args.folder)
        there = pinned_rules.list_for_group(db, args.folder)
        if (same := next((each for each in there if (each.address, each.text) == (room, text)), None)) is not None:
            return extend(NewPinnedRule, same, new=False)
        known = sum(len(each.text) for each in there)
        if known + len(text) > LONGEST_RULES_TOGETHER:
            why = f"the pinned rules of a group have {LONGEST_RULES_TOGETHER} characters together; remove one first"
            raise Invalid("text", why)
        return extend(NewPinnedRule, pinned_rules.add(db, args.folder, room, text, deps.caller, now), new=True)

    made = await deps.write(insert)
    deps.events.group(args.folder)
    return made


@read_operation
def list_pinned_rules(db: Db, args: ListPinnedRulesArgs, now: int) -> list[PinnedRule]:
    if args.folder and groups.get(db, args.folder) is None:
        raise NotFound("group", args.folder[:200], "`gatepost group list` shows them")
    return pinned_rules.list_for_group(db, args.folder) if args.folder else pinned_rules.list_all(db)


@operation
async def remove_pinned_rule(deps: OperationDeps, args: RemovePinnedRuleArgs) -> PinnedRule:
    def delete(db: Db) -> PinnedRule:
        found = pinned_rules.get(db, args.id)
        if found is None or found.folder != args.folder:
            raise NotFound("pinned rule", str(args.id), f"`gatepost rule list --folder {args.folder}` shows them")
        pinned_rules.remove(db, found.id)
        return found

    gone = await deps.write(delete)
    deps.events.group(args.folder)
    return gone
