"""Access: rules of groups, rows of the access list, roles; and why a call is allowed or not."""

from gatepost.access.policy import PolicyStep
from gatepost.serve.control.arguments.access import AclListItem, ExplainCallArgs, ListGrantsArgs, RoleMember
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, made, make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, Badge, Block, EmptyState, Note, PageView, Tone
from gatepost.store.rights.acl import GrantRow

EXPLAIN = Action(label="Explain a call", operation="policy.explain", asks=True)
ADD_RULE = Action(label="New rule", operation="grant.add", asks=True, tone=Tone.GOOD)
ADD_ROW = Action(label="New row", operation="acl.add", asks=True)
RULE = make_columns(GrantRow, {"folder": link("folder", "Group", "/groups/{folder}")})
VOID = made("counts", "Counts", lambda row: None if row.counts else Badge("void", Tone.WARN))
ROW = make_columns(AclListItem, {"counts": VOID})
MEMBER = make_columns(RoleMember)
STEP = make_columns(PolicyStep)


@page("/access", "Rights", Section.PEOPLE, "grant.list", order=20)
async def show_access(request: PageRequest) -> PageView:
    found = await request.ask(ListGrantsArgs(folder=request.query.get("folder", "")))
    blocks: list[Block] = await _explain(request) if request.query.get("tool") else []
    rules = EmptyState(text="No group has rules of its own: tiers and defaults decide.", action=ADD_RULE)
    rows = EmptyState(text="There are no rows: owners may everything, the others what their group may.", action=ADD_ROW)
    roles = EmptyState(text="No role has members.")
    return PageView(
        blocks=[
            *blocks,
            make_table(found.rules, RULE, rules, actions=list_rule_actions, title="Rules of groups"),
            make_table(found.rows, ROW, rows, actions=list_row_actions, title="Access list"),
            make_table(found.members, MEMBER, roles, title="Roles"),
        ],
        actions=(EXPLAIN, ADD_ROW, ADD_RULE),
    )


async def _explain(request: PageRequest) -> list[Block]:
    why = await request.ask(ExplainCallArgs(folder=request.query.get("folder", ""), tool=request.query["tool"]))
    said = f"{why.folder} may {'' if why.allowed else 'not '}call {why.tool}."
    note = Note(text=said, tone=Tone.GOOD if why.allowed else Tone.BAD)
    free = [Note(text=f"Not covered: {each}") for each in why.notes]
    return [note, *free, make_table(why.steps, STEP, EmptyState(text="No rule says anything."), title="Step by step")]


def list_rule_actions(rule: GrantRow) -> tuple[Action, ...]:
    given = {"folder": rule.folder, "rule": rule.text}
    return (Action(label="Remove", operation="grant.rm", args=given, asks=True, tone=Tone.BAD),)


def list_row_actions(row: AclListItem) -> tuple[Action, ...]:
    return (Action(label="Remove", operation="acl.rm", args={"id": row.id}, asks=True, tone=Tone.BAD),)
