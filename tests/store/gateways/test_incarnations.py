"""Whether a store is still the one that it was: by its file, by what the machine remembers, by what the store knows."""

import os
from pathlib import Path

import pytest
from tests.store.conftest import LEASE, NOON, Desk

from gatepost.core.clock import Period
from gatepost.core.records import replace
from gatepost.store.gateways import incarnations
from gatepost.store.gateways.incarnations import (
    Incarnation,
    IncarnationReason,
    StorePresence,
    choose_memory,
    judge_presence,
)
from gatepost.store.gateways.machine_memory import (
    MachineMemory,
    MemoryFile,
    get_memory_path,
    identify_file,
    is_same_file,
)
from gatepost.store.messages import inbox, message_steps
from gatepost.store.messages.inbox import InboxMode
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.port import Db
from gatepost.store.rooms import channel_cursors
from gatepost.store.sessions import turn_claims, turns
from gatepost_testing.arrivals import add_arrival

HERE = StorePresence("7:1", "/home/a", "m")
KNOWN = Incarnation(1, "i-1", IncarnationReason.FIRST, "", "", NOON, "7:1", "/home/a", "m", ("l1", "l2"))
OTHER_FILE, MOVED = StorePresence("8:1", "/home/a", "m"), StorePresence("7:1", "/home/b", "m")


def remember(lives: tuple[str, ...] = ("l2",), mark: int = 10, *, clean: bool = False) -> MachineMemory:
    return MachineMemory(home="/home/a", file="7:1", lives=lives, mark=mark, clean=clean)


@pytest.mark.parametrize(
    ("here", "memory", "mark", "expected"),
    [
        pytest.param(HERE, None, 10, None, id="a new machine has the same disk"),
        pytest.param(HERE, remember(), 12, None, id="it was killed before the machine remembered all"),
        pytest.param(HERE, remember(("l2", "l3")), 10, None, id="it was killed while it started"),
        pytest.param(HERE, remember(("l1",), 4), 10, None, id="it ran elsewhere meanwhile"),
        pytest.param(MOVED, remember(), 10, None, id="its home was moved"),
        pytest.param(HERE, remember(mark=11), 10, IncarnationReason.ROLLED_BACK, id="the machine has seen more"),
        pytest.param(HERE, remember(("l3",)), 10, IncarnationReason.ROLLED_BACK, id="it has forgotten a start"),
        pytest.param(OTHER_FILE, None, 10, IncarnationReason.COPIED, id="a copy on another machine"),
        pytest.param(OTHER_FILE, remember(), 10, IncarnationReason.COPIED, id="a copy in its place"),
        pytest.param(OTHER_FILE, remember(clean=True), 10, None, id="a file system that numbers files anew"),
    ],
)
def test_a_store_is_judged_by_its_file_and_by_what_the_machine_remembers(
    here: StorePresence, memory: MachineMemory | None, mark: int, expected: IncarnationReason | None
) -> None:
    assert judge_presence(KNOWN, here, memory, mark) is expected


def test_a_store_that_never_had_an_incarnation_goes_on() -> None:
    assert judge_presence(None, HERE, None, 0) is None


def test_a_file_is_another_one_where_its_number_was_given_out_again() -> None:
    assert is_same_file("7:1", "7:1") and is_same_file("7:0", "7:5")
    assert not is_same_file("7:1", "7:2") and not is_same_file("7:1", "8:1")


def test_a_copied_file_is_another_one_and_a_moved_one_is_not(tmp_path: Path) -> None:
    first = tmp_path / "a"
    first.write_bytes(b"x")
    known = identify_file(first)
    (tmp_path / "b").write_bytes(first.read_bytes())
    assert not is_same_file(known, identify_file(tmp_path / "b"))
    os.rename(first, tmp_path / "c")
    assert is_same_file(known, identify_file(tmp_path / "c"))
    assert identify_file(first) == ""


def test_a_memory_that_cannot_be_kept_or_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert not MemoryFile(get_memory_path(tmp_path / "file", "i-1")).save(remember())
    kept = MemoryFile(get_memory_path(tmp_path, "i-1"))
    assert kept.load() is None
    assert kept.save(remember()) and kept.load() == remember()
    (tmp_path / "stores" / "i-1.json").write_text("{")
    assert kept.load() is None


def test_the_starts_of_a_store_are_kept_within_bounds_and_a_copy_has_another_id(db: Db) -> None:
    for number in range(incarnations.MOST_LIVES + 5):
        first = incarnations.record_life(db, f"l{number}", HERE, NOON)
    assert len(first.lives) == incarnations.MOST_LIVES and first.lives[-1] == f"l{number}"
    begun = incarnations.add(db, IncarnationReason.COPIED, "", "", NOON)
    assert begun.id != first.id and begun.lives == first.lives
    assert incarnations.get_current(db) == begun


def test_positions_of_channels_go_and_what_they_know_stays(db: Db) -> None:
    for name in ("", "room:5", "begun", "direct", "sends", "services", "fact:direct"):
        channel_cursors.put(db, "it", name, "x", False, NOON)
    assert channel_cursors.remove_positions(db) == 4
    assert [row.name for row in channel_cursors.list_all(db)] == ["fact:direct", "sends", "services"]


def test_how_far_a_store_has_come_never_goes_down(db: Db) -> None:
    message = add_arrival(db, NOON, sender="a", text="hi")
    message_steps.add(db, message, None, NOON, "queued")
    db.flush()
    before = incarnations.get_mark(db)
    assert before > 0 and incarnations.find_last_change(db) == NOON
    db.run("DELETE FROM steps")
    assert incarnations.get_mark(db) == before


def test_the_memory_in_a_home_counts_for_its_own_file_and_where_it_knows_more() -> None:
    beside = replace(remember(mark=12), incarnation="i-1")
    assert choose_memory(HERE, (), None, beside) is beside
    assert choose_memory(HERE, (), remember(mark=11), beside) is beside
    assert choose_memory(HERE, (), machine := remember(mark=12), beside) is machine
    assert choose_memory(OTHER_FILE, (), None, beside) is None  # a copied home brings it along
    assert choose_memory(HERE, ("i-1",), None, beside) is None  # killed before the new incarnation was remembered


# What was said before, when a message is given to its agent again.


def restore_and_send(desk: Desk) -> None:
    """A restored store holds what was under way, and the owner sends it."""
    incarnations.end_turns(desk.db, incarnations.REASON, desk.now)
    incarnations.hold_waiting(desk.db, incarnations.list_waiting(desk.db), "q-1", desk.now, desk.now)
    incarnations.release_waiting(desk.db, "q-1", desk.now)


def read_notes(desk: Desk, rows: tuple[int, ...]) -> list[list[str]]:
    """Return what each note among these rows says was said before."""
    found = [message for _, message in inbox.list_by_ids(desk.db, list(rows)) if turns.is_continuation(message)]
    return [[each["text"] for each in message.content["done"]] for message in found]


def add_budget(desk: Desk, person: str) -> None:
    budgets.put(desk.db, BudgetScope(BudgetScopeKind.USER, person), Period.DAY, 1_000_000, "owner", desk.now)


def write(desk: Desk, sender: str, mode: InboxMode = InboxMode.TRIGGER) -> int:
    message_id = desk.accept(sender=sender)
    return inbox.enqueue(desk.db, message_id, desk.session.id, "acme", "member", desk.now, mode)


@pytest.mark.parametrize("mode", [InboxMode.TRIGGER, InboxMode.NEXT, InboxMode.TASK])
def test_a_message_that_is_given_again_comes_with_the_note_of_what_was_said_whoever_pays_and_waits_behind(
    desk: Desk, mode: InboxMode
) -> None:
    add_budget(desk, "fake:user/ada")
    first = write(desk, "fake:user/ada", mode)
    turn = begin(desk)
    desk.say("k", "the answer", turn=turn)
    write(desk, "fake:user/bob")
    restore_and_send(desk)
    found = {}
    while claim := desk.claim(most=1):
        found[claim.rows[0]] = read_notes(desk, claim.rows)
        turns.begin(desk.db, claim.turn.id, claim.turn.epoch, claim.rows, desk.now)
        assert desk.finish(claim.turn)

    assert found[first] == [["the answer"]]
    assert sorted(found.values()) == [[], [["the answer"]]]


def begin(desk: Desk) -> turns.Turn:
    claim = desk.claim()
    assert claim is not None and turns.begin(desk.db, claim.turn.id, claim.turn.epoch, claim.rows, desk.now)
    return desk.turn(claim.turn.id)


def test_a_message_that_joins_a_turn_after_a_restore_brings_its_note_once(desk: Desk) -> None:
    desk.say("k", "the answer", turn=desk.begun("one", "two"))
    restore_and_send(desk)
    claim = desk.claim(most=1)
    assert claim is not None
    more = turn_claims.claim_more(desk.db, claim.turn.id, claim.turn.epoch, desk.now, LEASE, 1)

    assert more is not None
    assert read_notes(desk, claim.rows) + read_notes(desk, more.rows) == [["the answer"]]


def test_a_note_stays_with_its_message_through_a_failed_start_and_a_second_restore(desk: Desk) -> None:
    desk.say("k", "one", turn=desk.begun("hello"))
    restore_and_send(desk)
    claim = desk.claim()
    assert claim is not None and read_notes(desk, claim.rows) == [["one"]]
    desk.break_off(claim.turn)  # no provider had it
    desk.now += 60_000_000
    second = begin(desk)
    assert read_notes(desk, tuple(entry.id for entry, _ in inbox.list_for_turn(desk.db, second.id))) == [["one"]]
    desk.say("l", "two", turn=second)
    restore_and_send(desk)
    again = desk.claim()

    assert again is not None and len(again.rows) == 3
    assert read_notes(desk, again.rows) == [["one"], ["two"]]
