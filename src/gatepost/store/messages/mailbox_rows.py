"""Mailbox rows: which rows of the inbox a session's mailbox must hold, and which context was shown already."""

from functools import lru_cache

from msgspec import Struct

from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import OPEN, OPEN_I, InboxEntry
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db, Row, inline_read

PAGE = 50  # rows that one statement reads


class ProjectionLimits(Struct, frozen=True):
    """The share of a session in its mailbox. `observed`, `chars`: messages of context and their characters together,
    where the session says nothing of it. `most_…`: the same at most, whatever a session says. `rows`, `size`: messages
    that wait, and their characters together."""

    observed: int
    chars: int
    rows: int
    size: int
    most_observed: int = 2**31
    most_chars: int = 2**31
    folders: tuple[str, ...] = ()  # whose memories its turns may be told of


class ToProject(Struct, frozen=True):
    pairs: list[tuple[InboxEntry, Message]]  # by seq
    rules_version: str  # the state that rules are in, among them the names that the group may send to
    remembers: bool = False  # there are memories that its turns may be told of


_CONTEXT = (
    "SELECT 'context' AS part, i.id AS id, i.seq AS seq, LENGTH(m.text) AS length, '' AS name"
    " FROM inbox i JOIN messages m ON m.id = i.message_id"
    " WHERE i.session_id = ? AND i.mode = 'observe' AND i.given = 0 AND i.seq < ? ORDER BY i.seq DESC LIMIT ?"
)
_TO_PROJECT = (
    f"SELECT * FROM ({_CONTEXT}) AS context UNION ALL SELECT * FROM (SELECT 'next', i.id, i.seq, LENGTH(m.content), ''"
    f" FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.session_id = ? AND {OPEN_I} AND i.state <> 'working'"
    " AND i.mode <> 'task' ORDER BY i.seq LIMIT ?) AS waiting"
    " UNION ALL SELECT * FROM (SELECT 'next', i.id, i.seq, LENGTH(m.content), ''"
    f" FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.session_id = ? AND {OPEN_I} AND i.state <> 'working'"
    " AND i.mode = 'task' ORDER BY i.seq LIMIT 1) AS task"
    f" UNION ALL SELECT 'working', id, seq, 0, '' FROM inbox WHERE session_id = ? AND {OPEN} AND state = 'working'"
    " UNION ALL SELECT 'window', 0, window_messages, window_chars, '' FROM sessions WHERE id = ?"
    " UNION ALL SELECT 'rules', 0, 0, 0, name FROM rule_state"
)


@lru_cache(maxsize=16)
def _render_query(folders: int) -> str:
    """With a row that says whether any of so many groups remembers anything."""
    marks = ", ".join("?" * folders) or "NULL"
    remembers = f"SELECT 1 FROM memories WHERE folder IN ({marks}) AND ended_at IS NULL"
    return f"{_TO_PROJECT} UNION ALL SELECT 'memory', 0, 0, 0, '' WHERE EXISTS ({remembers})"


@inline_read
def list_to_project(db: Db, session_id: str, limits: ProjectionLimits) -> ToProject:
    """Return the rows that a session's mailbox must hold. These are all rows that are worked on, and the waiting ones
    that a turn can claim next and that fit, the first in any case. Context that no turn has shown yet is added, the
    newest that fits."""
    first = min(limits.observed, PAGE)
    parts: dict[str, list[Row]] = {"context": [], "next": [], "working": [], "window": [], "rules": [], "memory": []}
    given = (session_id, 2**62, first, session_id, limits.rows, session_id, session_id, session_id, *limits.folders)
    for row in db.rows(_render_query(len(limits.folders)), given):
        parts[row[0]].append(row)
    chosen = [row[1] for row in parts["working"]]
    chosen += messages.within([(row[1], row[3]) for row in parts["next"]], limits.size)
    observed, chars = parts["window"][0][2:4] if parts["window"] else (None, None)
    observed = min(limits.observed if observed is None else observed, limits.most_observed)
    chars = min(limits.chars if chars is None else chars, limits.most_chars)
    if parts["context"] or not first:
        chosen += _list_context(db, session_id, parts["context"], first, observed, chars)
    pages = (chosen[at : at + PAGE] for at in range(0, len(chosen), PAGE))
    pairs = [pair for some in pages for pair in inbox.list_by_ids(db, some)]
    if len(pairs) > 1:
        pairs.sort(key=lambda pair: pair[0].seq)
    state = parts["rules"][0][4] if parts["rules"] else ""
    return ToProject(pairs, state, bool(parts["memory"]))


def _list_context(db: Db, session_id: str, page: list[Row], asked: int, observed: int, chars: int) -> list[int]:
    """Return the ids of what fits, newest first. `page`: the first of them, of which so many were asked for. It goes
    page by page: a window may be wide, and what does not fit is not read."""
    chosen: list[int] = []
    before = 2**62
    while True:
        for _, row_id, seq, length, _ in page[:observed]:
            chars, before = chars - length, seq
            if chars < 0:
                return chosen
            chosen.append(row_id)
        observed -= asked
        if observed <= 0 or len(page) < asked:
            return chosen
        asked = min(observed, PAGE)
        page = db.rows(_CONTEXT, (session_id, before, asked))


def mark_context_shown(db: Db, session_id: str, turn_id: str) -> None:
    """Context up to a turn's last message was shown with it, or did not fit: it is not shown again."""
    row = db.row("SELECT MAX(seq) FROM inbox WHERE turn_id = ?", (turn_id,))
    if row is not None and row[0] is not None:
        db.run(
            "UPDATE inbox SET given = 1 WHERE session_id = ? AND mode = 'observe' AND given = 0 AND seq < ?",
            (session_id, row[0]),
        )
