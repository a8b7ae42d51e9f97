"""A text that cannot be delivered is a failed run: it counts, its owner is told elsewhere, and once."""

import pytest
from tests.flow.schedule.conftest import INSTANCE, ROOM, TaskDesk

from gatepost.core.settings import Config
from gatepost.flow.delivery import outbox_claims
from gatepost.flow.delivery.channel_sender import SendOutcome
from gatepost.flow.delivery.outbox_claims import DeliveryContext, DeliveryLane
from gatepost.flow.delivery.retry import load_retry_policy
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages.outbox import EffectState, OutboxEffect
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule.tasks import MOST_FAILURES, TaskState

ANN, ANNS_ROOM = "fake:user/ann", "fake:dm/ann"


async def reach_ann(desk: TaskDesk, role: UserRole | None = None) -> None:
    def write(db: Db) -> None:
        users.add(db, ANN, "Ann", 1)
        users.add_member(db, ANN, "acme", "operator", 1)
        direct_rooms.add(db, ANN, INSTANCE, ANNS_ROOM, 1)
        if role is not None:
            users.add_role(db, ANN, role, "", "operator", 1)

    await desk.store.write(write)


async def end(desk: TaskDesk, effect: OutboxEffect, state: EffectState, reason: str = "") -> None:
    outcome = SendOutcome(effect, state, reason)
    await desk.store.write(outbox_claims.settle_effect, desk.channels, outcome, desk.clock.now())


async def list_texts(desk: TaskDesk) -> list[OutboxEffect]:
    return [each for each in await desk.said() if each.origin == "tool"]


async def list_notices(desk: TaskDesk) -> list[OutboxEffect]:
    return [each for each in await desk.said() if each.origin == "notice"]


async def fail_next(desk: TaskDesk, state: EffectState = EffectState.FAILED) -> None:
    desk.clock.advance(3600)
    await desk.tick()
    await end(desk, (await list_texts(desk))[-1], state, "the bot was removed from the chat")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (EffectState.FAILED, "it was not delivered: the bot was removed from the chat"),
        (EffectState.UNCERTAIN, "it is not known whether it was delivered: the bot was removed from the chat"),
    ],
)
async def test_a_text_that_fails_for_good_is_a_failed_run_and_its_owner_is_told_elsewhere(
    desk: TaskDesk, state: EffectState, why: str
) -> None:
    await reach_ann(desk)
    task = await desk.add("1h", text="buy!", origins=(Origin(ANN, INSTANCE, ROOM),))
    await fail_next(desk, state)
    [firing] = await desk.log(task)
    assert (firing.state, firing.reason) == ("failed", why)
    assert (await desk.task(task)).failures == 1
    [notice] = await list_notices(desk)
    assert notice.address == ANNS_ROOM and why in notice.payload["text"]


async def test_parts_of_one_text_that_fail_are_one_failure_and_one_notice(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config(), max_text=400).prepare()
    await reach_ann(desk, UserRole.OWNER)
    task = await desk.add("1h", text="x" * 900)
    desk.clock.advance(3600)
    await desk.tick()
    parts = await list_texts(desk)
    assert len(parts) > 1
    for each in (*parts, *parts):
        await end(desk, each, EffectState.FAILED, "too long")
    assert (await desk.task(task)).failures == 1
    assert [each.address for each in await list_notices(desk)] == [ANNS_ROOM]


async def test_five_undelivered_texts_in_a_row_pause_the_task_and_one_that_arrives_begins_anew(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="buy!")
    for _ in range(MOST_FAILURES - 1):
        await fail_next(desk)
    await fail_next(desk, EffectState.SENT)
    assert (await desk.task(task)).failures == 0
    for _ in range(MOST_FAILURES):
        assert (await desk.task(task)).state is TaskState.ACTIVE
        await fail_next(desk)
    paused = await desk.task(task)
    assert (paused.state, paused.failures) == (TaskState.PAUSED, MOST_FAILURES)
    assert "is paused" in (await list_notices(desk))[-1].payload["text"]


async def test_a_text_that_arrives_in_part_does_not_end_the_row_of_failures(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config(), max_text=400).prepare()
    task = await desk.add("1h", text="x" * 900)
    for _ in range(2):
        desk.clock.advance(3600)
        before = len(await list_texts(desk))
        await desk.tick()
        first, *others = (await list_texts(desk))[before:]
        await end(desk, first, EffectState.FAILED, "too long")
        for each in others:
            await end(desk, each, EffectState.SENT)
    assert (await desk.task(task)).failures == 2


async def test_texts_that_grow_stale_in_an_outage_are_failed_runs_with_five_notices_at_most(desk: TaskDesk) -> None:
    await reach_ann(desk, UserRole.OWNER)
    task = await desk.add("1h", text="buy!", missed="all")
    for _ in range(8):
        desk.clock.advance(3600)
        await desk.tick()
    now = desk.clock.now()
    context = DeliveryContext(owner="x", lease=1, policy=load_retry_policy(desk.config), channels=desk.channels)
    lane = DeliveryLane(INSTANCE, ROOM)
    for _ in range(2):
        await desk.store.write(outbox_claims.settle_and_claim, context, lane, None, {}, now, now + 1)
    assert {each.reason for each in await desk.log(task)} == {"it could not be delivered in time"}
    told = [each for each in await list_notices(desk) if each.address == ANNS_ROOM]
    assert len(told) == MOST_FAILURES and (await desk.task(task)).state is TaskState.PAUSED
