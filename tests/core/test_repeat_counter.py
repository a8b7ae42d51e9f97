from gatepost.core.repeat_counter import MOST_OPEN, RepeatCounter, RepeatSummary


def test_the_first_of_a_window_are_told_and_the_rest_are_counted() -> None:
    repeats = RepeatCounter[str](window=100)
    assert [repeats.add("a", now, first=2) for now in (1, 2, 3, 4)] == [0, 0, 1, 2]
    assert repeats.add("b", 5, first=2) == 0

    assert repeats.pop_closed(100) == []
    assert repeats.due_at() == 101
    assert repeats.pop_closed(101) == [RepeatSummary("a", 2, since=1, until=4)]
    assert repeats.pop_closed(500) == [] and repeats.due_at() is None


def test_a_window_that_nobody_asked_for_keeps_its_count() -> None:
    repeats = RepeatCounter[str](window=100)
    for now in (1, 2, 3):
        repeats.add("a", now, first=1)
    assert repeats.add("a", 200, first=1) == 0
    assert repeats.due_at() == 0
    assert repeats.pop_closed(200) == [RepeatSummary("a", 2, since=1, until=3)]


def test_at_the_end_every_window_is_handed_out() -> None:
    repeats = RepeatCounter[str](window=100)
    for now in (1, 2):
        repeats.add("a", now, first=1)
    assert repeats.pop_closed() == [RepeatSummary("a", 1, since=1, until=2)]
    assert repeats.pop_closed() == []


def test_the_number_of_open_windows_is_bounded_and_no_count_is_lost() -> None:
    repeats = RepeatCounter[int](window=100)
    for key in range(MOST_OPEN + 1):
        repeats.add(key, 1, first=0)
    assert sum(each.count for each in repeats.pop_closed()) == MOST_OPEN + 1


def test_what_was_counted_of_somebody_can_be_forgotten() -> None:
    repeats = RepeatCounter[str](window=100)
    for key in ("a", "b"):
        for now in (1, 2):
            repeats.add(key, now, first=1)
    repeats.add("a", 200, first=0)  # the first window of a is over, and not handed out yet
    repeats.discard(lambda key: key == "a")
    assert repeats.due_at() == 101
    assert repeats.pop_closed() == [RepeatSummary("b", 1, since=1, until=2)]
