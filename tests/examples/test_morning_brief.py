"""The morning brief, played as a user plays it."""

import pytest

from .played_examples import play_example


@pytest.mark.slow  # the times that a task waits for
def test_a_brief_tells_what_is_new_once_and_is_silent_otherwise() -> None:
    played = play_example("morning-brief")
    assert played.list_answers("morning") == [
        "I will look every 3s, and write only if there is something.",
        "Good morning. New since the last brief: Bob asks whether Friday suits you.",
        "There will be no more; 0 tasks are left.",
    ]
    assert sum("nothing was said" in line for line in played.lines) == 2
