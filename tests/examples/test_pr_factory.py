"""The factory for reviews, played as a user plays it: from signed webhooks to two reviews side by side."""

from hashlib import sha1

import pytest

from .played_examples import play_example

OLD, NEW = "- Are the names clear?\n- Is there a test?", "- Is there a password or a key in the diff?"
BEFORE = f"**Review**\n\nChecked:\n{OLD}"
AFTER = f"{BEFORE}\n{NEW}"
WHY = "Because everybody shares the cache: a test shows that nobody gets another's page."


@pytest.mark.slow
def test_a_skill_is_changed_by_feedback_and_both_reviews_are_compared() -> None:
    played = play_example("pr-factory")
    assert "   (forged webhook: 403)" in played.lines
    assert played.list_answers("acme/site/issue/2") == [
        BEFORE,
        WHY,
        "I keep that for the next version of the skill.",
        AFTER,
    ]
    assert played.list_answers("acme/site/issue/3") == [
        BEFORE,
        "Closed. I am back when it is opened again.",
        "I am back at “Use a queue for mails”.",
        BEFORE.replace("Review**", f"Review** of {sha1(b'retry').hexdigest()[:12]}"),
        "Merged. Thank you!",
    ]
    assert played.list_answers("factory") == [
        "Workers are at github:acme/site/issue/3 and github:acme/site/issue/2.",
        f"agent:factory/manager/worker said: {WHY}",  # the feedback came later, and is not in the worker's conversation
        "I cannot see that: Error: factory/manager may not read_session: a rule of this gateway forbids it",
    ]
    work, feedback, replay, shown, card, *rest = played.list_answers("admin")
    assert work == "factory/manager/worker used disengage: allowed."
    assert feedback == "Feedback: the review missed the password"
    assert replay.startswith("The replay is ")
    assert shown == f"**What the new skill would change**\n\n**Was**\n\n{BEFORE}\n\n**Would be**\n\n{AFTER}"
    assert f"· - Is there a test?\n+ {NEW}\n```" in card
    assert any("Allowed by Owner." in each for each in rest)
    assert rest[-1] == f"**Two reviews of 2**\n\n**Before**\n\n{BEFORE}\n\n**After**\n\n{AFTER}"
