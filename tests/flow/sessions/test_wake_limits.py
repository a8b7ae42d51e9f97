"""Who wakes next: fair between groups, people before schedules, never more than there are places."""

from hypothesis import given
from hypothesis import strategies as st

from gatepost.flow.sessions.wake_limits import (
    PROCESSORS,
    REST_S,
    START_S,
    IdleSession,
    SessionSlots,
    StartPace,
    must_yield,
)


def drain(slots: SessionSlots) -> list[str]:
    taken = []
    while (session := slots.pop()) is not None:
        taken.append(session)
    return taken


def test_groups_take_turns_however_much_one_of_them_wants() -> None:
    slots = SessionSlots(10)
    for number in range(4):
        slots.request_wake(f"busy-{number}", "acme/busy")
    slots.request_wake("quiet-0", "acme/quiet")

    assert drain(slots) == ["busy-0", "quiet-0", "busy-1", "busy-2", "busy-3"]


def test_people_come_before_schedules() -> None:
    slots = SessionSlots(10)
    slots.request_wake("nightly", "acme", background=True)
    slots.request_wake("person", "acme")

    assert drain(slots) == ["person", "nightly"]


def test_a_session_stands_in_line_once_and_holds_one_place() -> None:
    slots = SessionSlots(10)
    slots.request_wake("one", "acme")
    slots.request_wake("one", "acme")
    assert drain(slots) == ["one"]
    slots.request_wake("one", "acme")
    assert drain(slots) == []


def test_nanoclaw_43_never_more_awake_than_the_cap_and_all_are_served() -> None:
    slots, served = SessionSlots(5), []
    for number in range(20):
        slots.request_wake(f"s{number}", f"g{number % 3}")
    while slots.waiting or slots.awake:
        round_of = drain(slots)
        assert slots.awake <= 5
        served += round_of
        for session in round_of:
            slots.release(session)
    assert sorted(served) == sorted(f"s{number}" for number in range(20))


def test_who_no_longer_wants_to_wake_is_passed_over() -> None:
    slots = SessionSlots(1)
    slots.request_wake("first", "acme")
    slots.request_wake("second", "acme")
    slots.forget("first")
    assert drain(slots) == ["second"]


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(1, 4))
def test_every_want_is_met_exactly_once_whatever_the_order(wants: list[tuple[int, str, bool]], most: int) -> None:
    slots = SessionSlots(most)
    for number, folder, background in wants:
        slots.request_wake(f"{folder}{number}", folder, background=background)
    met: list[str] = []
    while slots.waiting:
        taken = drain(slots)
        assert len(taken) <= most
        met += taken
        for session in taken:
            slots.release(session)
    assert sorted(met) == sorted({f"{folder}{number}" for number, folder, _ in wants})


def test_only_a_group_that_is_at_work_beside_others_gives_way_with_its_further_starts() -> None:
    assert must_yield("acme/busy", {"acme/busy", "acme/quiet"})
    assert not must_yield("acme/busy", {"acme/busy"}), "nobody else is at work"
    assert not must_yield("acme/new", {"acme/busy", "acme/quiet"}), "its first session"
    assert not must_yield("acme/new", set())


def resting(**idle: int) -> list[IdleSession]:
    return [IdleSession(name, for_s, for_s > 30) for name, for_s in idle.items()]


def awake(slots: SessionSlots, *sessions: tuple[str, str]) -> None:
    for session, folder in sessions:
        slots.request_wake(session, folder)
    drain(slots)


def test_who_gives_way_rests_after_a_start_for_as_long_as_it_took() -> None:
    pace = StartPace()
    pace.record_start("loud-0", 10.0)
    for number in range(1, PROCESSORS - 1):
        pace.record_start(f"loud-{number}", 10.0)
    assert not pace.may_start(True, (), 10.1), "one processor is left to those who work"

    started = [f"loud-{number}" for number in range(PROCESSORS)]
    assert not pace.may_start(True, started, 10.3)
    assert not pace.may_start(True, started, 10.3 + 0.29)
    assert pace.may_start(True, started, 10.3 + 0.31)


def test_a_first_session_starts_beside_the_starts_and_in_the_rest_of_others() -> None:
    pace = StartPace()
    pace.record_start("loud", 10.0)
    assert pace.may_start(False, (), 10.1)
    assert pace.may_start(False, ("loud",), 10.3), "it does not rest for somebody else's start"


def test_a_start_that_takes_long_holds_up_nobody_for_longer_than_it_is_counted() -> None:
    pace = StartPace()
    for number in range(PROCESSORS):
        pace.record_start(f"slow-{number}", 10.0)
    given_up = 10.0 + START_S + 0.1
    assert not pace.may_start(True, (), given_up)
    assert pace.may_start(True, (), given_up + REST_S)


def test_stranger_23_a_flooding_group_ends_its_own_resting_sessions_and_not_a_quiet_groups() -> None:
    slots = SessionSlots(4)
    awake(slots, ("quiet", "quiet"), ("loud-0", "loud"), ("loud-1", "loud"), ("loud-2", "loud"))
    for number in range(3, 100):
        slots.request_wake(f"loud-{number}", "loud")

    assert slots.pick_evictions(resting(quiet=29, **{"loud-0": 1, "loud-2": 2})) == ["loud-2", "loud-0"]


def test_stranger_23_a_group_without_a_place_takes_one_from_the_group_with_the_most() -> None:
    slots = SessionSlots(4)
    awake(slots, ("other", "other"), ("loud-0", "loud"), ("loud-1", "loud"), ("loud-2", "loud"))
    slots.request_wake("loud-3", "loud")
    slots.request_wake("quiet", "quiet")

    assert slots.pick_evictions(resting(other=20, **{"loud-0": 1})) == ["loud-0"]
    slots.release("loud-0")
    assert slots.pop() == "quiet"


def test_a_place_that_nobody_has_used_for_long_is_anybodys() -> None:
    slots = SessionSlots(2)
    awake(slots, ("quiet", "quiet"), ("loud-0", "loud"))
    slots.request_wake("loud-1", "loud")

    assert slots.pick_evictions(resting(quiet=30)) == []
    assert slots.pick_evictions(resting(quiet=31)) == ["quiet"]


def test_no_more_end_than_are_needed_while_others_are_ending() -> None:
    slots = SessionSlots(3)
    awake(slots, ("a", "acme"), ("b", "acme"), ("c", "acme"))
    slots.request_wake("d", "acme")

    assert slots.pick_evictions(resting(b=1, c=2), ending=1) == []


def test_when_memory_is_short_the_group_with_the_most_places_gives_one_up() -> None:
    slots = SessionSlots(3)
    awake(slots, ("quiet", "quiet"), ("loud-0", "loud"), ("loud-1", "loud"))

    assert slots.pick_memory_eviction(resting(quiet=900, **{"loud-0": 1})) == "loud-0"
    assert slots.pick_memory_eviction([]) == ""


def test_who_waits_for_a_schedule_and_is_asked_by_a_person_goes_to_the_people() -> None:
    slots = SessionSlots(most=2)
    slots.request_wake("t1", "a", background=True)
    slots.request_wake("t2", "a", background=True)
    assert slots.is_in_background("t2")
    slots.request_wake("t2", "a")
    assert not slots.is_in_background("t2") and slots.waiting == 2
    assert slots.pop() == "t2"


def test_schedules_leave_one_place_to_people() -> None:
    slots = SessionSlots(most=3)
    for number in range(5):
        slots.request_wake(f"t{number}", f"group{number}", background=True)
    assert [slots.pop() for _ in range(3)] == ["t0", "t1", None]
    assert slots.next_group() is None and slots.pick_evictions([]) == []
    slots.request_wake("p", "a")
    assert slots.next_group() == "a" and slots.pop() == "p"


def test_a_place_where_no_schedule_works_any_more_is_free_for_another() -> None:
    slots = SessionSlots(most=2)
    slots.request_wake("t1", "a", background=True)
    slots.request_wake("t2", "b", background=True)
    assert (slots.pop(), slots.pop()) == ("t1", None)
    slots.set_background("t1", False)
    assert slots.pop() == "t2"
    slots.release("t2")
    slots.set_background("t2", True)  # it holds none
    slots.request_wake("t3", "b", background=True)
    assert slots.pop() == "t3"


def test_a_single_place_is_for_schedules_too() -> None:
    slots = SessionSlots(most=1)
    slots.request_wake("t1", "a", background=True)
    assert slots.pop() == "t1"
