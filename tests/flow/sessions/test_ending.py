"""An ending is one value, and two of them are one."""

import msgspec
import pytest

from gatepost.core.clock import SECOND
from gatepost.flow.sessions.ending import Ending, Retry
from gatepost.store.sessions.turn_failures import MOST_SPARED
from gatepost.store.sessions.turns import Turn


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
