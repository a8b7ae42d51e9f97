"""What agents ask, and those who answer: what a yes means, which request a name means, the shape of an answer, and what
it costs to look, whatever is inside."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.requests.questions import AgentQuestion, parse_questions
from gatepost.flow.sessions.runner.runner_requests import MOST_WAITING
from gatepost.flow.sessions.runner.turn_timeline import MOST_BYTES, UNTOLD
from gatepost.serve.agents.pending_requests import make_answers
from gatepost.serve.agents.timeline import MOST_SHOWN
from gatepost.serve.control.arguments.agents import PendingRequest
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.sessions import agents, sessions, timeline, turns
from gatepost.store.sessions.timeline import TimelineKind
from gatepost_testing.clients.management_client import ManagementClient, open_management_gateway
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import wait_until_settled

# Runs inside: asks under one name what differs by process, or asks and tells more than anybody could read.
PUSHY = r"""
import asyncio, os
from gatepost.inside import timeline_events
from gatepost.inside.providers.contract import PermissionRequest, TurnResult, Text, ToolUse, provider


@provider("pushy")
class Pushy:
    takes_pushes = False

    def __init__(self, place):
        self.place, self.told = place, asyncio.Queue()

    async def query(self, batch, resume):
        text = "".join(item.text for item in batch.items if item.kind == "chat")
        been = self.place.state / "been"
        if "flood" in text:
            timeline_events.LARGEST_EVENT = 10**9
            huge = {f"k{number}": "x" * 3500 for number in range(100)}
            for number in range(40):
                yield PermissionRequest(f"r{number}", "Bash", {**huge, "number": number})
                yield ToolUse(f"t{number}", "Bash", huge)
            for number in range(40, 400):  # each within its bounds
                yield ToolUse(f"t{number}", "Bash", {name: "x" * 19000 for name in "abc"})
            for _ in range(40):
                await self.told.get()
            yield TurnResult("flooded")
            return
        yield PermissionRequest("0", "Bash", {"command": "rm" if been.exists() else "ls"})
        told = await self.told.get()
        if not been.exists():
            been.write_text("")
            os._exit(9)
        yield Text(f"told {told}")
        yield TurnResult()

    async def answer(self, request, verdict, input):
        self.told.put_nowait((request, verdict))

    async def push(self, batch):
        raise NotImplementedError

    async def interrupt(self):
        for _ in range(40):
            self.told.put_nowait(("", ""))

    async def close(self):
        pass
"""
ASKING = {"ask": {"permission": "Bash", "input": {"command": "ls"}}}
SCRIPT = {"turns": [{"when": "ask", "do": [ASKING, {"say": "told {answer}"}]}, {"when": ".*", "do": [{"say": "well"}]}]}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ManagementClient]:
    plugins = tmp_path / "h" / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "pushy.py").write_text(PUSHY)
    async with open_management_gateway(tmp_path / "h", "memory", SCRIPT) as desk:
        yield desk


async def respond(desk: ManagementClient, asked: dict[str, Any], **response: Any) -> None:
    request = asked["permission"]["id"]
    await desk("respond_to_permission", agentId=asked["agentId"], requestId=request, response=response)


@pytest.mark.slow
async def test_a_yes_given_to_a_process_that_died_is_none_to_what_the_next_asks_under_that_name(
    desk: ManagementClient,
) -> None:
    made = await desk("create_agent", initialPrompt="go", agentType="pushy")
    assert made["permission"]["input"] == {"command": "ls"}
    await respond(desk, made, behavior="allow")
    again = await desk("wait_for_agent", agentId=made["agentId"])
    while again["permission"] is None or again["permission"]["id"] == made["permission"]["id"]:
        assert again["status"] in ("running", "interrupted"), again
        again = await desk("wait_for_agent", agentId=made["agentId"])
    assert again["permission"]["input"] == {"command": "rm"}
    await respond(desk, again, behavior="deny")
    ended = await desk("wait_for_agent", agentId=made["agentId"])
    assert ended["lastMessage"] == "told ('0', 'deny')"


@pytest.mark.slow
async def test_an_agent_that_asks_and_tells_without_end_is_bounded_on_the_host(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="flood", agentType="pushy", background=True)
    session, store = made["agentId"], desk.gateway.store
    async with asyncio.timeout(60):
        while True:
            if (await store.read(timeline.list_last, session, 1))[0].data == {"text": UNTOLD}:
                break
            await asyncio.sleep(0.05)

    def size(db: Db) -> int:
        (found,) = db.rows("SELECT SUM(LENGTH(data)) FROM timeline WHERE session_id = ?", (session,))
        return int(found[0])

    assert await store.read(size) < MOST_BYTES + 1_000_000
    listed = (await desk("list_pending_permissions"))["permissions"]
    assert len(listed) == MOST_WAITING and all(each["request"]["cut"] for each in listed)
    assert len(json.dumps(listed)) < MOST_WAITING * 80_000
    refused = [row for row in await store.read(audit.list_latest, 50) if row[3:5] == ("permission", "refused")]
    assert len(refused) == 40 - MOST_WAITING
    shown = await desk("get_agent_activity", agentId=session)
    assert len(shown["content"]) < MOST_SHOWN + 1000
    await desk("kill_agent", agentId=session)


async def test_a_list_of_requests_tells_each_once(desk: ManagementClient) -> None:
    await desk("create_agent", initialPrompt="ask")
    ((asker, request),) = await desk.gateway.agents.pending()
    assert request.input == {"command": "ls"}
    assert set(asker.__struct_fields__) == {"agent_id", "title", "type", "folder", "status"}
    assert asker.status == "running"


@pytest.mark.slow
async def test_requests_are_listed_in_parts_that_together_are_all_of_them(desk: ManagementClient) -> None:
    for _ in range(5):
        await desk("create_agent", initialPrompt="ask")
    seen, after = list[str](), ""
    while found := await desk.gateway.agents.pending(after, 2):
        seen += [request.id for _, request in found]
        after = seen[-1]
    assert len(set(seen)) == len(seen) == 5
    with pytest.raises(NotFound, match="the last one of a list"):
        await desk.gateway.agents.pending("p-none", 2)


@pytest.mark.slow
async def test_a_title_that_several_bear_means_none_of_them(desk: ManagementClient) -> None:
    service = desk.gateway.agents
    first = await desk("create_agent", initialPrompt="hello", title="Deploy")
    other = await desk("create_agent", initialPrompt="ask", title="Deploy")
    with pytest.raises(Invalid, match="several agents") as refused:
        await service.request("Deploy")
    assert first["agentId"] in str(refused.value) and other["agentId"] in str(refused.value)

    await desk("kill_agent", agentId=first["agentId"])  # which asks nothing any more
    found = await service.request("Deploy")
    assert found is not None and found.id == other["permission"]["id"]
    assert await service.request(found.id[:-2]) == found


async def test_no_agent_calls_itself_like_a_request_and_has_another_allowed_in_its_place(
    desk: ManagementClient,
) -> None:
    """An agent knows the ids of what it asked, and gives itself a title."""
    first = (await desk("create_agent", initialPrompt="ask"))["permission"]["id"]
    other = await desk("create_agent", initialPrompt="ask", title=first[:-2])
    service = desk.gateway.agents
    found = await service.request(first[:-2])
    assert found is not None and found.id == first
    await desk.gateway.store.write(requests.withdraw, first, "somebody else decided", 1)
    assert await service.request(first[:-2]) is None
    assert await service.request(other["agentId"]) is not None


@pytest.mark.slow
async def test_no_agent_is_meant_in_the_place_of_one_that_is_gone(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="hello", title="s-01j8gone")
    with pytest.raises(NotFound, match="s-01j8gone"):
        await desk.gateway.agents.find("s-01j8gone")
    assert (await desk.gateway.agents.find(made["agentId"][:-2])).id == made["agentId"]


@pytest.mark.slow
async def test_what_is_kept_in_part_can_only_be_denied(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="ask")
    store, service = desk.gateway.store, desk.gateway.agents

    def ask(db: Db, name: str) -> str:
        wish = NewRequest(
            kind=RequestKind.TOOL,
            name=name,
            session_id=made["agentId"],
            turn_id="t",
            tool="Bash",
            input={"command": "x"},
            digest=name,
            cut=True,
        )
        return requests.add(db, wish, 1)[0].id

    first, second = await store.write(ask, "a"), await store.write(ask, "b")
    for request, updated in ((first, {"command": "y"}), (first, {"command": "x"}), (second, None)):
        with pytest.raises(Invalid, match="Only a part"):
            await service.respond(request, "op", allow=True, updated=updated)
    for request in (first, second):
        await service.respond(request, "op", allow=False)
        answered = await store.read(requests.get, request)
        assert answered is not None and (answered.state, answered.answer) == ("denied", {})


@pytest.mark.slow
async def test_a_prompt_and_a_kill_at_once_leave_nothing_that_waits_for_ever(desk: ManagementClient) -> None:
    def left(db: Db) -> list[tuple[Any, ...]]:
        return db.rows("SELECT id FROM inbox WHERE state IN ('queued', 'retry', 'working')", ())

    for policy in ("queue", "interrupt") * 3:
        made = await desk("create_agent", initialPrompt="ask")
        name = made["agentId"]
        await asyncio.gather(
            desk.ask("send_agent_prompt", agentId=name, prompt="more", policy=policy, background=True),
            desk("kill_agent", agentId=name),
        )
        late = await desk.ask("send_agent_prompt", agentId=name, prompt="more", background=True)
        assert late.failed and "ended for good" in late.text
    await wait_until_settled(desk.gateway)
    assert await desk.gateway.store.read(left) == []


@pytest.mark.slow
async def test_whoever_read_of_an_agent_before_it_was_closed_cannot_prompt_it(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="hello")
    store = desk.gateway.store
    before = await store.read(agents.get, made["agentId"])
    assert before is not None
    await store.write(sessions.close, before.id, 1)
    with pytest.raises(Invalid, match="ended for good"):
        await store.write(agents.add_prompt, before, "more", "op", "op", "next", 2)


@pytest.mark.slow
async def test_what_is_read_of_a_timeline_at_once_is_bounded_and_the_cursor_goes_on(desk: ManagementClient) -> None:
    made = await desk("create_agent", title="Long")
    store, name = desk.gateway.store, made["agentId"]

    def fill(db: Db) -> None:
        for number in range(10):
            timeline.add(db, name, "", TimelineKind.STATUS, {"text": f"{number}" + "x" * 1_000_000}, 1)

    await store.write(fill)
    seen: list[int] = []
    while page := await store.read(timeline.list_after, name, seen[-1] if seen else 0, 1000):
        assert 0 < len(page) <= 5
        seen += [each.seq for each in page]
    assert seen == list(range(1, 11))
    assert [each.seq for each in await store.read(timeline.list_last, name, 1000)] == [7, 8, 9, 10]
    told = (await desk("get_agent_activity", agentId=name))["content"]
    assert told.startswith("Showing 1 of 10 entries (the newest; the others do not fit one answer)")


@pytest.mark.slow
def test_a_request_outlives_every_restart_of_the_gateway_while_it_waits(tmp_path: Path) -> None:
    home = tmp_path / "home"
    script = home / "groups" / "agents" / "script.json"
    script.parent.mkdir(parents=True)
    script.write_text(json.dumps(SCRIPT))
    daemon = DaemonProcess(home, sessions_provider="scripted", sandbox_kind="process", sessions_retry_s="0.05")
    try:
        daemon.start()
        daemon.gatepost("agent", "run", "ask", "--title", "Asks")
        (first,) = daemon.json("permit", "ls")
        for _ in range(3):
            daemon.kill()
            daemon.start()
            daemon.gatepost("agent", "wait", "Asks")
            (again,) = daemon.json("permit", "ls")
            assert again["request"]["id"] == first["request"]["id"]
        assert daemon.gatepost("permit", "allow", first["request"]["id"]).returncode == 0
        assert daemon.gatepost("agent", "wait", "Asks").stdout == "told allow\n"
    finally:
        daemon.stop()


@pytest.mark.slow
async def test_of_what_is_said_at_endless_length_the_timeline_keeps_the_beginning_and_says_so(
    desk: ManagementClient,
) -> None:
    made = await desk("create_agent", initialPrompt="ask")
    name, store = made["agentId"], desk.gateway.store

    def say(db: Db, text: str) -> str:
        turn = turns.find_open(db, name)
        assert turn is not None
        agents.record_text(db, turn, text, 1)
        return agents.get_last_text(db, name)

    assert (await store.write(say, "x" * 400_000)).endswith("x\n\n[… 400000 characters in all]")
    for _ in range(10):
        told = await store.write(say, "x" * 400_000)
    assert told.startswith("[… what it said before") and len(told) < 1_400_000


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
