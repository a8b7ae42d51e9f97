"""Views of memories: which lines were written, and which entries a file may have."""

import pytest

from gatepost.store.memory import memories, memory_views
from gatepost.store.memory.memories import Memory, MemoryScope, MemoryTrust
from gatepost.store.port import Db, Store
from gatepost.store.sessions import groups

NOW = 1_800_000_000_000_000
SCOPES = {
    MemoryScope.PERSON: {"person": "fake:user/ann"},
    MemoryScope.ROOM: {"instance": "fake", "address": "fake:room/1"},
    MemoryScope.AGENT: {},
    MemoryScope.FAMILY: {},
}


def fill(db: Db) -> list[int]:
    """An entry of each scope, for each of two groups."""
    made = []
    for folder in ("acme", "beta"):
        groups.add(db, folder, folder, "scripted", NOW)
        for scope, where in SCOPES.items():
            entry = Memory(
                folder=folder, text=f"{scope}", scope=scope, trust=MemoryTrust.MEMBER, created_at=NOW, **where
            )
            made.append(memories.add(db, entry).id)
    return made


async def test_lines_are_kept_by_their_entry_until_the_file_is_written_no_more(store: Store) -> None:
    await store.write(fill)
    assert await store.read(memory_views.get_lines, "acme") is None
    for lines in ({}, {7: "a", 12: "b"}):
        await store.write(memory_views.put, "acme", lines, NOW)
        assert await store.read(memory_views.get_lines, "acme") == lines
    assert await store.read(memory_views.list_folders) == ["acme"]
    assert await store.write(memory_views.remove, "acme")
    assert not await store.write(memory_views.remove, "acme")
    assert await store.read(memory_views.get_lines, "acme") is None


async def test_lines_go_with_their_group(store: Store) -> None:
    await store.write(fill)
    await store.write(memory_views.put, "acme", {1: "a"}, NOW)
    await store.write(groups.remove, "acme")
    assert await store.read(memory_views.list_folders) == []


async def test_a_file_may_have_what_everybody_knows_of_one_agent_and_nothing_else(store: Store) -> None:
    ids = await store.write(fill)

    def look(db: Db) -> list[list[str]]:
        listed = memory_views.list_wide(db, "acme", NOW, 9)
        named = memory_views.find_wide(db, "acme", [*ids, 999])
        same = memory_views.list_same(db, "acme", [*SCOPES, "gone"], NOW)
        assert {each.folder for each in (*listed, *named.values(), *same)} == {"acme"}
        return [sorted(each.text for each in found) for found in (listed, named.values(), same)]

    assert await store.read(look) == [["agent", "family"]] * 3


@pytest.mark.parametrize("more", [{"expires_at": NOW}, {"ended": True}])
async def test_what_is_over_is_found_by_its_number_alone(more: dict[str, int], store: Store) -> None:
    def run(db: Db) -> list[int]:
        groups.add(db, "acme", "acme", "scripted", NOW)
        entry = Memory(
            folder="acme",
            text="x",
            scope=MemoryScope.AGENT,
            trust=MemoryTrust.MEMBER,
            created_at=NOW - 1,
            expires_at=more.get("expires_at"),
        )
        made = memories.add(db, entry)
        if "ended" in more:
            memories.end(db, [made.id], "test", NOW)
        found = memory_views.find_wide(db, "acme", [made.id])
        listed = (memory_views.list_wide(db, "acme", NOW, 9), memory_views.list_same(db, "acme", ["x"], NOW))
        return [len(found), *(len(each) for each in listed)]

    assert await store.write(run) == [1, 0, 0]


async def test_more_numbers_than_a_statement_takes_are_looked_up(store: Store) -> None:
    ids = await store.write(fill)
    found = await store.read(memory_views.find_wide, "acme", [*ids, *range(1000, 3000)])
    assert len(found) == 2
