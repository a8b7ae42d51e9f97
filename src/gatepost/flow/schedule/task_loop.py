"""Fires tasks when they are due: one timer at the earliest time, and a bell when tasks change. The cost of a look
depends on the number of due tasks, not of all tasks."""

from collections.abc import Sequence

from gatepost.core import log
from gatepost.core.clock import MINUTE, SECOND, Clock
from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskingRules
from gatepost.flow.requests.ask_approver import read_rules as read_asking_rules
from gatepost.flow.schedule.firing import FiredRooms, FiringPlan, count_parts, fire_plans, plan_firing, schedule_of
from gatepost.flow.schedule.held_texts import HeldText
from gatepost.flow.schedule.task_changes import read_rules
from gatepost.flow.schedule.task_rights import judge_tasks
from gatepost.flow.schedule.times import find_first_from
from gatepost.store.port import Db, Store
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import JudgedAhead
from gatepost.store.schedule.tasks import Task, TaskMove

AT_ONCE = 20  # tasks that one look takes up
FIRINGS_AT_ONCE = 100  # that one transaction writes, or those of one task; each part of a text counts
LONGEST_WAIT_S = 30.0  # between two looks: the machine's clock may be set forward
AGAIN_S = 1.0
LANE = "schedule"  # of the writer
BROKEN = "the gateway had a problem of its own with it, which its log describes"
USUAL_ASKING = read_asking_rules(Config())

_log = log.get("schedule")
MARGIN = 5 * MINUTE  # a clock that is corrected by less leaves every task within reach
PAGE = 50  # tasks that one transaction counts again


class TaskLoop:
    def __init__(
        self, store: Store, clock: Clock, config: Config, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._config, self._events, self._channels = store, clock, config, events, channels
        self._loop = WakeLoop(_log.warning, "tasks wait for the store", retry_s=AGAIN_S)
        self._seen: int | None = None  # what the clock showed at the last look
        # This gateway is up since then: what was due before was missed. Another that had this duty meanwhile may have
        # given it up moments ago, in which nothing is missed.
        self._since = clock.now()
        events.on_tasks(self._loop.wake)

    async def run(self) -> None:
        await self._loop.run(self._fire_all)

    async def _fire_all(self) -> float:
        try:
            while await self.fire_due():
                pass
            return await self.seconds_to_next()
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001  a mistake of ours with one task must not end the gateway for everybody
            _log.exception("tasks could not be looked at")
            return LONGEST_WAIT_S

    async def fire_due(self) -> bool:
        """True if there may be more."""
        now, most_late = self._clock.now(), read_rules(self._config).most_late
        await self._follow_clock(now)
        self._since = min(self._since, now)  # the clock may be set back
        asking = read_asking_rules(self._config)
        plans = await self._store.read(plan_due, now, AT_ONCE, most_late, asking, self._since)
        trouble: Unavailable | None = None
        for some in split_plans(self._channels, plans, most_late):
            trouble = await self._fire(some, most_late, now) or trouble
        if trouble is not None:
            raise trouble
        return len(plans) == AT_ONCE

    async def _fire(self, plans: Sequence[FiringPlan], most_late: int, now: int) -> Unavailable | None:
        """Write plans in one transaction. If that fails, each gets its own, so that none keeps back another. Return the
        error to wait for if some could not be fired now."""
        try:
            self._ring(await self._store.write(fire_plans, self._channels, plans, most_late, now, lane=LANE))
        except Exception as error:  # noqa: BLE001  a mistake of ours is the trouble of one task
            if len(plans) > 1:
                every = [await self._fire([each], most_late, now) for each in plans]
                return next(filter(None, every), None)
            if isinstance(error, Unavailable):
                return error
            _log.exception("a task could not be fired", task=plans[0].task.id)
            await self._give_up(plans[0].task, most_late, now)
        return None

    async def _give_up(self, task: Task, most_late: int, now: int) -> None:
        """Pause it, and tell its owner if that can be done. Else it would be tried for ever."""
        plan = FiringPlan(task=task, fire=(), broken=BROKEN)
        try:
            self._ring(await self._store.write(fire_plans, self._channels, [plan], most_late, now, lane=LANE))
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001  what cannot be written about it may be the notice
            _log.exception("the owner of a task could not be told", task=task.id)
            await self._store.write(tasks.pause_at, task, BROKEN, now, lane=LANE)

    async def _follow_clock(self, now: int) -> None:
        """Count times again after the clock was set back: since the last look, or while nobody looked."""
        seen = self._seen if self._seen is not None else await self._store.read(_find_last_seen)
        if is_behind(now, seen):
            _log.warning(
                "the clock was set back; the next times of tasks are counted again",
                seconds=((seen or now) - now) // SECOND,
            )
            after, more = "", True
            while more:
                moves, after = await self._store.read(plan_recount, after, now)
                if moves:
                    await self._store.write(recount, moves, now, lane=LANE)
                more = bool(after)
        self._seen = now

    def _ring(self, fired: FiredRooms) -> None:
        for session_id in fired.sessions:
            self._events.session(session_id)
        for room in fired.rooms:
            self._events.room(*room)

    async def seconds_to_next(self) -> float:
        """Return the seconds until the next look. Tasks that are due in a panic stay due, and are not looked up again
        and again."""
        now = self._clock.now()
        due, stopped = await self._store.read(tasks.find_next_due)
        if due is None:
            return LONGEST_WAIT_S
        if stopped:
            self._since = now + 1  # the next look may be long after the end of the stop
        return min(max((due - self._clock.now()) / SECOND, AGAIN_S if stopped else 0.001), LONGEST_WAIT_S)


def plan_due(
    db: Db, now: int, most: int, most_late: int, asking: AskingRules = USUAL_ASKING, since: int = 0
) -> list[FiringPlan]:
    """Return what is to be done now. While everything is stopped nothing is: it is late then, and each policy says what
    becomes of it. `since`: as `plan_firing` has it. A read: schedules are walked through off the loop, and nobody's
    writes wait for it."""
    due = tasks.list_due(db, now, most)
    judged = judge_tasks(db, due, placed=True)  # whether they are is looked at where they are fired
    held = {task_id: HeldText(holds, asking) for task_id, holds in judged.held.items()}
    return [
        FiringPlan(task=each, fire=(), refused=judged.refused[each.id])
        if each.id in judged.refused
        else _plan(each, now, most_late, judged.behind[each.id], held.get(each.id), since)
        for each in due
    ]


def _plan(
    task: Task, now: int, most_late: int, behind: Sequence[Origin], held: HeldText | None, since: int
) -> FiringPlan:
    try:
        return plan_firing(task, now, most_late, behind, held, since)
    except (LookupError, ValueError, OSError) as error:  # its zone or its schedule is not read any more
        return FiringPlan(task=task, fire=(), broken=f"its schedule cannot be read: {error}")


def split_plans(channels: ChannelInstances, plans: Sequence[FiringPlan], most_late: int) -> list[list[FiringPlan]]:
    """As they are written together. Pure."""
    found: list[list[FiringPlan]] = []
    size = FIRINGS_AT_ONCE
    for plan in plans:
        parts = count_parts(channels, plan.task)
        writes = min(max(1, len(plan.fire)) * parts, most_late + parts)
        if size + writes > FIRINGS_AT_ONCE:
            found.append([])
            size = 0
        found[-1].append(plan)
        size += writes
    return found


def is_behind(now: int, seen: int | None) -> bool:
    """Return True if the clock was set back since it showed `seen`."""
    return seen is not None and seen - now > MARGIN


def _find_last_seen(db: Db) -> int | None:
    """The latest time that a clock has shown when something fired."""
    return firings.find_last_fired(db)


def plan_recount(db: Db, after: str, now: int) -> tuple[list[TaskMove], str]:
    """Return what is to be moved among the next tasks by id, and the last of these ids; '': there are no more.

    A clock that was far ahead was set back: tasks that fired meanwhile wait for times that are far away then. Their
    next times are counted again, from now on. No time is fired twice: each that was fired, skipped or missed by the
    clock that was ahead has its row. Times that were judged before that are not looked at again (`JudgedAhead`). A task
    that runs once keeps its time, and an ended task stays ended.
    """
    page = tasks.list_recurring(db, after, now, PAGE)
    ahead = firings.list_judged_ahead(db, [each.id for each in page], now, now + MARGIN) if page else {}
    moves = [_move(each, ahead[each.id], now) for each in page if each.id in ahead]
    return [each for each in moves if each is not None], page[-1].id if len(page) == PAGE else ""


def _move(task: Task, ahead: JudgedAhead, now: int) -> TaskMove | None:
    next_at = find_recounted(task, ahead, now)
    return TaskMove(task, next_at, "", 0) if next_at is not None else None


def find_recounted(task: Task, ahead: JudgedAhead, now: int) -> int | None:
    """The next time of a task that the clock was ahead for; None if it stays. Pure."""
    assert task.next_at is not None
    first = now + 1 if ahead.before_now else ahead.first
    if first is None:
        return None
    try:
        found = find_first_from(schedule_of(task), task.next_at, max(first, now + 1))
    except (LookupError, ValueError, OSError):  # it cannot be read any more: told when it is due
        return None
    return found if found is not None and found < task.next_at else None


def recount(db: Db, moves: Sequence[TaskMove], now: int) -> int:
    """How many tasks were moved. Their next time was not missed, though the clock that was ahead said so."""
    moved = tasks.advance(db, moves, now)
    for each in moves:
        if each.task.id in moved and each.next_at is not None:
            firings.remove_skipped(db, each.task.id, each.next_at, now + MARGIN)
    return len(moved)
