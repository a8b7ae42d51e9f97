"""Plans that are approved in chats: what their card says, and what the yes does."""

from typing import Any

import pytest

from gatepost.core.clock import SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskingRules
from gatepost.flow.requests.choices import ALLOW_ONCE, DENY, AnswerChoice
from gatepost.flow.requests.decide import Decision, decide
from gatepost.flow.sessions.runner.runner_requests import ChatAsking, RecordedPermission, RequestOptions, record_request
from gatepost.mailbox import runner_frames
from gatepost.messages.inbound import Direction
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.messages import NewMessage
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import agents, groups, sessions, turn_claims
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.store.sessions.turns import Turn
from gatepost_testing.channel import FakeChannel

ROOM, BOSS, NOW = "fake:room/1", "fake:user/boss", 1_000_000 * SECOND
FOLLOW_UP = "Carry out the *plan*: sweep, then mop."
PLAN = {"id": "r1", "tool": "ExitPlanMode", "kind": "plan", "input": {"plan": "1. sweep"}, "next_mode": "edits"}
CHANNELS = ChannelInstances({"fake": FakeChannel().kind})
CHAT = ChatAsking(CHANNELS, AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1))
OPTIONS = RequestOptions(modes=("plan", "edits"))


@pytest.fixture
def at_work(db: Db) -> tuple[Session, Turn]:
    groups.add(db, "home", "Home", "scripted", NOW)
    users.add(db, BOSS, "Ada", NOW)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", NOW)
    direct_rooms.add(db, BOSS, "fake", "fake:direct/boss", NOW)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "home", "fake", ROOM, "", NOW)
    said: dict[str, Any] = {"platform_id": "1", "sender": BOSS, "sender_name": "Ada", "text": "plan it"}
    new = NewMessage(instance="fake", address=ROOM, thread="", direction=Direction.IN, at=NOW, **said)
    message_id = messages.accept(db, new, NOW)
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, "home", "member", NOW)
    claim = turn_claims.claim(db, session.id, "scripted", "test", NOW, 60 * SECOND, 20)
    assert claim is not None
    return session, claim.turn


def ask(db: Db, at_work: tuple[Session, Turn], options: RequestOptions = OPTIONS, **more: object) -> RecordedPermission:
    session, turn = at_work
    event = runner_frames.EventFrame(turn=turn.id, kind="permission", data={**PLAN, **more})
    return record_request(db, session, turn, event, NOW, chat=CHAT, options=options)


def answer(db: Db, choice: AnswerChoice = ALLOW_ONCE) -> Decision:
    (asked,) = waiting_requests.list_pending(db)
    return decide(db, CHANNELS, asked.id, choice, BOSS, NOW + 1)


def read_card(db: Db) -> str:
    return str(outbox.OUTBOX.list(db, "ORDER BY id")[0].payload["text"])


def get_mode(db: Db, session: Session) -> str:
    found = sessions.get(db, session.id)
    assert found is not None
    return found.permission_mode


def list_prompts(db: Db, session: Session) -> list[str]:
    return [str(message.content["text"]) for _, message in inbox.list_open(db, session.id) if message.event == "system"]


def test_the_card_says_what_follows_and_the_yes_does_it(db: Db, at_work: tuple[Session, Turn]) -> None:
    session, _ = at_work
    ask(db, at_work, follow_up=FOLLOW_UP)
    card = read_card(db)
    assert "asks to carry out a plan" in card and "1. sweep" in card
    assert "goes on in the mode edits." in card and "Carry out the \\*plan\\*: sweep, then mop." in card
    assert (get_mode(db, session), list_prompts(db, session)) == ("", [])

    decision = answer(db)
    assert (decision.decided, decision.renew, decision.wake) == (True, (session.id,), (session.id,))
    assert (get_mode(db, session), list_prompts(db, session)) == ("edits", [FOLLOW_UP])
    again = decide(db, CHANNELS, decision.request.id, ALLOW_ONCE, BOSS, NOW + 2)
    assert (again.decided, again.renew, list_prompts(db, session)) == (False, (), [FOLLOW_UP])


def test_a_plan_that_is_denied_changes_nothing(db: Db, at_work: tuple[Session, Turn]) -> None:
    session, _ = at_work
    ask(db, at_work, follow_up=FOLLOW_UP)
    assert answer(db, DENY).renew == ()
    assert (get_mode(db, session), list_prompts(db, session)) == ("", [])


def test_a_plan_with_a_mode_that_there_is_not_is_put_to_nobody(db: Db, at_work: tuple[Session, Turn]) -> None:
    refused = ask(db, at_work, next_mode="root").answer
    assert refused is not None and refused.verdict == "deny"
    assert "'root'" in refused.input["reason"] and "plan, edits" in refused.input["reason"]
    assert waiting_requests.list_pending(db) == []


def test_an_agent_without_modes_keeps_none_and_its_card_names_none(db: Db, at_work: tuple[Session, Turn]) -> None:
    session, _ = at_work
    ask(db, at_work, RequestOptions(), next_mode="default")
    assert "mode" not in read_card(db)
    assert (answer(db).renew, get_mode(db, session)) == ((), "")


def test_a_conversation_that_has_another_provider_by_now_does_not_get_the_mode(
    db: Db, at_work: tuple[Session, Turn]
) -> None:
    session, _ = at_work
    ask(db, at_work)
    sessions.set_provider(db, session.id, "codex")
    assert answer(db).decided
    assert get_mode(db, session) == ""


def test_a_mode_goes_with_its_provider(db: Db, at_work: tuple[Session, Turn]) -> None:
    session, _ = at_work
    ask(db, at_work)
    answer(db)
    sessions.set_provider(db, session.id, "codex")
    assert get_mode(db, session) == ""


def test_the_plan_of_a_managed_agent_is_not_allowed_by_a_command_in_a_chat(
    db: Db, at_work: tuple[Session, Turn]
) -> None:
    session, turn = at_work
    given: dict[str, Any] = {
        "session_id": session.id,
        "turn_id": turn.id,
        "instance": agents.INSTANCE,
        "address": "agent:1",
    }
    new = NewRequest(name="r2", kind=RequestKind.PLAN, folder="home", input={}, next_mode="root", **given)
    request, _ = requests.add(db, new, NOW)
    decision = decide(db, CHANNELS, request.id, ALLOW_ONCE, BOSS, NOW + 1)
    assert not decision.decided and "gatepost permit allow" in decision.said
    assert get_mode(db, session) == ""
    assert decide(db, CHANNELS, request.id, DENY, BOSS, NOW + 2).request.state is RequestState.DENIED
