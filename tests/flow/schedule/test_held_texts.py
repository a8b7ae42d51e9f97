"""A rule that holds `send` holds the texts of tasks too, also those that were scheduled before it was given."""

import pytest
from tests.flow.schedule.conftest import INSTANCE, ROOM, TaskDesk

from gatepost.flow.requests.choices import ALLOW_EACH_TIME, ALLOW_ONCE, DENY, AnswerChoice
from gatepost.flow.requests.decide import Decision, decide, expire
from gatepost.flow.schedule.held_texts import MOST_WAITING
from gatepost.flow.schedule.task_changes import TaskChange, cancel_task, read_rules, run_task, update_task
from gatepost.flow.schedule.task_rights import agree_to_holds
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, waiting_requests
from gatepost.store.rights.requests import Request, RequestKind
from gatepost.store.rooms import direct_rooms
from gatepost.store.schedule.tasks import Task
from gatepost.store.sessions import groups

ANN, ANNS_ROOM = "fake:user/ann", "fake:dm/ann"


@pytest.fixture
async def held(desk: TaskDesk) -> TaskDesk:
    """Ann decides about acme, and can be reached."""

    def write(db: Db) -> None:
        users.add(db, ANN, "Ann", 1)
        users.add_role(db, ANN, UserRole.ADMIN, "acme", "operator", 1)
        direct_rooms.add(db, ANN, INSTANCE, ANNS_ROOM, 1)

    await desk.store.write(write)
    return desk


async def hold(desk: TaskDesk, rule: str = "hold send", folder: str = "acme") -> None:
    await desk.store.write(acl.add_rule, folder, rule, "operator", 1)


async def fire(desk: TaskDesk) -> None:
    desk.clock.advance(3600)
    await desk.tick()


async def list_said(desk: TaskDesk, origin: str = "tool") -> list[OutboxEffect]:
    return [each for each in await desk.said() if each.origin == origin]


async def list_cards(desk: TaskDesk) -> list[OutboxEffect]:
    return [each for each in await desk.said() if each.op == "card"]


async def list_requests(desk: TaskDesk) -> list[Request]:
    return await desk.store.read(waiting_requests.list_pending)


async def answer(desk: TaskDesk, choice: AnswerChoice, by: str = ANN) -> Decision:
    [request] = await list_requests(desk)
    return await desk.store.write(decide, desk.channels, request.id, choice, by, desk.clock.now())


async def states(desk: TaskDesk, task: Task) -> list[str]:
    return [each.state for each in await desk.log(task)]


async def test_a_hold_that_is_given_later_holds_a_text_that_was_scheduled_before(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!", title="Offers")
    await hold(held)
    await fire(held)
    [firing] = await held.log(task)
    [request] = await list_requests(held)
    assert firing.state == "queued" and request.id in firing.reason
    assert (request.kind, request.folder) == (RequestKind.TEXT, "acme")
    assert await list_said(held) == []
    [card] = await list_cards(held)
    assert card.address == ANNS_ROOM and "buy!" in card.payload["text"]
    assert "The rule “hold send” of acme asks for a person." in card.payload["text"]


async def test_an_allowed_text_is_said_once_and_the_next_time_asks_again(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!")
    await hold(held)
    await fire(held)
    decision = await answer(held, ALLOW_ONCE)
    assert (INSTANCE, ROOM) in decision.rooms
    assert [each.payload["text"] for each in await list_said(held)] == ["buy!"]
    assert await states(held, task) == ["sent"]
    await held.tick()
    assert len(await list_said(held)) == 1

    await fire(held)
    assert await states(held, task) == ["sent", "queued"] and len(await list_requests(held)) == 1


async def test_one_card_waits_for_a_task_and_its_later_times_are_skipped(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!", missed="all")
    await hold(held)
    for _ in range(3):
        await fire(held)
    log = await held.log(task)
    assert [each.state for each in log] == ["queued", "skipped", "skipped"]
    assert "waits for a person's decision" in log[-1].reason
    assert len(await list_cards(held)) == 1
    assert (await held.task(task)).runs == 1


async def test_several_late_times_are_one_card(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!", missed="all")
    await hold(held)
    held.clock.advance(3 * 3600)
    await held.tick()
    assert await states(held, task) == ["queued", "skipped", "skipped"] and len(await list_cards(held)) == 1


async def test_who_allows_each_time_is_asked_about_another_hold_alone(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!")
    await hold(held)
    await fire(held)
    await answer(held, ALLOW_EACH_TIME)
    await held.deliver()
    await fire(held)
    await held.deliver()
    assert await states(held, task) == ["sent", "sent"] and await list_requests(held) == []

    await hold(held, "hold send(chatJid=fake:*)")
    await fire(held)
    [request] = await list_requests(held)
    assert "fake:*" in request.why
    assert await states(held, task) == ["sent", "sent", "queued"]


async def test_what_was_agreed_to_when_it_was_scheduled_is_not_asked_again(held: TaskDesk) -> None:
    await hold(held)
    task = await held.add("1h", text="buy!")
    await held.store.write(agree_to_holds, task)
    await fire(held)
    assert await states(held, task) == ["sent"]


async def test_a_denied_text_is_a_failed_run_and_its_owner_is_told(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!")
    await hold(held)
    await fire(held)
    await answer(held, DENY)
    [firing] = await held.log(task)
    assert firing.state == "failed" and firing.reason.startswith("Denied by fake:user/ann")
    assert await list_said(held) == []
    notices = [each for each in await list_said(held, "notice") if each.key.startswith("notice/task/")]
    assert [each.address for each in notices] == [ANNS_ROOM] and (await held.task(task)).failures == 1


async def test_a_text_that_nobody_decides_about_in_time_is_a_failed_run(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!")
    await hold(held)
    await fire(held)
    [request] = await list_requests(held)
    await held.store.write(expire, held.channels, request, held.clock.now())
    [firing] = await held.log(task)
    assert firing.state == "failed" and "Nobody decided in time" in firing.reason


async def test_everything_but_the_hold_is_judged_anew_when_a_text_is_allowed(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!")
    await hold(held)
    await fire(held)
    await hold(held, "!send")
    await answer(held, ALLOW_ONCE)
    [firing] = await held.log(task)
    assert firing.state == "failed" and "forbids acme to send there" in firing.reason
    assert await list_said(held) == []


async def test_a_hold_of_a_group_above_binds_and_says_how_many_must_agree(held: TaskDesk) -> None:
    await held.store.write(groups.add, "acme/eng", "Eng", "", 1)
    await held.add("1h", text="buy!", created_by="agent:acme/eng")
    await held.store.write(acl.add_rule, "acme/eng", "schedule_task", "operator", 1)
    await hold(held, "hold[2] send")
    await fire(held)
    [request] = await list_requests(held)
    assert (request.quorum, request.folder) == (2, "acme/eng")


@pytest.mark.parametrize("by", ["cancel", "change"])
async def test_a_task_that_is_cancelled_or_says_something_else_withdraws_its_request(held: TaskDesk, by: str) -> None:
    task = await held.add("1h", text="buy!")
    await hold(held)
    await fire(held)
    now, rules = held.clock.now(), read_rules(held.config)
    if by == "cancel":
        await held.store.write(cancel_task, task.id, "operator", now)
    else:
        await held.store.write(update_task, task.id, TaskChange(text="sell!"), rules, now)
    assert await list_requests(held) == [] and await states(held, task) == ["cancelled"]


async def test_a_person_is_asked_when_a_held_text_is_run_by_hand(held: TaskDesk) -> None:
    task = await held.add("1h", text="buy!")
    await hold(held)
    await held.store.write(run_task, held.channels, task.id, read_rules(held.config), held.clock.now())
    assert await states(held, task) == ["queued"] and len(await list_cards(held)) == 1


async def test_prompts_and_the_operators_texts_are_not_held(held: TaskDesk) -> None:
    prompt, text = await held.add("1h", prompt="look"), await held.add("1h", text="hi", created_by="operator")
    await hold(held)
    await fire(held)
    assert await states(held, prompt) == ["queued"] and await states(held, text) == ["sent"]
    assert await list_requests(held) == []


@pytest.mark.slow
async def test_so_many_texts_of_a_group_wait_at_most(held: TaskDesk) -> None:
    for number in range(MOST_WAITING + 2):
        await held.add("1h", text=f"buy {number}!")
    await hold(held)
    await fire(held)
    assert len(await list_requests(held)) == MOST_WAITING
    assert await held.store.read(waiting_requests.count_of_people, "acme") == 0
