"""Who polls, and when: from the record of a platform."""

from gatepost.store.postgres.gateway_lease import LEASE_S
from gatepost_testing.storms.poller import (
    PlatformPoll,
    PollerCounts,
    PollerTerm,
    count_strays,
    find_longest_overlap,
    list_terms,
)


def poll(gateway: str, *begun: float) -> list[PlatformPoll]:
    return [PlatformPoll(gateway, each, each + 1) for each in begun]


def list_in_order(*polls: list[PlatformPoll]) -> list[PlatformPoll]:
    return sorted((each for some in polls for each in some), key=lambda each: each.begun)


def test_polls_that_follow_each_other_are_a_term_and_a_pause_begins_another() -> None:
    polls = list_in_order(poll("a", 0, 1, 2.5), poll("b", 9, 10), poll("a", 20))
    assert list_terms(polls) == [PollerTerm("a", 0, 3.5), PollerTerm("b", 9, 11), PollerTerm("a", 20, 21)]
    assert find_longest_overlap(list_terms(polls)) < 0


def test_two_that_poll_by_turns_overlap() -> None:
    polls = list_in_order(poll("a", *range(0, 20, 2)), poll("b", *range(5, 30, 2)))
    assert find_longest_overlap(list_terms(polls)) == 14


def test_terms_of_one_gateway_do_not_overlap_each_other() -> None:
    assert find_longest_overlap([PollerTerm("a", 0, 5), PollerTerm("a", 3, 9)]) == 0


def test_a_single_poll_within_the_term_of_another_is_a_stray() -> None:
    """As a gateway makes that was stopped, and goes on before it knows that another has its channel."""
    polls = list_in_order(poll("a", *range(20)), [PlatformPoll("b", 10.5, 10.5)], poll("b", 30))
    assert count_strays(list_terms(polls)) == 1
    assert count(*list_terms(polls)).list_faults() == ["1 times one polled while another did"]


def count(*terms: PollerTerm) -> PollerCounts:
    return PollerCounts(seed=7, updates=9, kept=9, different=9, takeovers=1, terms=terms, conflicts=0, waits_s=(1.0,))


def test_pollers_beside_each_other_for_longer_than_a_lease_are_a_fault() -> None:
    assert count(PollerTerm("a", 0, 10), PollerTerm("b", 10 - LEASE_S, 20)).list_faults() == []
    wrong = count(PollerTerm("a", 0, 10), PollerTerm("b", 9.5 - LEASE_S, 20))
    assert wrong.list_faults() == ["two polled beside each other for 6.5 s"]
    assert "a 0.0–10.0 s, b 3.5–20.0 s" in wrong.render()
