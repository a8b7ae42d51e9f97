"""Groups: make children, see who is there, watch one another."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from gatepost.access.subjects import Subject
from gatepost.access.tiers import ROOT_FOLDER, Tier, TreeScope, check_folder, may_act_on, may_watch, world_of
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.records import replace
from gatepost.flow.gateways.folder_check import check_folder_stays
from gatepost.flow.groups import FolderPrototype, make_group, read_prototype
from gatepost.flow.intake import routing
from gatepost.flow.schedule.prototype_tasks import SEED_FILE, SeedPlace, add_seed, pop_seed, read_seed
from gatepost.flow.schedule.task_changes import read_rules
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.gate.tool_answers import fitting
from gatepost.messages import address
from gatepost.messages.address import safe_segment
from gatepost.messages.text import clean
from gatepost.store.port import Db
from gatepost.store.rights.requests import BoundFact, BoundKind, BoundReads
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups, sessions
from gatepost.tools.call import ToolCall, run_to_completion
from gatepost.tools.contract import tool
from gatepost.tools.kit.child_quota import check_quota
from gatepost.tools.kit.outbox_effects import bind_text

DIRECT_SEQ = 0  # a room that was given to a group by name comes before every pattern
LONGEST_NAME = 100
MOST_SHOWN = 60_000  # characters of a prototype that are kept to be shown; nobody can allow one that says more

Most = Annotated[int, Meta(ge=-1, le=1_000_000)]
Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
Folder = Annotated[str | None, Meta(description="The group. Leave it out for your own.")]


class RegisteredGroup(Struct, frozen=True):
    registered: bool
    folder: str
    jid: str
    name: str
    parent: str


class GroupInfo(Struct, frozen=True):
    folder: str
    name: str
    parent: str


class GroupList(Struct, frozen=True):
    """In the order of their folders. `more`: there are others, which do not fit; give the last folder as `after`."""

    groups: list[GroupInfo]
    more: bool


class GroupOpenState(Struct, frozen=True):
    ok: bool
    folder: str
    open: bool


class ObserveWindow(Struct, frozen=True):
    ok: bool
    folder: str
    messages: int | None
    chars: int | None


class GroupObservation(Struct, frozen=True):
    ok: bool
    observer: str
    source: str


def _schedules(arguments: Mapping[str, Any]) -> str:
    """A prototype may hold tasks."""
    return "schedule_task" if arguments.get("fromPrototype") else ""


async def _read_prototype(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
    """Bind what a new group begins with: it lies in a folder that its parent's agent can change."""
    if not arguments.get("fromPrototype"):
        return BoundReads()
    found = await call.in_thread(read_prototype, call.deps.home, call.caller.folder)
    return await call.in_thread(_bind_prototype, found, str(arguments["jid"]))


def _bind_prototype(found: FolderPrototype, room: str) -> BoundReads:
    """All that takes effect is shown: tasks as they will be, and the words that instruct the new agent. Other files are
    named, with their digests."""
    names = [f"{name}, {len(data):,} bytes, sha256 {_digest(data)}" for name, data in sorted(found.files.items())]
    listed = "\n".join([f"{len(found.files)} files", *names])
    facts = [BoundFact(BoundKind.FOLDER, "prototype", _digest_prototype(found), listed)]
    seed = found.files.get(SEED_FILE)
    facts += _bind_seed(seed, room) if seed is not None else []
    for name, data in sorted(found.files.items()):
        if name.lower().endswith(".md") or name.startswith(("skills/", ".")):
            text = data[: 4 * MOST_SHOWN].decode(errors="replace")
            facts.append(bind_text(BoundKind.FILE, f"prototype/{name}", text))
    return BoundReads(facts=tuple(_limit(facts)))


def _bind_seed(data: bytes, room: str) -> list[BoundFact]:
    seed = read_seed(data)
    facts = []
    for number, task in enumerate(seed.task, 1):
        lines = [f"{name}: {value}" for name, value in to_builtins(task).items() if value not in (None, "")]
        facts.append(bind_text(BoundKind.TASK, f"{number} in {room}", "\n".join(lines)))
    windows = [f"{name}: {value}" for name, value in to_builtins(seed.settings).items() if value is not None]
    return [*facts, bind_text(BoundKind.FILE, f"prototype/{SEED_FILE}", "\n".join(windows))] if windows else facts


def _limit(facts: Sequence[BoundFact]) -> Iterator[BoundFact]:
    left = MOST_SHOWN
    for each in facts:
        shown = each.shown[: max(left, 0)]
        left -= len(each.shown)
        yield replace(each, shown=shown, cut=each.cut or left < 0)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_prototype(found: FolderPrototype) -> str:
    whole = hashlib.sha256()
    for name, data in sorted(found.files.items()):
        whole.update(f"{name!r} {len(data)} ".encode() + data)
    return hashlib.sha256(f"{whole.hexdigest()} {sorted(found.folders)!r}".encode()).hexdigest()


@tool(
    tier=Tier.WORLD,
    scoped_by="folder",
    within=TreeScope.CHILD,
    group="groups",
    effects=(Subject.CHANGE_RIGHTS, Subject.INSTRUCT),
    acts_as=_schedules,
    reads=_read_prototype,
)
async def register_group(
    call: ToolCall,
    jid: Annotated[str, Meta(description="The room whose messages the new group gets, like telegram:group/-100.")],
    folder: Annotated[str | None, Meta(description="Its folder, a direct child of yours: acme/eng.")] = None,
    name: Annotated[Name | None, Meta(description="How people call it. Default: the folder's last part.")] = None,
    parent: Annotated[str | None, Meta(description="Always your own group; taken for older callers.")] = None,
    fromPrototype: Annotated[
        bool,
        Meta(
            description="Copy your prototype/ folder, and name the group after the room. Tasks and windows in its"
            " tasks.toml become the new group's."
        ),
    ] = False,
) -> RegisteredGroup:
    """Make a child group with a folder and an agent of its own, and give it a room.

    For a task or a team that should keep its own memory and rights. The room must be one that reaches your part of the
    tree already. To send other messages to a group that exists use add_route.
    """
    own = call.caller.folder
    room = str(address.parse(jid, "jid"))
    if any(sign in room for sign in '*?[]|"'):
        raise Invalid("jid", f"{room!r} is a pattern; a room is named exactly, patterns are for add_route")
    chosen = check_folder(folder or _child(own, jid, fromPrototype))
    if "/" not in chosen:
        raise Invalid("folder", f"{chosen!r} would be a world; the operator makes those: gatepost group add {chosen}")
    if parent not in (None, "", own, chosen.rpartition("/")[0]):
        raise Invalid("parent", f"the parent of {chosen} is {chosen.rpartition('/')[0]}")
    called = clean(name or "").strip() or chosen.rpartition("/")[2]
    match = f'chat_jid="{room}"'
    routing.check_syntax(match, chosen, "per-thread")

    def check(db: Db) -> None:
        check_quota(db, call, own if own != ROOT_FOLDER else chosen.rpartition("/")[0])
        if own == ROOT_FOLDER and groups.get(db, chosen.rpartition("/")[0]) is None:
            raise NotFound("group", chosen.rpartition("/")[0], "a group is made below one that exists")
        if groups.get(db, chosen) is not None:
            raise Invalid("folder", f"there is a group {chosen!r} already; use add_route to give it a room")

    def make(db: Db) -> None:
        check(db)
        groups.add(db, chosen, called, "", call.now)
        check_folder_stays(db, call.deps.home, chosen)
        by = f"{routing.MADE_BY}{own}"
        routing.check_route_count(routes.list_all(db), own, [match])
        made = Route(seq=DIRECT_SEQ, match=match, target=chosen, folder=chosen, created_by=by, created_at=call.now)
        routes.add(db, made)
        chain = call.chain(db) if seed is not None and seed.tasks else OriginChain()
        if seed is not None and (why := add_seed(db, seed, chain, call.now, asked=True)):
            raise Refused(own, call.tool, chosen, why)

    def read(db: Db) -> str:
        check(db)
        _check_reached(db, call, room)
        return next(iter(rooms.list_instances(db, room)), room.partition(":")[0])

    instance = await call.read(read)
    prototype = await call.in_thread(read_prototype, call.deps.home, own) if fromPrototype else None
    if prototype is not None and call.approved is not None:
        found = await call.in_thread(_bind_prototype, prototype, jid)
        if call.approved.reads.list_changed(found):  # between the gate's look and this one
            raise Refused(own, call.tool, chosen, "prototype/ has changed since it was allowed; call it again")
    place = SeedPlace(folder=chosen, instance=instance, address=room, created_by=f"{routing.MADE_BY}{own}")
    seed = await call.in_thread(pop_seed, prototype, place, read_rules(call.deps.config), call.now)
    await run_to_completion(_make(call, chosen, called, prototype, make))
    return RegisteredGroup(registered=True, folder=chosen, jid=room, name=called, parent=chosen.rpartition("/")[0])


def _check_reached(db: Db, call: ToolCall, room: str) -> None:
    """Routes that an agent makes lead on what reaches it. For another room they would never hold."""
    own = call.caller.folder
    if own == ROOT_FOLDER or any(
        may_act_on(TreeScope.SUBTREE, own, each.folder) for each in sessions.list_in_room(db, room)
    ):
        return
    rows, known, where = routes.list_all(db), {group.folder for group in groups.list_all(db)}, address.parse(room)
    for instance in rooms.list_instances(db, room) or [where.platform]:
        chosen = routing.decide(rows, routing.make_match_input(instance, where), known.__contains__).chosen
        if any(may_act_on(TreeScope.SUBTREE, own, each.folder) for each in chosen):
            return
    why = "nothing that is written there reaches your part of the tree; the operator can route it there"
    raise Refused(own, call.tool, room, why)


async def _make(
    call: ToolCall, folder: str, name: str, prototype: FolderPrototype | None, commit: Callable[[Db], None]
) -> None:
    """Nobody is led there before all of it is in place."""
    home, deps = call.deps.home, call.deps
    uid = await group_uid(deps.store, deps.config, deps.clock, folder)
    await make_group(deps.store, home, folder, uid, partial(call.write, commit), name=name, prototype=prototype)
    call.deps.events.tools(None)
    call.deps.events.tasks()


def _child(own: str, jid: str, from_prototype: bool) -> str:
    if not from_prototype or own == ROOT_FOLDER:
        raise Invalid("folder", "is missing: name a direct child of yours, like acme/eng")
    return f"{own}/{safe_segment(jid)}"


@tool(tier=Tier.AGENT, group="groups", read_only=True, idempotent=True)
async def refresh_groups(
    call: ToolCall,
    after: Annotated[str, Meta(description="Only groups after this folder, if the last answer said `more`.")] = "",
) -> GroupList:
    """See which groups there are in your world: their folders, names and parents.

    For what reaches a group use list_routes; for its conversations list_sessions.
    """
    own = call.caller.folder

    def read(db: Db) -> GroupList:
        near = (each for each in groups.list_all(db) if own == ROOT_FOLDER or _same_world(own, each.folder))
        found = sorted((each for each in near if each.folder > after), key=lambda each: each.folder)
        return GroupList(*fitting(GroupInfo(each.folder, each.name, each.folder.rpartition("/")[0]) for each in found))

    return await call.read(read)


def _same_world(own: str, other: str) -> bool:
    return world_of(own) == world_of(other)


@tool(tier=Tier.WORLD, scoped_by="folder", group="groups", effects=(Subject.CHANGE_RIGHTS,), idempotent=True)
async def set_group_open(
    call: ToolCall, open: Annotated[bool, Meta(description="true: its siblings may watch it.")], folder: Folder = None
) -> GroupOpenState:
    """Open a group to its siblings, so that they may watch it with observe_group, or seal it again.

    Sealed is the default: siblings see nothing of it, and what they were not shown yet is gone at once. Groups above it
    may watch it in any case.
    """
    target = folder or call.caller.folder
    if open and "/" not in target:
        raise Invalid("folder", f"{target} is a world, and worlds have no siblings; open a group below it")
    await call.write(lambda db: _change(db, target, {"open": int(open)}))
    return GroupOpenState(ok=True, folder=target, open=open)


@tool(tier=Tier.WORLD, scoped_by="folder", group="groups", effects=(Subject.CHANGE_RIGHTS,), idempotent=True)
async def set_observe_window(
    call: ToolCall,
    messages: Annotated[Most | None, Meta(description="Most messages; -1: the gateway's own.")] = None,
    chars: Annotated[Most | None, Meta(description="Most characters; -1: the same.")] = None,
    folder: Folder = None,
) -> ObserveWindow:
    """Say how much of what it only observes a group is shown with a turn. An argument that is left out changes nothing.

    A route's own window wins over this. To watch another group use observe_group.
    """
    if messages is None and chars is None:
        raise Invalid("messages", "say messages, chars or both")
    given = {"window_messages": messages, "window_chars": chars}
    target = folder or call.caller.folder
    values = {name: None if value == -1 else value for name, value in given.items() if value is not None}
    await call.write(lambda db: _change(db, target, values))
    made = await call.read(groups.get, target)
    assert made is not None
    return ObserveWindow(ok=True, folder=target, messages=made.window_messages, chars=made.window_chars)


def _change(db: Db, folder: str, values: Mapping[str, Any]) -> None:
    if not groups.update(db, folder, dict(values)):
        raise NotFound("group", folder, "use refresh_groups to see which there are")


@tool(
    tier=Tier.AGENT,
    scoped_by="source",
    within=TreeScope.WORLD,
    group="groups",
    effects=(Subject.CHANGE_RIGHTS,),
    idempotent=True,
)
async def observe_group(
    call: ToolCall, source: Annotated[str, Meta(description="The group to watch, in your world.")]
) -> GroupObservation:
    """Watch another group: what people write to it is shown to you as context with your next turn, and asks nothing of
    you. From a sibling you are also shown what it only observes itself.

    A group below you, or a sibling while it is open (set_group_open). To end it use unobserve_group.
    """
    own = call.caller.folder

    def watch(db: Db) -> None:
        group = groups.get(db, source)
        if group is None or source == own:
            raise NotFound("group", source, "use refresh_groups to see which there are")
        if not may_watch(own, source, open=group.open):
            raise Refused(own, call.tool, source, "it is not below you, and it is not open")
        if own.startswith(f"{source}/"):  # what people tell that one is not for the groups that it made
            raise Refused(own, call.tool, source, "it is above you")
        groups.add_watcher(db, own, source, f"agent:{own}", call.now)

    await call.write(watch)
    return GroupObservation(ok=True, observer=own, source=source)


@tool(
    tier=Tier.AGENT,
    scoped_by="source",
    within=TreeScope.WORLD,
    group="groups",
    effects=(Subject.CHANGE_RIGHTS,),
    idempotent=True,
)
async def unobserve_group(
    call: ToolCall, source: Annotated[str, Meta(description="The group that you watch.")]
) -> GroupObservation:
    """Stop watching a group. To start use observe_group."""
    await call.write(groups.remove_watcher, call.caller.folder, source)
    return GroupObservation(ok=True, observer=call.caller.folder, source=source)
