"""Versions of instructions: each once, bounded by kind, so that nobody's are pushed out by others."""

from tests.store.conftest import NOON, Desk

from gatepost.core.clock import HOUR, MINUTE
from gatepost.store.port import Db
from gatepost.store.sessions import groups, instructions
from gatepost.store.sessions.instructions import MOST_FOUND, MOST_WRITTEN, InstructionSource, NewestVersion

FOUND, WRITTEN = InstructionSource.FOUND, InstructionSource.WRITTEN


def add(db: Db, name: str, source: InstructionSource = WRITTEN, text: str = "") -> bool:
    return instructions.add(db, "acme", name, text or name, source, "web:user/x", NOON)


def test_a_version_is_kept_once_and_comes_again_after_another(desk: Desk) -> None:
    assert [add(desk.db, name) for name in ("a", "a", "b", "a")] == [True, False, True, True]
    assert [each.digest for each in instructions.list_for_group(desk.db, "acme")] == ["a", "b", "a"]
    assert instructions.list_newest(desk.db, ["acme", "beta"]) == {"acme": NewestVersion("a", NOON)}


def test_what_was_found_pushes_out_nothing_that_a_person_wrote(desk: Desk) -> None:
    add(desk.db, "first")
    for number in range(MOST_FOUND * 3):
        add(desk.db, f"f{number}", FOUND)
    kept = instructions.list_for_group(desk.db, "acme")
    assert len(kept) == MOST_FOUND + 1 and kept[-1].digest == "first"
    for number in range(MOST_WRITTEN + 5):
        add(desk.db, f"w{number}")
    assert len(instructions.list_for_group(desk.db, "acme")) == MOST_FOUND + MOST_WRITTEN


def test_large_versions_are_fewer_but_the_newest_stays(desk: Desk) -> None:
    for number in range(4):
        add(desk.db, f"w{number}", text="x" * 400_000)
    assert [each.digest for each in instructions.list_for_group(desk.db, "acme")] == ["w3", "w2"]


def test_versions_go_with_their_group(desk: Desk) -> None:
    groups.add(desk.db, "beta", "Beta", "", NOON)
    instructions.add(desk.db, "beta", "d", "text", WRITTEN, "op", NOON)
    groups.remove(desk.db, "beta")
    assert instructions.list_for_group(desk.db, "beta") == []


def test_an_agent_was_at_work_while_its_turn_ran(desk: Desk) -> None:
    turn = desk.begun("hello")
    begun = desk.now
    assert instructions.was_at_work(desk.db, ["acme"], begun, begun)
    assert not instructions.was_at_work(desk.db, ["beta"], begun, begun)
    desk.now += MINUTE
    desk.finish(turn)
    desk.now += HOUR
    assert instructions.was_at_work(desk.db, ["acme"], begun, begun)
    assert not instructions.was_at_work(desk.db, ["acme"], desk.now, desk.now)
