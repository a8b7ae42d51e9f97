"""The pages of requests, as data, and what one request answers."""

from typing import Any

import pytest

from gatepost.serve.control.arguments.agents import AgentRequest, PendingRequest, RequestingAgent
from gatepost.serve.control.arguments.requests import PermitDetails, ShowRequestArgs
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.web.dashboard.operation_form import parse_form
from gatepost.serve.web.dashboard.view import Disclosure, Fact, Facts, FormBlock, Note, TableBlock, Tone
from gatepost.serve.web.pages.requests import list_row_actions, make_request_view, make_requests_view
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.sessions.sessions import SessionState

NOON = 1_700_000_000_000_000


def add(kind: RequestKind, **more: Any) -> Any:
    given = {"kind": kind, "name": "n", "folder": "home", "tool": "send", "quorum": 1, **more}
    return lambda db: requests.add(db, NewRequest(**given), NOON)[0]


async def show(operation_deps: Any, request_id: str) -> PermitDetails:
    found: PermitDetails = await OPERATIONS["permit.show"].answer(operation_deps, ShowRequestArgs(id=request_id))
    return found


async def test_a_held_call_has_its_cards_buttons_and_a_form_for_its_arguments(operation_deps: Any) -> None:
    new = add(RequestKind.CALL, input={"text": "hi"}, editable=True, rule="allow send")
    asked = await operation_deps.store.write(new)
    view = make_request_view(await show(operation_deps, asked.id))
    assert [(each.label, each.tone) for each in view.actions] == [
        ("Allow once", Tone.GOOD),
        ("Allow in this conversation", Tone.PLAIN),
        ("Always allow", Tone.PLAIN),
        ("Deny", Tone.BAD),
    ]
    operation = OPERATIONS["permit.answer"]
    assert parse_form(operation, view.actions[0].args) == {"id": asked.id, "allow": True}
    assert parse_form(operation, view.actions[1].args) == {"id": asked.id, "allow": True, "lasts": "session"}
    assert parse_form(operation, view.actions[3].args) == {"id": asked.id, "allow": False}
    [wants, cause] = [each for each in view.blocks if isinstance(each, Facts)]
    assert Fact("Text", "hi") in wants.items and cause.title == "Why it asks"
    assert asked.id not in str([wants, cause])
    [exact] = [each for each in view.blocks if isinstance(each, Disclosure)]
    assert asked.id in str(exact)
    [form] = [each for each in exact.blocks if isinstance(each, FormBlock)]
    sent = {**form.args, "input": form.inputs[0].value.replace("hi", "hello")}
    assert parse_form(operation, sent) == {"id": asked.id, "allow": True, "input": {"text": "hello"}}


async def test_what_several_must_agree_to_shows_who_did_and_cannot_be_edited(operation_deps: Any) -> None:
    asked = await operation_deps.store.write(add(RequestKind.CALL, input={"text": "hi"}, editable=True, quorum=2))
    await operation_deps.store.write(request_cards.add_vote, asked.id, "tg:user/ada", NOON)
    found = await show(operation_deps, asked.id)
    view = make_request_view(found)
    assert (found.voters, found.quorum) == (["tg:user/ada"], 2)
    assert [each.label for each in view.actions] == ["Allow once", "Deny"]
    [exact] = [each for each in view.blocks if isinstance(each, Disclosure)]
    assert not [each for each in exact.blocks if isinstance(each, FormBlock)]


async def test_a_question_has_its_options_as_buttons_and_a_form_for_other_words(operation_deps: Any) -> None:
    questions = {"question": "Which?", "options": ["Tea", "Coffee"]}
    asked = await operation_deps.store.write(add(RequestKind.QUESTION, input=questions))
    view = make_request_view(await show(operation_deps, asked.id))
    assert [each.label for each in view.actions] == ["Tea", "Coffee", "Do not answer"]
    operation = OPERATIONS["permit.answer"]
    assert parse_form(operation, view.actions[1].args)["answers"] == ["Coffee"]
    [form] = [each for each in view.blocks if isinstance(each, FormBlock)]
    assert parse_form(operation, {**form.args, "answers": "Mate, please"})["answers"] == ["Mate, please"]


async def test_several_questions_are_one_form_and_a_decided_request_has_no_buttons(operation_deps: Any) -> None:
    several = {"questions": [{"question": "A?", "options": ["1", "2"]}, {"question": "B?"}]}
    asked = await operation_deps.store.write(add(RequestKind.QUESTION, input=several))
    view = make_request_view(await show(operation_deps, asked.id))
    assert [each.label for each in view.actions] == ["Do not answer"]
    [form] = [each for each in view.blocks if isinstance(each, FormBlock)]
    assert [each.label for each in form.inputs] == ["A?", "B?"]
    sent = {**form.args, "answers": "2\nwords"}  # as two inputs of one name arrive
    assert parse_form(OPERATIONS["permit.answer"], sent)["answers"] == ["2", "words"]

    await operation_deps.store.write(requests.withdraw, asked.id, "it is over", NOON)
    over = make_request_view(await show(operation_deps, asked.id))
    assert not over.actions and not [each for each in over.blocks if isinstance(each, FormBlock)]
    assert isinstance(over.blocks[0], Note) and "it is over" in over.blocks[0].text


def make_row(kind: RequestKind, **more: Any) -> AgentRequest:
    agent = RequestingAgent(agent_id="s-1", title="", type="x", folder="home", status=SessionState.RUNNING)
    given = {"id": f"r-{kind}", "kind": kind, "name": "send", "input": {}, "asked_at": "", **more}
    return AgentRequest(agent, PendingRequest(**given), "Bob")


def test_the_list_links_each_request_and_offers_only_what_its_line_shows() -> None:
    found = [make_row(each) for each in (RequestKind.CALL, RequestKind.QUESTION, RequestKind.ROOM)]
    view = make_requests_view([*found, make_row(RequestKind.TOOL, cut=True)])
    [table] = [each for each in view.blocks if isinstance(each, TableBlock)]
    assert [[each.label for each in row.actions] for row in table.rows] == [["Allow", "Deny"], [], [], []]
    assert all("Bob" in row.cells for row in table.rows)
    assert [each.name for each in table.columns] == ["id", "agent", "asked_by", "kind", "name", "input", "askedAt"]


@pytest.mark.parametrize(
    ("text", "labels"),
    [("hi", ["Allow", "Deny"]), ("harmless " * 90 + "evil", ["Deny"]), ("hi" + " " * 700 + "evil", ["Deny"])],
)
def test_a_line_of_the_table_offers_to_allow_only_what_it_shows_whole(text: str, labels: list[str]) -> None:
    row = make_row(RequestKind.CALL, input={"text": text})
    assert [each.label for each in list_row_actions(row)] == labels


@pytest.mark.parametrize(
    "more",
    [
        {
            "name": "forward",
            "input": {"sourceMsgId": 5, "chatJid": "tg:1"},
            "preview": "Message 5: the password is 1234",
        },
        {"input": {"text": "pay \u202e001\u202c"}},
        {"input": {"text": "0123456789abcdef" * 4}},
        {"kind": RequestKind.PLAN, "input": {"plan": "Tidy up."}, "next_mode_id": "bypassPermissions"},
        {"kind": RequestKind.PLAN, "input": {"plan": "Tidy up."}, "follow_up": "Remove everything."},
    ],
)
def test_a_line_offers_nothing_to_allow_of_which_a_part_is_elsewhere(more: dict[str, Any]) -> None:
    given = {"kind": RequestKind.CALL, "input": {}, **more}
    row = make_row(**given)
    assert [each.label for each in list_row_actions(row)] == ["Deny"]


def test_signs_that_hide_are_shown_in_the_list_by_their_numbers() -> None:
    view = make_requests_view([make_row(RequestKind.CALL, input={"text": "pay \u202e001"})])
    [table] = [each for each in view.blocks if isinstance(each, TableBlock)]
    assert "text pay ⟨U+202E⟩001" in table.rows[0].cells
