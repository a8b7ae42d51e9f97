"""The room of a task that a person or an operator makes: where its group has a conversation, or would have one."""

from msgspec import Struct
from msgspec.structs import replace

from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.intake import routing
from gatepost.flow.people.personal_routes import list_own_rooms
from gatepost.flow.schedule.firing import has_way
from gatepost.flow.schedule.task_changes import TaskRules, add_task, cancel_task
from gatepost.messages import address as addresses
from gatepost.messages.address import Address
from gatepost.store.messages import destinations
from gatepost.store.messages.destinations import DestinationKind
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import NewTask, Task
from gatepost.store.sessions import agents, groups, sessions
from gatepost.store.sessions.sessions import Session, SessionMode

MOST_NAMED = 10  # rooms, in an error
MOST_TRIED = 50  # rooms, for that error
MOST_LOOKED_AT = 500  # sessions of a group, the busiest


class TaskRoom(Struct, frozen=True, kw_only=True):
    """`opens`: the conversation that a message there would begin; None, if the group has a way there already."""

    instance: str
    address: str
    thread: str = ""
    opens: SessionMode | None = None


def find_task_room(db: Db, folder: str, said: str) -> TaskRoom:
    """The room that was named, or the only one that the group has."""
    if groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    return _find_named(db, folder, said) if said else _find_only(db, folder)


def _find_named(db: Db, folder: str, said: str) -> TaskRoom:
    where = addresses.parse(said, "room")
    known = rooms.list_instances(db, str(where))
    for instance in known or [where.platform]:
        if has_way(db, folder, instance, str(where)):
            return TaskRoom(instance=instance, address=str(where))
    opened = _list_opened(db, folder, [(instance, where) for instance in known])
    if opened:
        return opened[0]
    why = f"nothing that is written there reaches {folder}" if known else f"nobody has written to {folder} there yet"
    raise NotFound(
        "room", str(where), f"{why}; `gatepost room list` shows the rooms, `gatepost route test` who gets what"
    )


def _list_opened(db: Db, folder: str, known: list[tuple[str, Address]]) -> list[TaskRoom]:
    """Those of the rooms in which a message would begin a conversation of the group."""
    rows, exists = routes.list_all(db), {each.folder for each in groups.list_all(db)}.__contains__
    return [
        TaskRoom(instance=instance, address=str(where), opens=each.mode)
        for instance, where in known
        for each in routing.decide(rows, routing.make_match_input(instance, where), exists).chosen
        if each.folder == folder and not each.observe
    ]


def _list_own(db: Db, folder: str) -> set[tuple[str, str]]:
    """List the rooms, each with its channel, in which the group has talked or to which it may write."""
    found = {
        (each.instance, each.address)
        for each in sessions.list_open(db, folder, MOST_LOOKED_AT)
        if each.mode is not SessionMode.ISOLATED and rooms.get(db, each.instance, each.address) is not None
    }
    named = destinations.list_for_group(db, folder)
    return found | {(each.instance, each.address) for each in named if each.kind is DestinationKind.ROOM}


def _find_only(db: Db, folder: str) -> TaskRoom:
    found = _list_own(db, folder)
    if len(found) == 1:
        instance, address = found.pop()
        return TaskRoom(instance=instance, address=address)
    if not found:
        raise Invalid(
            "room", f"nobody has written to {folder} yet, so say where: --room ADDRESS{_render_opened(db, folder)}"
        )
    listed = ", ".join(sorted({address for _, address in found})[:MOST_NAMED])
    raise Invalid("room", f"{folder} has {len(found)} rooms, so say which: --room ADDRESS; they are {listed}")


def _render_opened(db: Db, folder: str) -> str:
    """For an error: where it could speak. On a new gateway nobody has written, and yet there are rooms."""
    listed = dict.fromkeys(each.address for each in _list_opened_first(db, folder))
    return f"; these lead to it: {', '.join(list(listed)[:MOST_NAMED])}" if listed else ""


def _list_opened_first(db: Db, folder: str) -> list[TaskRoom]:
    known = [(each.instance, addresses.parse(each.address)) for each in rooms.list_first(db, MOST_TRIED)]
    return _list_opened(db, folder, known)


def list_offered(db: Db, folder: str, person: str) -> dict[str, str]:
    """Return the names of rooms that a task may speak in, by their addresses: this person's own first. It is a bounded
    part of them, for a form."""
    known = {(each.instance, each.address): each.name for each in rooms.list_first(db, MOST_LOOKED_AT)}
    found = dict.fromkeys((each.instance, each.address) for each in _list_opened_first(db, folder))
    found |= dict.fromkeys(_list_own(db, folder))
    own = dict.fromkeys(each for each in list_own_rooms(db, person) if each in {address for _, address in found})
    named = {address: known.get((instance, address), "") or address for instance, address in found}
    return {address: named[address] for address in [*own, *named]}


def find_new_place(db: Db, task: Task, said: str, now: int) -> tuple[str, str, str]:
    """Another room for a task: instance, address and thread. The conversation that it needs there is begun."""
    if task.instance == agents.INSTANCE:
        raise Invalid("room", f"{task.id} wakes a managed agent, which has a room of its own; make another task")
    room = find_task_room(db, task.folder, said)
    if room.opens is not None:
        sessions.find_or_add(db, room.opens, task.folder, room.instance, room.address, room.thread, now)
    return room.instance, room.address, room.thread


def find_agent_room(db: Db, folder: str, session: Session) -> TaskRoom:
    """A managed agent's own: a task there wakes that agent."""
    if session.folder != folder:
        raise Invalid("agent", f"it is no agent of {folder}; `gatepost agent ls` shows the group of each")
    if session.closed_at is not None:
        raise Invalid("agent", f"{session.id} was ended; make another one, or give the task to a group")
    return TaskRoom(instance=agents.INSTANCE, address=session.address)


def cancel_agent_tasks(db: Db, session: Session, by: str, now: int) -> None:
    """The agent is ended for good: nobody else can do what it was to do."""
    for task in tasks.list_in_room(db, session.folder, agents.INSTANCE, session.address):
        cancel_task(db, task.id, by, now)


def add_task_in(db: Db, room: TaskRoom, new: NewTask, rules: TaskRules, person: str, now: int) -> tuple[Task, bool]:
    """The task in that room, and whether it is new. `person`: who made it and pays; '': the operator."""
    if room.opens is not None:
        sessions.find_or_add(db, room.opens, new.folder, room.instance, room.address, room.thread, now)
    placed = replace(new, instance=room.instance, address=room.address, thread=room.thread)
    return add_task(db, placed, rules, now, [Origin(person, room.instance, room.address, room.thread)])
