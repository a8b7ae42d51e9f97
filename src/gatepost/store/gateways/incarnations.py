"""Incarnations: which course of things a store is in.

Messages and calls in flight may go out by themselves only in the course in which they were begun. A copy of a store, a
restored backup and a rolled-back disk know nothing of what was said since, so each begins an incarnation of its own.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, json

from gatepost.core import ids
from gatepost.store.engine.table import Table
from gatepost.store.gateways import database_lives
from gatepost.store.gateways.database_lives import FAILOVER
from gatepost.store.gateways.machine_memory import MachineMemory, is_same_file
from gatepost.store.messages import inbox, message_steps, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectState
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.turns import Turn, TurnState

MOST_LIVES = 100  # starts that a store remembers: a home that moves between machines is known again
REASON = "restored"  # of what is held
REASONS = (REASON, FAILOVER)


class IncarnationReason(StrEnum):
    FIRST = ""
    RESTORED = "restored"  # somebody said so
    COPIED = "copied"  # the file is another one
    ROLLED_BACK = "rolled_back"  # this machine has seen more than the store knows


class Incarnation(Struct, frozen=True):
    number: int
    id: str  # by which machines remember it; a copy gets another
    reason: IncarnationReason
    source: str
    request_id: str
    begun_at: int
    file: str
    home: str
    machine: str
    lives: tuple[str, ...]


INCARNATIONS = Table("incarnations", Incarnation)


class StorePresence(Struct, frozen=True):
    """The place where a store is found now."""

    file: str
    home: str
    machine: str


class RestoredRowKind(StrEnum):
    EFFECT = "effect"
    CALL = "call"
    TASK = "task"


class RestoredRow(Struct, frozen=True):
    request_id: str
    kind: RestoredRowKind
    row_id: str


RESTORED_ROWS = Table("restored_rows", RestoredRow)


def get_current(db: Db) -> Incarnation | None:
    """None: no gateway has started on this store since it could have one."""
    return INCARNATIONS.get(db, "ORDER BY number DESC LIMIT 1")


def get_mark(db: Db) -> int:
    """Return how far the ledger has come: every change of a message adds a step. It never goes down, also where steps
    are removed."""
    return db.upkeep.get_last_id("steps")


def find_last_change(db: Db) -> int | None:
    row = db.row("SELECT at FROM steps ORDER BY id DESC LIMIT 1")
    return int(row[0]) if row else None


def list_older(db: Db) -> tuple[str, ...]:
    """The ids of the incarnations before the current one."""
    return tuple(str(row[0]) for row in db.rows("SELECT id FROM incarnations ORDER BY number"))[:-1]


def is_restored_since(db: Db, at: int) -> bool:
    """Return True if another course of things began after this moment: what was decided in between is not known."""
    row = db.row("SELECT 1 FROM incarnations WHERE reason <> '' AND begun_at > ? LIMIT 1", (at,))
    return row is not None


def choose_memory(
    here: StorePresence, older: Iterable[str], machine: MachineMemory | None, beside: MachineMemory | None
) -> MachineMemory | None:
    """Return the memory that knows more. The one `beside` the store counts for its own file alone, because a copied or
    restored home brings it along, and not for an incarnation that is over."""
    if beside is None or not is_same_file(beside.file, here.file) or beside.incarnation in older:
        return machine
    return beside if machine is None or beside.mark > machine.mark else machine


def judge_presence(
    known: Incarnation | None, here: StorePresence, memory: MachineMemory | None, mark: int
) -> IncarnationReason | None:
    """Why a store is in another course of things than when it was last started; None if it is not.

    A home that was moved keeps its file, and a new machine that has its disk remembers nothing: both go on.
    """
    if known is None:
        return None
    if memory is not None and (memory.mark > mark or not set(memory.lives) & set(known.lives)):
        return IncarnationReason.ROLLED_BACK
    if is_same_file(known.file, here.file):
        return None
    same_place = memory is not None and memory.home == here.home == known.home
    if memory is not None and same_place and memory.clean and memory.mark == mark:
        return None  # some file systems number their files anew, and nothing has happened since it was stopped
    return IncarnationReason.COPIED


def record_life(db: Db, life: str, here: StorePresence, now: int) -> Incarnation:
    """A gateway starts on the store: it is the one that lives here."""
    known = get_current(db)
    if known is None:
        return _add(db, IncarnationReason.FIRST, "", "", (life,), here, now)
    lives = (*known.lives, life)[-MOST_LIVES:]
    db.run(
        "UPDATE incarnations SET file = ?, home = ?, machine = ?, lives = ? WHERE number = ?",
        (here.file, here.home, here.machine, json.encode(lives).decode(), known.number),
    )
    found = get_current(db)
    assert found is not None
    return found


def add(db: Db, reason: IncarnationReason, source: str, request_id: str, now: int) -> Incarnation:
    """Another course of things begins. Its place is recorded with the start."""
    known = get_current(db)
    lives = known.lives if known is not None else ()
    here = StorePresence(known.file, known.home, known.machine) if known is not None else StorePresence("", "", "")
    return _add(db, reason, source, request_id, lives, here, now)


def _add(
    db: Db,
    reason: IncarnationReason,
    source: str,
    request_id: str,
    lives: Iterable[str],
    here: StorePresence,
    now: int,
) -> Incarnation:
    return INCARNATIONS.put(
        db,
        id=ids.new("i"),
        reason=reason,
        source=source,
        request_id=request_id,
        begun_at=now,
        file=here.file,
        home=here.home,
        machine=here.machine,
        lives=json.encode([*lives]).decode(),
    )


# What is held.


def hold_effects(db: Db, local: Iterable[str], now: int, folder: str | None = None) -> list[int]:
    """Everything that waits to go out has perhaps gone out; the interim lines of a turn are over. `local`: instances on
    which people see the ledger itself, so that nothing is there twice. `folder`: of one group alone. The rows that
    somebody decides about."""
    own = tuple(local)
    here = f" AND instance NOT IN ({', '.join('?' * len(own))})" if own else ""
    of_one = " AND session_id IN (SELECT id FROM sessions WHERE folder = ?)" if folder is not None else ""
    rows = db.rows(
        "UPDATE outbox SET state = CASE WHEN origin = 'status' THEN 'superseded' ELSE 'uncertain' END, reason = ?,"
        f" next_at = NULL, updated_at = ? WHERE state IN ('pending', 'sending'){here}{of_one}"
        " RETURNING id, message_id, state",
        (REASON, now, *own, *_list_given(folder)),
    )
    for row_id, message_id, state in rows:
        message_steps.add(db, int(message_id), int(row_id), now, state, REASON)
    return sorted(int(row_id) for row_id, _, state in rows if state == EffectState.UNCERTAIN)


def _list_given(folder: str | None) -> tuple[str, ...]:
    return () if folder is None else (folder,)


def end_turns(db: Db, reason: str, now: int, folder: str | None = None) -> list[Turn]:
    """Every open turn was perhaps done. Its messages wait for a decision; notes of what it did are over."""
    found = [each for each in turns.list_open(db) if folder is None or each.folder == folder]
    for turn in found:
        for entry, message in inbox.list_for_turn(db, turn.id):
            if entry.state is InboxState.WORKING and turns.is_continuation(message):
                inbox.set_state(db, entry.id, InboxState.CANCELLED, reason, None, now)
        turns.end(db, turn, TurnState.FAILED, reason, "{}", now)
        sessions.set_state(db, turn.session_id, SessionState.IDLE, now)  # nothing is wrong with it
    return found


def list_waiting(db: Db, folder: str | None = None) -> list[tuple[int, int]]:
    """(row, message) of everything that an agent was to work on, or may have worked on. So is what waits for
    money, or for a word about its sender or room: it goes on by itself once there is some, and was answered, perhaps.
    """
    rows = db.rows(
        f"SELECT id, message_id FROM inbox WHERE {inbox.OPEN} AND (state IN ('queued', 'retry', 'working')"
        " OR (state = 'held' AND EXISTS (SELECT 1 FROM requests r WHERE r.id = inbox.reason AND r.kind <> 'restored')))"
        f"{' AND folder = ?' if folder is not None else ''} ORDER BY id",
        _list_given(folder),
    )
    return [(int(row[0]), int(row[1])) for row in rows]


def hold_waiting(db: Db, rows: Iterable[tuple[int, int]], request_id: str, until: int, now: int) -> None:
    """They wait until somebody has decided. The turn that had them stays named: what it said is not said again."""
    for row_id, message_id in rows:
        db.run(
            "UPDATE inbox SET state = 'held', reason = ?, continues = TRIM(continues || ' ' || COALESCE(turn_id, '')),"
            " turn_id = NULL, given = 0, tries = 0, next_at = ?, updated_at = ? WHERE id = ?",
            (request_id, until, now, row_id),
        )
        message_steps.add(db, message_id, row_id, now, InboxState.HELD, REASON)


def list_allowed_calls(db: Db, folder: str | None = None) -> list[str]:
    """Held calls that were allowed, and have not run as far as this store knows."""
    rows = db.rows(
        "SELECT id FROM requests WHERE state = 'allowed' AND kind = 'call' AND notified_at IS NULL"
        f"{' AND folder = ?' if folder is not None else ''} ORDER BY id",
        _list_given(folder),
    )
    return [str(row[0]) for row in rows]


def hold_calls(db: Db, call_ids: Iterable[str], now: int) -> None:
    """They are not run by themselves."""
    for each in call_ids:
        requests.settle(db, each, now)
        requests.record_notified(db, each, now)


def hold_tasks(db: Db, reason: str, now: int) -> list[str]:
    """Pause the tasks that are due: their time has perhaps come and gone in the course that was forgotten."""
    rows = db.rows(
        "UPDATE tasks SET state = 'paused', reason = ?, updated_at = ? WHERE state = 'active' AND next_at <= ?"
        " RETURNING id",
        (reason, now, now),
    )
    return sorted(str(row[0]) for row in rows)


def add_rows(db: Db, request_id: str, effects: Iterable[int], calls: Iterable[str], due: Iterable[str] = ()) -> None:
    """Record the rows that a request decides about, besides the messages that are held for it. `due`: tasks."""
    kinds = (
        (RestoredRowKind.EFFECT, map(str, effects)),
        (RestoredRowKind.CALL, calls),
        (RestoredRowKind.TASK, due),
    )
    rows = [(request_id, kind, row_id) for kind, found in kinds for row_id in found]
    RESTORED_ROWS.add_rows(db, "ON CONFLICT DO NOTHING", RESTORED_ROWS.names, rows)


def hold_open(db: Db, now: int) -> int:
    """After a failover, hold what was on its way to people and to agents. A turn whose end was forgotten would say its
    answer again, and so would a message that waits here and was worked on since. A call that was allowed and a task
    that is due have perhaps run. Return how many things there were."""
    effects = database_lives.hold_effects(db, now)
    end_turns(db, FAILOVER, now)
    waiting = list_waiting(db)
    hold_waiting(db, waiting, FAILOVER, now, now)
    calls, due = list_allowed_calls(db), hold_tasks(db, FAILOVER, now)
    hold_calls(db, calls, now)
    add_rows(db, FAILOVER, (), calls, due)  # until there is a request
    return effects + len(waiting) + len(calls) + len(due)


def pop_failover_rows(db: Db) -> tuple[list[str], list[str]]:
    """Return the calls and the tasks that are held since a failover, for the request that is about them now."""
    found = _list_rows(db, FAILOVER, RestoredRowKind.CALL), list_tasks(db, FAILOVER)
    db.run("DELETE FROM restored_rows WHERE request_id = ?", (FAILOVER,))
    return found


# What was decided.


def release_effects(db: Db, request_id: str, now: int) -> set[tuple[str, str]]:
    """They go out again. The rooms to ring."""
    rooms = set()
    for effect_id in _list_rows(db, request_id, RestoredRowKind.EFFECT):
        effect = outbox.get(db, int(effect_id))
        if effect is not None and effect.reason in REASONS and outbox.retry_ended(db, effect.id, now):
            rooms.add((effect.instance, effect.address))
    return rooms


def cancel_effects(db: Db, request_id: str, now: int) -> None:
    for effect_id in _list_rows(db, request_id, RestoredRowKind.EFFECT):
        rows = db.rows(
            "UPDATE outbox SET state = 'cancelled', updated_at = ? WHERE id = ? AND state = 'uncertain'"
            " AND reason IN (?, ?) RETURNING message_id",
            (now, int(effect_id), *REASONS),
        )
        for (message_id,) in rows:
            message_steps.add(db, int(message_id), int(effect_id), now, EffectState.CANCELLED, REASON)


def release_calls(db: Db, request_id: str) -> None:
    """They run, as they were allowed."""
    for call_id in _list_rows(db, request_id, RestoredRowKind.CALL):
        db.run(
            "UPDATE requests SET settled_at = NULL, notified_at = NULL WHERE id = ? AND state = 'allowed'", (call_id,)
        )


def list_tasks(db: Db, request_id: str) -> list[str]:
    return _list_rows(db, request_id, RestoredRowKind.TASK)


def release_waiting(db: Db, request_id: str, now: int) -> list[str]:
    """The messages go to their agents. The sessions to wake; what belongs to a closed one is over. Those that had no
    session yet stay held."""
    woken: dict[str, None] = {}
    for entry_id, session_id in _list_held(db, request_id):
        if not session_id:
            continue
        session = sessions.get(db, session_id)
        if session is None or session.closed_at is not None:
            inbox.set_state(db, entry_id, InboxState.CANCELLED, REASON, None, now)
            continue
        inbox.set_state(db, entry_id, InboxState.QUEUED, "", now, now)
        woken[session.id] = None
    return list(woken)


def end_waiting(db: Db, request_id: str, state: InboxState, now: int) -> None:
    for entry_id, _ in _list_held(db, request_id):
        inbox.set_state(db, entry_id, state, REASON, None, now)


def _list_rows(db: Db, request_id: str, kind: RestoredRowKind) -> list[str]:
    rows = db.rows(
        "SELECT row_id FROM restored_rows WHERE request_id = ? AND kind = ? ORDER BY row_id", (request_id, kind)
    )
    return sorted((str(row[0]) for row in rows), key=lambda each: (len(each), each))


def _list_held(db: Db, request_id: str) -> list[tuple[int, str]]:
    rows = db.rows(
        f"SELECT id, session_id FROM inbox WHERE {inbox.OPEN} AND state = 'held' AND reason = ? ORDER BY id",
        (request_id,),
    )
    return [(int(row[0]), str(row[1] or "")) for row in rows]
