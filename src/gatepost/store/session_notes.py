"""Notes of a session: what people pinned for its agent, and the summary that its conversation began with."""

from msgspec import Struct

from gatepost.store.port import Db
from gatepost.store.table import Table


class SessionNotes(Struct, frozen=True):
    session_id: str
    pinned: str = ""
    pinned_by: str = ""
    summary: str = ""


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
    SESSION_NOTES.insert(
        db,
        "ON CONFLICT (session_id) DO UPDATE SET summary = excluded.summary",
        session_id=session_id,
        summary=text,
    )


def remove_summary(db: Db, session_id: str) -> None:
    db.run("UPDATE session_notes SET summary = '' WHERE session_id = ?", (session_id,))
