"""The places where the tasks of one look run: one statement for all of them, however many conversations their rooms
have."""

from collections.abc import Sequence
from functools import cache
from itertools import chain

from msgspec import Struct
from msgspec.structs import astuple

from gatepost.store.engine.table import render_marks
from gatepost.store.port import Db
from gatepost.store.sessions.agents import INSTANCE


class PlaceRequest(Struct, frozen=True, kw_only=True):
    """The room of a task. `low`, `high`: between them are the folders below its own. The last three are the keys of the
    conversations that its prompt may go on with: '' where it begins a fresh one, or wakes a managed agent."""

    task_id: str
    folder: str
    instance: str
    address: str
    low: str
    high: str
    of_room: str
    of_thread: str
    of_group: str


class TaskPlace(Struct, frozen=True):
    """`reached`: the group has been told of the room, or it or one below it has a conversation there. `session_id`: the
    conversation that a prompt goes on with, '' if there is none. `folder`: its group, which is the task's own unless it
    wakes a managed agent below."""

    reached: bool
    session_id: str
    folder: str


# The predicate of the index `sessions_live_room`. Single firings have conversations of their own, which come and go.
_THERE = "s.address = v.column4 AND s.closed_at IS NULL AND s.mode <> 'isolated' AND s.instance = v.column3"
# A CASE stops at the first that is true.
_REACHED = (
    f"CASE WHEN EXISTS (SELECT 1 FROM sessions s WHERE {_THERE} AND s.folder = v.column2) THEN 1"
    " WHEN EXISTS (SELECT 1 FROM destinations d WHERE d.folder = v.column2 AND d.instance = v.column3"
    " AND d.address = v.column4) THEN 1"
    f" WHEN EXISTS (SELECT 1 FROM sessions s WHERE {_THERE} AND s.folder >= v.column5 AND s.folder < v.column6) THEN 1"
    " ELSE 0 END"
)
_AGENT = f"FROM sessions s WHERE {_THERE} AND s.agent = 1 ORDER BY s.active_at DESC LIMIT 1"
_OF_ROOM = (
    "SELECT s.id FROM sessions s WHERE s.key IN (v.column7, v.column8) AND s.closed_at IS NULL"
    " ORDER BY s.active_at DESC LIMIT 1"
)
_OF_GROUP = "SELECT s.id FROM sessions s WHERE s.key = v.column9 AND s.closed_at IS NULL"


def find_places(db: Db, asked: Sequence[PlaceRequest]) -> dict[str, TaskPlace]:
    """By task. Not more of them than a look takes up."""
    rows = [astuple(each) for each in asked]
    found = db.rows(_render_question(len(rows)), tuple(chain.from_iterable(rows)))
    return {task_id: TaskPlace(bool(reached), session, folder) for task_id, reached, session, folder in found}


@cache
def _render_question(count: int) -> str:
    """The same text each time: it is long, and SQLite knows a statement by it."""
    return (
        f"SELECT v.column1, {_REACHED},"
        f" CASE WHEN v.column3 = '{INSTANCE}' THEN COALESCE((SELECT s.id {_AGENT}), '') WHEN v.column7 = '' THEN ''"
        f" ELSE COALESCE(({_OF_ROOM}), ({_OF_GROUP}), '') END,"
        f" CASE WHEN v.column3 = '{INSTANCE}' THEN COALESCE((SELECT s.folder {_AGENT}), v.column2) ELSE v.column2 END"
        f" FROM (VALUES {render_marks(count, len(PlaceRequest.__struct_fields__))}) AS v"
    )
