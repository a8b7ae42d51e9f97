"""The provider by itself, without walls: a real process speaks the protocol, well or badly."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.core.records import replace
from gatepost.gate.tool_socket import ToolSocket
from gatepost.inside import coding_agent
from gatepost.inside.acp.agent import read_env
from gatepost.inside.agent_loop import CUT_ANSWER, STILL_TRYING
from gatepost.inside.coding_agent import RetryingAgentOptions, is_broken_off, is_cut, read_last_piece
from gatepost.inside.forwarder import ModelCallEnd
from gatepost.inside.providers.acp import Acp
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    DraftText,
    Event,
    Item,
    ItemKind,
    Misconfigured,
    PermissionRequest,
    ProviderContext,
    StatusLine,
    Text,
    ToolResult,
    ToolUse,
    TurnFailed,
    TurnResult,
    UsageReport,
)
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.provider_context import make_batch, make_context, read_all
from gatepost_testing.sample_tools import FEW
from gatepost_testing.waiting import until

AGENT = Path(__file__).parent / "acp_agent.py"
PNG = b"\x89PNG\r\n\x1a\n...."
USAGE = UsageReport({"input_tokens": 5, "output_tokens": 2})


def a_place(path: Path, can: str = "load", model: str = "", **options: Any) -> ProviderContext:
    for name in ("run", "agent", "state", "in"):
        (path / name).mkdir(exist_ok=True)
    return make_context(
        path, model=model, options={"command": f"{sys.executable} {AGENT}", "env": [f"CAN={can}"], **options}
    )


@asynccontextmanager
async def an_agent(path: Path, can: str = "load", **options: Any) -> AsyncIterator[Acp]:
    agent = Acp(a_place(path, can, **options))
    try:
        yield agent
    finally:
        await agent.close()


async def end(events: AsyncIterator[Event]) -> None:
    """As the runner leaves a turn in its middle."""
    assert isinstance(events, AsyncGenerator)
    await events.aclose()


async def answer(agent: Acp, given: Batch, resume: str = "") -> tuple[str, Event]:
    """The conversation, and how the turn ended."""
    first, *_, last = await read_all(agent.query(given, resume))
    assert isinstance(first, ConversationStarted)
    return first.conversation, last


def prompts(path: Path, conversation: str) -> list[list[str]]:
    """Return what the agent was told, by its own account."""
    lines = (path / "state" / "home" / conversation).read_text().splitlines()
    return [[block.get("text", block["type"]) for block in json.loads(line)] for line in lines]


# Setting it up.


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, 'options.command="opencode acp"'),
        ({"command": "no-such-agent-here acp"}, "the program no-such-agent-here is not here"),
        ({"command": 'sh "unclosed'}, "is no command"),
        ({"command": "sh", "permissions": "never"}, "no permissions 'never', only allow, ask"),
        ({"command": "sh", "instructions": "sung"}, "instructions is told or own, not 'sung'"),
        ({"agent": "nobody-here"}, "no agent 'nobody-here' is known; give its command, or one of auggie, "),
        ({"command": "sh", "patience": "long"}, "the group's options are not as they should be"),
    ],
)
def test_what_is_set_up_wrong_is_said(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(Misconfigured, match=text):
        Acp(replace(a_place(tmp_path), options=options))


async def test_an_agent_of_the_registry_is_started_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kimi").write_text(f'#!/bin/sh\n[ "$*" = acp ] && exec {sys.executable} {AGENT}\n')
    (tmp_path / "kimi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    agent = Acp(replace(a_place(tmp_path), options={"agent": "kimi"}))
    try:
        assert isinstance((await answer(agent, make_batch("hello")))[1], TurnResult)
    finally:
        await agent.close()


def test_variables_are_a_table_a_list_or_a_line() -> None:
    assert read_env({"A": "b"}) == read_env(["A=b"]) == read_env("A=b") == {"A": "b"}
    assert read_env('A=b C="d e"') == {"A": "b", "C": "d e"}
    with pytest.raises(Misconfigured, match="'A', which is not NAME=VALUE"):
        read_env(["A"])


async def test_the_agent_starts_in_the_groups_folder_with_the_groups_tools(tmp_path: Path) -> None:
    async with an_agent(tmp_path, env={"CAN": "load", "PLUMS": "3"}) as agent:
        await answer(agent, make_batch("hello"))

    params, env = json.loads((tmp_path / "state" / "home" / "servers.json").read_text())
    (server,) = params["mcpServers"]
    assert params["cwd"] == str(tmp_path / "agent")
    assert (server["name"], server["env"], server["args"][-1]) == (
        "gatepost",
        [],
        str(tmp_path / "run" / "router.sock"),
    )
    assert env["PLUMS"] == "3"


# A turn.


async def test_pieces_of_text_become_whole_messages(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        heard = await read_all(agent.query(make_batch("plan it"), ""))

        assert heard[1:] == [StatusLine("2 of 2: reap"), Text("one"), USAGE, TurnResult("two")]


async def test_a_tool_is_used_and_permitted_because_the_walls_are_the_sandboxs(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        heard = await read_all(agent.query(make_batch("tool with permission"), ""))

        assert heard[1:] == [
            Text("first this"),
            ToolUse("c1", "set_work", {"content": "plum"}),
            ToolResult("c1", "o-allow_once"),
            USAGE,
            TurnResult("used: o-allow_once"),
        ]


@pytest.mark.parametrize(("verdict", "chosen"), [("allow", "o-allow_once"), ("deny", "o-reject_once")])
async def test_somebody_is_asked_if_the_group_wants_that(tmp_path: Path, verdict: str, chosen: str) -> None:
    async with an_agent(tmp_path, permissions="ask") as agent:
        heard: list[Event] = []
        async with asyncio.timeout(60):
            async for event in agent.query(make_batch("tool with permission"), ""):
                heard.append(event)
                if isinstance(event, PermissionRequest):
                    assert (event.tool, event.input) == ("gatepost_set_work", {"content": "plum"})
                    await agent.answer(event.id, verdict, {})

        assert len([event for event in heard if isinstance(event, PermissionRequest)]) == 1
        assert heard[-1] == TurnResult(f"used: {chosen}")
        with pytest.raises(LookupError, match="waits for no answer"):
            await agent.answer("c1", "allow", {})


async def asked_for(path: Path, store: SqliteStore, title: str, kind: str) -> list[str]:
    """Return what somebody is asked for when an agent wants to use that; the gateway has `echo` among its tools."""
    gate = await GateAgent.create(path / "home", store, tools=FEW)
    tools = ToolSocket(gate.dispatch, gate.caller, lambda pid: True)
    async with an_agent(path, permissions="ask") as agent:
        await tools.open(path / "run" / "router.sock")
        asked: list[str] = []
        async with asyncio.timeout(60):
            async for event in agent.query(make_batch(f"tool with permission as {title} {kind}"), ""):
                if isinstance(event, PermissionRequest):
                    asked.append(event.tool)
                    await agent.answer(event.id, "allow", {})
        await tools.close()
    assert event == TurnResult("used: o-allow_once")
    return asked


@pytest.mark.parametrize("title", ["gatepost_echo", "mcp__gatepost__echo", "mcp_gatepost_echo", "gatepost/echo"])
async def test_for_its_own_tools_nobody_is_asked(tmp_path: Path, store: SqliteStore, title: str) -> None:
    assert await asked_for(tmp_path, store, title, "other") == []


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("mcp__gatepost_evil__echo", "other"),  # a server of another name
        ("gatepost_evil_echo", "other"),
        ("mcp__my_gatepost__echo", "other"),
        ("gatepost_no_such_tool", "other"),
        ("echo", "other"),
        ("gatepost_echo", "execute"),  # a command that is called so
        ("gatepost_echo", "renamed"),  # a call that was another before
    ],
)
async def test_what_only_looks_like_one_of_its_own_tools_is_asked_for_by_its_whole_name(
    tmp_path: Path, store: SqliteStore, title: str, kind: str
) -> None:
    assert await asked_for(tmp_path, store, title, kind) == [title]


async def test_the_groups_own_servers_are_given_to_it_if_the_group_wants_that(tmp_path: Path) -> None:
    async with an_agent(tmp_path, own_mcp=True) as agent:
        entry = {"command": "run-it", "args": ["-x"], "env": {"A": "b"}}
        servers = {"other": entry, "gatepost": entry, "gatepost_evil": entry}
        (tmp_path / "agent" / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        await read_all(agent.query(make_batch("hello"), ""))
    told, _ = json.loads((tmp_path / "state" / "home" / "servers.json").read_text())
    other, ours = told["mcpServers"]
    assert other == {"name": "other", "command": "run-it", "args": ["-x"], "env": [{"name": "A", "value": "b"}]}
    assert ours["name"] == "gatepost" and ours["command"] != "run-it"


async def test_pictures_are_shown_to_an_agent_that_takes_them(tmp_path: Path) -> None:
    async with an_agent(tmp_path, "load image") as agent:
        folder = tmp_path / "in" / "files" / "1"
        folder.mkdir(parents=True)
        (folder / "a.png").write_bytes(PNG)
        (folder / "b.txt").write_bytes(b"words")
        files = [{"name": "a.png"}, {"name": "b.txt"}, {"name": "gone.png"}]
        _, last = await answer(agent, make_batch("look", attachments=files))

        assert last == TurnResult('[1, ["text", "image", "text"]]')
    async with an_agent(tmp_path, "load") as agent:
        _, last = await answer(agent, make_batch("look", attachments=files))

        assert last == TurnResult('[1, ["text", "text"]]')


async def test_who_it_is_is_told_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        (tmp_path / "agent" / "PERSONA.md").write_text("You like plums.")
        name, _ = await answer(agent, make_batch("/compact"))
        await answer(agent, make_batch("hello", 2, "t-2"), name)
        await answer(agent, make_batch("hello again", 3, "t-3"), name)
        (tmp_path / "agent" / "PERSONA.md").write_text("You like pears.")
        await answer(agent, make_batch("and again", 4, "t-4"), name)

        told = prompts(tmp_path, name)
        assert told[0] == ["/compact"] and told[2] == ["hello again"]
        assert "You like plums." in told[1][0] and told[1][1] == "hello"
        assert "has changed" in told[3][0] and "You like pears." in told[3][0]


async def test_files_are_read_and_written_in_the_workspace_alone_and_no_link_is_followed(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        (tmp_path / "agent" / "a.txt").write_text("plums")
        (tmp_path / "agent" / "link").symlink_to("/etc/passwd")
        (tmp_path / "agent" / "folder").symlink_to("/etc")
        name, last = await answer(agent, make_batch(f"file {tmp_path}/agent/a.txt"))

        assert last == TurnResult('["plums", true, -32601]')
        assert (tmp_path / "agent" / "a.txt.new").read_text() == "made"
        for row, path in enumerate(("agent/link", "agent/folder/passwd", "agent/../../../etc/passwd", "agent"), 2):
            _, last = await answer(agent, make_batch(f"file {tmp_path}/{path}", row, f"t-{row}"), name)
            assert isinstance(last, TurnResult) and "root:" not in last.text
        _, last = await answer(agent, make_batch("file /etc/passwd", 9, "t-9"), name)
        assert isinstance(last, TurnResult) and "is not a file of the workspace" in last.text


# Modes and models.


async def test_a_mode_is_the_agents_own(tmp_path: Path) -> None:
    async with an_agent(tmp_path, mode="plan") as agent:
        name, last = await answer(agent, make_batch("which"))
        assert last == TurnResult("mode plan")
        await agent.set_mode("build")
        _, last = await answer(agent, make_batch("which", 2, "t-2"), name)
        assert last == TurnResult("mode build")
        with pytest.raises(NotImplementedError, match="no mode 'yolo', only build, plan"):
            await agent.set_mode("yolo")


async def test_a_mode_that_the_agent_has_not_is_named(tmp_path: Path) -> None:
    async with an_agent(tmp_path, mode="yolo") as agent:
        with pytest.raises(Misconfigured, match="no mode 'yolo', only build, plan"):
            await read_all(agent.query(make_batch("hello"), ""))


async def test_without_a_model_of_the_groups_a_conversation_goes_back_to_the_agents_own(tmp_path: Path) -> None:
    name, said = "", []
    for number, model in enumerate(("", "small", ""), 1):
        async with an_agent(tmp_path, "load models", model=model) as agent:
            name, last = await answer(agent, make_batch("which", number, f"t-{number}"), name)
            said.append(last)

    assert said == [TurnResult("model big"), TurnResult("model small"), TurnResult("model big")]


# Conversations.


@pytest.mark.parametrize("can", ["load", "resume", "load resume"])
async def test_a_conversation_goes_on_in_another_process(tmp_path: Path, can: str) -> None:
    async with an_agent(tmp_path, can) as agent:
        name, _ = await answer(agent, make_batch("hello"))
    async with an_agent(tmp_path, can) as agent:
        again, last = await answer(agent, make_batch("more", 2, "t-2"), name)

        assert (again, last) == (name, TurnResult('[2, ["text"]]'))


@pytest.mark.parametrize("can", ["none", "load"])
async def test_one_that_is_lost_is_begun_anew_and_the_agent_told_so(tmp_path: Path, can: str) -> None:
    async with an_agent(tmp_path, can) as agent:
        name, last = await answer(agent, make_batch("hello"), "s-gone")

        assert name != "s-gone" and isinstance(last, TurnResult)
        system, note, text = prompts(tmp_path, name)[0]
        assert "How you are reached" in system and "could not be opened again" in note and text == "hello"


@pytest.mark.parametrize("can", ["load", "resume", "load resume"])
async def test_a_turn_that_broke_off_goes_on_without_its_prompt_twice(tmp_path: Path, can: str) -> None:
    async with an_agent(tmp_path, can) as agent:
        running = agent.query(make_batch("tool with permission, then crash"), "")
        first = await anext(running)
        assert isinstance(first, ConversationStarted)
        assert await anext(running) == Text("first this")
        await agent.close()
        await end(running)
    note = Item(
        row=9, seq=9, kind=ItemKind.SYSTEM, sender="", text="broke off", content={"event": "continued", "text": "x"}
    )
    broken = make_batch("tool with permission, then crash", continued=True)
    async with an_agent(tmp_path, can) as agent:
        _, last = await answer(agent, replace(broken, items=(*broken.items, note)), first.conversation)

        assert isinstance(last, TurnResult)
        told = prompts(tmp_path, first.conversation)
        assert len(told) == 2
        assert "then crash" in told[0][-1] and "then crash" not in told[1][-1] and "broke off" in told[1][-1]


async def test_what_never_reached_the_agent_is_said_when_the_turn_goes_on(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        running = agent.query(make_batch("hello"), "")
        first = await anext(running)
        assert isinstance(first, ConversationStarted)
        await end(running)
    async with an_agent(tmp_path) as agent:
        name, last = await answer(agent, make_batch("hello", continued=True), first.conversation)

        assert isinstance(last, TurnResult)
        assert "hello" in prompts(tmp_path, name)[0][-1]


# Its end.


async def test_an_interrupt_cancels_the_turn_and_the_agent_stays(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        name, _ = await answer(agent, make_batch("hello"))
        running = asyncio.create_task(read_all(agent.query(make_batch("hang", 2, "t-2"), name)))
        await until(lambda: len(prompts(tmp_path, name)) == 2)
        await agent.interrupt()

        assert (await running)[-1] == TurnFailed("interrupted")
        assert await answer(agent, make_batch("hello", 3, "t-3"), name) == (name, TurnResult('[3, ["text"]]'))


async def test_an_interrupt_answers_who_waits_for_a_permission(tmp_path: Path) -> None:
    async with an_agent(tmp_path, permissions="ask") as agent:
        heard: list[Event] = []
        async with asyncio.timeout(60):
            async for event in agent.query(make_batch("tool with permission"), ""):
                heard.append(event)
                if isinstance(event, PermissionRequest):
                    await agent.interrupt()

        assert ToolResult("c1", "cancelled", True) in heard
        assert heard[-1] == TurnFailed("interrupted")


@pytest.mark.slow
async def test_an_agent_that_ignores_an_interrupt_is_ended(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        running = agent.query(make_batch("ignore me"), "")
        first = await anext(running)
        assert isinstance(first, ConversationStarted)
        rest = asyncio.create_task(read_all(running))
        await until((tmp_path / "state" / "home" / first.conversation).exists)
        await agent.interrupt()

        assert await rest == [TurnFailed("interrupted")]


async def test_an_interrupt_ends_the_wait_for_an_agent_that_never_answers(tmp_path: Path) -> None:
    async with an_agent(tmp_path, "mute") as agent:
        running = asyncio.create_task(read_all(agent.query(make_batch("hello"), "")))
        await asyncio.sleep(0)
        await agent.interrupt()

        assert await running == [TurnFailed("interrupted")]


async def test_an_agent_that_never_answers_fails_the_turn(tmp_path: Path) -> None:
    async with an_agent(tmp_path, "mute", patience=0.3) as agent:
        (failed,) = await read_all(agent.query(make_batch("hello"), ""))

        assert isinstance(failed, TurnFailed)
        assert (failed.kind, "does not answer to initialize" in failed.message) == ("retryable", True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("crash", "ended by itself (code 7); it said: out of plums"),
        ("garbage", "says what is not understood, such as 'this is no JSON'"),
        ("long line", "said a line of more than 32 MiB"),
        ("deep line", "says what is not understood"),
        ("closes its output", "closed its output"),
    ],
)
async def test_a_broken_agent_fails_the_turn_and_the_next_one_starts_anew(
    tmp_path: Path, words: str, message: str
) -> None:
    async with an_agent(tmp_path) as agent:
        name, failed = await answer(agent, make_batch(words))

        assert isinstance(failed, TurnFailed) and message in failed.message
        assert await answer(agent, make_batch("hello", 2, "t-2"), name) == (name, TurnResult('[2, ["text", "text"]]'))


async def test_a_program_that_is_no_agent_says_so(tmp_path: Path) -> None:
    async with an_agent(tmp_path, command="sh -c 'echo no such model >&2; exit 3'") as agent:
        (failed,) = await read_all(agent.query(make_batch("hello"), ""))

        assert isinstance(failed, TurnFailed)
        assert failed.message == "sh ended by itself (code 3); it said: no such model"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("401 invalid x-api-key", "auth"),
        ("gatepost: the model's endpoint refuses the gateway's key; the operator must look", "auth"),
        ("insufficient_quota", "quota"),
        ("the budget of this group is used up", "quota"),
        ("529 overloaded_error", "overload"),
        ("connect ECONNREFUSED 127.0.0.1:1", "network"),
        ("500 Internal Server Error", "retryable"),
        ("prompt is too long: 213462 tokens > 200000 maximum", "overflow"),
        ("no such model", "fatal"),
    ],
)
async def test_an_error_has_the_class_that_its_words_say(tmp_path: Path, said: str, kind: str) -> None:
    async with an_agent(tmp_path) as agent:
        _, failed = await answer(agent, make_batch(f"fail: {said}"))

        assert isinstance(failed, TurnFailed)
        assert failed.kind == kind and said in failed.message


@pytest.mark.parametrize(
    ("can", "words", "text"),
    [
        ("login", "hello", r"wants somebody to log in \(Authentication required\).*option env.*by-key"),
        ("load", "log in", "wants somebody to log in"),
        ("v2", "hello", "speaks version 2 of the Agent Client Protocol; version 1 is needed"),
    ],
)
async def test_what_an_operator_must_mend_is_said(tmp_path: Path, can: str, words: str, text: str) -> None:
    async with an_agent(tmp_path, can) as agent:
        with pytest.raises(Misconfigured, match=text):
            await read_all(agent.query(make_batch(words), ""))


async def test_an_agent_that_is_told_who_it_is_once_is_told_its_pinned_rules_with_every_prompt(tmp_path: Path) -> None:
    agent = Acp(replace(a_place(tmp_path), rules="- never merge"))
    try:
        name, _ = await answer(agent, make_batch("hello"))
        await answer(agent, make_batch("/compact", row=2, turn="t-2"), name)
        await answer(agent, make_batch("and now?", row=3, turn="t-3"), name)
        first, command, later = prompts(tmp_path, name)
        assert "- never merge" in first[0] and first[-1] == "hello"
        assert command == ["/compact"]
        assert later[0].endswith("- never merge\n\n") and later[-1] == "and now?"
    finally:
        await agent.close()


async def test_what_it_writes_is_told_while_somebody_watches(tmp_path: Path) -> None:
    agent = Acp(replace(a_place(tmp_path), is_watched=lambda: True))
    events = await read_all(agent.query(make_batch("hello"), ""))
    await agent.close()
    (result,) = [event for event in events if isinstance(event, TurnResult)]
    drafts = [event.text for event in events if isinstance(event, DraftText)]
    assert drafts and drafts[0] == result.text[: len(result.text) // 2]


@asynccontextmanager
async def a_way_out(path: Path, *answers: bytes) -> AsyncIterator[None]:
    """An egress.sock that answers each call with the next of these, and every later one with the last; then it ends."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()

    (path / "run").mkdir(exist_ok=True)
    server = await asyncio.start_unix_server(serve, str(path / "run" / "egress.sock"))
    try:
        yield
    finally:
        server.close()


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"


async def test_an_answer_of_the_model_that_was_cut_is_not_delivered(tmp_path: Path) -> None:
    async with a_way_out(tmp_path, CHUNKED + b"4\r\nhalf\r\n"), an_agent(tmp_path) as agent:
        _, *said, failed = await read_all(agent.query(make_batch("ask the model"), ""))

        assert isinstance(failed, TurnFailed) and failed.kind == "network"
        assert not any(isinstance(event, Text) for event in said)


async def test_an_answer_of_the_model_that_is_whole_is_delivered(tmp_path: Path) -> None:
    async with a_way_out(tmp_path, CHUNKED + b"5\r\nwhole\r\n0\r\n\r\n"), an_agent(tmp_path) as agent:
        _, ended = await answer(agent, make_batch("ask the model"))

        assert isinstance(ended, TurnResult) and "whole" in ended.text


async def test_an_account_without_money_is_told_at_once_also_if_it_comes_in_chunks(tmp_path: Path) -> None:
    head = b"HTTP/1.1 429 Too Many Requests\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b'{"error": {"message": "no money", "code": "insufficient_quota"}}'
    chunks = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    async with a_way_out(tmp_path, head + chunks), an_agent(tmp_path) as agent:
        _, failed = await answer(agent, make_batch("ask the model"))

        assert isinstance(failed, TurnFailed) and failed.kind == "quota"


async def test_a_key_that_is_not_accepted_is_told_at_once_however_long_the_agent_tries(tmp_path: Path) -> None:
    body = b'{"error": {"message": "gatepost: the model\'s endpoint refuses the gateway\'s key", "type": "x"}}'
    head = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with a_way_out(tmp_path, head + body), an_agent(tmp_path) as agent:
        _, failed = await answer(agent, make_batch("ask the model"))

        assert isinstance(failed, TurnFailed) and failed.kind == "auth"


async def test_an_overload_is_waited_out_as_long_as_the_group_says_and_people_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coding_agent, "TOLD_AFTER", 0.05)
    busy = b"HTTP/1.1 529 Overloaded\r\ncontent-length: 0\r\n\r\n"
    async with a_way_out(tmp_path, busy), an_agent(tmp_path, outage=0.2) as agent:
        _, *told, failed = await read_all(agent.query(make_batch("ask the model"), ""))

        assert told == [StatusLine(STILL_TRYING)]
        assert isinstance(failed, TurnFailed) and failed.kind == "overload"


@pytest.mark.parametrize(
    ("given", "first", "longest", "count"),
    [({}, 0.5, 32.0, 15), ({}, 0.2, inf, 11), ({"outage": 1}, 0.5, 32.0, 2), ({"retries": "0"}, 0.5, 32.0, 0)],
)
def test_an_agent_is_told_as_many_retries_as_an_outage_has_room_for(
    given: dict[str, Any], first: float, longest: float, count: int
) -> None:
    options = msgspec.convert(given, RetryingAgentOptions, strict=False)
    assert options.count_retries(first, longest) == count


async def test_an_answer_that_reached_its_limit_says_so(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        assert (await answer(agent, make_batch("a long answer")))[1] == TurnResult(f"the first half\n\n{CUT_ANSWER}")


BUSY = b"HTTP/1.1 529 Overloaded\r\ncontent-length: 0\r\n\r\n"


def stream(*events: str) -> bytes:
    """A whole answer, as far as HTTP goes."""
    return (
        CHUNKED
        + b"".join(b"%x\r\n%s\r\n" % (len(each) + 8, f"data: {each}\n\n".encode()) for each in events)
        + (b"0\r\n\r\n")
    )


async def test_a_prompt_that_the_agent_gave_up_in_passing_trouble_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.inside.acp.agent.FIRST_PAUSE", 0.01)
    async with a_way_out(tmp_path, BUSY, BUSY, CHUNKED + b"5\r\nwhole\r\n0\r\n\r\n"), an_agent(tmp_path) as agent:
        name, ended = await answer(agent, make_batch("ask the model, or give up"))

        assert isinstance(ended, TurnResult) and "whole" in ended.text
        first, *again = prompts(tmp_path, name)
        assert again == [first, first]


async def test_an_agent_that_gives_up_to_the_end_is_told_of_in_the_endpoints_class(tmp_path: Path) -> None:
    async with a_way_out(tmp_path, BUSY), an_agent(tmp_path, outage=0.5) as agent:
        _, failed = await answer(agent, make_batch("ask the model, or give up"))

        assert isinstance(failed, TurnFailed)
        assert (failed.kind, failed.message) == ("overload", "the model cannot answer just now (status 529)")


async def test_an_interrupt_ends_the_pause_before_a_prompt_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.inside.acp.agent.FIRST_PAUSE", 60.0)
    async with a_way_out(tmp_path, BUSY), an_agent(tmp_path) as agent:
        running = asyncio.create_task(read_all(agent.query(make_batch("ask the model, or give up"), "")))
        await until(lambda: agent._model_trouble is not None)
        await agent.interrupt()

        assert (await running)[-1] == TurnFailed("interrupted")


async def test_what_broke_off_is_taken_back_when_the_agent_asks_the_model_again(tmp_path: Path) -> None:
    broken = stream('{"content": "one "}', '{"content": "two"}', "<html>")
    whole = stream('{"content": "one "}', '{"content": "two three"}', '{"finish_reason": "stop"}')
    async with a_way_out(tmp_path, broken, whole), an_agent(tmp_path) as agent:
        _, *said, ended = await read_all(agent.query(make_batch("ask the model in pieces"), ""))

        assert ended == TurnResult("one two three")
        assert not any(isinstance(event, Text) for event in said)


async def test_a_prompt_is_given_again_that_the_agent_gave_up_at_an_answer_that_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.inside.acp.agent.FIRST_PAUSE", 0.01)
    broken = stream('{"content": "one "}', '{"content": "two"}', "<html>")
    whole = stream('{"content": "one "}', '{"content": "two three"}', '{"finish_reason": "stop"}')
    async with a_way_out(tmp_path, broken, whole), an_agent(tmp_path) as agent:
        name, *said, ended = await read_all(agent.query(make_batch("ask the model in pieces, or give up"), ""))

        assert isinstance(name, ConversationStarted) and ended == TurnResult("one two three")
        assert not any(isinstance(event, Text) for event in said)
        assert len(prompts(tmp_path, name.conversation)) == 2


async def test_what_the_model_declined_is_told_also_if_the_agent_says_nothing_of_it(tmp_path: Path) -> None:
    declined = stream('{"candidates": [{"content": {"text": ""}, "finishReason": "SAFETY"}]}')
    async with a_way_out(tmp_path, declined), an_agent(tmp_path) as agent:
        _, failed = await answer(agent, make_batch("ask the model in silence"))

        assert isinstance(failed, TurnFailed) and failed.kind == "refusal"


async def test_a_conversation_that_is_repeated_late_is_not_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Acp, "REPLAY_PAUSE", 0.2)
    async with an_agent(tmp_path, "load late") as agent:
        name, _ = await answer(agent, make_batch("hello"))
    again = Acp(a_place(tmp_path, can="load late"))
    try:
        _, ended = await answer(again, make_batch("hello again", row=2, turn="t-2"), name)
        assert isinstance(ended, TurnResult) and "what was answered then" not in ended.text
    finally:
        await again.close()


@pytest.mark.parametrize(
    ("reason", "said"),
    [("length", f"the first half\n\n{CUT_ANSWER}"), ("stop", "the first half")],
)
async def test_an_answer_that_reached_the_models_limit_says_so_also_if_the_agent_does_not(
    tmp_path: Path, reason: str, said: str
) -> None:
    cut = stream('{"content": "the first "}', '{"content": "half"}', f'{{"finish_reason": "{reason}"}}', "[DONE]")
    async with a_way_out(tmp_path, cut), an_agent(tmp_path) as agent:
        assert (await answer(agent, make_batch("ask the model in pieces")))[1] == TurnResult(said)


async def test_the_agents_summary_of_a_full_conversation_is_not_said(tmp_path: Path) -> None:
    body = b'{"error": {"message": "too large", "code": "context_length_exceeded"}}'
    full = b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    async with a_way_out(tmp_path, full, stream('{"finish_reason": "stop"}')), an_agent(tmp_path) as agent:
        _, *said, ended = await read_all(agent.query(make_batch("ask the model"), ""))

        assert ended == TurnResult("the answer")
        assert not any(isinstance(event, Text) for event in said)


@pytest.mark.parametrize(
    ("tail", "cut", "broken", "piece"),
    [
        (
            'data: {"choices": [{"delta": {"content": "pl\\u00fcm \\"x\\""}}]}\n\ndata: {"finish_reason":"length"}',
            1,
            0,
            'plüm "x"',
        ),
        ('data: {"delta":{"content":"a"}}\n\ndata: {"finish_reason": "stop"}\n\ndata: [DONE]', 0, 0, "a"),
        ('data: {"delta":{"type":"text_delta","text":"b"}}\n\ndata: {"delta":{"stop_reason":"max_tokens"}}', 1, 0, "b"),
        ('data: {"type":"response.incomplete","incomplete_details":{"reason":"max_output_tokens"}}', 1, 0, ""),
        ('data: {"delta": "\\"finish_reason\\": \\"length\\""}', 0, 1, '"finish_reason": "length"'),
        ('data: {"finish_reason": null, "delta": {"content": "c"}}\n\ndata: <html>', 0, 1, "c"),
        ('data: {"delta": {"content": "\\ud800"}}', 0, 1, ""),
        ('data: {"candidates": [{"content": {"parts": [{"text": "d"}]}, "finishReason": "MAX_TOKENS"}]}', 1, 0, "d"),
        ('data: {"candidates": [{"content": {"parts": [{"text": "e"}]}}]}', 0, 1, "e"),
        ("", 0, 1, ""),
    ],
)
def test_the_end_of_a_models_answer_says_how_it_ended(tail: str, cut: bool, broken: bool, piece: str) -> None:
    end = ModelCallEnd(200, True, b"", tail.encode())
    assert (is_cut(end), is_broken_off(end), read_last_piece(end)) == (cut, broken, piece)
    assert not is_cut(end._replace(status=500)) and is_broken_off(end._replace(whole=False))
