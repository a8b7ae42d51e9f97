"""A world moves between gateways with folders of their own: nothing is lost, wherever a step was cut short."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.flow.gateways.group_mover import FOLDER, MOST_MB, GroupMover
from gatepost.flow.memory.view_file import renew_view
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayState
from gatepost.store.gateways.group_moves import GroupMove, GroupMoveState
from gatepost.store.memory import memories, memory_views
from gatepost.store.memory.memories import Memory, MemoryScope, MemoryTrust
from gatepost.store.messages import passed_files
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.gateway import running_gateway

NOON = 1_800_000_000_000_000
WORDS, MEMORY = b"what acme knows", b"what its provider remembers"


@dataclass
class Pair:
    """Gateway `a` has the world `acme`, which is to move to `b`. They share a store and no folder."""

    gateway: Gateway
    a: GroupMover
    b: GroupMover
    home_a: Path
    home_b: Path
    session_id: str
    rings: list[str]

    async def begin(self) -> GroupMove:
        return await self.gateway.store.write(group_moves.add, "acme", "a", "b", NOON)

    async def get(self, move: GroupMove) -> GroupMove:
        found = await self.gateway.store.read(group_moves.get, move.id)
        assert found is not None
        return found

    async def place(self) -> str | None:
        return await self.gateway.store.read(group_places.find_runner, "acme")

    async def count_pieces(self, move: GroupMove) -> int:
        def count(db: Db) -> int:
            number = 0
            while passed_files.get(db, group_moves.name_pieces(move), number) is not None:
                number += 1
            return number

        return await self.gateway.store.read(count)

    def make_mover(self, name: str) -> GroupMover:
        """As the gateway has it after another start."""
        home = self.home_a if name == "a" else self.home_b
        parts = replace(self.gateway.sessions.deps, home=Home(home))
        return GroupMover(SessionSupervisor(parts), name, parts.events)

    def is_whole(self, home: Path) -> bool:
        world, memory = home / "groups/acme/notes.md", home / "sessions" / self.session_id / "memory"
        return world.is_file() and memory.is_file() and (world.read_bytes(), memory.read_bytes()) == (WORDS, MEMORY)


def fill(db: Db, home_a: str, home_b: str) -> str:
    for name, home in (("a", home_a), ("b", home_b)):
        gateways.register(
            db, GatewayIdentity(name=name, home=home, host="h", version="1", schema_number=1), 10, 1, NOON
        )
    groups.add(db, "acme", "Acme", "", NOON)
    group_places.claim(db, "acme", "a", NOON)
    return sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", NOON).id


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with running_gateway(tmp_path / "a") as gateway:
        home_b = Home(tmp_path / "b")
        home_b.prepare()
        session_id = await gateway.store.write(fill, str(tmp_path / "a"), str(tmp_path / "b"))
        made = Pair(gateway, None, None, tmp_path / "a", tmp_path / "b", session_id, [])  # type: ignore[arg-type]
        made.a, made.b = made.make_mover("a"), made.make_mover("b")
        for path, data in (("groups/acme/notes.md", WORDS), (f"sessions/{session_id}/memory", MEMORY)):
            (tmp_path / "a" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "a" / path).write_bytes(data)
        gateway.events.on_gateways(lambda: made.rings.append("gateways"))
        yield made


async def test_a_world_moves_in_three_steps_and_is_whole_after_each(pair: Pair) -> None:
    move = await pair.begin()
    await pair.b.check()  # nothing for it to do yet
    await pair.a.check()
    assert (await pair.get(move)).state is GroupMoveState.PACKED
    assert pair.is_whole(pair.home_a) and await pair.place() is None  # nobody runs it while it moves
    await pair.b.check()
    assert (await pair.get(move)).state is GroupMoveState.ARRIVED
    assert pair.is_whole(pair.home_a) and pair.is_whole(pair.home_b) and await pair.place() == "b"
    await pair.a.check()
    assert (await pair.get(move)).state is GroupMoveState.DONE
    assert not (pair.home_a / "groups/acme").exists() and pair.is_whole(pair.home_b)
    assert not (pair.home_a / "sessions" / pair.session_id).exists()
    assert await pair.count_pieces(move) == 0 and not (pair.home_b / FOLDER).exists()
    assert len(pair.rings) >= 2  # each of the two was told that there is something to do


async def test_what_its_agent_remembers_moves_with_it_and_its_file_goes_on_there(pair: Pair) -> None:
    store = pair.gateway.store
    entry = Memory(
        folder="acme", text="Bins: Tuesday.", scope=MemoryScope.AGENT, trust=MemoryTrust.MEMBER, created_at=1
    )
    kept = await store.write(memories.add, entry)
    await store.write(memory_views.put, "acme", {}, NOON)
    file = "groups/acme/MEMORY.md"
    assert await renew_view(store, Home(pair.home_a), pair.gateway.clock, "acme")
    (pair.home_a / file).write_text((pair.home_a / file).read_text() + "- A wish.\n")
    await pair.begin()
    for mover in (pair.a, pair.b, pair.a):
        await mover.check()

    assert await store.read(memories.get, kept.id) == kept
    await store.write(memories.end, [kept.id], "test", NOON)
    assert await renew_view(store, Home(pair.home_b), pair.gateway.clock, "acme")
    text = (pair.home_b / file).read_text()
    assert "Tuesday" not in text and "- A wish." in text


async def test_another_group_beside_it_stays(pair: Pair) -> None:
    for name in ("acme-2", "beta"):
        (pair.home_a / "groups" / name).mkdir()
    await pair.begin()
    for mover in (pair.a, pair.b, pair.a):
        await mover.check()
    assert {each.name for each in (pair.home_a / "groups").iterdir()} >= {"acme-2", "beta"}


async def test_what_lay_at_the_target_before_is_kept_and_its_place_is_said(pair: Pair) -> None:
    (pair.home_b / "groups/acme").mkdir(parents=True)
    (pair.home_b / "groups/acme/old.md").write_text("from an earlier time")
    move = await pair.begin()
    await pair.a.check()
    await pair.b.check()
    kept = pair.home_b / FOLDER / move.id / "before/groups/acme/old.md"
    assert kept.read_text() == "from an earlier time" and not (pair.home_b / "groups/acme/old.md").exists()
    assert str(kept.parents[2]) in (await pair.get(move)).note
    assert pair.is_whole(pair.home_b)


async def test_what_was_changed_on_its_way_is_not_taken(pair: Pair) -> None:
    (pair.home_b / "groups/acme").mkdir(parents=True)
    (pair.home_b / "groups/acme/old.md").write_text("from an earlier time")
    move = await pair.begin()
    await pair.a.check()
    await pair.gateway.store.write(lambda db: db.run("UPDATE group_moves SET digest = 'x' WHERE id = ?", (move.id,)))
    await pair.b.check()
    failed = await pair.get(move)
    assert failed.state is GroupMoveState.FAILED and "what came is not what was sent" in failed.note
    assert await pair.place() == "a" and pair.is_whole(pair.home_a)
    assert os.listdir(pair.home_b / "groups/acme") == ["old.md"] and not (pair.home_b / FOLDER).exists()


async def test_a_piece_that_is_missing_fails_the_move_and_loses_nothing(pair: Pair) -> None:
    move = await pair.begin()
    await pair.a.check()
    await pair.gateway.store.write(passed_files.remove, [group_moves.name_pieces(move)])
    await pair.b.check()
    assert "not in the store any more" in (await pair.get(move)).note
    assert await pair.place() == "a" and pair.is_whole(pair.home_a)


async def test_a_target_that_is_gone_is_not_waited_for(pair: Pair) -> None:
    move = await pair.begin()
    await pair.a.check()
    await pair.gateway.store.write(gateways.set_state, "b", 1, GatewayState.GONE)
    await pair.a.check()
    assert (await pair.get(move)).state is GroupMoveState.FAILED and await pair.place() == "a"
    assert await pair.count_pieces(move) == 0


async def test_a_target_that_was_cut_short_after_it_put_the_files_in_place_begins_anew(pair: Pair) -> None:
    (pair.home_b / "groups/acme").mkdir(parents=True)
    (pair.home_b / "groups/acme/old.md").write_text("from an earlier time")
    move = await pair.begin()
    await pair.a.check()
    own = pair.home_b / FOLDER / move.id
    (own / "before/groups").mkdir(parents=True)
    os.rename(pair.home_b / "groups/acme", own / "before/groups/acme")
    (own / "placed").touch()
    (pair.home_b / "groups/acme").mkdir()
    (pair.home_b / "groups/acme/half.md").write_text("of the try before")
    await pair.make_mover("b").check()
    assert (await pair.get(move)).state is GroupMoveState.ARRIVED and pair.is_whole(pair.home_b)
    assert not (pair.home_b / "groups/acme/half.md").exists()
    assert (own / "before/groups/acme/old.md").exists()


@pytest.mark.parametrize("ended", ["failed", "done", "open"])
async def test_what_a_move_left_is_swept_at_the_next_start_unless_it_goes_on(pair: Pair, ended: str) -> None:
    move = await pair.begin()
    await pair.a.check()
    own = pair.home_b / FOLDER / move.id
    (own / "new/groups").mkdir(parents=True)
    (own / "before/groups/acme").mkdir(parents=True)
    (own / "before/groups/acme/old.md").write_text("from an earlier time")
    if ended != "open":
        sql = "UPDATE group_moves SET state = ?, ended_at = 1 WHERE id = ?"
        await pair.gateway.store.write(lambda db: db.run(sql, (ended, move.id)))
    await pair.make_mover("b")._sweep_and_check()
    if ended == "failed":
        assert (pair.home_b / "groups/acme/old.md").exists() and not own.exists()
    elif ended == "done":
        assert (own / "before/groups/acme/old.md").exists() and not (own / "new").exists()
    else:
        assert (await pair.get(move)).state is GroupMoveState.ARRIVED and pair.is_whole(pair.home_b)


async def test_a_source_that_was_cut_short_while_it_packed_packs_anew(pair: Pair) -> None:
    move = await pair.begin()
    name = group_moves.name_pieces(move)
    for number in range(3):
        await pair.gateway.store.write(passed_files.put, name, number, b"of an earlier try", NOON)
    await pair.make_mover("a").check()
    assert await pair.count_pieces(move) == 1
    await pair.b.check()
    assert pair.is_whole(pair.home_b)


async def test_what_was_packed_for_a_move_that_was_given_up_meanwhile_does_not_stay(pair: Pair) -> None:
    move = await pair.begin()
    await pair.gateway.store.write(group_moves.set_failed, move, "somebody said so", NOON)
    await pair.a._pack(move)
    assert await pair.count_pieces(move) == 0 and pair.is_whole(pair.home_a)


async def test_a_world_that_is_too_large_stays(pair: Pair) -> None:
    deps = pair.gateway.sessions.deps
    deps = replace(deps, config=deps.config.with_values({MOST_MB.name: 0}, "test"))
    move = await pair.begin()
    await GroupMover(SessionSupervisor(deps), "a", deps.events).check()
    assert (await pair.get(move)).state is GroupMoveState.FAILED
    assert await pair.place() == "a" and pair.is_whole(pair.home_a)
