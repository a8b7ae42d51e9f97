"""From what is said to rows of the outbox."""

import pytest

from gatepost.core.records import replace
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.messages.outbound import Feature, OutboundFile
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import begin_turn
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import NOON
from gatepost_testing.counting import CountingDb

ROOM = "fake:room/1"
PLAN = OutboundFile(name="plan.pdf", mime="application/pdf", path="/media/out/k/plan.pdf", size=5)


@pytest.fixture
def turn_id(db: Db) -> str:
    """A turn that runs in the room."""
    groups.add(db, "home", "Home", "", NOON)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "home", "fake", ROOM, "", NOON)
    return begin_turn(db, session, NOON).turn.id


def make_channels(**given: object) -> ChannelInstances:
    return ChannelInstances({"fake": FakeChannel(**given).kind})  # type: ignore[arg-type]


def result(key: str, text: str, turn_id: str | None = None, **more: object) -> OutgoingMessage:
    base = OutgoingMessage(
        key=key, origin=EffectOrigin.RESULT, instance="fake", address=ROOM, text=text, turn_id=turn_id
    )
    return replace(base, **more)


def test_an_instance_that_is_not_there_can_do_nothing() -> None:
    channels = ChannelInstances({})

    assert (channels.get_kind("gone").features, channels.get_kind("gone").max_text, channels.get_kind("gone").name) == (
        frozenset(),
        0,
        "gone",
    )


def test_a_text_is_one_pending_row_with_what_the_channel_needs(db: Db) -> None:
    (effect,) = add_outgoing_message(db, make_channels(), result("k", "hello", in_reply_to=3, files=(PLAN,)), NOON)

    assert (effect.key, effect.op, effect.state) == ("k", "send", "pending")
    file = {"name": "plan.pdf", "mime": "application/pdf", "path": "/media/out/k/plan.pdf", "size": 5}
    assert effect.payload == {"text": "hello", "in_reply_to": 3, "files": [file]}


def test_nanoclaw_d15_each_part_is_a_row_with_a_key_of_its_own_and_files_and_reference_go_with_the_first(
    db: Db,
) -> None:
    (target,) = add_outgoing_message(db, make_channels(), result("target", "what?"), NOON)
    new = result("k", "one two\n\nthree four\n\nfive six", reply_to_id=target.message_id, files=(PLAN,))

    effects = add_outgoing_message(db, make_channels(max_text=10), new, NOON)

    assert [effect.key for effect in effects] == ["k", "k/2", "k/3"]
    assert [effect.payload["text"] for effect in effects] == ["one two", "three four", "five six"]
    assert [len(effect.payload["files"]) for effect in effects] == [1, 0, 0]
    assert [effect.target_id for effect in effects] == [target.message_id, None, None]


def test_a_channel_without_files_has_room_left_for_the_lines_that_name_them(db: Db) -> None:
    channels = make_channels(max_text=60, features=frozenset({Feature.MARKDOWN}))

    first, *_ = add_outgoing_message(db, channels, result("k", "word " * 30, files=(PLAN,)), NOON)

    assert len(first.payload["text"]) + len("\n[file: plan.pdf, 5 bytes]") <= 60


def test_a_file_alone_is_said_and_nothing_is_not(db: Db) -> None:
    assert len(add_outgoing_message(db, make_channels(), result("file", "", files=(PLAN,)), NOON)) == 1
    assert add_outgoing_message(db, make_channels(), result("nothing", " \n"), NOON) == []


def test_what_is_handed_over_twice_is_one_thing(db: Db, turn_id: str) -> None:
    channels = make_channels(max_text=10)
    new = result("k", "one two\n\nthree four", turn_id)

    assert add_outgoing_message(db, channels, new, NOON) == add_outgoing_message(db, channels, new, NOON)
    assert len(outbox.list_for_turn(db, turn_id)) == 2


def test_nanoclaw_31_a_final_text_that_a_tool_already_sent_to_that_room_is_not_sent_again(db: Db, turn_id: str) -> None:
    channels = make_channels(max_text=10)
    by_tool = add_outgoing_message(db, channels, result("tool", "one two\n\nthree four", turn_id, origin="tool"), NOON)

    assert (
        add_outgoing_message(db, channels, result("k", "one two\n\nthree four", turn_id, in_reply_to=1), NOON)
        == by_tool
    )
    assert len(add_outgoing_message(db, channels, result("l", "one two", turn_id, address="fake:room/2"), NOON)) == 1
    assert add_outgoing_message(db, channels, result("m", "one two\n\nfive", turn_id), NOON) != by_tool
    assert len(outbox.list_for_turn(db, turn_id)) == 5


def test_what_failed_or_was_only_a_status_was_not_said(db: Db, turn_id: str) -> None:
    (failed,) = add_outgoing_message(db, make_channels(), result("tool", "done", turn_id, origin="tool"), NOON)
    outbox.record_outcome(db, failed.id, EffectState.FAILED, "no", NOON)
    add_outgoing_message(db, make_channels(), result("status", "done", turn_id, origin="status"), NOON)

    (effect,) = add_outgoing_message(db, make_channels(), result("k", "done", turn_id), NOON)

    assert effect.key == "k"


def test_two_messages_of_a_batch_may_get_the_same_answer(db: Db, turn_id: str) -> None:
    (first,) = add_outgoing_message(db, make_channels(), result("a", "ok", turn_id, in_reply_to=1), NOON)
    (second,) = add_outgoing_message(db, make_channels(), result("b", "ok", turn_id, in_reply_to=2), NOON)

    assert (first.key, second.key) == ("a", "b")


def test_the_next_attempt_does_not_repeat_what_the_first_one_said(db: Db, turn_id: str) -> None:
    (first,) = add_outgoing_message(db, make_channels(), result("t/1/1", "ok", turn_id, in_reply_to=1), NOON)

    assert add_outgoing_message(
        db, make_channels(), result("t/2/1", "ok", turn_id, attempt=2, in_reply_to=1), NOON
    ) == [first]


def test_a_tool_may_say_the_same_twice(db: Db, turn_id: str) -> None:
    add_outgoing_message(db, make_channels(), result("a", "ping", turn_id, origin="tool"), NOON)
    (second,) = add_outgoing_message(db, make_channels(), result("b", "ping", turn_id, origin="tool"), NOON)

    assert second.key == "b"


def test_text_is_cleaned_of_what_a_store_cannot_hold(db: Db) -> None:
    (effect,) = add_outgoing_message(db, make_channels(), result("k", "a\x00b\ud800c"), NOON)

    assert effect.payload["text"] == "ab?c"


def _work_of(db: Db, turn_id: str, number: int, text: str) -> tuple[int, int, int]:
    counting = CountingDb(db)
    assert add_outgoing_message(
        counting, make_channels(), result(f"k{number}", text, turn_id, in_reply_to=number), NOON
    )
    return counting.statements, counting.read_rows, counting.read_chars


def test_stranger_new_a_result_costs_the_same_however_much_its_turn_has_said(db: Db, turn_id: str) -> None:
    costs = [_work_of(db, turn_id, 100 + number, f"{number} " + "x" * 50_000) for number in range(50)]

    assert max(chars for *_, chars in costs) < 200_000
    assert costs[2][:2] == costs[-1][:2]


def test_stranger_new_the_same_text_to_many_messages_costs_the_same_each_time(db: Db, turn_id: str) -> None:
    costs = [_work_of(db, turn_id, 100 + number, "y" * 50_000) for number in range(50)]

    assert len({cost[:2] for cost in costs[1:]}) == 1
    assert len(outbox.list_for_turn(db, turn_id)) == 50
    assert (
        add_outgoing_message(db, make_channels(), result("again", "y" * 50_000, turn_id, in_reply_to=110), NOON)[0].key
        == "k110"
    )
