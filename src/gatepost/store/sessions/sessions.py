"""Sessions: one conversation of one group. `key` is computed from the mode and unique among the live ones.

Notes of a session: what people pinned for its agent, the summary that its conversation began with, and the transcript
of the one that it was forked from.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Annotated, NamedTuple

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.errors import NotFound
from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table, make_row_parser, value_marks
from gatepost.store.port import Db, inline_read
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import RequestKind

HistoryLine = dict[str, str | bool]  # of what was said: own, sender, text


class SessionMode(StrEnum):
    PER_THREAD = "per-thread"
    SHARED = "shared"
    AGENT_SHARED = "agent-shared"
    ISOLATED = "isolated"  # of one firing of a task; no route leads there


class SessionState(StrEnum):
    INITIALIZING = "initializing"
    IDLE = "idle"
    RUNNING = "running"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    CLOSED = "closed"


UNFINISHED = (SessionState.INITIALIZING, SessionState.RUNNING, SessionState.INTERRUPTED)  # it will go on by itself
MODES = tuple(mode.value for mode in SessionMode if mode is not SessionMode.ISOLATED)  # that a route may have


class Session(Struct, frozen=True):
    id: Annotated[str, shown("Id", ShownAs.ID)]
    title: Annotated[str, shown("Conversation", head="title")]
    key: str
    folder: Annotated[str, shown("Group", head="group")]
    mode: SessionMode
    instance: str
    address: Annotated[str, shown("Room", ShownAs.CODE, head="room")]
    thread: Annotated[str, shown("Topic", head="topic")]
    provider: Annotated[str, shown("Provider")]
    state: Annotated[SessionState, shown("State", ShownAs.BADGE)]
    next_seq: int
    window_messages: int | None
    window_chars: int | None
    owner: str
    lease_until: int
    epoch: int
    created_at: int
    active_at: Annotated[int, shown("Active", ShownAs.MOMENT, head="active")]
    closed_at: int | None
    agent: int = 0  # 1: it was made to be one, by somebody who manages agents
    model: Annotated[str, shown("Model")] = ""  # '' in this and the next: as its group says
    permission_mode: str = ""
    cwd: str = ""
    labels: str = "{}"  # JSON
    parent: str = ""  # the session that made it
    notify: int = 0  # the parent is told when it has finished
    archived_at: int | None = None
    reset_at: int | None = None  # when its conversation was last begun anew
    unlocked: str = ""  # tools that its agent found, the oldest first, with a space between


SESSIONS = Table("sessions", Session)
TRIAL_ROOMS = "terminal:trial/"  # how the rooms begin in which an agent is tried out, where nobody is


class SessionNotes(Struct, frozen=True):
    session_id: str
    pinned: str = ""
    pinned_by: str = ""
    summary: str = ""
    transcript: str = ""  # JSON: lines

    @property
    def lines(self) -> list[HistoryLine]:
        return json.loads(self.transcript) if self.transcript else []


SESSION_NOTES = Table("session_notes", SessionNotes)


def key_of(mode: SessionMode, folder: str, instance: str, address: str, thread: str) -> str:
    """Never NULL, so that the unique index settles every race. A `|` of a platform's own is escaped: no room may be
    named so that it shares another's session."""
    parts = {SessionMode.AGENT_SHARED: (folder,), SessionMode.SHARED: (folder, instance, address)}.get(
        mode, (folder, instance, address, thread)
    )
    key = "|".join(parts)
    if "%" not in key and key.count("|") == len(parts) - 1:  # as mostly
        return key
    return "|".join(part.replace("%", "%25").replace("|", "%7C") for part in parts)


def find_or_add(db: Db, mode: SessionMode, folder: str, instance: str, address: str, thread: str, now: int) -> Session:
    """The live session of that key, made if there is none."""
    key = key_of(mode, folder, instance, address, thread)
    found = find_by_key(db, key)
    if found is None:
        SESSIONS.insert(
            db,
            "ON CONFLICT (key) WHERE closed_at IS NULL DO NOTHING",
            id=ids.new("s"),
            key=key,
            folder=folder,
            mode=mode,
            instance=instance,
            address=address,
            thread=thread,
            created_at=now,
            active_at=now,
        )
        found = find_by_key(db, key)
        assert found is not None
    return found


_ISOLATED = ("id", "key", "folder", "instance", "address", "thread")
_FRESH = f"{SessionMode.ISOLATED}|"  # how their keys begin


def add_isolated(db: Db, rooms: Sequence[tuple[str, str, str, str]], now: int) -> list[str]:
    """Fresh ones that speak in these rooms (folder, instance, address, thread) and end with their one turn. The number
    1 is for the message that it is about."""
    made = ids.new_many("s", len(rooms))
    rows = [(each, f"{_FRESH}{each}", *room) for each, room in zip(made, rooms, strict=True)]
    SESSIONS.add_rows(db, "", _ISOLATED, rows, mode=SessionMode.ISOLATED, next_seq=2, created_at=now, active_at=now)
    return made


class ClaimedNumber(NamedTuple):
    """A live session, with what of it every message asks for."""

    session_id: str
    seq: int
    created_at: int
    window: tuple[int | None, int | None]  # messages, characters


def claim_seq_by_key(db: Db, key: str, now: int) -> ClaimedNumber | None:
    """The live session of that key and its next number, as `claim_seq` gives it."""
    row = db.row(
        "UPDATE sessions SET next_seq = next_seq + 1, active_at = ? WHERE key = ? AND closed_at IS NULL"
        " RETURNING id, next_seq, created_at, window_messages, window_chars",
        (now, key),
    )
    return ClaimedNumber(str(row[0]), int(row[1]) - 1, int(row[2]), (row[3], row[4])) if row is not None else None


def find_by_key(db: Db, key: str) -> Session | None:
    """The live session of that key."""
    return SESSIONS.get(db, "WHERE key = ? AND closed_at IS NULL", key)


@inline_read
def get(db: Db, session_id: str) -> Session | None:
    return SESSIONS.get(db, "WHERE id = ?", session_id)


class SessionOverview(Struct, frozen=True):
    """Facts of a session that its own agent may know. Asked often, so it is little."""

    folder: str
    provider: str
    title: str
    state: SessionState
    mode: SessionMode
    address: str
    seq: int  # the newest number


_parse_overview = make_row_parser(SessionOverview)


@inline_read
def get_overview(db: Db, session_id: str) -> SessionOverview | None:
    row = db.row(
        "SELECT folder, provider, title, state, mode, address, next_seq - 1 FROM sessions WHERE id = ?", (session_id,)
    )
    return _parse_overview(row) if row else None


def list_open(db: Db, folder: str | None = None, most: int = 2**31) -> list[Session]:
    """The busiest first; `most`: no more than so many."""
    if folder is None:
        return SESSIONS.list(db, "WHERE closed_at IS NULL ORDER BY active_at DESC")
    return SESSIONS.list(db, "WHERE closed_at IS NULL AND folder = ? ORDER BY active_at DESC LIMIT ?", folder, most)


def list_ids(db: Db, folder: str) -> list[str]:
    """Every one of a group, closed ones too."""
    return [str(row[0]) for row in db.rows("SELECT id FROM sessions WHERE folder = ? ORDER BY id", (folder,))]


@inline_read
def list_in_room(db: Db, address: str) -> list[Session]:
    """The live ones of every group, the busiest first; those of single firings are nobody else's."""
    return SESSIONS.list(
        db, "WHERE address = ? AND closed_at IS NULL AND mode <> 'isolated' ORDER BY active_at DESC", address
    )


def list_titles_in_room(db: Db, instance: str, address: str, most: int) -> list[tuple[str, str]]:
    """Return (thread, title) of the live conversations in threads of a room, the busiest first."""
    rows = db.rows(
        "SELECT thread, title FROM sessions WHERE address = ? AND instance = ? AND thread <> '' AND closed_at IS NULL"
        " AND mode <> 'isolated' ORDER BY active_at DESC LIMIT ?",
        (address, instance, most),
    )
    return [(str(thread), str(title)) for thread, title in rows]


@inline_read
def find_group_in_room(db: Db, address: str) -> str:
    """A group that has a conversation there, '' for none."""
    row = db.row("SELECT folder FROM sessions WHERE address = ? AND closed_at IS NULL LIMIT 1", (address,))
    return str(row[0]) if row else ""


def claim_seq(db: Db, session_id: str, now: int) -> int:
    """The next number of this session; one space for both directions."""
    return ask_seq(db, session_id, now)()


def ask_seq(db: Db, session_id: str, now: int) -> Callable[[], int]:
    """The same for one who needs it later."""
    asked = db.query_later(
        "UPDATE sessions SET next_seq = next_seq + 1, active_at = ? WHERE id = ? RETURNING next_seq - 1",
        (now, session_id),
    )

    def get_seq() -> int:
        if not (rows := asked()):
            raise NotFound("session", session_id, "its group was removed")
        return int(rows[0][0])

    return get_seq


def claim_seqs(db: Db, wanted: Mapping[str, int], now: int) -> dict[str, int]:
    """By session, the first of so many next numbers. Not more sessions than `MOST_ROWS`."""
    asked = sorted(wanted.items())
    rows = db.rows(
        "UPDATE sessions SET next_seq = next_seq + v.column2, active_at = ?"
        f" FROM (VALUES {value_marks(asked)}) AS v WHERE sessions.id = v.column1 RETURNING id, next_seq",
        (now, *chain.from_iterable(asked)),
    )
    return {str(row[0]): int(row[1]) - wanted[row[0]] for row in rows}


def set_window(db: Db, session_id: str, messages: int | None, chars: int | None) -> None:
    """How much observed context it is shown, as the route says that brings it."""
    db.execute_later(
        "UPDATE sessions SET window_messages = ?, window_chars = ? WHERE id = ?", (messages, chars, session_id)
    )


def set_state(db: Db, session_id: str, state: SessionState, now: int) -> None:
    """One that is closed stays so, whatever still ends in it."""
    db.execute_later(
        "UPDATE sessions SET state = ?, active_at = ? WHERE id = ? AND closed_at IS NULL", (state, now, session_id)
    )


def set_title(db: Db, session_id: str, title: str) -> None:
    db.execute_later("UPDATE sessions SET title = ? WHERE id = ?", (title, session_id))


def set_provider(db: Db, session_id: str, provider: str) -> None:
    """Its own, from the next turn on; '': its group's. A model and a mode belong to their provider, so they go."""
    db.execute_later(
        "UPDATE sessions SET provider = ?, model = '', permission_mode = '' WHERE id = ?", (provider, session_id)
    )


def set_model(db: Db, session_id: str, model: str) -> None:
    """Its own, from the next turn on; '': its group's."""
    db.execute_later("UPDATE sessions SET model = ? WHERE id = ?", (model, session_id))


def set_unlocked_tools(db: Db, session_id: str, names: Sequence[str]) -> None:
    db.run("UPDATE sessions SET unlocked = ? WHERE id = ?", (" ".join(names), session_id))


def close(db: Db, session_id: str, now: int) -> bool:
    """Close a session; the next message to the same key starts a new one. Its open requests are withdrawn."""
    requests.withdraw_for_session(db, session_id, "the conversation has ended", now)
    return bool(
        db.run(
            "UPDATE sessions SET closed_at = ?, state = 'closed' WHERE id = ? AND closed_at IS NULL", (now, session_id)
        )
    )


@inline_read
def get_conversation(db: Db, session_id: str, provider: str) -> str:
    """The provider's own conversation id, '' if it has none here. Another provider's is never fed to it."""
    row = db.row("SELECT conversation FROM conversations WHERE session_id = ? AND provider = ?", (session_id, provider))
    return str(row[0]) if row else ""


def set_conversation(db: Db, session_id: str, provider: str, conversation_id: str, now: int) -> None:
    if not conversation_id:
        db.execute_later("DELETE FROM conversations WHERE session_id = ? AND provider = ?", (session_id, provider))
        return
    db.execute_later(
        "INSERT INTO conversations (session_id, provider, conversation, updated_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (session_id, provider) DO UPDATE SET conversation = excluded.conversation,"
        " updated_at = excluded.updated_at",
        (session_id, provider, conversation_id, now),
    )


def shorten_conversation(db: Db, session_id: str, summary: str) -> None:
    """Let the next provider, whichever it is, start from this summary. Permissions given for the conversation stay."""
    db.execute_later("DELETE FROM conversations WHERE session_id = ?", (session_id,))
    set_summary(db, session_id, summary)


def remove_conversations(db: Db, session_id: str, now: int) -> None:
    """Let the next provider, whichever it is, start anew, without permissions that were given for the earlier
    conversation."""
    db.execute_later("UPDATE sessions SET reset_at = ?, unlocked = '' WHERE id = ?", (now, session_id))
    waiting_requests.hurry(db, RequestKind.BUDGET, now)  # what its limit stopped goes on in the new conversation
    requests.end_lasting(db, session_id)
    remove_summary(db, session_id)
    db.execute_later(
        "DELETE FROM session_files WHERE session_id = ?", (session_id,)
    )  # they go when its sandbox starts next
    db.execute_later("DELETE FROM conversations WHERE session_id = ?", (session_id,))


def get_notes(db: Db, session_id: str) -> SessionNotes:
    """Return the notes of a session, empty ones if there are none."""
    return SESSION_NOTES.get(db, "WHERE session_id = ?", session_id) or SessionNotes(session_id)


def set_pinned_note(db: Db, session_id: str, text: str, by: str) -> None:
    """Pin a note for the agent; '' takes it back."""
    SESSION_NOTES.insert(
        db,
        "ON CONFLICT (session_id) DO UPDATE SET pinned = excluded.pinned, pinned_by = excluded.pinned_by",
        session_id=session_id,
        pinned=text,
        pinned_by=by if text else "",
    )


def set_summary(db: Db, session_id: str, text: str) -> None:
    """Set the summary of all messages so far. It takes the place of a transcript."""
    SESSION_NOTES.insert(
        db,
        "ON CONFLICT (session_id) DO UPDATE SET summary = excluded.summary, transcript = ''",
        session_id=session_id,
        summary=text,
    )


def add_notes(db: Db, new: SessionNotes) -> None:
    """Add the notes of a session that has none yet."""
    SESSION_NOTES.insert(db, "", new)


def remove_summary(db: Db, session_id: str) -> None:
    db.run("UPDATE session_notes SET summary = '', transcript = '' WHERE session_id = ?", (session_id,))
