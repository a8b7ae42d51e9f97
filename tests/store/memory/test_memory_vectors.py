"""Vectors of memories: what is found by its meaning, for whom, and what goes with its entry."""

import math
import random
from itertools import product

import pytest

from gatepost.store.memory import memories, memory_vectors, recall
from gatepost.store.memory.memories import Audience, Memory, MemoryScope
from gatepost.store.memory.memory_vectors import MOST_WHOLE, Meaning, make_meaning
from gatepost.store.port import Db, Store

from .test_memories import KNOWN, NOW, PLACES, audience_of, entry, fill

FIGS = make_meaning("m", [1.0, 0.5, -0.5, 0.1])
AWAY = make_meaning("m", [-1.0, 0.5, 0.5, 0.1])


def remember(db: Db, text: str, meaning: Meaning, **more: object) -> Memory:
    made = memories.add(db, entry(text=text, **more))
    memory_vectors.put(db, [(made.id, meaning)])
    return made


def find(db: Db, meaning: Meaning, words: str = "nothing", least: float = 0.5, limit: int = 9) -> list[str]:
    found = recall.find(db, Audience("acme"), words, NOW, limit, meaning=meaning, alike=least)
    return [each.text for each in found]


def list_unread(db: Db, model: str = "m", dimensions: int = 0) -> list[str]:
    return [each.text for each in memory_vectors.list_unread(db, model, dimensions, 0, NOW)[0]]


async def test_nothing_comes_up_by_its_meaning_where_somebody_else_reads(store: Store) -> None:
    """The table of who may be told, once more: words that no entry has, with the very vector of the entry."""
    assert len(list(product(KNOWN.items(), PLACES))) >= 200

    def check(db: Db) -> list[str]:
        fill(db)
        wrong = []
        for (folder, told, scope), known in KNOWN.items():
            at = audience_of(db, folder, told)
            person = at.names[0] if scope is MemoryScope.PERSON else ""
            where = (at.instance, at.address) if scope is MemoryScope.ROOM else ("", "")
            made = memories.add(db, entry(folder, scope=scope, person=person, instance=where[0], address=where[1]))
            memory_vectors.put(db, [(made.id, FIGS)])
            for asker, place in PLACES:
                asked = audience_of(db, asker, place)
                found = recall.find(db, asked, "fruit", NOW, 99, meaning=FIGS)
                if (made.id in [each.id for each in found]) != ((asker, place) in known):
                    wrong.append(f"{folder} told by {told} for {scope}, asked of {asker} by {place}")
            memories.end(db, [made.id], "test", NOW)
        return wrong

    assert await store.write(check) == []


async def test_what_nobody_there_may_know_does_not_take_the_place_of_what_they_may(store: Store) -> None:
    """Many private entries are nearer than the one that may be told."""

    def look(db: Db) -> list[str]:
        fill(db)
        near = make_meaning("m", [1.0, 0.5, -0.5, 0.2])
        for number in range(60):
            remember(db, f"private {number}", FIGS, scope=MemoryScope.PERSON, person="fake:user/ann")
        remember(db, "for everybody", near)
        return find(db, FIGS, limit=1)

    assert await store.write(look) == ["for everybody"]


async def test_words_and_meanings_are_joined_by_their_ranks(store: Store) -> None:
    def look(db: Db) -> list[str]:
        fill(db)
        remember(db, "the parcel is in the cellar", AWAY)
        remember(db, "the box is downstairs", FIGS)
        remember(db, "a parcel came downstairs", FIGS)
        remember(db, "it rains", AWAY)
        return find(db, FIGS, "parcel")

    assert await store.write(look) == [
        "a parcel came downstairs",
        "the box is downstairs",
        "the parcel is in the cellar",
    ]


async def test_a_vector_goes_with_its_entry_and_is_made_anew_when_that_is_restored(store: Store) -> None:
    def look(db: Db) -> list[object]:
        fill(db)
        made = remember(db, "figs", FIGS)
        found: list[object] = [find(db, FIGS), list_unread(db)]
        memories.end(db, [made.id], "test", NOW)
        found += [db.rows("SELECT memory_id FROM memory_vectors"), memory_vectors.put(db, [(made.id, FIGS)])]
        memories.restore(db, [made.id])
        return [*found, find(db, FIGS), list_unread(db)]

    assert await store.write(look) == [["figs"], [], [], 0, [], ["figs"]]


async def test_a_correction_has_a_vector_of_its_own(store: Store) -> None:
    def look(db: Db) -> tuple[list[str], list[str]]:
        fill(db)
        old = remember(db, "likes figs", FIGS)
        memories.replace(db, old, entry(text="hates figs", replaces=old.id), "test")
        return find(db, FIGS), list_unread(db)

    assert await store.write(look) == ([], ["hates figs"])


async def test_another_model_or_length_makes_all_vectors_anew(store: Store) -> None:
    def look(db: Db) -> list[object]:
        fill(db)
        made = remember(db, "figs", FIGS)
        before = [list_unread(db), list_unread(db, dimensions=4), list_unread(db, dimensions=8), list_unread(db, "n")]
        other = make_meaning("n", FIGS.values)
        unknown = find(db, other)
        memory_vectors.put(db, [(made.id, other)])
        return [*before, unknown, find(db, other), find(db, FIGS), memory_vectors.count(db, "n")]

    assert await store.write(look) == [[], [], ["figs"], ["figs"], [], ["figs"], [], (1, 1)]


async def test_what_is_over_is_neither_asked_for_nor_found(store: Store) -> None:
    def look(db: Db) -> tuple[list[str], list[str]]:
        fill(db)
        remember(db, "was true", FIGS, expires_at=NOW)
        memories.add(db, entry(text="was true, too", expires_at=NOW))
        return find(db, FIGS), list_unread(db)

    assert await store.write(look) == ([], [])


async def test_missing_vectors_are_listed_part_by_part(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_vectors, "WINDOW", 2)

    def look(db: Db) -> list[list[str]]:
        fill(db)
        for number in range(5):
            memories.add(db, entry(text=f"fact {number}", about="Ann"))
        found, after = [], 0
        while True:
            unread, last = memory_vectors.list_unread(db, "m", 0, after, NOW)
            if not last:
                return found
            found.append([each.text for each in unread])
            after = last

    assert await store.write(look) == [["Ann fact 0", "Ann fact 1"], ["Ann fact 2", "Ann fact 3"], ["Ann fact 4"]]


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1.0] * 5000])
async def test_an_entry_without_a_direction_is_not_asked_for_again(store: Store, values: list[float]) -> None:
    def look(db: Db) -> tuple[list[str], list[str]]:
        fill(db)
        remember(db, "figs", make_meaning("m", values))
        return list_unread(db, dimensions=4), find(db, make_meaning("m", values))

    assert await store.write(look) == ([], [])


@pytest.mark.parametrize(("count", "dimensions"), [(MOST_WHOLE + 500, 96), (300, 100)])
async def test_the_nearest_of_many_are_found(store: Store, count: int, dimensions: int) -> None:
    """Compared with what a comparison of all finds."""
    drawn = random.Random(7)
    asked = [drawn.gauss(0, 1) for _ in range(dimensions)]
    near = {number: [each + drawn.gauss(0, 0.4) for each in asked] for number in range(0, count, count // 5)}

    def look(db: Db) -> list[str]:
        fill(db)
        for number in range(count):
            values = near.get(number) or [drawn.gauss(0, 1) for _ in range(dimensions)]
            remember(db, f"{number}", make_meaning("m", values))
        return find(db, make_meaning("m", asked), limit=5)

    def likeness(number: int) -> float:
        return sum(one * other for one, other in zip(near[number], asked, strict=True))

    found = await store.write(look)
    lengths = {number: math.hypot(*values) for number, values in near.items()}
    assert found == [str(each) for each in sorted(near, key=lambda each: -likeness(each) / lengths[each])[:5]]
