"""What one gateway at a time does."""

import asyncio
from itertools import pairwise

import pytest

from gatepost.core.clock import SECOND
from gatepost.flow.gateways.duties import (
    FIRST_PAUSE,
    LATE,
    LONGEST_PAUSE,
    LOOPS,
    SCHEDULE,
    Duties,
    DutyPlan,
    DutyView,
    channel_duty,
    plan_duties,
)
from gatepost.store.gateways.gateways import DutyPause, DutyRow, encode_duty


def test_a_gateway_by_itself_does_everything() -> None:
    alone = Duties()
    assert alone.holds(SCHEDULE) and alone.sends_to("telegram")


def test_one_of_several_does_what_it_holds() -> None:
    shared = Duties(shared=True)
    assert not shared.holds(SCHEDULE)
    shared.set_held({SCHEDULE, channel_duty("telegram")})
    assert shared.holds(SCHEDULE) and shared.sends_to("telegram") and not shared.sends_to("discord")


def test_whoever_follows_is_told_of_changes_alone() -> None:
    shared, told = Duties(shared=True), list[int]()
    shared.on_change(lambda: told.append(1))
    for held in ({SCHEDULE}, {SCHEDULE}, set[str]()):
        shared.set_held(held)
    assert len(told) == 2


def test_a_duty_that_was_lost_has_another_term_and_so_has_one_that_was_got_again() -> None:
    shared, duty = Duties(shared=True), channel_duty("telegram")
    shared.set_held({duty})
    first = shared.get_term(duty)
    shared.set_held({duty, SCHEDULE})
    assert shared.get_term(duty) == first
    shared.set_held({SCHEDULE})
    lost = shared.get_term(duty)
    shared.set_held({duty, SCHEDULE})
    assert len({first, lost, shared.get_term(duty)}) == 3  # what it knew of the channel is old once it is lost


async def test_a_loop_runs_while_its_duty_is_held() -> None:
    shared, runs = Duties(shared=True), asyncio.Queue[str]()

    async def work() -> None:
        runs.put_nowait("begun")
        try:
            await asyncio.Event().wait()
        finally:
            runs.put_nowait("ended")

    task = asyncio.create_task(shared.run_while_held(SCHEDULE, work))
    for held, expected in ((True, "begun"), (False, "ended"), (True, "begun")):
        shared.set_held({SCHEDULE} if held else ())
        assert await runs.get() == expected
    shared.set_held({SCHEDULE, "another"})  # nothing changes for this one
    task.cancel()
    assert await runs.get() == "ended"
    assert runs.empty()


async def test_a_loop_that_breaks_is_not_hidden() -> None:
    shared = Duties(shared=True)
    shared.set_held({SCHEDULE})

    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await shared.run_while_held(SCHEDULE, work)


NOW = 1_800_000_000 * SECOND
CHAT = channel_duty("telegram")
EVERY = len(LOOPS) + 1  # and the channel


class Gateways:
    """Several that look at their duties in turn."""

    def __init__(self, *names: str) -> None:
        self.names, self.now = list(names), NOW
        self.rows: dict[str, DutyRow] = {}
        self.wanted = {name: {*LOOPS, CHAT} for name in names}
        self.platforms = {CHAT}
        self.failing: dict[str, set[str]] = {}
        self.fixed: dict[str, set[str]] = {}
        self.made_at = 0

    def plan(self, own: str) -> DutyPlan:
        others = frozenset(each for each in self.names if each != own)
        mine = {name for name, row in self.rows.items() if row.gateway == own}
        view = DutyView(
            own=own,
            others=others,
            rows=self.rows,
            wanted=frozenset(self.wanted[own]),
            platforms=frozenset(self.platforms),
            failing=dict.fromkeys(mine & self.failing.get(own, set()), 20.0),
            made=dict.fromkeys(self.wanted[own], self.made_at),
            fixed=frozenset(self.fixed.get(own, ())),
            now=self.now,
            give_up_s=15.0,
        )
        return plan_duties(view)

    def beat(self) -> int:
        """All look once; how many duties changed hands."""
        changes = 0
        for own in list(self.names):
            plan = self.plan(own)
            for name in plan.claim:
                old = self.rows.get(name)
                self.rows[name] = DutyRow(name, own, self.now, "", old.paused if old else "")
            if plan.leave:
                self.fixed.setdefault(own, set()).update(() if plan.pause else {plan.leave})
                paused = self.rows[plan.leave].pauses | ({own: plan.pause} if plan.pause else {})
                self.rows[plan.leave] = DutyRow(plan.leave, "", self.now, "", encode_duty(paused).decode())
            changes += len(plan.claim) + bool(plan.leave)
            self.now += SECOND
        return changes

    def count(self) -> dict[str, int]:
        holders = [row.gateway for row in self.rows.values()]
        return {name: holders.count(name) for name in self.names}

    def run_until_quiet(self) -> None:
        for _ in range(100):
            if not self.beat():
                return
        raise AssertionError("duties are thrown to and fro")


def test_duties_spread_when_gateways_join() -> None:
    some = Gateways("a")
    some.platforms |= {channel_duty(f"chat{number}") for number in range(5)}
    some.wanted["a"] |= some.platforms
    some.run_until_quiet()
    assert some.count() == {"a": EVERY + 5}
    for name in "bcd":
        some.names.append(name)
        some.wanted[name] = some.wanted["a"]
        some.fixed.clear()
        some.run_until_quiet()
    counts = some.count()
    assert sum(counts.values()) == EVERY + 5 and max(counts.values()) - min(counts.values()) <= 2
    chats = [sum(row.gateway == each for name, row in some.rows.items() if name in some.platforms) for each in "abcd"]
    assert max(chats) - min(chats) <= 1  # connections are shared by themselves


def test_the_only_channel_stays_where_it_is_when_a_gateway_joins() -> None:
    some = Gateways("a", "b")
    some.names.remove("b")
    some.run_until_quiet()
    some.names.append("b")
    some.run_until_quiet()
    assert some.rows[CHAT].gateway == "a" and some.count() == {"a": 1 + -(-len(LOOPS) // 2), "b": len(LOOPS) // 2}


def test_what_keeps_the_keys_of_a_device_is_not_left_to_others() -> None:
    some = Gateways("a", "b")
    some.names.remove("b")
    some.run_until_quiet()
    some.names.append("b")
    some.fixed["a"], some.failing["a"] = {CHAT, *LOOPS}, {CHAT}
    some.run_until_quiet()
    assert some.count() == {"a": EVERY, "b": 0}


def test_a_channel_that_fails_here_is_left_to_another_gateway() -> None:
    some = Gateways("a", "b")
    some.run_until_quiet()
    holder = some.rows[CHAT].gateway
    some.failing[holder] = {CHAT}
    some.run_until_quiet()
    assert some.rows[CHAT].gateway not in ("", holder)


def test_a_gateway_that_is_alone_keeps_a_channel_that_fails() -> None:
    some = Gateways("a")
    some.run_until_quiet()
    some.failing["a"] = {CHAT}
    some.run_until_quiet()
    assert some.rows[CHAT].gateway == "a"


def test_two_gateways_that_both_fail_leave_a_channel_to_each_other_ever_more_rarely() -> None:
    some = Gateways("a", "b")
    some.run_until_quiet()
    some.failing = {"a": {CHAT}, "b": {CHAT}}
    moments, holder = [some.now], some.rows[CHAT].gateway
    while some.now < NOW + 3600 * SECOND:
        some.beat()
        if some.rows[CHAT].gateway not in ("", holder):
            moments.append(some.now)
            holder = some.rows[CHAT].gateway
    waits = [after - before for before, after in pairwise(moments[1:])]
    assert min(waits) >= FIRST_PAUSE - 5 * SECOND and max(waits) <= LONGEST_PAUSE + 5 * SECOND
    assert len(moments) < 20 and waits[-1] > 2 * waits[0]


def test_who_cannot_do_a_duty_is_not_waited_for() -> None:
    some = Gateways("a", "b")
    some.wanted["b"] = set()
    some.run_until_quiet()
    assert some.count() == {"a": EVERY, "b": 0}
    some.rows[CHAT] = DutyRow(CHAT, "", some.now, "", "")
    some.wanted["a"] |= {channel_duty(f"chat{number}") for number in range(9)}
    some.now += LATE + 1
    assert CHAT in some.plan("a").claim


def test_a_pause_is_over_for_a_channel_that_somebody_has_restarted() -> None:
    some = Gateways("a", "b")
    pause = encode_duty({"a": DutyPause(some.now, some.now + FIRST_PAUSE, 1)}).decode()
    some.rows[CHAT] = DutyRow(CHAT, "", some.now, "", pause)
    some.now += LATE + 1
    assert CHAT not in some.plan("a").claim and CHAT in some.plan("b").claim
    some.made_at = some.now
    assert CHAT in some.plan("a").claim
