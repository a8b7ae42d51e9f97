"""Vectors of memories: what an entry means, as a model for embeddings has it, so that other words find it, too.

A search compares signs first, one bit for each dimension, and the nearest of these exactly. No extension of an engine
is needed for that: a group has at most 10,000 entries. It looks at no other vectors than those of the audience's
readers, as the index of words does. So what somebody may not be told is never compared or ranked.
"""

import math
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import mul

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.memory.memories import MEMORIES, Audience, Memory, MemoryScope, get_condition, make_reader
from gatepost.store.port import Db

MOST_DIMENSIONS = 4096
MOST_SIGNS = 16 * 1024 * 1024  # hexadecimal digits that a search looks at
LEAST_NEAREST, PRODUCTS = (
    32,
    16_384,
)  # entries that are compared exactly: at least, and as many as so many products take
MOST_WHOLE = 1500  # entries whose signs are all compared
WORD = 8  # bytes
WINDOW = 500  # entries that one look for missing vectors goes through


class MemoryVector(Struct, frozen=True, kw_only=True):
    memory_id: int
    folder: str
    reader: str
    model: str
    dimensions: int
    signs: str
    vector: bytes


VECTORS = Table("memory_vectors", MemoryVector)


class Meaning(Struct, frozen=True):
    """A vector of length 1. Without values: the model makes none of the text."""

    model: str
    values: Sequence[float] = ()

    @property
    def signs(self) -> str:
        bits = "".join("1" if each > 0 else "0" for each in self.values)
        bits += "0" * (-len(bits) % (8 * WORD))
        return int(bits, 2).to_bytes(len(bits) // 8).hex() if bits else ""

    @property
    def packed(self) -> bytes:
        """The same on every machine."""
        return struct.pack(f"<{len(self.values)}f", *self.values)


def make_meaning(model: str, values: Sequence[float]) -> Meaning:
    """Return it with length 1; without values if these are no direction."""
    length = math.sqrt(sum(map(mul, values, values)))
    if not 0 < length < math.inf or len(values) > MOST_DIMENSIONS:
        return Meaning(model)
    return Meaning(model, array("f", (each / length for each in values)))


class UnreadEntry(Struct, frozen=True):
    """An entry without a vector of the model that is asked for."""

    id: int
    folder: str
    text: str


def list_unread(db: Db, model: str, dimensions: int, after: int, now: int) -> tuple[list[UnreadEntry], int]:
    """Return those of the next entries that have no vector, and the id up to which they were looked at; 0: there are no
    more. `dimensions`: that the model is asked for; 0: as many as it has."""
    fits = " AND v.dimensions IN (0, ?)" if dimensions else ""
    rows = db.rows(
        "SELECT w.id, w.folder, CASE WHEN w.ended_at IS NULL AND (w.expires_at IS NULL OR w.expires_at > ?)"
        " AND v.memory_id IS NULL THEN w.about || ' ' || w.text ELSE '' END"
        " FROM (SELECT id, folder, about, text, ended_at, expires_at FROM memories WHERE id > ? ORDER BY id LIMIT ?)"
        f" AS w LEFT JOIN memory_vectors v ON v.memory_id = w.id AND v.model = ?{fits} ORDER BY w.id",
        (now, after, WINDOW, model, *((dimensions,) if dimensions else ())),
    )
    unread = [UnreadEntry(int(number), str(folder), str(text).strip()) for number, folder, text in rows if text]
    return unread, int(rows[-1][0]) if rows else 0


def put(db: Db, meanings: Sequence[tuple[int, Meaning]]) -> int:
    """Keep the vectors of entries that are still in force; how many these are. The update of the row settles who is
    first: whoever ends an entry removes its vector, and none is put there later."""
    kept = 0
    for memory_id, meaning in meanings:
        row = db.row(
            "UPDATE memories SET ended_by = '' WHERE id = ? AND ended_at IS NULL"
            " RETURNING folder, scope, person, instance, address",
            (memory_id,),
        )
        if row is None:
            continue
        folder, scope, person, instance, address = map(str, row)
        VECTORS.insert(
            db,
            "ON CONFLICT (memory_id) DO UPDATE SET model = excluded.model, dimensions = excluded.dimensions,"
            " signs = excluded.signs, vector = excluded.vector",
            memory_id=memory_id,
            folder=folder,
            reader=make_reader(MemoryScope(scope), person, instance, address),
            model=meaning.model,
            dimensions=len(meaning.values),
            signs=meaning.signs,
            vector=meaning.packed,
        )
        kept += 1
    return kept


def count(db: Db, model: str) -> tuple[int, int]:
    """Return how many entries are in force, and how many of these have a vector of this model."""
    row = db.row(
        "SELECT COUNT(*), COUNT(v.memory_id) FROM memories m LEFT JOIN memory_vectors v"
        " ON v.memory_id = m.id AND v.model = ? WHERE m.ended_at IS NULL",
        (model,),
    )
    return (int(row[0]), int(row[1])) if row is not None else (0, 0)


def find_nearest(db: Db, audience: Audience, meaning: Meaning, now: int, limit: int, least: float) -> list[Memory]:
    """Return the entries that are most alike, of those that everybody in the audience may be told of. `least`: the
    cosine from which on two texts are about the same."""
    if not meaning.values:
        return []
    wanted = list(_choose_by_signs(db, audience, meaning))
    if not wanted:
        return []
    condition, given = get_condition(audience, now)
    marks = ", ".join("?" * len(wanted))
    rows = db.rows(
        f"SELECT v.vector, {MEMORIES.columns_of('m')} FROM memories m JOIN memory_vectors v ON v.memory_id = m.id"
        f" WHERE m.id IN ({marks}) AND {condition}",
        (*wanted, *given),
    )
    size = struct.Struct(f"<{len(meaning.values)}f")
    values = list(meaning.values)
    alike = [(sum(map(mul, size.unpack(row[0]), values)), row) for row in rows if len(row[0]) == size.size]
    best = sorted((each for each in alike if each[0] >= least), key=lambda each: each[0], reverse=True)
    return [MEMORIES.parse(row[1:]) for _, row in best[:limit]]


def _choose_by_signs(db: Db, audience: Audience, meaning: Meaning) -> Iterator[int]:
    """Return the ids of the entries with the fewest other signs."""
    signs, readers = meaning.signs, audience.readers
    made_by = (meaning.model, len(meaning.values))
    parts = [f"folder = ? AND reader IN ({', '.join('?' * len(readers))})"]
    params: list[object] = [audience.folder, *readers, *made_by]
    if audience.above:
        parts.append(f"folder IN ({', '.join('?' * len(audience.above))}) AND reader = 'family'")
        params += [*audience.above, *made_by]
    seen = " UNION ALL ".join(
        f"SELECT memory_id, signs FROM memory_vectors WHERE {each} AND model = ? AND dimensions = ?" for each in parts
    )
    row = db.row(
        "SELECT string_agg(CAST(memory_id AS TEXT), ','), string_agg(signs, '')"
        f" FROM (SELECT memory_id, signs FROM ({seen}) AS every LIMIT ?) AS seen",
        (*params, MOST_SIGNS // len(signs)),
    )
    if row is None or not row[0]:
        return iter(())
    nearest = _find_fewest(bytes.fromhex(row[1]), bytes.fromhex(signs), max(LEAST_NEAREST, PRODUCTS // made_by[1]))
    ids = row[0].split(",")
    return iter([int(ids[at]) for at in nearest])


def _find_fewest(packed: bytes, wanted: bytes, most: int) -> list[int]:
    """Return the places of the signs that differ least from those that are wanted.

    The first 64 of each decide which of them are compared as a whole: that takes a third of the time.
    """
    size = len(wanted)
    first = int.from_bytes(wanted[:WORD], sys.byteorder)
    words: list[int] = memoryview(packed).cast("Q")[:: size // WORD].tolist()
    other = [(each ^ first).bit_count() for each in words]
    places: Sequence[int] = range(len(words))
    if len(words) > MOST_WHOLE:
        limit = _find_limit(other)
        places = [at for at, differing in enumerate(other) if differing <= limit]
    read, whole = int.from_bytes, int.from_bytes(wanted)
    differing = {at: (read(packed[at * size : (at + 1) * size]) ^ whole).bit_count() for at in places}
    return sorted(places, key=differing.__getitem__)[:most]


def _find_limit(differing: Sequence[int]) -> int:
    """Return how many signs may differ, so that about `MOST_WHOLE` differ in no more."""
    counts, seen, limit = Counter(differing), 0, 0
    while seen < MOST_WHOLE:
        seen += counts[limit]
        limit += 1
    return limit - 1
