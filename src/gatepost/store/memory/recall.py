"""Recall: the memories that matter to some words, among those that everybody present may be told of.

Both engines use the same index, a table of words, so they find the same. Rare words count for more than common ones. If
the meaning of the words is known, what is near to it is found, too, and the two lists are joined by their ranks.
"""

import math
from collections.abc import Sequence, Sized
from typing import NamedTuple

from gatepost.store.engine.table import render_marks
from gatepost.store.memory import memory_vectors
from gatepost.store.memory.memories import (
    MEMORIES,
    Audience,
    Memory,
    find_audience,
    get_condition,
    list_newest,
    list_stems,
)
from gatepost.store.memory.memory_vectors import Meaning
from gatepost.store.messages.inbox import InboxEntry
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db
from gatepost.store.rooms import origins

LOOKED_AT = 4000  # characters of what is asked
MOST_LOOKED_UP, MOST_USED = 40, 8  # words: those that are counted, and the rarest of them, by which entries are found
RARE, COMMON = 50, 500  # entries with a word: what is asked for first, and what tells little about each
MOST_COUNTED = 2000  # entries: what a word is worth hardly depends on more
LENGTHS = (4, 8, 16, MOST_LOOKED_UP)  # words of a statement: few statements are prepared for all texts
LEAST_SCORE = 1.5  # below that, what matches is chance
MOST_RANKED, FIRST_RANKS = 20, 60  # entries of a list that is joined; how little its first ranks differ
MOST_OVER = 20  # entries whose time is over, and that the index still has
MOST_TOLD, LONGEST_TOLD = 6, 1200  # entries that come with a message, and their characters
TOLD_FOR, LEAST_HEARD = 4000, 500  # characters of messages until an entry is told again, and those that each counts for


def find(
    db: Db,
    audience: Audience,
    words: str,
    now: int,
    limit: int,
    *,
    least: float = 0.0,
    meaning: Meaning | None = None,
    alike: float = 0.0,
) -> list[Memory]:
    """Return the best entries for these words, of equal ones the newest. `least`: the least score; `meaning`: of the
    words; `alike`: the least likeness to it."""
    own, above = audience.readers, audience.above
    postings = [_Postings("folder = ? AND reader IN ({1})", (audience.folder, *own), len(own))]
    if above:
        postings.append(_Postings("folder IN ({1}) AND reader = 'family'", above, len(above)))
    weights = _weigh(db, audience.folders, postings, words)
    most = limit if meaning is None else max(limit, MOST_RANKED)
    found = _find(db, weights, postings, get_condition(audience, now), most, least)
    if meaning is None:
        return found
    return join_by_rank(found, memory_vectors.find_nearest(db, audience, meaning, now, most, alike))[:limit]


def join_by_rank(*ranked: Sequence[Memory]) -> list[Memory]:
    """Return the entries of several lists, the best first. Scores mean something else in each list, ranks do not."""
    entries = {each.id: each for found in ranked for each in found}
    scores = dict.fromkeys(entries, 0.0)
    for found in ranked:
        for rank, each in enumerate(found, 1):
            scores[each.id] += 1 / (FIRST_RANKS + rank)
    return sorted(entries.values(), key=lambda each: (-scores[each.id], -each.id))


def find_for_operator(db: Db, folder: str, words: str, now: int, limit: int) -> list[Memory]:
    """The same of all entries of a group, whoever may be told of them."""
    condition = "m.ended_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > ?)"
    postings = [_Postings("folder = ?", (folder,))]
    return _find(db, _weigh(db, (folder,), postings, words), postings, (condition, (now,)), limit, 0.0)


class _Postings(NamedTuple):
    """A part of the index: its condition, with a list of so many marks in it, and the parameters."""

    condition: str
    params: tuple[object, ...]
    marks: int = 0

    def render(self) -> str:
        return self.condition.format("", _marks(range(self.marks)))


def _find(
    db: Db,
    weights: dict[str, float],
    postings: list[_Postings],
    visible: tuple[str, tuple[object, ...]],
    limit: int,
    least: float,
) -> list[Memory]:
    """The index says which are best, and then each entry who may be told of it."""
    if not weights:
        return []
    condition, given = visible
    pairs = [*weights.items(), *[("", 0.0)] * (MOST_USED - len(weights))]
    words, scored = _marks(pairs), " ".join(["WHEN ? THEN CAST(? AS REAL)"] * len(pairs))
    parts = " UNION ALL ".join(
        f"SELECT memory_id, word FROM memory_words WHERE {each.render()} AND word IN ({words})" for each in postings
    )
    best = (
        f"SELECT memory_id, SUM(CASE word {scored} END) AS score FROM ({parts}) AS found"
        " GROUP BY memory_id ORDER BY 2 DESC, 1 DESC LIMIT ?"
    )
    found = db.rows(
        f"SELECT {MEMORIES.columns_of('m')} FROM ({best}) AS best JOIN memories m ON m.id = best.memory_id"
        f" WHERE best.score >= ? AND {condition} ORDER BY best.score DESC, m.id DESC LIMIT ?",
        (
            *(value for pair in pairs for value in pair),
            *(value for each in postings for value in (*each.params, *(word for word, _ in pairs))),
            limit + MOST_OVER,
            least,
            *given,
            limit,
        ),
    )
    return [MEMORIES.parse(row) for row in found]


def _marks(values: Sized) -> str:
    return ", ".join("?" * len(values))


def _weigh(db: Db, folders: tuple[str, ...], postings: list[_Postings], text: str) -> dict[str, float]:
    """Return the rarest words of a text that any of these entries has, each with its weight. Entries that nobody may be
    told of count for nothing: else whoever fills a room would hide what is told in others, and could find out which
    words these have."""
    words = list_stems(text[:LOOKED_AT])[:MOST_LOOKED_UP]
    if not words:
        return {}
    total, found = _count_words(db, folders, postings, words, RARE, MOST_COUNTED)
    rare = [(number, word) for number, word in found if number <= RARE]
    if len(rare) < min(MOST_USED, len(found)):
        rare += _count_words(db, folders, postings, [word for number, word in found if number > RARE], COMMON, 0)[1]
    rarest = sorted(rare)[:MOST_USED]
    return {word: math.log(1 + total / number) for number, word in rarest if number <= COMMON or len(rarest) == 1}


def _count_words(
    db: Db, folders: tuple[str, ...], postings: list[_Postings], words: list[str], most: int, most_entries: int
) -> tuple[int, list[tuple[int, str]]]:
    """Return the number of entries of these groups, and the number in these postings that have each word, without words
    that none has. Numbers end at their bounds: whether a word is common is all that is asked."""
    asked = words + [""] * (next(each for each in LENGTHS if each >= len(words)) - len(words))
    few = (f"SELECT 1 FROM memory_words WHERE {each.render()} AND word = v.column1" for each in postings)
    number = " + ".join(f"(SELECT COUNT(*) FROM ({each} LIMIT {most + 1}) AS few)" for each in few)
    live = f"SELECT 1 FROM memories WHERE folder IN ({_marks(folders)}) AND ended_at IS NULL LIMIT ?"
    rows = db.rows(
        f"SELECT v.column1, {number} FROM (VALUES {render_marks(len(asked), 1)}) AS v"
        f" UNION ALL SELECT NULL, (SELECT COUNT(*) FROM ({live}) AS live)",
        (*(value for each in postings for value in each.params), *asked, *folders, most_entries),
    )
    total = sum(int(number) for word, number in rows if word is None)
    return total, [(int(number), str(word)) for word, number in rows if word and number]


def list_relevant(db: Db, audience: Audience, words: str, now: int, most: int, room: int) -> list[Memory]:
    """Return what a turn about these words is told at once: what matches, then the newest, in so many characters."""
    chosen = find(db, audience, words, now, most, least=LEAST_SCORE)
    known = {each.id for each in chosen}
    chosen += [each for each in list_newest(db, audience, now, most) if each.id not in known]
    kept = []
    for each in chosen[:most]:
        room -= len(each.text) + len(each.about)
        if room >= 0:
            kept.append(each)
    return kept


def list_for_messages(
    db: Db, folder: str, pairs: list[tuple[InboxEntry, Message]], told: frozenset[int], now: int
) -> dict[int, list[Memory]]:
    """Return what the turns of these messages are told, by the row; nothing twice, and nothing of `told`. An entry for
    one person alone is told only where nobody but they themselves asked."""
    found: dict[int, list[Memory]] = {}
    seen = set(told)
    for entry, message in pairs:
        people = origins.get_for_row(db, entry.id).people
        audience = find_audience(db, folder, message.instance, message.address, people, entry.session_id)
        relevant = list_relevant(db, audience, message.text, now, MOST_TOLD, LONGEST_TOLD)
        found[entry.id] = [each for each in relevant if each.id not in seen]
        seen.update(each.id for each in found[entry.id])
    return found
