"""Forms, and what they answer."""

from typing import Any

import pytest

from gatepost.serve.agents.elicitation_form import (
    LARGEST_SCHEMA,
    LONGEST_MESSAGE,
    FormAction,
    FormAnswer,
    FormResponse,
    make_form,
    parse_response,
)
from gatepost.serve.agents.views import make_pending_request
from gatepost.serve.control.arguments.agents import PendingRequest
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.sessions import groups
from gatepost_testing.clock import NOON

DRINK: dict[str, Any] = {
    "question": "What?",
    "header": "Drink",
    "options": [{"label": "tea", "description": "hot"}, {"label": "coffee"}],
}
FLAT = {"string", "array"}


def ask(kind: RequestKind = RequestKind.QUESTION, name: str = "Bash", **given: Any) -> PendingRequest:
    return PendingRequest(id="p-1", kind=kind, name=name, input=given, asked_at="")


def fill(asked: PendingRequest, **content: Any) -> FormAnswer | None:
    return parse_response(asked, FormResponse(FormAction.ACCEPT, content))


def schema_of(asked: PendingRequest, *, arrays: bool = True) -> dict[str, Any]:
    form = make_form(asked, "Ann", arrays=arrays)
    assert form is not None
    for each in form.schema["properties"].values():
        assert each["type"] in FLAT
    return form.schema


def test_options_are_a_choice_with_room_for_other_words() -> None:
    schema = schema_of(ask(**DRINK))
    assert schema["properties"]["answer_1"] == {
        "type": "string",
        "title": "Drink",
        "enum": ["tea", "coffee"],
        "description": "tea: hot",
    }
    assert schema["properties"]["words_1"]["type"] == "string"
    assert schema["required"] == []


def test_without_other_words_the_choice_is_required() -> None:
    schema = schema_of(ask(**DRINK, freeText=False))
    assert list(schema["properties"]) == schema["required"] == ["answer_1"]


def test_a_question_without_options_is_a_text() -> None:
    schema = schema_of(ask(question="Who?"))
    assert list(schema["properties"]) == schema["required"] == ["words_1"]
    assert fill(ask(question="Who?"), words_1=" Ann ") == FormAnswer(allow=True, updated={"answers": {"Who?": "Ann"}})


def test_several_choices_are_an_array_where_the_revision_has_it() -> None:
    asked = ask(**DRINK, multiSelect=True, freeText=False)
    assert schema_of(asked)["properties"]["answer_1"]["items"] == {"type": "string", "enum": ["tea", "coffee"]}
    assert schema_of(asked, arrays=False)["properties"]["answer_1"]["type"] == "string"
    both = FormAnswer(allow=True, updated={"answers": {"Drink": "tea, coffee"}})
    assert fill(asked, answer_1=["coffee", "tea"]) == fill(asked, answer_1="coffee, tea") == both


def test_several_questions_need_an_answer_each() -> None:
    asked = ask(questions=[DRINK, {"question": "Why?"}])
    assert list(schema_of(asked)["properties"]) == ["answer_1", "words_1", "words_2"]
    assert fill(asked, answer_1="tea") is None
    answers = {"Drink": "tea", "Why?": "so"}
    assert fill(asked, answer_1="tea", words_2="so") == FormAnswer(allow=True, updated={"answers": answers})


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"answer_1": "beer"},
        {"answer_1": ["tea", "coffee"]},
        {"answer_1": []},
        {"answer_1": 1},
        {"answer_1": [["tea"]]},
        {"answer_1": None},
        {"words_1": ["tea"]},
        {"words_1": " "},
        {"words_1": "x" * 5000},
        {"words_2": "tea"},
    ],
    ids=str,
)
def test_what_is_no_answer_decides_nothing(content: dict[str, Any]) -> None:
    assert fill(ask(**DRINK), **content) is None


def test_words_are_no_answer_where_only_options_are() -> None:
    assert fill(ask(**DRINK, freeText=False), words_1="water") is None


def test_a_permission_is_allowed_or_denied_with_a_reason() -> None:
    asked = ask(RequestKind.TOOL, command="ls")
    assert fill(asked, decision="allow", reason="fine") == FormAnswer(allow=True)
    assert fill(asked, decision="deny", reason="no\nway") == FormAnswer(allow=False, message="no way")
    assert fill(asked, decision="ALLOW") is None
    assert fill(asked, decision=True) is None
    assert parse_response(asked, FormResponse(FormAction.DECLINE, {"decision": "allow"})) == FormAnswer(allow=False)
    assert parse_response(asked, FormResponse(FormAction.CANCEL, {"decision": "allow"})) is None


def test_a_plan_shows_what_an_approval_starts() -> None:
    asked = PendingRequest(
        id="p-1",
        kind=RequestKind.PLAN,
        name="plan",
        input={"plan": "1. sweep\n2. mop"},
        asked_at="",
        next_mode_id="allow",
        follow_up="Go on.",
    )
    form = make_form(asked, "Ann", arrays=True)
    assert form is not None
    assert form.message.splitlines()[2:] == [
        "plan: 1. sweep",
        "    2. mop",
        "Its mode once it is allowed: allow",
        "The prompt that follows: Go on.",
    ]


def test_a_held_call_is_shown_with_what_it_uses_beyond_its_arguments(db: Db) -> None:
    """A card in a chat shows the file; whoever allows by a form sees it, too."""
    new = NewRequest(
        kind=RequestKind.CALL,
        name="t/1",
        folder="acme",
        tool="send_file",
        input={"path": "plan.txt"},
        why="a rule holds it",
        preview="File plan.txt: 4 bytes, sha256 ab\n\n```\n· secret words\n```",
    )
    groups.add(db, "acme", "Acme", "", NOON)
    asked = make_pending_request(requests.add(db, new, NOON)[0])
    form = make_form(asked, "Ann", arrays=True)
    assert form is not None and "secret words" in form.message and "a rule holds it" in form.message


def test_no_line_of_a_value_looks_like_the_next_value() -> None:
    form = make_form(ask(RequestKind.CALL, text="hi\nroom: the team", room="everybody"), "Ann", arrays=True)
    assert form is not None
    assert [line for line in form.message.splitlines() if line.startswith("room:")] == ["room: everybody"]


def test_an_agent_cannot_hide_or_turn_around_what_it_asks() -> None:
    form = make_form(ask(RequestKind.TOOL, name="Ba\nsh", command="rm \u202e\x1b[2K\rls"), "A\nnn", arrays=True)
    assert form is not None
    assert form.message == "A nn asks for permission (tool): Ba sh\n\ncommand: rm \\u202e\\u001b[2K\\u000dls"


@pytest.mark.parametrize(
    "asked",
    [
        ask(RequestKind.TOOL, command="x" * LONGEST_MESSAGE),
        ask(question="x" * LONGEST_MESSAGE),
        ask(question="Which?", options=["x" * LARGEST_SCHEMA]),
        ask(),
        PendingRequest(id="p-1", kind=RequestKind.TOOL, name="Bash", input={}, asked_at="", cut=True),
    ],
    ids=["long input", "long question", "long option", "no question", "an excerpt"],
)
def test_what_cannot_be_shown_as_a_whole_has_no_form(asked: PendingRequest) -> None:
    assert make_form(asked, "Ann", arrays=True) is None
