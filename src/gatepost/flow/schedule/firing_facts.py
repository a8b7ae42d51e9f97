"""Facts that decide about the firings of one look: read for all of them together, then judged one by one, without
effects.

The number of statements depends neither on the number of tasks nor on how many of them are due.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.flow import sender_rights
from gatepost.store.port import Db
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import firings, task_places
from gatepost.store.schedule.task_places import PlaceRequest, TaskPlace
from gatepost.store.schedule.tasks import MissedPolicy, Task, TaskContext
from gatepost.store.sessions import agents, sessions
from gatepost.store.sessions.sessions import SessionMode

_GROUP = TaskContext.GROUP  # in Python 3.11 it takes as long as a call to find a member, and this is done for each task
LAST = "\U0010ffff"  # no folder lies behind it


class JudgedTime(Struct, frozen=True, kw_only=True):
    """`skipped`: why it does not run. `refused`: why it runs, and fails at once."""

    task: Task
    due_at: int
    skipped: str = ""
    refused: str = ""


class FiringFacts(Struct, frozen=True, kw_only=True):
    """By task: how many runs of it `waiting` for their end, who is `behind` it, its place. `fired`: times (task, due
    time) that have their row. `shut_out`: those of (person, group) who may not speak there any more."""

    waiting: Mapping[str, int]
    behind: Mapping[str, Sequence[Origin]]
    places: Mapping[str, TaskPlace]
    fired: set[tuple[str, int]]
    shut_out: set[tuple[str, str]]


def read_facts(
    db: Db,
    due: Sequence[Task],
    times: Sequence[tuple[str, int]],
    most_late: int,
    behind: Mapping[str, Sequence[Origin]],
) -> FiringFacts:
    """`times`: those, each of a task, that are to have a row. `behind`: as it was read with its task, which is not
    moved if somebody changed it since."""
    runs = firings.list_runs(db, [each.id for each in due])
    waiting, newest = {each.task_id: each.open for each in runs}, {each.task_id: each.newest for each in runs}
    if texts := [each.id for each in due if each.text]:
        waiting |= firings.count_undelivered(db, texts, most_late)
    behind_newest = [each for each in times if (last := newest[each[0]]) is not None and last >= each[1]]
    people = [(origin.person, each.folder) for each in due for origin in behind[each.id]]
    return FiringFacts(
        waiting=waiting,
        behind=behind,
        places=task_places.find_places(db, [make_place_request(each) for each in due]),
        fired=firings.list_fired(db, behind_newest) if behind_newest else set(),
        shut_out=sender_rights.list_shut_out(db, people) if people else set(),
    )


def make_place_request(task: Task) -> PlaceRequest:
    room = (task.folder, task.instance, task.address, task.thread)
    root = task.folder == ROOT_FOLDER
    lasting = task.context is _GROUP and task.instance != agents.INSTANCE
    return PlaceRequest(
        task_id=task.id,
        folder=task.folder,
        instance=task.instance,
        address=task.address,
        low="" if root else f"{task.folder}/",
        high=LAST if root else f"{task.folder}0",
        of_room=sessions.key_of(SessionMode.SHARED, *room) if lasting else "",
        of_thread=sessions.key_of(SessionMode.PER_THREAD, *room) if lasting else "",
        of_group=sessions.key_of(SessionMode.AGENT_SHARED, *room) if lasting else "",
    )


def judge_times(
    facts: FiringFacts, due: Sequence[tuple[Task, int]], most_late: int, parts: Mapping[str, int]
) -> list[JudgedTime]:
    """Pure, of times of tasks that have come. One that was fired before is not among them. `parts`: by task, how many
    messages one run of it is: as with what waits, so many texts at once as have no more parts than may wait."""
    waiting, judged = dict(facts.waiting), []
    for task, due_at in due:
        if (task.id, due_at) in facts.fired:
            continue
        before = waiting.get(task.id, 0)
        skipped = check_overlap(task, before, most_late)
        refused = "" if skipped else find_refusal(facts, task)
        judged.append(JudgedTime(task=task, due_at=due_at, skipped=skipped, refused=refused))
        if not (skipped or refused):
            waiting[task.id] = before + parts[task.id]
    return judged


def check_overlap(task: Task, waiting: int, most_late: int) -> str:
    """Why a time is not fired though it has come; '' if it is."""
    if not waiting and most_late:
        return ""
    end = "been delivered" if task.text else "ended"
    if waiting and task.missed is not MissedPolicy.ALL:
        return f"the run before has not {end}"
    if waiting >= most_late:
        return f"{waiting} runs of it have not {end}"
    return ""


def render_no_way(task: Task) -> str:
    return f"{task.folder} has no way to its room any more"


def find_refusal(facts: FiringFacts, task: Task) -> str:
    """Why a task may not run any more, though it could be made once; '' if it may."""
    if not facts.places[task.id].reached:
        return render_no_way(task)
    if facts.shut_out and any((each.person, task.folder) in facts.shut_out for each in facts.behind[task.id]):
        return f"somebody on whose behalf it was made may not speak to {task.folder} any more"
    return ""
