"""Views of memories: the groups that have what everybody may know in a file, and which lines it was last given.

The lines themselves are not kept: what somebody had forgotten must not lie here any longer.
"""

from collections.abc import Collection, Mapping

import msgspec

from gatepost.store.memory.memories import MEMORIES, Memory
from gatepost.store.port import Db

WIDE = "scope IN ('agent', 'family')"  # what may be read in every room of the agent, as its files may
AT_ONCE = 200  # parameters of a statement

WrittenLines = Mapping[int, str]  # digests by the ids of entries

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[int, str]).decode


def get_lines(db: Db, folder: str) -> WrittenLines | None:
    """Return the lines that were last written; None if the group has no such file."""
    row = db.row("SELECT lines FROM memory_views WHERE folder = ?", (folder,))
    return _decode(str(row[0])) if row is not None else None


def put(db: Db, folder: str, lines: WrittenLines, now: int) -> None:
    db.run(
        "INSERT INTO memory_views (folder, lines, written_at) VALUES (?, ?, ?)"
        " ON CONFLICT (folder) DO UPDATE SET lines = excluded.lines, written_at = excluded.written_at",
        (folder, _encode({str(number): digest for number, digest in lines.items()}).decode(), now),
    )


def remove(db: Db, folder: str) -> bool:
    return db.run("DELETE FROM memory_views WHERE folder = ?", (folder,)) > 0


def list_folders(db: Db) -> list[str]:
    return [str(row[0]) for row in db.rows("SELECT folder FROM memory_views ORDER BY folder")]


def list_wide(db: Db, folder: str, now: int, limit: int) -> list[Memory]:
    """Return what everybody who talks with an agent may know, of its own memory, the newest first."""
    live = "ended_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
    return MEMORIES.list(db, f"WHERE folder = ? AND {live} AND {WIDE} ORDER BY id DESC LIMIT ?", folder, now, limit)


def find_wide(db: Db, folder: str, ids: Collection[int]) -> dict[int, Memory]:
    """Return those of these entries that everybody may know or might, also what is over. No other is looked at: the ids
    come out of a file that an agent can write."""
    found: dict[int, Memory] = {}
    wanted = sorted(ids)
    for at in range(0, len(wanted), AT_ONCE):
        some = wanted[at : at + AT_ONCE]
        marks = ", ".join("?" * len(some))
        rows = MEMORIES.list(db, f"WHERE folder = ? AND {WIDE} AND id IN ({marks})", folder, *some)
        found |= {each.id: each for each in rows}
    return found


def list_same(db: Db, folder: str, texts: Collection[str], now: int) -> list[Memory]:
    """Return what everybody may know of an agent that has one of these texts."""
    found: list[Memory] = []
    wanted = sorted(set(texts))
    live = "ended_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
    for at in range(0, len(wanted), AT_ONCE):
        some = wanted[at : at + AT_ONCE]
        marks = ", ".join("?" * len(some))
        found += MEMORIES.list(db, f"WHERE folder = ? AND {live} AND {WIDE} AND text IN ({marks})", folder, now, *some)
    return found
