"""Texts of tasks after their firing: a failure counts once, a success ends the failures, and consent is of one text."""

import pytest

from gatepost.core.clock import HOUR
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect
from gatepost.store.port import Db
from gatepost.store.schedule import firings, scheduled_texts, tasks
from gatepost.store.schedule.firings import LONGEST_REASON, Firing, FiringState
from gatepost.store.schedule.tasks import NewTask, ScheduleKind
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000
ROOM = ("fake", "fake:room/1")


@pytest.fixture
def task_id(db: Db) -> str:
    groups.add(db, "acme", "Acme", "", NOON)
    return add_task(db)


def add_task(db: Db) -> str:
    new = NewTask(
        folder="acme", instance=ROOM[0], address=ROOM[1], text="good morning", kind=ScheduleKind.EVERY, schedule="1h",
        every=HOUR, next_at=NOON, created_by="operator",
    )  # fmt: skip
    return tasks.add(db, new, (), 0, NOON).id


def fire(db: Db, task_id: str, due_at: int = NOON, state: FiringState = FiringState.SENT) -> int:
    found = firings.add(db, task_id, due_at, NOON, state)
    assert found is not None
    return found


def send_part(db: Db, key: str, state: EffectState = EffectState.SENT) -> int:
    new = NewEffect(
        key=key, op="send", origin=EffectOrigin.NOTICE, instance=ROOM[0], address=ROOM[1], text="x", folder="acme",
        payload={"text": "x"},
    )  # fmt: skip
    effect = outbox.add(db, new, NOON)
    db.run("UPDATE outbox SET state = ? WHERE id = ?", (state, effect.id))
    assert effect.message_id is not None
    return effect.message_id


def get_firing(db: Db, task_id: str, due_at: int = NOON) -> Firing:
    (found,) = [each.firing for each in firings.list_for_task(db, task_id, 10) if each.firing.due_at == due_at]
    return found


def count_failures(db: Db, task_id: str) -> int:
    found = tasks.get(db, task_id)
    assert found is not None
    return found.failures


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        ("task/t-1/123", ("t-1", 123)),
        ("task/t-1/123/2", ("t-1", 123)),
        ("task/t-1", None),
        ("task/t-1/x", None),
        ("task/t-1/\u0663", None),  # a digit, and none of ours
        ("task/t-1/-5", None),
        ("notice/t-1/123", None),
        ("", None),
    ],
)
def test_a_key_names_the_time_of_a_task(key: str, parsed: tuple[str, int] | None) -> None:
    assert scheduled_texts.parse_key(key) == parsed


def test_the_keys_of_parts_are_read_as_they_are_written() -> None:
    assert scheduled_texts.parse_key(firings.get_text_key("t-1", 7)) == ("t-1", 7)


def test_a_text_that_failed_is_one_failure_however_many_parts_fail(db: Db, task_id: str) -> None:
    fire(db, task_id)
    assert scheduled_texts.record_undelivered(db, task_id, NOON, "the room is gone", NOON + 1)
    assert not scheduled_texts.record_undelivered(db, task_id, NOON, "the second part, too", NOON + 2)
    found = get_firing(db, task_id)
    assert (found.state, found.reason, found.ended_at) == (FiringState.FAILED, "the room is gone", NOON + 1)
    assert count_failures(db, task_id) == 1


def test_only_a_text_that_was_sent_can_fail_on_its_way(db: Db, task_id: str) -> None:
    fire(db, task_id, state=FiringState.QUEUED)
    assert not scheduled_texts.record_undelivered(db, task_id, NOON, "x", NOON)
    assert not scheduled_texts.record_undelivered(db, task_id, NOON + 1, "x", NOON)
    assert count_failures(db, task_id) == 0


def test_a_reason_is_kept_to_its_length(db: Db, task_id: str) -> None:
    fire(db, task_id)
    scheduled_texts.record_undelivered(db, task_id, NOON, "x" * (LONGEST_REASON + 5), NOON)
    assert len(get_firing(db, task_id).reason) == LONGEST_REASON


@pytest.mark.parametrize("last", [EffectState.PENDING, EffectState.FAILED])
def test_a_task_has_no_failures_behind_it_once_all_parts_have_arrived(db: Db, task_id: str, last: EffectState) -> None:
    other = add_task(db)
    for each in (task_id, other):
        tasks.record_failure(db, each, "earlier", NOON)
    key = firings.get_text_key(task_id, NOON)
    send_part(db, key)
    send_part(db, f"{key}/1", last)
    scheduled_texts.record_delivered(db, task_id, NOON)
    assert count_failures(db, task_id) == 1
    db.run("UPDATE outbox SET state = 'sent'")
    scheduled_texts.record_delivered(db, task_id, NOON)
    assert (count_failures(db, task_id), count_failures(db, other)) == (0, 1)


def test_another_time_of_the_task_holds_up_nothing(db: Db, task_id: str) -> None:
    tasks.record_failure(db, task_id, "earlier", NOON)
    send_part(db, firings.get_text_key(task_id, NOON * 10), EffectState.PENDING)  # its key begins like this one's
    send_part(db, firings.get_text_key(task_id, NOON))
    scheduled_texts.record_delivered(db, task_id, NOON)
    assert count_failures(db, task_id) == 0


def test_the_task_of_a_message_is_found_by_its_delivery(db: Db, task_id: str) -> None:
    text = send_part(db, f"{firings.get_text_key(task_id, NOON)}/1")
    notice = send_part(db, "notice:1")
    assert scheduled_texts.find_task(db, text) == task_id
    assert scheduled_texts.find_task(db, notice) is None
    assert scheduled_texts.find_task(db, 10**9) is None


def test_a_text_that_waits_for_a_person_is_sent_or_has_failed(db: Db, task_id: str) -> None:
    first, second = fire(db, task_id), fire(db, task_id, NOON + HOUR)
    for each in (first, second):
        scheduled_texts.set_waiting(db, each, "a rule asks")
    waiting = scheduled_texts.list_waiting(db, task_id)
    assert [(each.id, each.ended_at, each.reason) for each in waiting] == [
        (first, None, "a rule asks"),
        (second, None, "a rule asks"),
    ]
    message_id = send_part(db, firings.get_text_key(task_id, NOON))
    scheduled_texts.record_sent(db, first, message_id, NOON + 5)
    scheduled_texts.record_denied(db, waiting[1], "Ada said no", NOON + 6)
    assert scheduled_texts.list_waiting(db, task_id) == []
    sent, denied = get_firing(db, task_id), get_firing(db, task_id, NOON + HOUR)
    assert (sent.state, sent.reason, sent.message_id, sent.ended_at) == (FiringState.SENT, "", message_id, NOON + 5)
    assert (denied.state, denied.reason, denied.ended_at) == (FiringState.FAILED, "Ada said no", NOON + 6)
    assert count_failures(db, task_id) == 1


def test_what_waits_is_cancelled_and_what_was_put_into_the_ledger_is_not(db: Db, task_id: str) -> None:
    waiting, other = fire(db, task_id, state=FiringState.QUEUED), add_task(db)
    fire(db, other, state=FiringState.QUEUED)
    put = fire(db, task_id, NOON + HOUR, FiringState.QUEUED)
    db.run("UPDATE firings SET message_id = ? WHERE id = ?", (send_part(db, "x"), put))
    scheduled_texts.cancel_waiting(db, task_id, "the task was changed", NOON + 7)
    found = get_firing(db, task_id)
    assert (found.id, found.state, found.ended_at) == (waiting, FiringState.CANCELLED, NOON + 7)
    assert get_firing(db, task_id, NOON + HOUR).state is FiringState.QUEUED
    assert get_firing(db, other).state is FiringState.QUEUED


def test_consent_is_of_one_task_and_ends_when_it_says_something_else(db: Db, task_id: str) -> None:
    other = add_task(db)
    scheduled_texts.add_agreed(db, task_id, [("acme", "send"), ("", "p-0"), ("acme", "send")])
    scheduled_texts.add_agreed(db, other, [("acme", "send")])
    assert scheduled_texts.list_agreed(db, task_id) == {("acme", "send"), ("", "p-0")}
    scheduled_texts.remove_agreed(db, task_id)
    assert scheduled_texts.list_agreed(db, task_id) == frozenset()
    assert scheduled_texts.list_agreed(db, other) == {("acme", "send")}


def test_the_request_that_let_an_agent_schedule_is_no_rule_of_a_group(db: Db, task_id: str) -> None:
    scheduled_texts.add_agreed(db, task_id, [("acme", "send")])
    assert scheduled_texts.find_allowing(db, task_id) == ""
    scheduled_texts.add_allowing(db, task_id, "p-1")
    assert scheduled_texts.find_allowing(db, task_id) == "p-1"
