"""The pages of conversations and replays, as data; and the way from old links to them."""

from typing import Any

import pytest
from tests.serve.control.test_session_control import ADA, ADMIN, seed

from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.records import replace
from gatepost.flow.people.page_logins import issue_for_person
from gatepost.serve.control.arguments.replays import ReplayComparison
from gatepost.serve.control.arguments.sessions import SessionDetails, SessionEvent, SessionEventKind
from gatepost.serve.web.dashboard.view import CompareBlock, FormBlock, TextPart, TimelineBlock, Tone
from gatepost.serve.web.pages.sessions import MOST_WORDS, make_replay_view, make_session_view, mark_difference
from gatepost.store.sessions.replays import ReplayedTurn, TurnOutcome
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.turns import TurnState

AT = 1_767_225_600 * SECOND


def event(kind: str, ref: str = "7", **more: Any) -> SessionEvent:
    return SessionEvent(at=AT, kind=SessionEventKind(kind), ref=ref, **more)


def session(**more: Any) -> SessionDetails:
    made = SessionDetails(
        id="s-1", agent="Acme", folder="acme", title="", instance="tg", address="tg:group/7",
        thread="", provider="", model="", state=SessionState.IDLE, running=False, waiting=0, cost=0,
        created_at=AT, active_at=AT, closed_at=None, parent="", managed=False, speaks=True,
        older=0, events=[],
    )  # fmt: skip
    return replace(made, **more)


def test_what_happened_is_shown_newest_first_with_its_outcome_and_cost() -> None:
    found = [
        event("message", who="Ada", text="<b>hi</b>"),
        event("turn", who="claude", state="failed", text="it broke", cost=1_500_000),
        event("call", text="send_message", state="allowed"),
        event("fork", state="copied", ref="s-2"),
    ]
    view = make_session_view(session(events=found, older=12), steers=True)
    [line] = [each for each in view.blocks if isinstance(each, TimelineBlock)]
    assert [each.what for each in line.entries] == ["Forked", "Tool send_message", "Turn", "Ada"]
    assert [each.who for each in line.entries[1:3]] == ["allowed", "failed · claude · $1.50"]
    assert line.entries[2].tone is Tone.BAD and line.more == "?before=12"
    links = [each.link.href for each in line.entries if each.link]
    assert links == ["/dashboard/sessions/s-2", "/dashboard/ledger/7"]


def test_buttons_are_those_that_do_something_now() -> None:
    def labels(steers: bool = True, **more: Any) -> list[str]:
        return [each.label for each in make_session_view(session(**more), steers=steers).actions]

    assert labels() == ["Reset", "Fork", "Replay", "Close"]
    assert labels(running=True) == ["Stop", "Reset", "Fork", "Replay", "Close"]
    assert labels(waiting=1, steers=False) == ["Stop", "Reset"]
    assert labels(closed_at=AT) == ["Replay"]
    asking = {each.label for each in make_session_view(session(), steers=True).actions if each.asks}
    assert asking == {"Reset", "Fork", "Replay", "Close"}


def test_who_is_nobody_to_the_agent_has_no_form_to_speak() -> None:
    for speaks, closed, expected in ((True, None, 1), (False, None, 0), (True, AT, 0)):
        view = make_session_view(session(speaks=speaks, closed_at=closed), steers=True)
        assert len([each for each in view.blocks if isinstance(each, FormBlock)]) == expected


def test_a_replay_stands_beside_what_it_repeats_and_changed_words_are_marked() -> None:
    def outcome(answer: str, error: str = "") -> TurnOutcome:
        return TurnOutcome(state=TurnState.DONE, error=error, answer=answer, micro=2_000_000, took=1_500_000)

    turns = [
        ReplayedTurn(number=1, input="hi", original=outcome("a red fox"), replayed=outcome("a blue fox")),
        ReplayedTurn(number=2, input="go", original=outcome("", "broken"), replayed=None),
    ]
    found = ReplayComparison(id="r", source="s-1", folder="acme", changes={"model": "x"}, finished=False, turns=turns)
    view = make_replay_view(found)
    first, second = [each for each in view.blocks if isinstance(each, CompareBlock)]
    assert [each.text for each in first.left.parts if each.changed] == ["red"]
    assert [each.text for each in first.right.parts if each.changed] == ["blue"]
    assert first.left.about == "done, $2.00, 1.5 s"
    assert (second.left.tone, second.right.parts) == (Tone.BAD, [TextPart("It has not begun.")])


def test_the_parts_of_compared_texts_are_the_texts_and_large_ones_are_not_compared() -> None:
    before, after = "one  two\nthree", "one two\nthree four"
    left, right = mark_difference(before, after)
    assert ("".join(each.text for each in left), "".join(each.text for each in right)) == (before, after)
    large = "word " * MOST_WORDS
    assert mark_difference(large, "x") == ([TextPart(large)], [TextPart("x")])


async def test_a_page_of_somebody_elses_conversation_is_not_there_and_text_stays_text(site: Any) -> None:
    found = await site.store.write(seed)
    for who, status in ((ADMIN, 200), (ADA, 404)):
        async with site.browser() as browser:
            _, token = await site.store.write(issue_for_person, who, SystemClock().now())
            assert (await browser.post("/login", json={"token": token})).status_code == 200
            answer = await browser.get(f"/dashboard/sessions/{found}")
            assert answer.status_code == status
            assert ("&lt;b&gt;hello" in answer.text) is (status == 200) and "<b>hello" not in answer.text
            said = await browser.post("/dashboard/do/session.send", data={"id": found, "text": "hi"})
            assert said.status_code == status


@pytest.mark.slow
async def test_an_old_link_leads_on_to_the_page(site: Any) -> None:
    async with site.browser() as browser:
        assert "login.js" in (await browser.get("/session")).text
    async with site.signed_in() as browser:
        assert "session.js" in (await browser.get("/session")).text
