"""All agents, as the tree of their groups, and the page of one.

Its tabs are about it, what it knows, what it may do, where it is reached, when it works by itself, what it costs, and
its conversations.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import quote, urlencode

from msgspec import Struct

from gatepost.core.errors import Invalid, NotFound, Unavailable
from gatepost.core.records import replace
from gatepost.flow.delivery.content_fallback import render_size
from gatepost.flow.group_files import LARGEST_FILE
from gatepost.flow.people.personal_routes import PersonalChat, list_own_rooms, list_reached
from gatepost.flow.reports import GroupFile, GroupFileText, InheritedSetting
from gatepost.flow.sessions.sandbox.inherited_settings import GATEWAY, list_inherited
from gatepost.serve.control.arguments.access import ListPinnedRulesArgs
from gatepost.serve.control.arguments.gateways import GatewayView, ListGatewaysArgs
from gatepost.serve.control.arguments.groups import (
    GroupDetails,
    GroupView,
    ListGroupFilesArgs,
    ListGroupsArgs,
    ReadGroupFileArgs,
    ShowGroupArgs,
)
from gatepost.serve.control.arguments.instructions import (
    InstructionChange,
    InstructionEntry,
    ListInstructionsArgs,
    ShowInstructionsArgs,
)
from gatepost.serve.control.arguments.memory import ListMemoriesArgs
from gatepost.serve.control.arguments.skills import AgreedSkillView, ListSkillsArgs
from gatepost.serve.control.arguments.spending import BudgetView, ShowBudgetsArgs, ShowCostArgs
from gatepost.serve.control.arguments.tasks import ListTasksArgs, TaskView
from gatepost.serve.control.rights import ROOT_FOLDER
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.hosts import list_host_blocks
from gatepost.serve.web.dashboard.permissions import list_permission_blocks
from gatepost.serve.web.dashboard.received_files import list_received_blocks
from gatepost.serve.web.dashboard.tables import (
    badge,
    code,
    link,
    made,
    make_columns,
    make_facts,
    make_moment,
    make_table,
    moment,
    shorten,
)
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    DiffBlock,
    Disclosure,
    EmptyState,
    Fact,
    Facts,
    FormBlock,
    FormInput,
    InputKind,
    Link,
    LongText,
    Money,
    Note,
    PageView,
    Tab,
    TableBlock,
    Tone,
)
from gatepost.serve.web.pages.memory import list_actions as list_memory_actions
from gatepost.serve.web.pages.spending import WHOLE, make_limits
from gatepost.serve.web.pages.tasks import show_when
from gatepost.store.memory.memories import Memory
from gatepost.store.messages.destinations import Destination
from gatepost.store.money.budgets import BudgetScopeKind, list_scopes
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import sessions
from gatepost.store.sessions.instructions import InstructionSource
from gatepost.store.sessions.pinned_rules import PinnedRule

NEW = Action(label="New agent", operation="group.add", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="There is no agent. An agent lives in a folder of its own.", action=NEW)
OWN = {
    "folder": link("folder", "Agent", "/groups/{folder}"),
    "provider": made(
        "provider",
        "Runs on",
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
INHERITED = make_columns(InheritedSetting)
PINNED = make_columns(PinnedRule, without=("folder",))
MEMORY = make_columns(Memory, {"text": link("text", "Remembered", "/memory/{id}", by="id")}, without=("folder",))
SKILL = make_columns(AgreedSkillView, {"name": link("name", "Skill", "/skills/{place}", by="place")})
TASK = make_columns(
    TaskView,
    {
        "title": link(
            "what", "Task", "/tasks/{id}", by="id", shown=lambda task: shorten(task.title or task.prompt or task.text)
        ),
        "folder": link("folder", "Agent", "/groups/{folder}"),
        "schedule": made("schedule", "When", show_when),
    },
)
INSTRUCTIONS = "AGENTS.md"
MOST_ROOMS = 50  # that are looked through
WEB, CHAT = "web:", "/chat/with/"  # rooms of the page, and their address
HOW = {
    InstructionSource.WRITTEN: "Written by a person",
    InstructionSource.PUT_BACK: "Put back",
    InstructionSource.FOUND: "Found in its folder",
}
EDITOR_ROWS = 28
COST_DAYS = 30
NOT_SHOWN = "not shown to you"
NOT_YOURS = Note(text="You may not see this part. An owner of this gateway can show it to you.")


@page("/groups", "All agents", Section.AGENTS, "group.list", order=10)
async def show_groups(request: PageRequest) -> PageView:
    return make_tree_view(await request.ask(ListGroupsArgs()))


def make_tree_view(found: Sequence[GroupView]) -> PageView:
    """A group stands below the one that it is in."""
    ordered = sorted(found, key=lambda group: group.folder.split("/"))
    table = make_table(ordered, GROUP, EMPTY, depth=lambda group: group.folder.count("/"))
    return PageView(blocks=[table], actions=(NEW,))


@page("/groups/{folder}", "Agent", Section.AGENTS, "group.show")
async def show_group(request: PageRequest) -> PageView:
    folder = request.params["folder"]
    if path := request.query.get("file", ""):
        return await _show_file(request, folder, path)
    if version := request.query.get("version", ""):
        return await _show_version(request, folder, version)
    group = await request.ask(ShowGroupArgs(folder=folder))
    view = VIEWS.get(request.query.get("view", ""), VIEWS[ABOUT])
    blocks: list[Block] = [NOT_YOURS]
    if await request.may(*view.reads, scope=folder):
        blocks = await view.show(request, group)
    actions = view.list_actions(folder)
    if view is VIEWS[ABOUT]:
        actions = (*([] if group.rest else [make_rest_action(folder)]), *actions)
        actions += await _list_moves(request, group)
    return PageView(
        title=group.name or folder,
        lead=render_place(folder),
        tabs=(*await _list_talk_tabs(request, folder), *make_tabs(folder, view)),
        blocks=blocks,
        actions=actions,
        banner=make_rest_banner(group),
    )


def make_rest_banner(group: GroupDetails) -> tuple[Note, ...]:
    if (rest := group.rest) is None:
        return ()
    whose = "" if rest.folder == group.folder else f" with {rest.folder}"
    why = f" {rest.reason}" if rest.reason else ""
    wake = Action(label="Wake it", operation="group.wake", args={"folder": rest.folder}, tone=Tone.GOOD)
    text = f"It rests{whose}: it begins nothing, and what is written to it waits.{why}"
    return (Note(text=text, tone=Tone.WARN, action=wake),)


async def _list_talk_tabs(request: PageRequest, folder: str) -> tuple[Tab, ...]:
    """Lead to the chat in which this person reaches the agent: their own room first, else one that they may see."""
    everywhere = await request.may("room.list")
    room = await request.operation_deps.store.read(_find_room, request.person, folder, everywhere)
    return (Tab(label="Talk", href=f"{CHAT}{quote(room.removeprefix(WEB))}"),) if room else ()


def _find_room(db: Db, person: str, folder: str, everywhere: bool) -> str:
    """'': there is no such room of the page."""
    own = list_own_rooms(db, person)
    chats = (each for each in own if folder in list_reached(db, PersonalChat("web", each, person)))
    used = sessions.list_open(db, folder, MOST_ROOMS) if everywhere else []
    return next(chats, "") or next((each.address for each in used if each.address.startswith(WEB)), "")


def make_tabs(folder: str, current: "AgentView") -> tuple[Tab, ...]:
    address = render_path("/groups/{folder}", folder=folder)
    return tuple(
        Tab(label=view.label, href=f"{address}?view={name}", is_current=view is current) for name, view in VIEWS.items()
    )


def render_place(folder: str) -> str:
    """Return where an agent stands among the others; '' if none is above it."""
    above = folder.rpartition("/")[0]
    return f"Part of {above}." if above else ""


# About it.


async def _show_about(request: PageRequest, group: GroupDetails) -> list[Block]:
    folder = group.folder
    details = (*DETAILS, PLACE) if request.operation_deps.home.gateway else DETAILS
    inherited = await _list_inherited(request, folder)
    blocks: list[Block] = [make_summary(group, inherited), await _make_instructions(request, folder)]
    if await request.may("instructions.list", scope=folder):
        blocks += make_versions(folder, await request.ask(ListInstructionsArgs(folder=folder)))
    if await request.may("rule.list", scope=folder):
        blocks.append(make_pinned(folder, await request.ask(ListPinnedRulesArgs(folder=folder))))
    elsewhere = make_table(inherited, INHERITED, EmptyState(text="All that it has is its own."), title="From elsewhere")
    exact: list[Block] = [make_facts(group, details), elsewhere]
    return [*blocks, Disclosure(label="Show every setting", blocks=exact)]


def make_summary(group: GroupDetails, inherited: Sequence[InheritedSetting]) -> Facts:
    """Return what people ask first. A value that is not its own says from where it is."""
    given = {each.name: f"{each.value} (from {each.source})" for each in inherited}
    return Facts(
        items=[
            Fact("Runs on", group.provider or given.get("provider")),
            Fact("Model", group.model or given.get("model") or "the usual one"),
            Fact("Conversations", len(group.sessions)),
            Fact("Since", make_moment(group.created_at)),
        ]
    )


async def _make_instructions(request: PageRequest, folder: str) -> Block:
    """The file may be missing, or on a gateway that is away: the rest of the page is shown all the same."""
    writes = await request.may("group.write_file", scope=folder)
    try:
        file = await request.ask(ReadGroupFileArgs(folder=folder, path=INSTRUCTIONS))
    except NotFound:
        file = GroupFileText(folder=folder, path=INSTRUCTIONS, text="", version="")
    except Unavailable as error:
        return Note(text=f"Its instructions cannot be shown: {error}.", tone=Tone.WARN)
    if not writes:
        return LongText(text=file.text, title="Instructions")
    return make_editor(file, title="Instructions")


def make_versions(folder: str, found: Sequence[InstructionEntry]) -> list[Block]:
    """The present text stands in the editor. Without an earlier version there is nothing to choose from."""
    place = render_path("/groups/{folder}", folder=folder)

    def show_link(entry: InstructionEntry) -> Link:
        return Link("See what is different", f"{place}?version={entry.id}")

    fields = make_columns(
        InstructionEntry,
        {
            "source": made("source", "How", lambda each: HOW[each.source]),
            "id": made("id", "", show_link),
        },
        without=("size",),
    )
    earlier = [each for each in found if not each.is_current]
    if not earlier:
        return []
    table = make_table(earlier, fields, EmptyState(text="There is no earlier version."))
    return [Disclosure(label=f"Earlier versions ({len(earlier)})", blocks=[table])]


async def _show_version(request: PageRequest, folder: str, version: str) -> PageView:
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 19 else 0
    found = await request.ask(ShowInstructionsArgs(folder=folder, id=number))
    return make_version_view(folder, found, writes=await request.may("instructions.put_back", scope=folder))


def make_version_view(folder: str, found: InstructionChange, *, writes: bool) -> PageView:
    """A version that is put back can be undone here."""
    entry = found.entry
    said = Facts(
        items=[Fact("When", make_moment(entry.written_at)), Fact("Who", entry.by_name), Fact("How", HOW[entry.source])]
    )
    back = (Tab(label="Back to the agent", href=f"{render_path('/groups/{folder}', folder=folder)}?view={ABOUT}"),)
    if entry.is_current:
        undo = {"folder": folder, "id": found.undo, "version": found.current}
        action = Action(label="Undo", operation="instructions.put_back", args=undo) if found.undo and writes else None
        note = Note(text="The agent goes by this version now.", tone=Tone.GOOD, action=action)
        return PageView(title="Instructions", tabs=back, blocks=[note, said, LongText(text=found.text)])
    given = {"folder": folder, "id": entry.id, "version": found.current}
    again = Action(label="Put this back", operation="instructions.put_back", args=given, tone=Tone.GOOD)
    return PageView(
        title="An earlier version of the instructions",
        tabs=back,
        actions=(again,) if writes else (),
        blocks=[
            said,
            DiffBlock(title="What putting it back would change", lines=found.changes),
            Disclosure(label="Show all of it", blocks=[LongText(text=found.text)]),
        ],
    )


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


def make_pinned(folder: str, found: Sequence[PinnedRule]) -> TableBlock:
    add = Action(label="Pin a rule", operation="rule.add", args={"folder": folder}, asks=True)

    def list_row_actions(rule: PinnedRule) -> tuple[Action, ...]:
        given = {"folder": folder, "id": rule.id}
        return (Action(label="Remove", operation="rule.rm", args=given, asks=True, tone=Tone.BAD),)

    empty = EmptyState(text="Nothing is pinned. The agent is told what is pinned in every conversation.", action=add)
    return make_table(found, PINNED, empty, actions=list_row_actions, title="Always told")


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


# What it knows.


async def _show_knowledge(request: PageRequest, group: GroupDetails) -> list[Block]:
    folder = group.folder
    blocks: list[Block] = []
    if await request.may("memory.list", scope=folder):
        found = [each for each in await request.ask(ListMemoriesArgs(folder=folder)) if each.folder == folder]
        nothing = EmptyState(text="It remembers nothing yet. It remembers what people tell it to.")
        blocks.append(make_table(found, MEMORY, nothing, actions=list_memory_actions, title="Remembers"))
    if await request.may("skill.list", scope=folder):
        skills = await request.ask(ListSkillsArgs(folder=folder))
        nothing = EmptyState(text="It has no skill. It has those alone that a person agreed to.")
        blocks.append(make_table(skills.skills, SKILL, nothing, title="Skills"))
    return [*blocks, await _ask_files(request, folder), *await list_received_blocks(request, folder)]


async def _ask_files(request: PageRequest, folder: str) -> Block:
    """The gateway that has them may be away: the rest of the page is shown all the same."""
    try:
        return make_files(folder, await request.ask(ListGroupFilesArgs(folder=folder)))
    except Unavailable as error:
        return Note(text=f"Its files cannot be shown: {error}.", tone=Tone.WARN)


def make_files(folder: str, found: Sequence[GroupFile]) -> TableBlock:
    """A text of a size that an editor takes is opened; any other file is fetched."""

    def show_link(file: GroupFile) -> Link:
        path = "/groups/{folder}" if file.size <= LARGEST_FILE else "/files/{folder}"
        return Link(shorten(file.path), f"{render_path(path, folder=folder)}?{urlencode({'file': file.path})}")

    fields = make_columns(GroupFile, {"path": made("path", "File", show_link), "size": made("size", "Size", show_size)})
    return make_table(found, fields, EmptyState(text="Its folder is empty.", action=give_file(folder)), title="Files")


def give_file(folder: str) -> Action:
    return Action(label="Give it a file", operation="group.give_file", args={"folder": folder}, asks=True)


def show_size(file: GroupFile) -> str:
    return render_size(file.size)


async def _show_file(request: PageRequest, folder: str, path: str) -> PageView:
    """A text in an editor; what is no text can be downloaded."""
    download = Link("Download", f"{render_path('/files/{folder}', folder=folder)}?{urlencode({'file': path})}")
    try:
        file = await request.ask(ReadGroupFileArgs(folder=folder, path=path))
    except Invalid as error:
        if error.target == "path":
            raise
        return PageView(title=path, blocks=[Note(text="It cannot be shown here.", hint=error.why, link=download)])
    return make_editor_view(file, download, writes=await request.may("group.write_file", scope=folder))


def make_editor_view(file: GroupFileText, download: Link, *, writes: bool) -> PageView:
    """The form has the version that it shows: what was changed meanwhile is not overwritten."""
    place = f"{render_path('/groups/{folder}', folder=file.folder)}?view=knows"
    lead = Note(text="Ctrl S saves. Instructions and skills hold from the next turn on.", link=download)
    back = (Tab(label=f"Back to {file.folder}", href=place),)
    shown: list[Block] = [lead, make_editor(file, rows=EDITOR_ROWS)] if writes else [LongText(text=file.text)]
    return PageView(title=file.path, tabs=back, blocks=shown)


def make_editor(file: GroupFileText, *, title: str = "", rows: int = EDITOR_ROWS // 2) -> Block:
    content = FormInput(
        name="content", label="Text", kind=InputKind.LONG_TEXT, value=file.text, required=True, rows=rows
    )
    given = {"folder": file.folder, "path": file.path, "version": file.version}
    return FormBlock(label="Save", operation="group.write_file", args=given, inputs=[content], title=title, keeps=True)


# What it may do.


async def _show_permissions(request: PageRequest, group: GroupDetails) -> list[Block]:
    *sentences, exact = await list_permission_blocks(request, group.folder)
    return [*sentences, *await list_host_blocks(request, group.folder), exact]


# Where it is reached, and its conversations.


async def _show_places(request: PageRequest, group: GroupDetails) -> list[Block]:
    new = Action(label="New route", operation="route.add", args={"target": group.folder}, asks=True)
    no_route = EmptyState(text="Nothing leads here: no room has this agent.", action=new)
    nowhere = EmptyState(text="It may write to nobody but those who write to it.")
    return [
        make_table(group.routes, ROUTE, no_route, title="Messages come from"),
        make_table(group.destinations, DESTINATION, nowhere, title="It may write to"),
    ]


async def _show_conversations(request: PageRequest, group: GroupDetails) -> list[Block]:
    return [make_table(group.sessions, SESSION, EmptyState(text="Nobody talks with it."), title="Conversations")]


# When it works by itself.


async def _show_tasks(request: PageRequest, group: GroupDetails) -> list[Block]:
    new = Action(label="New task", operation="task.add", args={"folder": group.folder}, asks=True, tone=Tone.GOOD)
    nothing = EmptyState(text="It does nothing by itself. A task is a prompt or a text at a time.", action=new)
    return [make_table(await request.ask(ListTasksArgs(folder=group.folder)), TASK, nothing)]


# What it costs.


async def _show_costs(request: PageRequest, group: GroupDetails) -> list[Block]:
    folder = group.folder
    report = await request.ask(ShowCostArgs(by="group", days=COST_DAYS, folder=folder))
    spent = sum(row.micro for row in report.rows if row.key == folder)
    found, is_whole = await _list_binding(request, folder)
    writable = [each for each in found if await request.may("budget.set", scope=_get_scope(each))]
    set_one = Action(label="Set a limit", operation="budget.set", args={"folder": folder}, asks=True, tone=Tone.GOOD)
    none = EmptyState(text="Nothing limits it yet. It may spend what its keys allow.", action=set_one)
    limits = make_limits(found, lambda each: name_owner(each, folder), none, title="Limits", writable=writable)
    above = [] if is_whole else [Note(text="Limits from above may hold, too, which you may not see.")]
    return [Facts(items=[Fact(f"In {COST_DAYS} days", Money(spent))]), limits, *above]


async def _list_binding(request: PageRequest, folder: str) -> tuple[list[BudgetView], bool]:
    """Return the limits that hold for what it does for this person, the nearest first, and whether that is all."""
    person = await request.operation_deps.store.read(identities.get_person, request.person)
    if await request.may("budget.show"):
        every = {(each.kind, each.name): each for each in await request.ask(ShowBudgetsArgs())}
        keys = [(each.kind, each.name) for each in list_scopes(folder, person)]
        return [every[key] for key in keys if key in every], True
    places = [each.name for each in list_scopes(folder, "") if each.kind is BudgetScopeKind.GROUP]
    seen = [each for each in places if await request.may("budget.show", scope=each)]
    found = [each for place in seen for each in await request.ask(ShowBudgetsArgs(folder=place)) if each.name == place]
    return found, False


def _get_scope(budget: BudgetView) -> str:
    return budget.name if budget.kind is BudgetScopeKind.GROUP else ROOT_FOLDER


def name_owner(budget: BudgetView, folder: str) -> str:
    """Return whose limit it is, as it is said on the page of one agent."""
    if budget.kind is BudgetScopeKind.USER:
        return "you"
    if budget.kind is BudgetScopeKind.INSTANCE:
        return WHOLE
    return "this agent" if budget.name == folder else f"all in {budget.name}"


def make_rest_action(folder: str) -> Action:
    return Action(label="Put to rest", operation="group.rest", args={"folder": folder}, asks=True)


def _list_about_actions(folder: str) -> tuple[Action, ...]:
    given = {"folder": folder}
    return (
        Action(label="Change", operation="group.set", args=given, asks=True),
        Action(label="Pin a rule", operation="rule.add", args=given, asks=True),
        Action(label="Remove", operation="group.rm", args=given, asks=True, tone=Tone.BAD),
    )


def _list_knowledge_actions(folder: str) -> tuple[Action, ...]:
    given = {"folder": folder}
    return (
        Action(label="Remember something", operation="memory.add", args=given, asks=True),
        Action(label="New skill", operation="group.write_file", args=given, asks=True),
        give_file(folder),
    )


def _list_permission_actions(folder: str) -> tuple[Action, ...]:
    given = {"folder": folder}
    return (
        Action(label="Add a rule", operation="grant.add", args=given, asks=True),
        Action(label="Explain a call", operation="policy.explain", args=given, asks=True),
    )


def _list_place_actions(folder: str) -> tuple[Action, ...]:
    return (Action(label="New route", operation="route.add", args={"target": folder}, asks=True),)


def _list_cost_actions(folder: str) -> tuple[Action, ...]:
    return (Action(label="Set a limit", operation="budget.set", args={"folder": folder}, asks=True),)


def _list_task_actions(folder: str) -> tuple[Action, ...]:
    return (Action(label="New task", operation="task.add", args={"folder": folder}, asks=True),)


class AgentView(Struct, frozen=True, kw_only=True):
    """A tab of an agent's page. `reads`: the operations that it cannot do without."""

    label: str
    show: Callable[[PageRequest, GroupDetails], Awaitable[list[Block]]]
    list_actions: Callable[[str], tuple[Action, ...]] = lambda folder: ()
    reads: tuple[str, ...] = ()


ABOUT = "about"
VIEWS: Mapping[str, AgentView] = {  # by their names in the address
    ABOUT: AgentView(label="About", show=_show_about, list_actions=_list_about_actions),
    "knows": AgentView(label="Knows", show=_show_knowledge, list_actions=_list_knowledge_actions),
    "may": AgentView(
        label="May", show=_show_permissions, list_actions=_list_permission_actions, reads=("policy.tools",)
    ),
    "where": AgentView(label="Where", show=_show_places, list_actions=_list_place_actions),
    "when": AgentView(label="When", show=_show_tasks, list_actions=_list_task_actions, reads=("task.list",)),
    "costs": AgentView(
        label="Costs", show=_show_costs, list_actions=_list_cost_actions, reads=("cost.show", "budget.show")
    ),
    "history": AgentView(label="History", show=_show_conversations),
}
