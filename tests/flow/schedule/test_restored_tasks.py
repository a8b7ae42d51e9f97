"""Tasks that were due when a store was restored, copied or failed over: they have perhaps run, so nobody runs them
again by themselves."""

import pytest

from gatepost.core.clock import HOUR
from gatepost.flow.groups import add_defaults
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.requests.choices import list_choices
from gatepost.flow.requests.decide import decide
from gatepost.flow.requests.request_loop import move_due
from gatepost.flow.requests.restored_rows import begin_incarnation
from gatepost.messages.inbound import OPERATOR
from gatepost.store.gateways import database_lives, incarnations
from gatepost.store.gateways.database_lives import DatabaseLife
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import Request
from gatepost.store.schedule.tasks import TaskState

from .conftest import TaskDesk


async def lose_memory(desk: TaskDesk, course: str) -> Request:
    """The store is restored, or its database fails over; the request by which an owner decides."""
    rules, now = read_rules(desk.config), desk.clock.now()

    def begin(db: Db) -> Request:
        add_defaults(db, now)
        if course == "restored":
            begin_incarnation(db, desk.channels, rules, IncarnationReason.RESTORED, now)
        else:
            database_lives.add(db, DatabaseLife("1/2", "a", 0, incarnations.hold_open(db, now), now))
            move_due(db, rules, desk.channels, now)
        [request] = requests.REQUESTS.list(db, "WHERE kind = 'restored'")
        return request

    return await desk.store.write(begin)


@pytest.mark.parametrize("course", ["restored", "failover"])
@pytest.mark.parametrize("runs", [True, False])
async def test_a_task_that_was_due_runs_again_only_if_an_owner_says_so(desk: TaskDesk, course: str, runs: bool) -> None:
    once = await desk.add("in 20 minutes", text="The kettle is on.")
    hourly = await desk.add("1h", text="An hour has passed.")
    later = await desk.add("5h", text="Not yet.")
    desk.clock.advance(90 * 60)
    request = await lose_memory(desk, course)
    await desk.tick()

    assert await desk.said() == [], "both have perhaps been said"
    assert request.input == {"tasks that perhaps ran": "2"}
    assert (await desk.task(later)).state is TaskState.ACTIVE
    choice, now = list_choices(request)[0 if runs else 1], desk.clock.now()
    decided = await desk.store.write(lambda db: decide(db, desk.channels, request.id, choice, OPERATOR, now))
    assert decided.decided, decided.said
    await desk.tick()
    told = [each.payload["text"].split("\n")[0] for each in await desk.said()]
    assert told == (["The kettle is on.", "An hour has passed."] if runs else [])
    assert (await desk.task(once)).state is (TaskState.COMPLETED if runs else TaskState.CANCELLED)
    found = await desk.task(hourly)
    assert (found.state, found.next_at) == (TaskState.ACTIVE, hourly.created_at + 2 * HOUR)
