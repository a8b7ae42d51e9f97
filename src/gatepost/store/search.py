"""Full text over the ledger. The index is the engine's own (`full_text.py`); rights, ranking and snippets are one.

Marks of rooms and senders narrow a search to where the caller may read: the rights themselves are in the query all the
same. The newest `POOL` matches that the caller may read are ranked (bm25 among themselves, by FTS5 in memory). To rank
every message with a common word would take a hundred times as long. A long message is ranked by the
part around its first hit alone (`snippets.py`), and a very long one is indexed by its beginning. Matches elsewhere come
after.
"""

from collections.abc import Sequence
from typing import Any

import apsw
from msgspec import Struct

from gatepost.core.clock import DAY
from gatepost.core.errors import Invalid
from gatepost.messages.inbound import Direction
from gatepost.messages.outbound import MESSAGES
from gatepost.store.engine.full_text import (
    LOOKED_AT,
    TOKENIZER,
    IndexedText,
    list_words,
    make_mark,
    separate_characters,
)
from gatepost.store.engine.query_tree import parse_query
from gatepost.store.engine.sqlite_db import SqliteDb
from gatepost.store.messages.snippets import LONGEST, SnippetFinder
from gatepost.store.port import Db, inline_read

EVERY = 128  # messages between two times that the index is written
POOL = 400
MOST_MARKED = 50  # rooms that are looked up by their marks; with more, most of what matches may be read anyway
LONGEST_QUERY = 1000  # characters

_SAID = ", ".join(f"'{op.value}'" for op in sorted(MESSAGES))

# What a group's agent may see of a room that it may read: what was given to its part of the tree, or shown to it, and
# what that part said itself. One room may be shared out between groups that know nothing of one another. (What has no
# folder is nobody's: the gateway did or said it.) Parameters: `Subtree.sees`.
# Strangers whom nobody let in are not heard by looking back either; what one agent put into another's conversation is
# for those above it; what was withdrawn before anybody saw it was not said. An edit is seen in what it has changed.
SEEN = (
    "m.revision <> 'shown' AND m.kind IN ('chat', 'webhook')"
    " AND (m.folder = '' OR m.folder = ? OR (m.folder >= ? AND m.folder < ?))"
    " AND (m.direction = 'in'"
    " AND EXISTS (SELECT 1 FROM inbox i WHERE i.message_id = m.id"
    " AND (i.folder = '' OR i.folder = ? OR (i.folder >= ? AND i.folder < ?))"
    " AND (i.state <> 'refused' OR i.reason = 'budget_spent'))"
    f" OR m.direction = 'out' AND m.verb IN ({_SAID})"
    " AND EXISTS (SELECT 1 FROM outbox o WHERE o.message_id = m.id AND o.origin <> 'status'"
    " AND o.state NOT IN ('superseded', 'cancelled')))"
)
# The rooms of a part of the tree: where it has conversations or destinations. Parameters: as above, twice.
READABLE = (
    "SELECT instance, address FROM sessions WHERE closed_at IS NULL AND address <> ''"
    " AND (folder = ? OR (folder >= ? AND folder < ?))"
    " UNION SELECT instance, address FROM destinations WHERE kind = 'room'"
    " AND (folder = ? OR (folder >= ? AND folder < ?))"
)


class Subtree(Struct, frozen=True):
    """A part of the tree: a folder, and perhaps everything below it."""

    folder: str
    below: bool = True
    everything: bool = False  # every room there is, whoever talks there

    @property
    def range(self) -> tuple[str, str, str]:
        """The folder, and from where up to where (exclusive) those below it are: `/` is followed by `0`."""
        if self.everything:
            return self.folder, "", "\U0010ffff"
        return (self.folder, f"{self.folder}/", f"{self.folder}0") if self.below else (self.folder, "", "")

    @property
    def sees(self) -> tuple[str, ...]:
        """Return the parameters of `SEEN`."""
        return (*self.range, *self.range)


class SearchQuery(Struct, frozen=True, kw_only=True):
    """The words that are looked for, and in which part of the tree. `rooms`: only in these, at most `MOST_MARKED`."""

    query: str
    part: Subtree
    room: str = ""
    rooms: tuple[tuple[str, str], ...] | None = None  # (instance, address)
    sender: str = ""
    since: int | None = None
    limit: int = 20


class Hit(Struct, frozen=True):
    id: int
    instance: str
    address: str
    thread: str
    direction: Direction
    sender: str
    sender_name: str
    folder: str
    at: int
    topic: str
    snippet: str
    rank: float


def add(db: Db, texts: Sequence[IndexedText]) -> None:
    """Index messages that are new, unless the engine sees them itself. To be called in the transaction that writes
    them."""
    if not db.full_text.sees_new:
        db.full_text.add(db, texts)


def renew(db: Db, message_id: int) -> None:
    """Index a message anew whose text, room or sender was changed, in the same transaction. One that is deleted goes by
    itself."""
    db.full_text.renew(db, message_id)


def index(db: Db, most: int = 1000) -> int:
    """Write what waits into the index, as far as one transaction should; how many there were."""
    return db.full_text.index(db, most)


def find_unindexed(db: Db, wanted: Sequence[str]) -> list[int]:
    """Return the newest messages that the index does not have yet and that hold, for each of these, a word that begins
    with it. For readers, which cannot bring the index up to date."""
    beginnings = [word for each in wanted for word in list_words(separate_characters(each))]
    if not beginnings:
        return []
    found = []
    for message_id, text in db.full_text.list_unindexed(db, EVERY):
        words = list_words(separate_characters(text))
        if all(any(word.startswith(beginning) for word in words) for beginning in beginnings):
            found.append(message_id)
    return found


@inline_read
def is_behind(db: Db) -> bool:
    return db.full_text.is_behind(db)


def merge(db: Db, pages: int) -> bool:
    """Work on so many pages of the index, which lets go of what was deleted; fewer than none starts anew. True if there
    is more to do."""
    return db.full_text.merge(db, pages)


def list_readable_rooms(db: Db, part: Subtree, most: int = 2**31) -> list[tuple[str, str]]:
    """Return (instance, address) of the rooms of a part of the tree."""
    return [(row[0], row[1]) for row in db.rows(f"{READABLE} LIMIT ?", (*part.range, *part.range, most))]


def find(db: Db, wanted: SearchQuery) -> list[Hit]:
    """Return hits, the best first, of equal ones the newest."""
    query = _check_query(wanted.query)
    db.full_text.prepare(db)
    sql, params = _candidates(db, query, wanted)
    try:
        pool = db.rows(sql, params)
    except apsw.SQLError as error:
        raise Invalid("query", _render_error(error)) from None
    by_id = {row[0]: row for row in pool}
    ranked = _rank(query, [(row[0], row[-1]) for row in pool], wanted.limit)
    found = ((by_id[number], snippet, rank) for number, snippet, rank in ranked)
    return [Hit(*(*row[:4], Direction(row[4]), *row[5:-1], snippet, rank)) for row, snippet, rank in found]


def _candidates(db: Db, query: str, wanted: SearchQuery) -> tuple[str, list[Any]]:
    """Return the statement, with its parameters, for the newest messages that match and may be read."""
    part, conditions, full_text = wanted.part, [f"({SEEN})"], db.full_text
    having: list[Any] = []
    where: list[Any] = list(part.sees)
    marks: list[list[str]] = []
    with_sql = ""
    if not part.everything:
        rooms = list_readable_rooms(db, part, MOST_MARKED + 1 if not wanted.room else 2**31)
        if wanted.room:
            rooms = [each for each in rooms if each[1] == wanted.room]
        if len(rooms) <= MOST_MARKED:
            marks.append([make_mark("r", *each) for each in rooms] or ["nowhere"])
        with_sql = f"WITH readable (instance, address) AS MATERIALIZED ({READABLE}) "
        having = [*part.range, *part.range]
        conditions.append("(m.instance, m.address) IN (SELECT instance, address FROM readable)")
    if wanted.rooms is not None:
        marks.append([make_mark("r", *each) for each in wanted.rooms] or ["nowhere"])
        pairs = " OR ".join("(m.instance = ? AND m.address = ?)" for _ in wanted.rooms) or "FALSE"
        conditions.append(f"({pairs})")
        where += [word for each in wanted.rooms for word in each]
    if wanted.room:
        conditions.append("m.address = ?")
        where.append(wanted.room)
    if wanted.sender:
        marks.append([make_mark("s", wanted.sender)])
        conditions.append("m.sender = ?")
        where.append(wanted.sender)
    if wanted.since is not None:
        conditions.append(f"m.at >= ? AND {full_text.key} >= ?")
        where += [wanted.since, _find_first_since(db, wanted.since)]
    match = full_text.match(query, marks)
    sql = (
        f"{with_sql}SELECT m.id, m.instance, m.address, m.thread, m.direction, m.sender, m.sender_name, m.folder, m.at,"
        f" m.topic, substr(m.text, 1, {LOOKED_AT}) FROM {full_text.source} WHERE {match.sql}"
        f" AND {' AND '.join(conditions)} ORDER BY {full_text.key} DESC LIMIT ?"
    )
    return sql, [*having, *match.params, *where, max(POOL, wanted.limit)]


def _find_first_since(db: Db, since: int) -> int:
    """An id before which nothing was said since then: ids rise with the time of acceptance, and what a platform dates
    ahead of that is not a day ahead."""
    low, high = 0, int((db.row("SELECT COALESCE(MAX(id), 0) + 1 FROM messages") or (1,))[0])
    while low < high:
        middle = (low + high) // 2
        row = db.row("SELECT accepted_at FROM messages WHERE id >= ? ORDER BY id LIMIT 1", (middle,))
        if row is None or row[0] >= since - DAY:
            high = middle
        else:
            low = middle + 1
    return low


def _check_query(query: str) -> str:
    """Return the query as the index takes it, if it is one by itself: only then may it stand within another."""
    text = separate_characters(query.replace("\0", " ").replace("\u3000", " ").strip())
    if not text:
        raise Invalid("query", 'is empty; give a word, a "phrase", a OR b, a NOT b, prefix* or NEAR(a b, 5)')
    if len(query) > LONGEST_QUERY:
        raise Invalid("query", f"has {len(query)} characters; at most {LONGEST_QUERY} are possible")
    _rank(text, [], 1)
    parse_query(text)
    return text


def _rank(query: str, texts: Sequence[tuple[int, str]], limit: int) -> list[tuple[int, str, float]]:
    """Return (id, snippet, rank) of the best, by an index of these texts alone. It is gone when this returns."""
    look = SnippetFinder(query)
    whole: dict[int, str] = {}
    parts: dict[int, str] = {}
    for number, text in texts:
        # When it has looked at enough, only the beginning is taken: to set characters apart takes long, too.
        whole[number] = separate_characters(text if look.left > 0 else text[: LONGEST + 1])
        parts[number] = look.around(whole[number])
    memory = apsw.Connection(":memory:")
    db = SqliteDb(memory)
    try:
        memory.execute(f"CREATE VIRTUAL TABLE found USING fts5 (text, tokenize='{' '.join(TOKENIZER)}')")
        with memory:  # in rising order: a smaller id would have the index written out before it
            memory.executemany("INSERT INTO found (rowid, text) VALUES (?, ?)", sorted(parts.items()))
        rows = db.rows(
            "SELECT rowid, bm25(found) FROM found WHERE found MATCH ? ORDER BY 2, rowid DESC LIMIT ?", (query, limit)
        )
    except apsw.SQLError as error:
        raise Invalid("query", _render_error(error)) from None
    finally:
        memory.close()
    ranked: list[tuple[int, float]] = [(row[0], row[1]) for row in rows]
    known = {number for number, _ in ranked}
    if len(ranked) < limit:  # then these are all that matched in the part that was looked at
        ranked += [(number, 0.0) for number, _ in texts if number not in known][: limit - len(ranked)]
    return [(number, look.snippet(parts[number], _cut(whole[number], parts[number])), rank) for number, rank in ranked]


def _cut(whole: str, part: str) -> tuple[bool, bool]:
    """Return whether something was left out before it, and behind it."""
    return not whole.startswith(part), len(part) < len(whole) and not whole.endswith(part)


def _render_error(error: apsw.Error) -> str:
    """Return what is wrong with a query, without the library's own name for it."""
    why = str(error).removeprefix("fts5: ").removeprefix("SQLError: ")
    return f'{why}; put words with other characters than letters and digits in "double quotes"'
