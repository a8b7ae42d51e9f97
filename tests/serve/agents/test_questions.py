"""A question, as providers ask it, and its answer, as they take it."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Invalid
from gatepost.flow.requests.questions import AgentQuestion, parse_questions
from gatepost.serve.agents.questions import make_answers
from gatepost.serve.control.arguments.agents import PendingRequest
from gatepost_testing.clients.management_client import open_management_gateway

DRINK = {"question": "Tea or coffee?", "header": "Drink", "options": [{"label": "tea"}, {"label": "coffee"}]}


def asked(kind: str = "question", **given: Any) -> PendingRequest:
    return PendingRequest(id="p-1", kind=kind, name="Ask", input=given, asked_at="")


def test_a_question_stands_in_the_input_or_in_a_list_of_it() -> None:
    assert parse_questions({"questions": [DRINK]}) == (AgentQuestion("Tea or coffee?", "Drink", ("tea", "coffee")),)
    assert parse_questions({"question": "Which?", "options": ["a", "b"]}) == (
        AgentQuestion("Which?", "Which?", ("a", "b")),
    )
    for odd in ({}, {"questions": "?"}, {"questions": [1, {"question": 2}]}, {"question": None}):
        assert parse_questions(odd) == ()


def test_answers_are_known_by_the_header_or_by_the_question() -> None:
    assert make_answers(asked(questions=[DRINK]), ["tea"]) == {"answers": {"Drink": "tea"}}
    assert make_answers(asked(question="Which?"), ["b"]) == {"answers": {"Which?": "b"}}
    assert make_answers(asked(questions=[DRINK, {"question": "Milk?"}]), ["tea", "no"]) == {
        "answers": {"Drink": "tea", "Milk?": "no"}
    }
    assert make_answers(asked("tool", command="ls"), []) == {}


@pytest.mark.parametrize(
    ("request_", "texts", "said"),
    [
        (asked(question="Which?"), [], "is a question; say --answer TEXT"),
        (asked(questions=[DRINK, DRINK]), ["tea"], "2 times, one for each"),
        (asked("tool"), ["tea"], "is no question"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(request_: PendingRequest, texts: list[str], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        make_answers(request_, texts)


@pytest.mark.slow
async def test_a_question_is_answered_with_an_answer_or_not_at_all(tmp_path: Path) -> None:
    script = {"turns": [{"do": [{"ask": {"question": "Tea?", "options": ["yes", "no"]}}, {"final": "so: {answer}"}]}]}
    async with open_management_gateway(tmp_path / "h", script=script) as desk:
        made = await desk("create_agent", initialPrompt="drink")
        answer = {"agentId": made["agentId"], "requestId": made["permission"]["id"]}
        empty = await desk.ask("respond_to_permission", **answer, response={"behavior": "allow"})
        assert empty.failed and "answers" in empty.text
        given = {"behavior": "allow", "updatedInput": {"answers": {"Tea?": "yes"}}}
        await desk("respond_to_permission", **answer, response=given)
        assert (await desk("wait_for_agent", agentId=made["agentId"]))["lastMessage"] == "so: yes"


async def test_an_agent_that_asks_by_the_tool_waits_for_who_manages_it(tmp_path: Path) -> None:
    question = {"question": "Tea or coffee?", "options": [{"label": "Tea"}, {"label": "Coffee"}]}
    call = {"call": "ask_user_question", "with": {"questions": [question]}}
    script = {"turns": [{"do": [call, {"final": "so: {result}"}]}]}
    async with open_management_gateway(tmp_path / "h", script=script) as desk:
        made = await desk("create_agent", initialPrompt="drink")
        asked = made["permission"]
        assert (asked["kind"], asked["input"]["questions"][0]["question"]) == ("question", "Tea or coffee?")
        answer = {"agentId": made["agentId"], "requestId": asked["id"]}
        for wrong in ({"answers": {"Tea or coffee?": "water"}}, {"answers": {}}, {}):
            refused = await desk.ask(
                "respond_to_permission", **answer, response={"behavior": "allow", "updatedInput": wrong}
            )
            assert refused.failed
        given = {"behavior": "allow", "updatedInput": {"answers": {"Tea or coffee?": "2"}}}
        await desk("respond_to_permission", **answer, response=given)
        told = (await desk("wait_for_agent", agentId=made["agentId"]))["lastMessage"]
        assert told.startswith("so: ") and '"answer":"Coffee"' in told
