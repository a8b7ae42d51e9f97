"""A group that floods leaves time between its turns to others that are at work, and has no limit by itself."""

from gatepost.flow.sessions.turn_pace import ACTIVE_S, BURST_S, TURNS_PER_S, TurnPace


def begin_turns(pace: TurnPace, folder: str, count: int, now: float) -> list[float]:
    return [pace.reserve(folder, now) for _ in range(count)]


def test_a_group_by_itself_begins_as_many_turns_as_it_likes() -> None:
    assert begin_turns(TurnPace(), "loud", 500, 10.0) == [0.0] * 500


def test_beside_another_group_one_that_floods_begins_a_bounded_number_of_turns() -> None:
    pace = TurnPace()
    pace.reserve("quiet", 10.0)
    waits = begin_turns(pace, "loud", 100, 10.0)

    assert waits[0] == 0.0 and waits == sorted(waits)
    assert abs(waits[-1] - (99 / TURNS_PER_S - BURST_S)) < 1e-6
    assert pace.reserve("quiet", 10.5) == 0.0, "who asks seldom never waits"


def test_groups_that_flood_share_what_one_of_them_may_begin() -> None:
    pace = TurnPace()
    pace.reserve("quiet", 10.0)
    waits = [pace.reserve(folder, 10.0) for _ in range(50) for folder in ("a", "b")]

    assert 80 / TURNS_PER_S < max(waits) < 120 / TURNS_PER_S


def test_what_a_group_did_while_it_was_alone_is_not_held_against_it() -> None:
    pace = TurnPace()
    begin_turns(pace, "loud", 500, 10.0)
    pace.reserve("quiet", 10.0)

    assert pace.reserve("loud", 10.0) == 0.0


def test_once_the_others_rest_nothing_waits_any_more() -> None:
    pace = TurnPace()
    pace.reserve("quiet", 10.0)
    begin_turns(pace, "loud", 100, 10.0)
    later = 10.0 + ACTIVE_S + 0.1

    assert begin_turns(pace, "loud", 100, later) == [0.0] * 100
    assert pace.reserve("other", later) == 0.0


def test_groups_of_long_ago_are_forgotten() -> None:
    pace = TurnPace()
    for number in range(1000):
        pace.reserve(f"group-{number}", float(number))

    assert len(pace._begun) == len(pace._reserved) <= 2
