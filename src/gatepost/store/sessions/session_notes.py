"""Notes of a session: what people pinned for its agent, the summary that its conversation began with, and the
transcript of the one that it was forked from."""

import json

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db

HistoryLine = dict[str, str | bool]  # of what was said: own, sender, text


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


def get(db: Db, session_id: str) -> SessionNotes:
    """Empty ones, if there are none."""
    return SESSION_NOTES.get(db, "WHERE session_id = ?", session_id) or SessionNotes(session_id)


def set_pinned(db: Db, session_id: str, text: str, by: str) -> None:
    """'' takes it back."""
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


def add(db: Db, new: SessionNotes) -> None:
    """Those of a session that has none yet."""
    SESSION_NOTES.insert(db, "", new)


def remove_summary(db: Db, session_id: str) -> None:
    db.run("UPDATE session_notes SET summary = '', transcript = '' WHERE session_id = ?", (session_id,))
