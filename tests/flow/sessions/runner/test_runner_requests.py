"""How long a turn has waited for people, told apart from the time that it worked."""

from gatepost.flow.sessions.runner.runner_requests import AwaitedAnswers


def test_the_wait_begins_with_the_first_request_and_ends_with_its_answer() -> None:
    awaited = AwaitedAnswers()
    assert not awaited and awaited.since is None
    awaited.add("a", 10)
    awaited.add("b", 20)
    assert awaited and awaited.since == 10 and "a" in awaited
    assert awaited.remove("a", 50)
    assert (awaited.since, awaited.waited) == (50, 40)  # what is left has its whole time again
    assert awaited.remove("b", 60) and not awaited.remove("b", 70)
    assert (awaited.since, awaited.waited) == (None, 50)


def test_a_use_of_a_tool_that_is_over_is_awaited_no_longer() -> None:
    awaited = AwaitedAnswers()
    awaited.add("toolu_1~abc", 10)
    awaited.add("toolu_2~abc", 10)
    awaited.end_use("")
    awaited.end_use("toolu")
    assert "toolu_1~abc" in awaited
    awaited.end_use("toolu_1")
    assert "toolu_1~abc" not in awaited and "toolu_2~abc" in awaited
    assert (awaited.since, awaited.waited) == (10, 0)
    awaited.end_use("toolu_2")
    assert (awaited.since, awaited.waited) == (None, 0)  # what only the runner says lengthens no turn
    awaited.clear()
    assert (bool(awaited), awaited.since, awaited.waited) == (False, None, 0)
