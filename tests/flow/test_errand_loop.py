"""When the conversation of an errand ends: nothing of it is under way, and nobody went on with it for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.flow.schedule.conftest import INSTANCE, ROOM, TaskDesk
from tests.flow.test_errands import NOW, ErrandDesk

from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.errand_loop import IDLE_S, NAMED_IDLE_S, ErrandSessionCloser
from gatepost.flow.errands import return_result
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.sessions import errands, groups, sessions
from gatepost.store.sessions.errands import Errand, IdleLimits, NewErrand
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.clock import FixedClock

HOUR_S, WEEK_S = 3600.0, 7 * 86400.0


class Sandboxes:
    """`awake`: those that keep running, whatever is said."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.awake: set[str] = set()

    async def end(self, session_id: str, reason: str) -> None:
        self.ended.append(session_id)

    @contextmanager
    def keep_asleep(self, session_id: str) -> Iterator[bool]:
        yield session_id not in self.awake


class ClosingDesk:
    def __init__(self, desk: ErrandDesk, home: Home, config: Config) -> None:
        self.desk, self.home, self.store = desk, home, desk.store
        self.clock, self.sandboxes = FixedClock(NOW), Sandboxes()
        self.closer = ErrandSessionCloser(home, desk.store, self.clock, config, self.sandboxes)

    async def finish(self, errand: Errand) -> None:
        """The other agent answers, and that returns."""
        turn = await self.desk.begin(errand.session_id)
        await self.desk.say(turn, "seven")
        await self.desk.finish(turn)
        await self.desk.return_all()
        (self.home.session(errand.session_id) / "state").mkdir(parents=True, exist_ok=True)

    async def is_open(self, errand: Errand) -> bool:
        session = await self.store.read(sessions.get, errand.session_id)
        assert session is not None
        return session.closed_at is None

    def has_files(self, errand: Errand) -> bool:
        return self.home.session(errand.session_id).exists()

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.closer.close_idle()


@pytest.fixture
async def desk(tmp_path: Path, store: SqliteStore) -> ClosingDesk:
    return ClosingDesk(await ErrandDesk.create(tmp_path, store), Home(tmp_path), Config())


async def test_it_closes_an_hour_after_its_answer_and_stays_readable(desk: ClosingDesk) -> None:
    errand = await desk.desk.give()
    await desk.finish(errand)
    await desk.pass_time(HOUR_S - 1)
    assert await desk.is_open(errand) and desk.has_files(errand)
    await desk.pass_time(2)
    assert not await desk.is_open(errand) and not desk.has_files(errand)
    assert desk.sandboxes.ended == [errand.session_id]
    said = await desk.store.read(messages.list_in_room, errands.INSTANCE, errand.room, 0, 10)
    assert [each.text for each in said] == ["look", "seven"]
    await desk.pass_time(HOUR_S)
    assert desk.sandboxes.ended == [errand.session_id]


@pytest.mark.slow
async def test_who_goes_on_in_time_finds_the_same_conversation_and_later_a_new_one(desk: ClosingDesk) -> None:
    first = await desk.desk.give()
    await desk.finish(first)
    await desk.pass_time(HOUR_S - 1)
    second = await desk.desk.give("more")
    await desk.finish(second)
    assert second.session_id == first.session_id
    await desk.pass_time(HOUR_S + 1)
    third = await desk.desk.give("once more")
    assert third.session_id != first.session_id and third.room == first.room
    await desk.pass_time(WEEK_S)
    assert await desk.is_open(third), "it has something to do"


async def test_one_that_has_a_name_is_kept_for_a_week(desk: ClosingDesk) -> None:
    answer = await desk.desk.agent.call("send_to_agent", group="acme/eng", text="look", session="bills")
    assert not answer.failed
    (errand,) = await desk.store.read(errands.list_given_out, desk.desk.agent.session.id)
    await desk.finish(errand)
    await desk.pass_time(WEEK_S - 1)
    assert await desk.is_open(errand)
    await desk.pass_time(2)
    assert not await desk.is_open(errand)


async def test_zero_keeps_them(tmp_path: Path, store: SqliteStore) -> None:
    config = Config({IDLE_S.name: 0.0, NAMED_IDLE_S.name: 0.0})
    desk = ClosingDesk(await ErrandDesk.create(tmp_path, store), Home(tmp_path), config)
    errand = await desk.desk.give()
    await desk.finish(errand)
    await desk.pass_time(10 * WEEK_S)
    assert await desk.is_open(errand)


@pytest.mark.parametrize(
    "under_way",
    [
        "UPDATE errands SET ended_at = NULL",
        "UPDATE inbox SET state = 'queued' WHERE session_id = '{}'",
        "UPDATE turns SET ended_at = NULL WHERE session_id = '{}'",
        "UPDATE outbox SET state = 'pending' WHERE session_id = '{}'",
        "UPDATE errands SET ended_at = NULL, room = 'elsewhere', caller_session = '{}'",
    ],
)
async def test_one_in_which_something_is_under_way_stays(desk: ClosingDesk, under_way: str) -> None:
    errand = await desk.desk.give()
    await desk.finish(errand)
    await desk.store.write(lambda db: db.run(under_way.format(errand.session_id)))
    await desk.pass_time(10 * WEEK_S)
    assert await desk.is_open(errand) and desk.has_files(errand)


async def test_one_in_which_a_person_must_still_decide_stays(desk: ClosingDesk) -> None:
    errand = await desk.desk.give()
    await desk.finish(errand)
    new = NewRequest(
        kind=RequestKind.CALL,
        name="c-1",
        folder="acme/eng",
        session_id=errand.session_id,
        turn_id="",
        tool="write_skill",
        input={},
        digest="d",
        about="write_skill",
        instance=errands.INSTANCE,
        address=errand.room,
        thread=errand.id,
    )
    request, _ = await desk.store.write(requests.add, new, NOW)
    await desk.pass_time(10 * WEEK_S)
    assert await desk.is_open(errand)
    await desk.store.write(requests.record_notified, request.id, NOW)
    await desk.pass_time(1)
    assert not await desk.is_open(errand)


async def test_what_comes_between_the_look_and_the_end_is_not_lost(desk: ClosingDesk) -> None:
    first = await desk.desk.give()
    await desk.finish(first)
    limits = IdleLimits(2 * NOW, 2 * NOW)
    assert await desk.store.read(errands.list_idle_sessions, limits, 10) == [first.session_id]
    second = await desk.desk.give("more")
    assert not await desk.store.write(errands.close_idle_session, first.session_id, limits, NOW)
    assert await desk.is_open(second)


async def test_conversations_with_people_are_never_closed_by_this(desk: ClosingDesk) -> None:
    agent = desk.desk.agent
    await desk.store.write(lambda db: db.run("UPDATE inbox SET state = ?", (InboxState.SILENT,)))
    await desk.pass_time(10 * WEEK_S)
    found = await desk.store.read(sessions.get, agent.session.id)
    assert found is not None and found.closed_at is None


async def test_files_of_one_whose_sandbox_has_not_ended_go_later(desk: ClosingDesk) -> None:
    errand = await desk.desk.give()
    await desk.finish(errand)
    desk.sandboxes.awake.add(errand.session_id)
    await desk.pass_time(HOUR_S + 1)
    assert not await desk.is_open(errand) and desk.has_files(errand)
    desk.sandboxes.awake.clear()
    await desk.pass_time(1)
    assert not desk.has_files(errand)


def give_from(db: Db, caller_id: str, now: int) -> Errand:
    """Somebody below `acme` is asked by this conversation, as its turn would do it."""
    groups.add(db, "acme/eng", "Eng", "", now)
    session = errands.find_or_add_session(db, caller_id, "acme/eng", "", now)
    message_id = add_arrival(
        db,
        now,
        instance=errands.INSTANCE,
        address=session.address,
        thread="e-1",
        sender="agent:acme",
        text="look",
        platform_id="errand/e-1",
    )
    inbox.enqueue(db, message_id, session.id, "acme/eng", "agent", now)
    given = NewErrand(
        id="e-1",
        call_key="k-1",
        parent="",
        caller_folder="acme",
        caller_session=caller_id,
        caller_turn="t-1",
        rights="task",
        instance=INSTANCE,
        address=ROOM,
        thread="",
        folder="acme/eng",
        session_id=session.id,
        room=session.address,
        message_id=message_id,
    )
    return errands.add(db, given, now)


@pytest.mark.slow
async def test_a_single_run_of_a_task_stays_open_until_what_it_gave_out_is_back(
    tmp_path: Path, store: SqliteStore
) -> None:
    desk = await TaskDesk(store, Config()).prepare()
    await desk.add("1h", context="isolated")
    desk.clock.advance(3600)
    await desk.tick()
    (run,) = desk.woken
    errand = await store.write(give_from, run, desk.clock.now())
    await desk.run_turn(run)
    sandboxes = Sandboxes()
    closer = ErrandSessionCloser(Home(tmp_path), store, desk.clock, Config(), sandboxes)
    await closer.close_idle()
    assert sandboxes.ended == []

    await desk.run_turn(errand.session_id)
    assert await store.write(return_result, errand, desk.clock.now()) == run
    await closer.close_idle()
    assert sandboxes.ended == [], "the result waits there"
    await desk.run_turn(run, says="seven")
    await closer.close_idle()
    assert sandboxes.ended == [], "what it said is not delivered yet"
    await desk.deliver()
    await closer.close_idle()
    assert sandboxes.ended == [run]
    closed = await store.read(sessions.get, run)
    assert closed is not None and closed.closed_at is not None
