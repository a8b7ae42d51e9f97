"""Whether an awake session goes on. The values are those of the checks; the clock's zone plays no part."""

from gatepost.core.clock import MINUTE, SECOND
from gatepost.flow.sessions.session_timeouts import (
    ListeningTime,
    SessionTimeouts,
    SessionTiming,
    SessionVerdict,
    check_timeouts,
)
from gatepost_testing.clock import FixedClock

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
