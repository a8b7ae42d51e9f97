"""Who wakes next: fair between groups, people before schedules, never more than there are places."""

from hypothesis import given
from hypothesis import strategies as st

from gatepost.flow.sessions.slots import Slots


def drain(slots: Slots) -> list[str]:
    taken = []
    while (session := slots.take()) is not None:
        taken.append(session)
    return taken


def test_groups_take_turns_however_much_one_of_them_wants() -> None:
    slots = Slots(10)
    for number in range(4):
        slots.want(f"busy-{number}", "acme/busy")
    slots.want("quiet-0", "acme/quiet")

    assert drain(slots) == ["busy-0", "quiet-0", "busy-1", "busy-2", "busy-3"]


def test_people_come_before_schedules() -> None:
    slots = Slots(10)
    slots.want("nightly", "acme", background=True)
    slots.want("person", "acme")

    assert drain(slots) == ["person", "nightly"]


def test_a_session_stands_in_line_once_and_holds_one_place() -> None:
    slots = Slots(10)
    slots.want("one", "acme")
    slots.want("one", "acme")
    assert drain(slots) == ["one"]
    slots.want("one", "acme")
    assert drain(slots) == []


def test_check_43_never_more_awake_than_the_cap_and_all_are_served() -> None:
    slots, served = Slots(5), []
    for number in range(20):
        slots.want(f"s{number}", f"g{number % 3}")
    while slots.waiting or slots.awake:
        round_of = drain(slots)
        assert slots.awake <= 5
        served += round_of
        for session in round_of:
            slots.release(session)
    assert sorted(served) == sorted(f"s{number}" for number in range(20))


def test_who_no_longer_wants_to_wake_is_passed_over() -> None:
    slots = Slots(1)
    slots.want("first", "acme")
    slots.want("second", "acme")
    slots.forget("first")
    assert drain(slots) == ["second"]


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(1, 4))
def test_every_want_is_met_exactly_once_whatever_the_order(wants: list[tuple[int, str, bool]], most: int) -> None:
    slots = Slots(most)
    for number, folder, background in wants:
        slots.want(f"{folder}{number}", folder, background=background)
    met: list[str] = []
    while slots.waiting:
        taken = drain(slots)
        assert len(taken) <= most
        met += taken
        for session in taken:
            slots.release(session)
    assert sorted(met) == sorted({f"{folder}{number}" for number, folder, _ in wants})
