"""The log of a task: what became of each time, what it cost, and which runs still hold up the next."""

import pytest

from gatepost.core.clock import HOUR, MINUTE
from gatepost.store.engine.sqlite_db import SqliteDb
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import NewTaskRow
from gatepost.store.messages.messages import NewPrompt
from gatepost.store.money import reservations
from gatepost.store.money.costs import TokenCounts
from gatepost.store.money.reservations import BudgetReservation
from gatepost.store.port import Db
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState, Run, RunCosts, make_firing
from gatepost.store.schedule.tasks import NewTask, ScheduleKind, Task
from gatepost.store.sessions import groups, sessions, turn_claims, turns
from gatepost.store.sessions.sessions import SessionMode

NOON = 1_800_000_000_000_000
ROOM = ("fake", "fake:room/1", "")


class FiredTask:
    """A task with one run that waits in a conversation."""

    def __init__(self, db: Db) -> None:
        self.db = db
        groups.add(db, "acme", "Acme", "", NOON)
        self.session = sessions.find_or_add(db, SessionMode.SHARED, "acme", *ROOM, NOON)
        new = NewTask(
            folder="acme", instance=ROOM[0], address=ROOM[1], prompt="look", kind=ScheduleKind.EVERY, schedule="1h",
            every=HOUR, next_at=NOON, created_by="agent:acme",
        )  # fmt: skip
        self.task: Task = tasks.add(db, new, (), 0, NOON)
        self.message_id = self.fire(NOON)

    def fire(self, due_at: int) -> int:
        name = f"task/{self.task.id}/{due_at}"
        new = NewPrompt(
            instance=ROOM[0], address=ROOM[1], thread="", platform_id=name, sender="task", text="look", content="{}",
            folder="acme", at=due_at,
        )  # fmt: skip
        message_id = messages.accept_prompts(self.db, [new], due_at)[name]
        seq = sessions.claim_seqs(self.db, {self.session.id: 1}, due_at)[self.session.id]
        inbox.enqueue_tasks(self.db, [NewTaskRow(message_id, self.session.id, "acme", seq)], due_at)
        row = make_firing(
            self.task.id, due_at, due_at, FiringState.QUEUED, message_id=message_id, session_id=self.session.id
        )
        firings.add_all(self.db, [row])
        return message_id

    def begin(self, now: int) -> str:
        claim = turn_claims.claim(self.db, self.session.id, "scripted", "test", now, MINUTE, 20)
        assert claim is not None
        turns.begin(self.db, claim.turn.id, claim.turn.epoch, claim.rows, now)
        return claim.turn.id

    def call_model(self, turn_id: str, worst: int, now: int) -> BudgetReservation:
        held = reservations.reserve(self.db, "acme", None, self.session.id, turn_id, "m", worst, now)
        assert isinstance(held, BudgetReservation)
        return held

    def log(self) -> list[Run]:
        return firings.list_for_task(self.db, self.task.id, 10)


@pytest.fixture
def fired(db: SqliteDb) -> FiredTask:
    return FiredTask(db)


def test_the_cost_of_a_run_has_what_a_killed_gateway_had_not_settled(fired: FiredTask) -> None:
    """Killed after the turn's end, with a call whose cost was not learnt: it is booked at the next start."""
    turn_id = fired.begin(NOON + 1)
    known = fired.call_model(turn_id, 500, NOON + 2)
    fired.call_model(turn_id, 70, NOON + 3)
    reservations.settle(fired.db, known.id, 200, TokenCounts(), NOON + 4)
    assert turns.finish(fired.db, turn_id, 1, "{}", NOON + 5)
    assert [(run.firing.state, run.firing.turn_id, run.cost) for run in fired.log()] == [("silent", turn_id, 200)]
    assert reservations.settle_leftovers(fired.db, NOON + HOUR) == 1
    assert [run.cost for run in fired.log()] == [270]


def test_the_cost_of_a_run_is_that_of_its_own_turn_in_a_conversation_with_others(fired: FiredTask) -> None:
    costs = [300, 40]
    for number, cost in enumerate(costs):
        now = NOON + number * HOUR
        if number:
            fired.fire(now)
        turn_id = fired.begin(now + 1)
        held = fired.call_model(turn_id, 500, now + 2)
        assert turns.finish(fired.db, turn_id, 1, "{}", now + 3)
        reservations.settle(fired.db, held.id, cost, TokenCounts(), now + 4)
    assert [run.cost for run in reversed(fired.log())] == costs


def test_a_turn_that_is_continued_after_a_kill_costs_what_all_its_attempts_cost(fired: FiredTask) -> None:
    from gatepost.store.sessions.turn_failures import FailureCause, TurnRetryPolicy, record_failure

    turn_id = fired.begin(NOON + 1)
    fired.call_model(turn_id, 70, NOON + 2)
    record_failure(fired.db, turn_id, 1, FailureCause(reason="the gateway stopped"), TurnRetryPolicy(), NOON + 3)
    reservations.settle_leftovers(fired.db, NOON + MINUTE)
    assert [(run.firing.state, run.cost) for run in fired.log()] == [("queued", 0)]
    claim = turn_claims.claim(fired.db, fired.session.id, "scripted", "test", NOON + HOUR, MINUTE, 20)
    assert claim is not None and claim.turn.id == turn_id and claim.continued
    turns.begin(fired.db, turn_id, claim.turn.epoch, claim.rows, NOON + HOUR)
    held = fired.call_model(turn_id, 500, NOON + HOUR + 1)
    reservations.settle(fired.db, held.id, 30, TokenCounts(), NOON + HOUR + 2)
    assert turns.finish(fired.db, turn_id, claim.turn.epoch, "{}", NOON + HOUR + 3)
    assert [(run.firing.state, run.cost) for run in fired.log()] == [("silent", 100)]


def test_the_outcome_stands_and_falls_with_the_end_of_the_turn(fired: FiredTask) -> None:
    turn_id = fired.begin(NOON + 1)
    fired.db.run("BEGIN")
    assert turns.finish(fired.db, turn_id, 1, "{}", NOON + 2)
    assert fired.log()[0].firing.state == FiringState.SILENT
    fired.db.run("ROLLBACK")
    turn = turns.get(fired.db, turn_id)
    assert fired.log()[0].firing.state == FiringState.QUEUED and turn is not None and turn.ended_at is None


def test_a_run_whose_message_is_gone_holds_up_no_other(fired: FiredTask) -> None:
    """As when a person is forgotten in whose room it waited."""
    assert firings.count_open(fired.db, [fired.task.id]) == {fired.task.id: 1}
    fired.db.run("DELETE FROM messages WHERE id = ?", (fired.message_id,))
    assert firings.count_open(fired.db, [fired.task.id]) == {}


def test_a_run_that_waits_or_goes_on_holds_up_the_next(fired: FiredTask) -> None:
    fired.begin(NOON + 1)
    fired.fire(NOON + HOUR)
    assert firings.count_open(fired.db, [fired.task.id, "t-other"]) == {fired.task.id: 2}
    for entry in inbox.list_for_message(fired.db, fired.message_id):
        inbox.set_state(fired.db, entry.id, inbox.InboxState.FAILED, "x", None, NOON + 2)
    assert firings.count_open(fired.db, [fired.task.id]) == {fired.task.id: 1}


def test_the_cost_of_the_last_runs_is_added_up_and_says_what_is_estimated(fired: FiredTask) -> None:
    for number in range(7):
        now = NOON + number * HOUR
        if number:
            fired.fire(now)
        turn_id = fired.begin(now + 1)
        held = fired.call_model(turn_id, 500, now + 2)
        reservations.settle(fired.db, held.id, 10**number, TokenCounts(), now + 3, measured=number != 5)
        assert turns.finish(fired.db, turn_id, 1, "{}", now + 4)
    assert firings.list_costs(fired.db, [fired.task.id, "t-other"]) == {fired.task.id: RunCosts(5, 1_111_100, 100_000)}


def test_a_run_that_goes_on_and_one_that_was_skipped_have_no_cost_yet(fired: FiredTask) -> None:
    fired.call_model(fired.begin(NOON + 1), 500, NOON + 2)
    firings.add(fired.db, fired.task.id, NOON + HOUR, NOON + HOUR, FiringState.SKIPPED)
    assert firings.list_costs(fired.db, [fired.task.id]) == {}
