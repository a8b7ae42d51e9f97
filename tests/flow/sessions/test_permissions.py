"""What a provider asks is held within bounds, once, and its answer outlives the turn's attempt."""

from typing import Any

from gatepost.flow.sessions.permissions import NOT_PERMITTED, answer_to, hold, read_wish
from gatepost.mailbox import wire
from gatepost.store import agents, groups, inbox, permissions, turns
from gatepost.store.agents import NewAgent
from gatepost.store.port import Db
from gatepost.store.sessions import Session
from gatepost.store.turns import Turn

NOW = 1_000_000
ASKED = {"id": "r1", "tool": "Bash", "input": {"command": "ls"}}


def event(**data: Any) -> wire.Event:
    return wire.Event(turn="t-1", kind="permission", data=data)


def at_work(db: Db) -> tuple[Session, Turn]:
    groups.add(db, "agents", "agents", "", NOW)
    session = agents.create(db, NewAgent(folder="agents", provider="claude"), NOW)
    agents.prompt(db, session, "sweep", "op", "op", inbox.NEXT, NOW)
    claim = turns.claim(db, session.id, "claude", "me", NOW, 60_000_000, 20, ready=True)
    assert claim is not None
    return session, claim.turn


def test_what_is_asked_twice_waits_once(db: Db) -> None:
    session, turn = at_work(db)
    assert hold(db, session, turn, event(**ASKED), NOW) is None
    assert hold(db, session, turn, event(**ASKED), NOW) is None
    assert [each.request for each in permissions.pending(db)] == ["r1"]


def test_a_question_is_a_request_with_its_words_and_in_a_chat_nobody_can_be_asked(db: Db) -> None:
    session, turn = at_work(db)
    asked = wire.Event(turn="t-1", kind="question", data={"id": "q1", "text": "Which?", "options": ["a", "b"]})
    assert hold(db, session, turn, asked, NOW) is None
    (found,) = permissions.pending(db)
    assert (found.kind, found.tool, found.input) == (
        "question",
        "question",
        {"question": "Which?", "options": ["a", "b"]},
    )
    given = answer_to(asked, "scripted")
    assert (given.request, given.verdict) == ("q1", "deny") and "Nobody can be asked" in given.input["reason"]


def test_an_answer_holds_for_whoever_asks_the_same_again_with_the_input_that_was_allowed(db: Db) -> None:
    session, turn = at_work(db)
    hold(db, session, turn, event(**ASKED), NOW)
    (asked,) = permissions.pending(db)
    permissions.answer(db, asked.id, "allowed", "", {"command": "ls -l"}, "op", NOW)

    again = hold(db, session, turn, event(**ASKED), NOW)
    assert again == wire.Answer(request="r1", verdict="allow", input={"command": "ls -l"})
    assert permissions.pending(db) == []


def test_a_denial_holds_as_well_with_its_reason(db: Db) -> None:
    session, turn = at_work(db)
    for request, reason in (("r1", ""), ("r2", "not today")):
        hold(db, session, turn, event(**{**ASKED, "id": request}), NOW)
        (asked,) = permissions.pending(db)
        permissions.answer(db, asked.id, "denied", reason, {}, "op", NOW)
        again = hold(db, session, turn, event(**{**ASKED, "id": request}), NOW)
        assert again == wire.Answer(request=request, verdict="deny", input={"reason": reason or NOT_PERMITTED})


def test_a_forged_request_is_cut_cleaned_and_of_a_kind_that_there_is() -> None:
    forged = {
        "id": "x" * 500,
        "tool": "a\x00b\ud800",
        "kind": ["plan"],
        "input": ["no object"],
        "follow_up": {"not": "text"},
        "next_mode": ["default"],
    }
    wish = read_wish(event(**forged))
    assert (len(wish.request), wish.kind, wish.input) == (100, "tool", {})
    assert not {"\x00", "\ud800"} & set(wish.tool) and (wish.follow_up, wish.next_mode) == ("", "")
    assert read_wish(event(**{**forged, "kind": "plan"})).follow_up == ""
    long = read_wish(event(**{**forged, "kind": "plan", "follow_up": "y" * 1_000_000}))
    assert long.kind == "plan" and len(long.follow_up) == 20_000
