"""An agent that wants to know something: whoever manages it sees the question on every transport, it waits durably, and
the answer reaches the agent. And its interim lines, which are entries of its timeline."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from gatepost.testing.desk import Desk, a_desk

Opening = Callable[..., AbstractAsyncContextManager[Desk]]
QUESTION = "Which floor, first?"
ASKED = {"question": QUESTION, "options": ["hall", "attic"]}
SCRIPT = {
    "turns": [
        {"when": "sweep", "do": [{"ask": ASKED}, {"say": "I sweep the {answer}."}]},
        {"when": "look", "do": [{"status": "looking out of the window"}, {"say": "Rain."}]},
    ]
}


async def answer(desk: Desk, made: dict[str, Any], **response: Any) -> dict[str, Any]:
    (waiting,) = (await desk("list_pending_permissions"))["permissions"]
    given = {"agentId": made["agentId"], "requestId": waiting["request"]["id"], "response": response}
    await desk("respond_to_permission", **given)
    return await desk("wait_for_agent", agentId=made["agentId"])


async def test_a_question_is_a_request_that_waits_and_its_answer_reaches_the_agent(
    opening: Opening, tmp_path: Path
) -> None:
    async with opening(tmp_path / "h", script=SCRIPT) as desk:
        made = await desk("create_agent", initialPrompt="sweep")
        asked = made["permission"]
        assert (asked["kind"], asked["name"], asked["input"]) == ("question", "question", ASKED)
        found = await answer(desk, made, behavior="allow", updatedInput={"answers": {QUESTION: "attic"}})
        assert (found["status"], found["lastMessage"]) == ("idle", "I sweep the attic.")


async def test_a_question_that_nobody_wants_to_answer_is_denied(tmp_path: Path) -> None:
    async with a_desk(tmp_path / "h", script=SCRIPT) as desk:
        made = await desk("create_agent", initialPrompt="sweep")
        found = await answer(desk, made, behavior="deny", message="find out yourself")
        assert (found["status"], found["lastMessage"]) == ("idle", "I sweep the deny.")


async def test_a_question_outlives_the_gateway_and_is_answered_to_the_next_one(tmp_path: Path) -> None:
    async with a_desk(tmp_path / "h", script=SCRIPT) as desk:
        made = await desk("create_agent", initialPrompt="sweep")
        before = made["permission"]
    async with a_desk(tmp_path / "h", script=SCRIPT) as desk:
        (waiting,) = (await desk("list_pending_permissions"))["permissions"]
        assert waiting["request"] == before
        found = await answer(desk, made, behavior="allow", updatedInput={"answers": {QUESTION: "hall"}})
        assert (found["status"], found["lastMessage"]) == ("idle", "I sweep the hall.")


async def test_an_interim_line_is_told_in_the_timeline(tmp_path: Path) -> None:
    async with a_desk(tmp_path / "h", script=SCRIPT) as desk:
        made = await desk("create_agent", initialPrompt="look")
        told = (await desk("get_agent_activity", agentId=made["agentId"]))["content"]
        assert "[Status] looking out of the window\nRain." in told
