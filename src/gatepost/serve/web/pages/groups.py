"""Groups: the tree of agents; each with its routes, conversations and settings."""

from collections.abc import Sequence
from urllib.parse import urlencode

from gatepost.core.errors import Unavailable
from gatepost.core.records import replace
from gatepost.flow.reports import GroupFile, GroupFileText, InheritedSetting
from gatepost.flow.sessions.sandbox.inherited_settings import GATEWAY, list_inherited
from gatepost.serve.control.arguments.access import ListGrantsArgs, ListPinnedRulesArgs, ListToolsArgs, VisibleTool
from gatepost.serve.control.arguments.gateways import GatewayView, ListGatewaysArgs
from gatepost.serve.control.arguments.groups import (
    GroupDetails,
    GroupView,
    ListGroupFilesArgs,
    ListGroupsArgs,
    ReadGroupFileArgs,
    ShowGroupArgs,
)
from gatepost.serve.control.rights import ROOT_FOLDER
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import (
    badge,
    code,
    link,
    made,
    make_columns,
    make_facts,
    make_table,
    moment,
    shorten,
)
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    EmptyState,
    FormBlock,
    FormInput,
    InputKind,
    Link,
    LongText,
    Note,
    PageView,
    TableBlock,
    Tone,
)
from gatepost.store.messages.destinations import Destination
from gatepost.store.rights.acl import GrantRow
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions.pinned_rules import PinnedRule

NEW = Action(label="New group", operation="group.add", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="There is no group. A group is a folder with one agent.", action=NEW)
OWN = {
    "folder": link("folder", "Group", "/groups/{folder}"),
    "provider": made(
        "provider",
        "Provider",
        lambda group: group.provider or ("as above it" if "/" in group.folder else "default"),
    ),
}
GROUP = make_columns(GroupView, OWN)
DETAILS = make_columns(GroupView, OWN, details=True)[1:]
PLACE = made(
    "gateway",
    "Files on",
    lambda group: f"{group.gateway}, moves to {group.moves_to}" if group.moves_to else group.gateway,
)
ROUTE = make_columns(Route)
DESTINATION = make_columns(Destination)
SESSION = (
    link("id", "Conversation", "/sessions/{id}", shown=lambda session: session.title or session.id),
    code("address", "Room"),
    badge("state", "State"),
    moment("active_at", "Active"),
)
TOOL = make_columns(VisibleTool)
RULE = make_columns(GrantRow, without=("folder",))
INHERITED = make_columns(InheritedSetting)
PINNED = make_columns(PinnedRule, without=("folder",))
EDITOR_ROWS = 28
NOT_SHOWN = "not shown to you"


@page("/groups", "Groups", Section.AGENTS, "group.list", order=10)
async def show_groups(request: PageRequest) -> PageView:
    return make_tree_view(await request.ask(ListGroupsArgs()))


def make_tree_view(found: Sequence[GroupView]) -> PageView:
    """A group stands below the one that it is in."""
    ordered = sorted(found, key=lambda group: group.folder.split("/"))
    table = make_table(ordered, GROUP, EMPTY, depth=lambda group: group.folder.count("/"))
    return PageView(blocks=[table], actions=(NEW,))


@page("/groups/{folder}", "Group", Section.AGENTS, "group.show")
async def show_group(request: PageRequest) -> PageView:
    folder = request.params["folder"]
    if path := request.query.get("file", ""):
        writes = await request.may("group.write_file", scope=folder)
        return make_editor_view(await request.ask(ReadGroupFileArgs(folder=folder, path=path)), writes=writes)
    group = await request.ask(ShowGroupArgs(folder=folder))
    details = (*DETAILS, PLACE) if request.operation_deps.home.gateway else DETAILS
    inherited = await _list_inherited(request, folder)
    blocks = [
        make_facts(group, details),
        make_table(inherited, INHERITED, EmptyState(text="All that it has is its own."), title="From elsewhere"),
        await _ask_files(request, folder),
        *list_conversations(group),
    ]
    if await request.may("rule.list", scope=folder):
        blocks.append(make_pinned(folder, await request.ask(ListPinnedRulesArgs(folder=folder))))
    if await request.may("grant.list", "policy.tools"):
        grants = await request.ask(ListGrantsArgs(folder=folder))
        blocks += [make_rules(folder, grants.rules), make_tools(await request.ask(ListToolsArgs(folder=folder)))]
    moves = await _list_moves(request, group)
    return PageView(title=group.name or folder, lead=folder, blocks=blocks, actions=(*list_actions(folder), *moves))


async def _list_inherited(request: PageRequest, folder: str) -> list[InheritedSetting]:
    """Without the values of groups above, and of the gateway's budgets, that the person may not see there."""
    deps = request.operation_deps
    found = await deps.store.read(list_inherited, deps.config, folder, request.now)
    common = (GATEWAY, "group.show")
    places = {(each.source, each.operation) for each in found} - {common}
    seen = {
        (source, name)
        for source, name in places
        if await request.may(name, scope=ROOT_FOLDER if source == GATEWAY else source)
    } | {common}
    return [each if (each.source, each.operation) in seen else replace(each, value=NOT_SHOWN) for each in found]


async def _ask_files(request: PageRequest, folder: str) -> Block:
    """The gateway that has them may be away: the rest of the page is shown all the same."""
    try:
        return make_files(folder, await request.ask(ListGroupFilesArgs(folder=folder)))
    except Unavailable as error:
        return Note(text=f"Its files cannot be shown: {error}.", tone=Tone.WARN)


async def _list_moves(request: PageRequest, group: GroupDetails) -> tuple[Action, ...]:
    if not request.operation_deps.home.gateway or not await request.may("gateway.list", "group.move"):
        return ()
    return list_moves(group, await request.ask(ListGatewaysArgs()))


def list_moves(group: GroupDetails, gateways: Sequence[GatewayView]) -> tuple[Action, ...]:
    """Offer a move if there is another gateway to move to. If there are several, the form asks for one."""
    others = [each.name for each in gateways if each.alive and each.name != group.gateway]
    if not others or not group.gateway:
        return ()
    given = {"folder": group.folder} | ({"gateway": others[0]} if len(others) == 1 else {})
    return (Action(label="Move to another gateway", operation="group.move", args=given, asks=True),)


def list_conversations(group: GroupDetails) -> list[Block]:
    new = Action(label="New route", operation="route.add", args={"target": group.folder}, asks=True)
    nobody, nowhere = EmptyState(text="Nobody talks with it."), EmptyState(text="It may write to nobody else.")
    no_route = EmptyState(text="No route leads here.", action=new)
    return [
        make_table(group.sessions, SESSION, nobody, title="Conversations"),
        make_table(group.routes, ROUTE, no_route, title="Routes"),
        make_table(group.destinations, DESTINATION, nowhere, title="May write to"),
    ]


def make_files(folder: str, found: Sequence[GroupFile]) -> TableBlock:
    def show_link(file: GroupFile) -> Link:
        query = urlencode({"file": file.path})
        return Link(shorten(file.path), f"{render_path('/groups/{folder}', folder=folder)}?{query}")

    fields = make_columns(GroupFile, {"path": made("path", "File", show_link)})
    new = Action(label="New skill", operation="group.write_file", args={"folder": folder}, asks=True)
    return make_table(found, fields, EmptyState(text="It has no AGENTS.md.", action=new), title="Files")


def make_editor_view(file: GroupFileText, *, writes: bool) -> PageView:
    """The form has the version that it shows: what was changed meanwhile is not overwritten."""
    group = Link(file.folder, render_path("/groups/{folder}", folder=file.folder))
    head = Note(text="Ctrl S saves. Agents that are awake take it up after their turn.", link=group)
    if not writes:
        return PageView(title=file.path, blocks=[LongText(text=file.text)])
    content = FormInput(
        name="content", label="Text", kind=InputKind.LONG_TEXT, value=file.text, required=True, rows=EDITOR_ROWS
    )
    form = FormBlock(
        label="Save",
        operation="group.write_file",
        args={"folder": file.folder, "path": file.path, "version": file.version},
        inputs=[content],
        keeps=True,
    )
    return PageView(title=file.path, blocks=[head, form])


def make_pinned(folder: str, found: Sequence[PinnedRule]) -> TableBlock:
    add = Action(label="Pin a rule", operation="rule.add", args={"folder": folder}, asks=True)

    def list_row_actions(rule: PinnedRule) -> tuple[Action, ...]:
        given = {"folder": folder, "id": rule.id}
        return (Action(label="Remove", operation="rule.rm", args=given, asks=True, tone=Tone.BAD),)

    empty = EmptyState(text="No rule is pinned. The agent has a pinned rule in every conversation.", action=add)
    return make_table(found, PINNED, empty, actions=list_row_actions, title="Pinned rules")


def make_rules(folder: str, found: Sequence[GrantRow]) -> TableBlock:
    def list_row_actions(rule: GrantRow) -> tuple[Action, ...]:
        given = {"folder": folder, "rule": rule.text}
        return (Action(label="Remove", operation="grant.rm", args=given, asks=True, tone=Tone.BAD),)

    add = Action(label="Add a rule", operation="grant.add", args={"folder": folder}, asks=True)
    empty = EmptyState(text="It has no rules of its own: its tier decides.", action=add)
    return make_table(found, RULE, empty, actions=list_row_actions, title="Rules for its tools")


def make_tools(found: Sequence[VisibleTool]) -> TableBlock:
    return make_table(found, TOOL, EmptyState(text="It may call no tool."), title="Tools that it may call")


def list_actions(folder: str) -> tuple[Action, ...]:
    given = {"folder": folder}
    return (
        Action(label="Change", operation="group.set", args=given, asks=True),
        Action(label="New skill", operation="group.write_file", args=given, asks=True),
        Action(label="Pin a rule", operation="rule.add", args=given, asks=True),
        Action(label="Add a rule", operation="grant.add", args=given, asks=True),
        Action(label="Explain a call", operation="policy.explain", args=given, asks=True),
        Action(label="New task", operation="task.add", args=given, asks=True),
        Action(label="Remove", operation="group.rm", args=given, asks=True, tone=Tone.BAD),
    )
