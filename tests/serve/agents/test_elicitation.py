"""What an agent asks, asked of the person at the official MCP client that waits for the agent, in both eras."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from gatepost.store.rights import acl, audit
from gatepost.store.sessions import turns
from gatepost_testing.clients.management_client import ManagementClient, open_management_gateway
from gatepost_testing.waiting import PATIENCE_S

MODES = ("legacy", "2026-07-28")
BOTH = pytest.mark.parametrize("mode", MODES)
# What is decided behind the form is the same in both eras; how it is asked is tested in both by those with BOTH.
NEWEST = pytest.mark.parametrize("mode", [pytest.param(MODES[0], marks=pytest.mark.slow), MODES[1]])
SCRIPT = {
    "turns": [
        {
            "when": "ask first",
            "do": [{"ask": {"permission": "Bash", "input": {"command": "ls"}}}, {"say": "I heard {answer}."}],
        },
        {
            "when": "ask twice",
            "do": [
                {"ask": {"permission": "Bash", "input": {"command": "ls"}}},
                {"ask": {"question": "Tea?", "options": ["tea", "coffee"]}},
                {"say": "I heard {answer}."},
            ],
        },
        {
            "when": "ask much",
            "do": [{"ask": {"permission": "Bash", "input": {"command": "x" * 20_000}}}, {"say": "I heard {answer}."}],
        },
        {
            "when": "what to drink",
            "do": [{"ask": {"question": "Tea?", "options": ["tea", "coffee"]}}, {"say": "So {answer}."}],
        },
        {"when": "(.*)", "do": [{"say": "done: {1}"}]},
    ]
}
Answer = Callable[[Any], Awaitable[ElicitResult]]


@dataclass
class Person:
    """Whoever sits at the client: has seen these forms, and answers them in this order."""

    answers: list[ElicitResult | Answer]
    seen: list[Any] = field(default_factory=list)

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.seen.append(params)
        answer = self.answers.pop(0)
        return answer if isinstance(answer, ElicitResult) else await answer(params)


def accept(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ManagementClient]:
    async with open_management_gateway(tmp_path / "h", "http", script=SCRIPT) as made:
        yield made


@contextlib.asynccontextmanager
async def at_client(desk: ManagementClient, mode: Any, person: Person | None) -> AsyncIterator[Client]:
    transport = httpx2.AsyncHTTPTransport(uds=str(desk.gateway.home.control))
    async with httpx2.AsyncClient(transport=transport, timeout=PATIENCE_S) as http, asyncio.timeout(PATIENCE_S):
        line = streamable_http_client("http://localhost/mcp/agents", http_client=http)
        async with Client(line, mode=mode, elicitation_callback=person) as client:
            yield client


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    assert isinstance(answer.structured_content, dict)
    return answer.structured_content


async def list_audited(desk: ManagementClient) -> list[str]:
    await desk.gateway.management.audit.flush()
    return [str(row[3]) for row in await desk.gateway.store.read(audit.list_latest, 100)]


@pytest.mark.slow
@BOTH
async def test_a_permission_is_asked_by_a_form_and_the_agent_goes_on(desk: ManagementClient, mode: str) -> None:
    person = Person([accept(decision="allow")])
    async with at_client(desk, mode, person) as client:
        made = await call(client, "create_agent", initialPrompt="ask first", title="Sweeper")
    assert (made["status"], made["lastMessage"], made["permission"]) == ("idle", "I heard allow.", None)
    (form,) = person.seen
    assert form.message == "Sweeper asks for permission (tool): Bash\n\ncommand: ls"
    assert form.requested_schema["properties"]["decision"]["enum"] == ["allow", "deny"]
    assert len((await desk("list_agents"))["agents"]) == 1


@pytest.mark.slow
@BOTH
async def test_a_question_is_asked_with_its_options(desk: ManagementClient, mode: str) -> None:
    person = Person([accept(answer_1="coffee"), accept(words_1="water, please")])
    async with at_client(desk, mode, person) as client:
        made = await call(client, "create_agent", initialPrompt="what to drink")
        assert made["lastMessage"] == "So coffee."
        again = await call(client, "send_agent_prompt", agentId=made["agentId"], prompt="what to drink")
        assert again["lastMessage"] == "So water, please."
    assert person.seen[0].requested_schema["properties"]["answer_1"]["enum"] == ["tea", "coffee"]
    assert await count_turns(desk, made["agentId"]) == 2  # a prompt that is sent again by its client is done once


async def count_turns(desk: ManagementClient, agent: str) -> int:
    return len(await desk.gateway.store.read(turns.list_for_session, agent, 2**62, 100))


@pytest.mark.slow
@NEWEST
async def test_several_requests_of_one_turn_are_asked_one_after_the_other(desk: ManagementClient, mode: str) -> None:
    person = Person([accept(decision="allow"), accept(answer_1="tea")])
    async with at_client(desk, mode, person) as client:
        made = await call(client, "create_agent", initialPrompt="ask twice")
    assert made["lastMessage"] == "I heard tea."
    assert len(person.seen) == 2


@pytest.mark.slow
@NEWEST
async def test_a_form_that_is_declined_denies(desk: ManagementClient, mode: str) -> None:
    person = Person([ElicitResult(action="decline"), accept(decision="deny", reason="not now")])
    async with at_client(desk, mode, person) as client:
        made = await call(client, "create_agent", initialPrompt="ask first", background=True)
        waited = await call(client, "wait_for_agent", agentId=made["agentId"])
        assert waited["lastMessage"] == "I heard deny."
        again = await call(client, "send_agent_prompt", agentId=made["agentId"], prompt="ask first")
        assert again["lastMessage"].startswith("I heard deny")
    assert (await list_audited(desk)).count("permission.deny") == 2


@pytest.mark.slow
@NEWEST
@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="cancel"),
        ElicitResult(action="accept"),
        accept(decision="perhaps"),
        accept(answer_1="allow"),
    ],
    ids=["cancel", "empty", "unknown", "another form's"],
)
async def test_a_form_that_decides_nothing_leaves_the_request_pending(
    desk: ManagementClient, mode: str, answer: ElicitResult
) -> None:
    async with at_client(desk, mode, Person([answer])) as client:
        made = await call(client, "create_agent", initialPrompt="ask first")
    assert (made["status"], made["permission"]["name"]) == ("running", "Bash")
    assert len((await desk("list_pending_permissions"))["permissions"]) == 1


@pytest.mark.slow
@BOTH
async def test_a_client_that_cannot_be_asked_gets_the_request_as_before(desk: ManagementClient, mode: str) -> None:
    async with at_client(desk, mode, None) as client:
        made = await call(client, "create_agent", initialPrompt="ask first")
    assert made["permission"]["name"] == "Bash"


@pytest.mark.slow
@NEWEST
async def test_what_does_not_fit_a_form_is_not_asked_by_one(desk: ManagementClient, mode: str) -> None:
    person = Person([])
    async with at_client(desk, mode, person) as client:
        made = await call(client, "create_agent", initialPrompt="ask much")
    assert made["permission"]["name"] == "Bash"
    assert person.seen == []


@pytest.mark.slow
@NEWEST
@pytest.mark.parametrize("rule", ["!respond_to_permission", "hold respond_to_permission"])
async def test_a_form_gives_no_right_that_the_client_does_not_have(
    desk: ManagementClient, mode: str, rule: str
) -> None:
    await desk.gateway.store.write(acl.add_rule, "root", rule, "test", 1)
    desk.gateway.tool_deps.events.tools(None)
    person = Person([accept(decision="allow")])
    async with at_client(desk, mode, person) as client:
        made = await call(client, "create_agent", initialPrompt="ask first")
    assert (made["status"], made["permission"]["name"]) == ("running", "Bash")
    assert len(person.seen) == (0 if rule.startswith("!") else 1)
    assert "permission.allow" not in await list_audited(desk)


@pytest.mark.slow
async def test_an_answer_from_elsewhere_ends_the_form(desk: ManagementClient) -> None:
    shown, ended = asyncio.Event(), asyncio.Event()

    async def think(params: Any) -> ElicitResult:
        shown.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()  # the client is told that it is over
        raise AssertionError

    async with at_client(desk, "legacy", Person([think])) as client:
        made = await call(client, "create_agent", initialPrompt="ask first", background=True)
        waiting = asyncio.create_task(call(client, "wait_for_agent", agentId=made["agentId"]))
        await shown.wait()
        await respond(desk, made["agentId"])
        assert (await waiting)["lastMessage"] == "I heard allow."
        await ended.wait()


async def respond(desk: ManagementClient, agent: str, behavior: str = "allow") -> None:
    (found,) = (await desk("list_pending_permissions"))["permissions"]
    await desk(
        "respond_to_permission", agentId=agent, requestId=found["request"]["id"], response={"behavior": behavior}
    )


@pytest.mark.slow
@NEWEST
async def test_an_answer_that_comes_second_changes_nothing(desk: ManagementClient, mode: str) -> None:
    agents: list[str] = []

    async def too_late(params: Any) -> ElicitResult:
        await respond(desk, agents[0], "deny")
        return accept(decision="allow")

    async with at_client(desk, mode, Person([too_late])) as client:
        agents.append((await call(client, "create_agent", initialPrompt="ask first", background=True))["agentId"])
        waited = await call(client, "wait_for_agent", agentId=agents[0])
    assert waited["lastMessage"] == "I heard deny."
    assert "permission.allow" not in await list_audited(desk)


@pytest.mark.slow
async def test_a_client_that_never_answers_holds_nothing(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def sleep(params: Any) -> ElicitResult:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with open_management_gateway(tmp_path / "h", "http", script=SCRIPT, agents__wait_s=1.0) as desk:
        async with at_client(desk, "legacy", Person([sleep])) as client:
            made = await call(client, "create_agent", initialPrompt="ask first", background=True)
            while (waited := await call(client, "wait_for_agent", agentId=made["agentId"]))["permission"] is None:
                pass  # it has not asked yet
            assert waited["permission"]["name"] == "Bash"
            await ended.wait()
            await respond(desk, made["agentId"])
            assert (await call(client, "wait_for_agent", agentId=made["agentId"]))["lastMessage"] == "I heard allow."


@pytest.mark.slow
async def test_a_call_that_is_cancelled_ends_its_form(desk: ManagementClient) -> None:
    shown, ended = asyncio.Event(), asyncio.Event()

    async def think(params: Any) -> ElicitResult:
        shown.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with at_client(desk, "legacy", Person([think])) as client:
        made = await call(client, "create_agent", initialPrompt="ask first", background=True)
        waiting = asyncio.create_task(call(client, "wait_for_agent", agentId=made["agentId"]))
        await shown.wait()
        waiting.cancel()
        await asyncio.wait({waiting})
        await ended.wait()
        assert len((await call(client, "list_pending_permissions"))["permissions"]) == 1


async def test_a_state_that_is_not_ours_is_refused_and_nothing_is_done(desk: ManagementClient) -> None:
    async with at_client(desk, "2026-07-28", Person([])) as client:
        for state in ("", "{}", "x" * 5000):
            with pytest.raises(MCPError, match="requestState"):
                await client.call_tool("create_agent", {"initialPrompt": "sweep"}, request_state=state)
    assert (await desk("list_agents"))["agents"] == []


@pytest.mark.slow
async def test_a_call_that_is_made_again_does_not_repeat_its_first_part(desk: ManagementClient) -> None:
    """Whatever the client declares by then."""
    made = await desk("create_agent", initialPrompt="sweep")
    state = json.dumps({"agent_id": made["agentId"], "request_id": "p-gone", "round": 1})
    async with at_client(desk, "2026-07-28", None) as client:
        again = await client.call_tool("create_agent", {"initialPrompt": "sweep"}, request_state=state)
        sent = {"agentId": made["agentId"], "prompt": "mop"}
        await client.call_tool("send_agent_prompt", sent, request_state=state)
    assert again.structured_content is not None and again.structured_content["agentId"] == made["agentId"]
    assert await count_turns(desk, made["agentId"]) == 1


@BOTH
@pytest.mark.slow
async def test_forms_pass_the_bridge(desk: ManagementClient, mode: Any) -> None:
    url = f"unix:{desk.gateway.home.control}:/mcp/agents"
    bridge = StdioServerParameters(command=sys.executable, args=["-m", "gatepost", "bridge", "--url", url])
    person = Person([accept(answer_1="tea")])
    async with Client(stdio_client(bridge), mode=mode, elicitation_callback=person) as client:
        made = await call(client, "create_agent", initialPrompt="what to drink")
    assert made["lastMessage"] == "So tea."


@pytest.mark.slow
async def test_a_client_of_2025_06_18_is_asked_on_the_stream_of_its_call(desk: ManagementClient) -> None:
    """Byte by byte: the question comes before the answer, in the answer's own stream."""
    made = await desk("create_agent", initialPrompt="what to drink", background=True)
    transport = httpx2.AsyncHTTPTransport(uds=str(desk.gateway.home.control))
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as http:

        async def post(message: dict[str, Any]) -> httpx2.Response:
            return await http.post("/mcp/agents", json={"jsonrpc": "2.0", **message}, headers=headers)

        client = {"capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}
        opened = await post({"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", **client}})
        headers |= {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        await post({"method": "notifications/initialized"})
        params = {"name": "wait_for_agent", "arguments": {"agentId": made["agentId"]}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        seen: list[dict[str, Any]] = []
        async with (
            asyncio.timeout(PATIENCE_S),
            http.stream("POST", "/mcp/agents", json=call, headers=headers) as stream,
        ):
            async for line in stream.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                seen.append(json.loads(line.removeprefix("data: ")))
                if seen[-1].get("method") == "elicitation/create":
                    given = {"action": "accept", "content": {"answer_1": "tea"}}
                    assert (await post({"id": seen[-1]["id"], "result": given})).status_code == 202
    assert [each.get("method") for each in seen] == ["elicitation/create", None]
    assert seen[1]["id"] == 1
    assert seen[1]["result"]["structuredContent"]["lastMessage"] == "So tea."
