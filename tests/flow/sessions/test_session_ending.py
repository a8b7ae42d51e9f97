"""An ending is one value, and two of them are one. The verdict goes by the values of the checks; the clock's zone plays
no part."""

import msgspec
import pytest

from gatepost.core.clock import MINUTE, SECOND, ListeningTime
from gatepost.flow.sessions.session_ending import (
    Ending,
    Retry,
    SessionTimeouts,
    SessionTiming,
    SessionVerdict,
    check_timeouts,
)
from gatepost.store.sessions.turn_failures import MOST_SPARED
from gatepost.store.sessions.turns import Turn
from gatepost_testing.clock import FixedClock


def make_turn(spared: int) -> Turn:
    room = {"instance": "fake", "address": "fake:room/1", "thread": "", "folder": "home", "provider": "scripted"}
    moments = {"next_at": 0, "lease_until": 0, "started_at": 1, "begun_at": 1, "ended_at": None}
    rest = {"rights": "{}", "conversation": "", "error": "", "usage": "{}", "owner": ""}
    known = {"id": "t", "session_id": "s", "state": "begun", "attempt": 1, "epoch": 1, "spared": spared}
    return msgspec.convert({**room, **moments, **rest, **known}, Turn)


def test_who_is_ended_twice_keeps_the_first_cause() -> None:
    assert Ending("it went silent").join(Ending("it took too long")).cause == "it went silent"


@pytest.mark.parametrize("first_is_the_person", [True, False])
def test_what_a_person_ended_is_never_tried_again_whoever_came_first(first_is_the_person: bool) -> None:
    person, shortage = Ending.by_person("stopped"), Ending("no space", Retry.LATER)
    ended = person.join(shortage) if first_is_the_person else shortage.join(person)
    assert ended.retry is Retry.NEVER


def test_a_reason_of_the_gateway_is_never_counted_even_if_a_fault_came_first() -> None:
    assert not Ending("it went silent").join(Ending.by_gateway("it makes way")).counts


def test_a_fault_costs_the_turn_its_continuation_and_a_reason_of_the_gateway_does_not() -> None:
    fault = Ending("it crashed").to_failure(make_turn(0), final=False)
    ours = Ending.by_gateway("it makes way").to_failure(make_turn(0), final=False)
    assert (fault.counts_as_failure, fault.keeps_continuation, fault.wait) == (True, False, None)
    assert (ours.counts_as_failure, ours.keeps_continuation, ours.wait) == (False, True, None)


def test_a_session_that_sleeps_counts_against_nothing_and_goes_on_sleeping_if_it_is_ended_again() -> None:
    asleep = Ending.to_sleep()
    assert not asleep.counts and asleep.join(Ending.by_gateway("it goes down")).retry is Retry.DECIDED
    assert asleep.join(Ending.by_person("stopped")).retry is Retry.NEVER
    assert asleep.to_failure(make_turn(0), final=False).keeps_continuation


def test_a_shortage_of_the_host_pauses_longer_each_time_and_counts_in_the_end() -> None:
    shortage = Ending("no space", Retry.LATER)
    causes = [shortage.to_failure(make_turn(spared), final=False) for spared in (0, 1, 20, MOST_SPARED)]
    assert [cause.wait for cause in causes] == [5 * SECOND, 10 * SECOND, 60 * SECOND, None]
    assert [cause.counts_as_failure for cause in causes] == [False, False, False, True]


def test_whoever_breaks_while_the_host_lacks_something_goes_on_later_but_not_who_took_too_much_or_was_stopped() -> None:
    crashed = Ending("it crashed").during("the disk is full")
    assert (crashed.cause, crashed.retry) == ("the disk is full", Retry.LATER)
    for other in (Ending.for_disk("it took too much"), Ending.by_person("stopped"), Ending.by_gateway("it makes way")):
        assert other.during("the disk is full") == other
    assert Ending("it crashed").during("") == Ending("it crashed")


START = 1_800_000_000 * SECOND
PATIENCE = SessionTimeouts(silence=60 * SECOND, idle=30 * MINUTE, turn=60 * MINUTE)


def at(seconds: int, **facts: int | bool | None) -> SessionVerdict:
    given = {"heard_at": START + 1, "active_at": START, **facts}
    return check_timeouts(SessionTiming(now=START + seconds * SECOND, started_at=START, **given), PATIENCE)  # type: ignore[arg-type]


def test_nanoclaw_19_a_runner_that_is_silent_for_61_s_after_a_claim_is_lost() -> None:
    assert at(59, turn_since=START) is SessionVerdict.KEEP
    assert at(62, turn_since=START) is SessionVerdict.LOST


def test_nanoclaw_19_a_declared_timeout_of_ten_minutes_widens_the_patience() -> None:
    assert at(9 * 60, turn_since=START, tool_timeout=10 * MINUTE) is SessionVerdict.KEEP
    assert at(11 * 60, turn_since=START, tool_timeout=10 * MINUTE) is SessionVerdict.LOST


def test_nanoclaw_20_a_session_with_nothing_to_do_for_half_an_hour_rests() -> None:
    alive = START + 31 * MINUTE - SECOND
    assert at(29 * 60, heard_at=START + 29 * MINUTE) is SessionVerdict.KEEP
    assert at(31 * 60, heard_at=alive) is SessionVerdict.REST
    assert at(31 * 60, heard_at=alive, wanted=True) is SessionVerdict.KEEP


def test_nanoclaw_20_a_session_that_was_just_started_survives_the_next_look() -> None:
    assert at(1, heard_at=START) is SessionVerdict.KEEP
    assert at(30, heard_at=START) is SessionVerdict.LOST


def test_a_turn_is_warned_before_its_time_is_up_then_interrupted_then_ended_although_it_is_alive() -> None:
    def alive(seconds: int, **facts: int | bool | None) -> SessionVerdict:
        return at(seconds, heard_at=START + (seconds - 1) * SECOND, turn_since=START, **facts)

    assert alive(57 * 60) is SessionVerdict.KEEP
    assert alive(59 * 60) is SessionVerdict.WRAP_UP
    assert alive(59 * 60, warned=True) is SessionVerdict.KEEP
    assert alive(61 * 60, warned=True) is SessionVerdict.TIME_UP
    assert alive(61 * 60, time_up_at=START + 61 * MINUTE - SECOND) is SessionVerdict.KEEP
    assert alive(61 * 60, time_up_at=START + 61 * MINUTE - 4 * SECOND) is SessionVerdict.OVERTIME


def test_what_a_tool_says_about_its_patience_does_not_make_a_turn_longer() -> None:
    alive = START + 61 * MINUTE - SECOND
    assert at(61 * 60, heard_at=alive, turn_since=START, tool_timeout=120 * MINUTE) is SessionVerdict.TIME_UP


def test_a_turn_shorter_than_the_warning_is_warned_half_way() -> None:
    short = SessionTimeouts(turn=10 * SECOND, wrap_up=120 * SECOND)

    def after(seconds: int) -> SessionVerdict:
        now = START + seconds * SECOND
        return check_timeouts(
            SessionTiming(now=now, started_at=START, heard_at=now, active_at=START, turn_since=START), short
        )

    assert (after(4), after(6), after(11)) == (SessionVerdict.KEEP, SessionVerdict.WRAP_UP, SessionVerdict.TIME_UP)


def test_stranger_20_a_pause_of_the_machine_makes_nobody_silent() -> None:
    """Stopped for ten minutes (SIGSTOP, suspend): the runner was heard a second before, and is not judged by it."""
    clock = FixedClock()
    listening = ListeningTime(clock)
    started, heard_at = listening.now(), 0
    for _ in range(10):
        clock.advance(0.5)
        heard_at = listening.tick()
    clock.advance(600)

    def verdict() -> SessionVerdict:
        facts = SessionTiming(
            now=listening.tick(), started_at=started, heard_at=heard_at, active_at=heard_at, turn_since=started
        )
        return check_timeouts(facts, PATIENCE)

    assert verdict() is SessionVerdict.KEEP
    for _ in range(100):
        clock.advance(0.5)
        assert verdict() is SessionVerdict.KEEP
    for _ in range(30):  # but silence while we listen is silence
        clock.advance(0.5)
        last = verdict()
    assert last is SessionVerdict.LOST


def test_stranger_20_a_step_of_the_wall_clock_ends_no_young_turn() -> None:
    clock = FixedClock()
    listening = ListeningTime(clock)
    started = listening.tick()
    clock.advance(0.5)
    heard_at = listening.tick()
    clock.step(3700)
    clock.advance(0.5)
    facts = SessionTiming(
        now=listening.tick(), started_at=started, heard_at=heard_at, active_at=heard_at, turn_since=started
    )

    assert facts.now == SECOND
    assert check_timeouts(facts, PATIENCE) is SessionVerdict.KEEP


def test_a_turn_that_waits_for_a_person_sleeps_after_its_hold_and_is_neither_late_nor_idle_before() -> None:
    alive = {"heard_at": START + 100 * MINUTE, "turn_since": START}
    assert at(99 * 60, waiting_since=START + 90 * MINUTE, **alive) is SessionVerdict.KEEP
    assert at(101 * 60, waiting_since=START + 90 * MINUTE, **alive) is SessionVerdict.SLEEP
    assert at(61 * 60, waiting_since=START + 59 * MINUTE, heard_at=START + 61 * MINUTE, turn_since=START) is (
        SessionVerdict.KEEP
    )


def test_a_turn_that_was_interrupted_for_its_time_does_not_sleep() -> None:
    facts = {"turn_since": START, "waiting_since": START, "heard_at": START + 61 * MINUTE}
    assert at(61 * 60, time_up_at=START + 60 * MINUTE, **facts) is SessionVerdict.OVERTIME
