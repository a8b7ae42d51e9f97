"""Threads of rooms as people see them: a name, which all see, and what each person keeps on top or has put away."""

from enum import StrEnum

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind

MOST_NAMED = 500  # threads of one room
MOST_MARKED = 500  # threads of one room, by one person


class ThreadMark(StrEnum):
    PINNED = "pinned"
    ARCHIVED = "archived"


class NamedThread(Struct, frozen=True):
    instance: str
    address: str
    thread: str
    name: str
    named_by: str
    named_at: int


class MarkedThread(Struct, frozen=True):
    person: str
    instance: str
    address: str
    thread: str
    mark: ThreadMark
    marked_at: int


THREADS = Table("threads", NamedThread)
THREAD_MARKS = Table("thread_marks", MarkedThread)
_THREAD = "instance = ? AND address = ? AND thread = ?"


def set_name(db: Db, new: NamedThread) -> bool:
    """Give a thread a name; '' takes it away. False if too many of its room have one."""
    place = (new.instance, new.address, new.thread)
    db.run(f"DELETE FROM threads WHERE {_THREAD}", place)
    if not new.name:
        return True
    db.lock(LockKind.QUOTA, "threads", new.instance, new.address)
    row = db.row("SELECT COUNT(*) FROM threads WHERE instance = ? AND address = ?", place[:2])
    if row is not None and int(row[0]) >= MOST_NAMED:
        return False
    again = "ON CONFLICT (instance, address, thread) DO UPDATE SET name = excluded.name, named_by = excluded.named_by"
    THREADS.insert(db, again, new)
    return True


def list_names(db: Db, instance: str, address: str) -> dict[str, str]:
    """By thread."""
    found = THREADS.list(db, "WHERE instance = ? AND address = ? LIMIT ?", instance, address, MOST_NAMED)
    return {each.thread: each.name for each in found}


def set_mark(db: Db, person: str, place: tuple[str, str, str], mark: ThreadMark | None, now: int) -> bool:
    """Put a thread on top or away for one person; None: neither. False if they have marked too many. `place`: instance,
    address and thread."""
    db.run(f"DELETE FROM thread_marks WHERE person = ? AND {_THREAD}", (person, *place))
    if mark is None:
        return True
    db.lock(LockKind.QUOTA, "thread_marks", person, *place[:2])
    counted = "SELECT COUNT(*) FROM thread_marks WHERE person = ? AND instance = ? AND address = ?"
    row = db.row(counted, (person, *place[:2]))
    if row is not None and int(row[0]) >= MOST_MARKED:
        return False
    again = "ON CONFLICT (person, instance, address, thread) DO UPDATE SET mark = excluded.mark"
    THREAD_MARKS.insert(db, again, MarkedThread(person, *place, mark, now))
    return True


def list_marks(db: Db, person: str, instance: str, address: str) -> dict[str, ThreadMark]:
    """By thread."""
    wanted = "WHERE person = ? AND instance = ? AND address = ? LIMIT ?"
    found = THREAD_MARKS.list(db, wanted, person, instance, address, MOST_MARKED)
    return {each.thread: each.mark for each in found}
