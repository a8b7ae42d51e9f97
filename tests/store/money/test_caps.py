"""Caps: one turn, one run of a task and one conversation cost no more than their limit, however many calls at once."""

import asyncio

import pytest
from tests.store.conftest import Desk
from tests.store.schedule.test_firings import NOON, ROOM, FiredTask

from gatepost.core.clock import MINUTE, Period
from gatepost.core.records import replace
from gatepost.messages.inbound import Direction
from gatepost.store.engine.sqlite_db import SqliteDb
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money import budgets, costs, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, Cap, CapSpan
from gatepost.store.money.costs import NewCost
from gatepost.store.money.reservations import BudgetDenial, BudgetReservation
from gatepost.store.port import Db
from gatepost.store.schedule import retention, tasks
from gatepost.store.sessions import errands, groups, sessions, turn_claims
from gatepost.store.sessions.errands import NewErrand
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turns import Turn

USD = 1_000_000
ACME, ENG = (BudgetScope(BudgetScopeKind.GROUP, folder) for folder in ("acme", "acme/eng"))
EVERYTHING = BudgetScope(BudgetScopeKind.INSTANCE)


def add_session(db: Db, thread: str = "") -> str:
    for folder in ("acme", "acme/eng"):
        groups.add(db, folder, "", "", NOON)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/eng", *ROOM[:2], thread, NOON).id


def limit(db: Db, span: CapSpan, micro: int | None, scope: BudgetScope = ACME) -> None:
    budgets.put(db, scope, span, micro, "operator", NOON)


def reserve(db: Db, session: str, micro: int, turn: str = "t-1", at: int = NOON) -> BudgetReservation | BudgetDenial:
    return reservations.reserve(db, "acme/eng", None, session, turn, "claude", micro, at)


def spend(db: Db, session: str, micro: int, turn: str = "t-1", at: int = NOON) -> None:
    held = reserve(db, session, micro, turn, at)
    assert isinstance(held, BudgetReservation)
    reservations.settle(db, held.id, micro, None, at)


@pytest.fixture
def session(db: Db) -> str:
    return add_session(db)


@pytest.mark.parametrize("span", [CapSpan.TURN, CapSpan.SESSION])
async def test_of_fifty_calls_at_once_only_those_pass_that_fit_into_a_cap(store: SqliteStore, span: CapSpan) -> None:
    session = await store.write(add_session)
    await store.write(limit, span, 1 * USD)
    answers = await asyncio.gather(*(store.write(reserve, session, 90_000) for _ in range(50)))
    assert sum(isinstance(answer, BudgetReservation) for answer in answers) == 11
    assert all(answer.busy for answer in answers if isinstance(answer, BudgetDenial))


async def test_calls_that_are_settled_between_others_never_pass_a_cap_together(store: SqliteStore) -> None:
    session = await store.write(add_session)
    await store.write(limit, CapSpan.TURN, 1 * USD)
    await store.write(limit, CapSpan.SESSION, 2 * USD)

    async def call(number: int) -> int:
        held = await store.write(reserve, session, 90_000, f"t-{number % 5}")
        if isinstance(held, BudgetDenial):
            return 0
        await asyncio.sleep(0)
        await store.write(reservations.settle, held.id, number * 1_500, None, NOON)
        return number * 1_500

    spent = [await asyncio.gather(*(call(number) for number in range(1, 51))) for _ in range(3)]
    of_turn = [sum(cost for costs in spent for cost in costs[turn - 1 :: 5]) for turn in range(1, 6)]
    assert all(each <= 1 * USD for each in of_turn)
    assert 0 < sum(of_turn) <= 2 * USD
    found = await store.read(budgets.list_for_call, "acme/eng", "", session, "t-1", NOON)
    assert [(each.spent, each.reserved) for each in found] == [(of_turn[0], 0), (sum(of_turn), 0)]


def test_without_a_cap_a_call_waits_for_nobody_and_nothing_is_refused(db: Db, session: str) -> None:
    assert budgets.hold_applicable(db, "acme/eng", "", NOON, session, "t-1") == []
    spend(db, session, 90 * USD)


def test_the_nearest_group_that_says_something_counts_and_the_gateway_is_the_default(db: Db) -> None:
    limit(db, CapSpan.TURN, 1, EVERYTHING)
    limit(db, CapSpan.SESSION, 5, EVERYTHING)
    limit(db, CapSpan.TURN, 2)
    limit(db, CapSpan.TURN, 3, ENG)
    assert budgets.list_caps(db, "acme/eng") == {
        CapSpan.TURN: Cap(CapSpan.TURN, 3, "acme/eng"),
        CapSpan.SESSION: Cap(CapSpan.SESSION, 5),
    }
    limit(db, CapSpan.TURN, None, ENG)
    assert budgets.list_caps(db, "acme/eng")[CapSpan.TURN] == Cap(CapSpan.TURN, 2, "acme")
    assert budgets.list_caps(db, "other")[CapSpan.TURN] == Cap(CapSpan.TURN, 1)


def test_a_cap_is_no_budget_of_a_day(db: Db, session: str) -> None:
    limit(db, CapSpan.TURN, 1 * USD)
    assert budgets.has_budgets(db)
    assert budgets.list_all(db, NOON) == budgets.list_applicable(db, "acme/eng", "", NOON) == []


def test_each_turn_begins_with_nothing_and_a_conversation_goes_on(db: Db, session: str) -> None:
    limit(db, CapSpan.TURN, 1 * USD)
    limit(db, CapSpan.SESSION, 3 * USD // 2)
    spend(db, session, 1 * USD, "t-1")
    denied = reserve(db, session, 1, "t-1")
    assert isinstance(denied, BudgetDenial) and not denied.busy
    assert (denied.status.scope, denied.status.limit) == (BudgetScope(BudgetScopeKind.TURN, "t-1"), 1 * USD)
    spend(db, session, USD // 2, "t-2")
    denied = reserve(db, session, 1, "t-2")
    assert isinstance(denied, BudgetDenial)
    assert denied.status.scope == BudgetScope(BudgetScopeKind.SESSION, session)


def test_a_refusal_is_told_once_for_each_turn(db: Db, session: str) -> None:
    limit(db, CapSpan.TURN, 10)
    told = [reserve(db, session, 11, turn).notes for turn in ("t-1", "t-1", "t-2")]
    assert [len(each) for each in told] == [1, 0, 1]


def test_a_cap_that_is_set_later_counts_what_was_spent_before(db: Db, session: str) -> None:
    spend(db, session, 600_000)
    assert isinstance(reserve(db, session, 300_000), BudgetReservation)
    for span in (CapSpan.TURN, CapSpan.SESSION):
        limit(db, span, 1 * USD)
    for each in budgets.list_for_call(db, "acme/eng", "", session, "t-1", NOON):
        assert (each.spent, each.reserved, each.left) == (600_000, 300_000, 100_000)


def test_what_is_reported_from_elsewhere_counts_too(db: Db, session: str) -> None:
    limit(db, CapSpan.SESSION, 1 * USD)
    new = NewCost(key="k", at=NOON, folder="acme/eng", model="m", micro=2 * USD, session_id=session, turn_id="t-1")
    costs.add_external(db, new, NOON)
    found = budgets.find_session_cap(db, session)
    assert found is not None and found.is_spent


def test_a_new_conversation_begins_with_nothing_and_late_costs_are_those_of_the_old_one(db: Db, session: str) -> None:
    limit(db, CapSpan.SESSION, 1 * USD)
    late = reserve(db, session, 400_000)
    spend(db, session, 600_000)
    assert isinstance(late, BudgetReservation)
    sessions.remove_conversations(db, session, NOON + MINUTE)
    reservations.settle(db, late.id, 400_000, None, NOON + MINUTE)
    assert isinstance(reserve(db, session, 1 * USD, "t-2", NOON + MINUTE), BudgetReservation)


def test_more_for_a_conversation_holds_until_it_is_begun_anew(db: Db, session: str) -> None:
    limit(db, CapSpan.SESSION, 1 * USD)
    spend(db, session, 900_000)
    assert isinstance(reserve(db, session, 200_000), BudgetDenial)
    full = budgets.find_session_cap(db, session)
    assert full is not None and full.is_spent  # what is left pays for no call
    budgets.raise_limit(db, full.scope, full.period, full.starts_at, 1 * USD)
    raised = budgets.find_session_cap(db, session)
    assert raised is not None and not raised.is_spent and raised.limit == 2 * USD
    spend(db, session, 1_100_000)
    sessions.remove_conversations(db, session, NOON + MINUTE)
    anew = budgets.find_session_cap(db, session)
    assert anew is not None and (anew.limit, anew.spent) == (1 * USD, 0)


def test_a_cap_that_is_set_anew_ends_what_was_added_to_the_conversations_that_it_holds(db: Db, session: str) -> None:
    limit(db, CapSpan.SESSION, 1 * USD)
    cap = budgets.find_session_cap(db, session)
    assert cap is not None
    budgets.raise_limit(db, cap.scope, cap.period, cap.starts_at, 2 * USD)
    assert budgets.put(db, ENG, CapSpan.TURN, 1 * USD, "operator", NOON) == 0
    assert budgets.put(db, EVERYTHING, CapSpan.SESSION, 1 * USD, "operator", NOON) == 0  # a nearer group limits it
    assert budgets.put(db, ACME, CapSpan.SESSION, 1 * USD, "operator", NOON) == 2 * USD
    lowered = budgets.find_session_cap(db, session)
    assert lowered is not None and lowered.limit == 1 * USD


def test_a_larger_cap_lets_a_conversation_go_on_that_was_refused(db: Db, session: str) -> None:
    limit(db, CapSpan.SESSION, 1 * USD)
    assert isinstance(reserve(db, session, 2 * USD), BudgetDenial)
    assert reservations.find_spent(db, "acme/eng", None, NOON, session) is not None
    limit(db, CapSpan.SESSION, 3 * USD)
    assert reservations.find_spent(db, "acme/eng", None, NOON, session) is None


@pytest.mark.parametrize("settled", [True, False], ids=["spent", "still running"])
def test_a_further_try_at_a_message_has_no_limit_of_its_own(desk: Desk, settled: bool) -> None:
    """A sandbox can spend before it says that its provider has the message, and then break the turn off."""
    limit(desk.db, CapSpan.TURN, 1 * USD)
    desk.hear("do much")
    first = desk.claim()
    assert first is not None
    held = reserve_for(desk, first.turn.id, 1 * USD)
    assert isinstance(held, BudgetReservation)
    if settled:
        reservations.settle(desk.db, held.id, 1 * USD, None, desk.now)
    for _ in range(3):
        broken = desk.break_off(desk.turn(first.turn.id))
        assert broken.retry_at is not None
        desk.now = broken.retry_at
        first = desk.claim()
        assert first is not None
        assert isinstance(reserve_for(desk, first.turn.id, 1), BudgetDenial)
    if not settled:
        reservations.settle(desk.db, held.id, 400_000, None, desk.now)
        assert isinstance(reserve_for(desk, first.turn.id, 600_000), BudgetReservation)
    assert isinstance(reserve_for(desk, first.turn.id, 1), BudgetDenial)


def reserve_for(desk: Desk, turn: str, micro: int) -> BudgetReservation | BudgetDenial:
    return reservations.reserve(desk.db, "acme", None, desk.session.id, turn, "claude", micro, desk.now)


def test_what_goes_on_after_an_answer_counts_for_its_turn(db: SqliteDb) -> None:
    fired = FiredTask(db)
    limit(db, CapSpan.TURN, 1 * USD)
    turn = fired.begin(NOON)
    fired.call_model(turn, 900_000, NOON)
    behind = reservations.reserve(db, "acme", None, fired.session.id, None, "m", 200_000, NOON)
    assert isinstance(behind, BudgetDenial) and behind.status.scope.name == turn


def test_a_run_of_a_task_has_the_cap_for_runs_or_its_own_if_that_is_lower(db: SqliteDb) -> None:
    fired = FiredTask(db)
    turn = fired.begin(NOON)

    def find() -> tuple[int, str]:
        (found,) = budgets.list_for_call(db, "acme", "", fired.session.id, turn, NOON)
        assert found.cap is not None
        return found.limit, found.cap.task

    def set_own(micro: int | None) -> None:
        db.run("UPDATE tasks SET max_cost = ?", (micro,))

    limit(db, CapSpan.TURN, 2 * USD)
    assert find() == (2 * USD, "")
    limit(db, CapSpan.TASK, 5 * USD)
    assert find() == (5 * USD, "")
    set_own(1 * USD)
    assert find() == (1 * USD, fired.task.id)
    set_own(9 * USD)
    assert find() == (5 * USD, "")
    for span in (CapSpan.TURN, CapSpan.TASK):
        limit(db, span, None)
    assert find() == (9 * USD, fired.task.id)
    assert tasks.get(db, fired.task.id) is not None


def test_a_day_that_is_spent_is_named_before_a_turn_that_is(db: Db, session: str) -> None:
    limit(db, CapSpan.TURN, 10)
    budgets.put(db, ACME, Period.DAY, 10, "operator", NOON)
    denied = reserve(db, session, 11)
    assert isinstance(denied, BudgetDenial) and denied.status.period is Period.DAY


@pytest.mark.sqlite
def test_what_is_set_aside_is_found_by_an_index(db: SqliteDb) -> None:
    sql = "EXPLAIN QUERY PLAN SELECT SUM(worst) FROM reservations WHERE session_id = 's' AND charged_turn = 't'"
    assert "reservations_session" in str(db.rows(sql))


def test_what_turns_and_conversations_spent_goes_with_them(db: Db, session: str) -> None:
    spend(db, session, 5, "t-gone")
    assert retention.remove_spending(db, "", NOON, 50, kind=BudgetScopeKind.TURN).removed == 1
    assert retention.remove_spending(db, "", NOON, 50, kind=BudgetScopeKind.SESSION).removed == 0
    db.run("DELETE FROM sessions WHERE id = ?", (session,))
    assert retention.remove_spending(db, "", NOON, 50, kind=BudgetScopeKind.SESSION).removed == 1


def claim_turn(db: Db, session_id: str, new: NewMessage) -> Turn:
    message_id = messages.accept(db, new, NOON)
    session = sessions.get(db, session_id)
    assert message_id is not None and session is not None
    inbox.enqueue(db, message_id, session_id, session.folder, "member", NOON)
    claim = turn_claims.claim(db, session_id, "scripted", "test", NOON, MINUTE, 20, ready=True)
    assert claim is not None
    return claim.turn


def begin_turn(db: Db, thread: str = "") -> Turn:
    """A turn of acme/eng that a person asked for."""
    place = {"instance": ROOM[0], "address": ROOM[1], "thread": thread}
    said = NewMessage(**place, direction=Direction.IN, sender="fake:user/eve", text="do it", at=NOON)
    return claim_turn(db, add_session(db, thread), said)


def give_errand(db: Db, caller: Turn, *, between_turns: bool = False, folder: str = "acme") -> Turn:
    """The turn that works on what another turn gave out."""
    session, errand_id = errands.find_or_add_session(db, caller.session_id, folder, "", NOON), errands.make_id()
    new = NewMessage(
        instance=session.instance,
        address=session.address,
        thread=errand_id,
        direction=Direction.IN,
        sender="agent:acme/eng",
        text="your part",
        at=NOON,
    )
    turn = claim_turn(db, session.id, new)
    row = db.row("SELECT message_id FROM inbox WHERE turn_id = ?", (turn.id,))
    assert row is not None
    facts = NewErrand(
        id=errand_id,
        call_key=errand_id,
        parent="",
        caller_folder=caller.folder,
        caller_session=caller.session_id,
        caller_turn="" if between_turns else caller.id,
        rights="member",
        instance=caller.instance,
        address=caller.address,
        thread=caller.thread,
        folder=folder,
        session_id=session.id,
        room=session.address,
        message_id=int(row[0]),
    )
    errands.add(db, facts, NOON)
    return turn


def reserve_in(db: Db, turn: Turn, micro: int) -> BudgetReservation | BudgetDenial:
    return reservations.reserve(db, turn.folder, None, turn.session_id, turn.id, "claude", micro, NOON)


def get_caps(db: Db, turn: Turn) -> dict[str, tuple[int, int]]:
    found = budgets.list_for_call(db, turn.folder, "", turn.session_id, turn.id, NOON)
    return {each.scope.name: (each.spent, each.reserved) for each in found}


@pytest.mark.parametrize("span", [CapSpan.TURN, CapSpan.SESSION])
@pytest.mark.parametrize("between_turns", [False, True])
def test_what_an_errand_spends_counts_for_the_turn_that_gave_it_out(db: Db, span: CapSpan, between_turns: bool) -> None:
    asking = begin_turn(db)
    limit(db, span, 1 * USD, ENG)  # of the group that asks alone
    worker = give_errand(db, asking, between_turns=between_turns)
    held = reserve_in(db, worker, 600_000)
    assert isinstance(held, BudgetReservation)
    name = asking.id if span is CapSpan.TURN else asking.session_id
    assert get_caps(db, asking)[name] == get_caps(db, worker)[name] == (0, 600_000)
    denied = reserve_in(db, asking, 500_000)
    assert isinstance(denied, BudgetDenial) and denied.busy
    reservations.settle(db, held.id, 550_000, None, NOON)
    assert get_caps(db, asking)[name] == (550_000, 0)
    for turn in (asking, worker):
        denied = reserve_in(db, turn, 500_000)
        assert isinstance(denied, BudgetDenial) and denied.status.scope.name == name and not denied.busy


def test_errands_of_errands_count_for_each_turn_behind_them(db: Db) -> None:
    first = begin_turn(db)
    second = give_errand(db, first)
    third = give_errand(db, second, folder="acme/eng")
    for scope in (ACME, ENG):
        limit(db, CapSpan.TURN, 1 * USD, scope)
    new = NewCost(key="c", at=NOON, folder="acme/eng", model="m", micro=300_000)
    costs.add_external(db, replace(new, session_id=third.session_id, turn_id=third.id), NOON)
    held = reserve_in(db, third, 200_000)
    assert isinstance(held, BudgetReservation)
    assert get_caps(db, third) == {each.id: (300_000, 200_000) for each in (first, second, third)}
    assert reservations.settle_leftovers(db, NOON) == 1  # of a crash: in full
    assert get_caps(db, third) == {each.id: (500_000, 0) for each in (first, second, third)}
    assert db.rows("SELECT * FROM reservation_charges") == []


def test_other_errands_and_turns_have_limits_of_their_own(db: Db) -> None:
    limit(db, CapSpan.TURN, 1 * USD)
    first, other = begin_turn(db), begin_turn(db, "other")
    assert isinstance(reserve_in(db, give_errand(db, first), 900_000), BudgetReservation)
    assert isinstance(reserve_in(db, other, 900_000), BudgetReservation)


async def test_calls_of_errands_at_once_keep_within_the_limit_of_the_turn_behind_them(store: SqliteStore) -> None:
    asking = await store.write(begin_turn)
    workers = [await store.write(lambda db: give_errand(db, asking)), asking]
    workers.append(await store.write(lambda db: give_errand(db, workers[0], folder="acme/eng")))
    await store.write(limit, CapSpan.TURN, 1 * USD, ENG)

    async def call(number: int) -> int:
        turn = workers[number % 3]
        held = await store.write(reserve_in, turn, 90_000, lane=turn.session_id)
        if isinstance(held, BudgetDenial):
            return 0
        await asyncio.sleep(0)
        await store.write(reservations.settle, held.id, 80_000, None, NOON, lane=turn.session_id)
        return 80_000

    spent = sum([sum(await asyncio.gather(*(call(number) for number in range(1, 51)))) for _ in range(3)])
    found = await store.read(get_caps, asking)
    assert found[asking.id] == (spent, 0) and 800_000 < spent <= 1 * USD


def test_an_errand_of_a_turn_that_is_tried_again_counts_for_the_next_try(db: Db) -> None:
    limit(db, CapSpan.TURN, 1 * USD, ENG)
    asking = begin_turn(db)
    worker = give_errand(db, asking)
    held = reserve_in(db, worker, 100_000)
    later = begin_turn(db, "later")  # stands for the next try
    budgets.carry_turn(db, asking.id, later.id)
    errands.move_to_turn(db, asking.id, later.id)
    assert isinstance(held, BudgetReservation)
    reservations.settle(db, held.id, 50_000, None, NOON)
    assert isinstance(reserve_in(db, worker, 200_000), BudgetReservation)
    row = db.row("SELECT spent FROM spending WHERE kind = 'turn' AND name = ?", (later.id,))
    assert row == (50_000,) and [each.turn_id for each in budgets.list_asking(db, worker.id)] == [later.id]
