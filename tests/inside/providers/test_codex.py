"""The provider by itself, without walls: what Codex is told, and what its words mean. Slow: a real Codex against the
scripted model, through the test's socket."""

import asyncio
import json
import os
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.core.records import replace
from gatepost.gate.tool_socket import ToolSocket
from gatepost.inside.coding_agent import parse_options
from gatepost.inside.providers.codex import Codex, CodexOptions
from gatepost.inside.providers.codex.app_server import AppServerRequest
from gatepost.inside.providers.codex.protocol import (
    is_cut,
    is_refused,
    read_item,
    read_permission,
    read_turn_error,
    read_usage,
    render_answer,
    render_config,
    simplify_models,
)
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
from gatepost.mailbox.runner_frames import TurnErrorClass
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing import programs
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.provider_context import make_batch, make_context, read_all
from gatepost_testing.waiting import PATIENCE_S

CODEX = programs.find("codex")
DOUBLE = Path(__file__).with_name("codex_double.py")


def real(test: Any) -> Any:
    """A real Codex is driven."""
    missing = pytest.mark.skipif(CODEX is None, reason="codex is not installed: make test-all does it")
    return pytest.mark.slow(missing(test))


def place_in(path: Path, **options: Any) -> ProviderContext:
    return make_context(path, model="gpt-5.6-sol", options=options)


# What it is told.


def test_its_settings_name_the_way_out_the_groups_tools_and_no_sandbox() -> None:
    said = render_config(
        endpoint="http://127.0.0.1:1/openai/v1",
        command=["python", "-I", 'a "b"'],
        folder='/work space/"ü',
        retries=2,
        effort="high",
        catalog="/c.json",
    )
    told = tomllib.loads(said)

    model, tools = told["model_providers"]["gatepost"], told["mcp_servers"]["gatepost"]
    assert told["model_provider"] == "gatepost" and told["sandbox_mode"] == "danger-full-access"
    assert (model["base_url"], model["wire_api"]) == ("http://127.0.0.1:1/openai/v1", "responses")
    assert (tools["command"], tools["args"]) == ("python", ["-I", 'a "b"'])
    assert tools["required"] is True and tools["default_tools_approval_mode"] == "approve"
    assert told["web_search"] == "disabled" and told["analytics"] == {"enabled": False}
    assert (told["model_reasoning_effort"], told["model_catalog_json"]) == ("high", "/c.json")
    assert told["projects"]['/work space/"ü'] == {"trust_level": "untrusted"}


def test_models_get_their_tools_in_the_open() -> None:
    known = {"models": [{"slug": "m", "tool_mode": "code_mode_only", "context_window": 5}], "more": 1}
    made = msgspec.json.decode(simplify_models(msgspec.json.encode(known)))

    assert made["more"] == 1
    assert made["models"][0] == {
        "slug": "m",
        "tool_mode": "direct",
        "context_window": 5,
        "use_responses_lite": False,
        "supports_search_tool": False,
        "multi_agent_version": "v1",
    }
    assert [simplify_models(each) for each in (b"", b"error: no such command", b"[]", b'{"models":[]}')] == [b""] * 4


def test_a_mode_that_there_is_not_is_named() -> None:
    with pytest.raises(Misconfigured, match="'yolo', only never, on-request, untrusted, plan"):
        parse_options(Codex.spec, {"mode": "yolo"}, CodexOptions)


# What its words mean.


def test_a_message_is_said_once_and_whole_and_commentary_is_an_interim_line() -> None:
    said = {"type": "agentMessage", "id": "m", "text": "hi", "phase": None}

    assert read_item(said, ended=False) == []
    assert read_item(said, ended=True) == [Text("hi")]
    assert read_item(said | {"phase": "final_answer"}, ended=True) == [Text("hi")]
    assert read_item(said | {"phase": "commentary"}, ended=True) == [StatusLine("hi")]
    assert read_item(said | {"text": " "}, ended=True) == []


def test_a_command_a_patch_and_a_tool_of_the_group_are_tools() -> None:
    command = {"type": "commandExecution", "id": "c", "command": "ls", "cwd": "/w", "aggregatedOutput": "a\n"}
    patch = {"type": "fileChange", "id": "f", "changes": [{"path": "a.txt"}], "status": "declined"}
    tool = {"type": "mcpToolCall", "id": "t", "server": "gatepost", "tool": "send", "arguments": {"text": "x"}}

    assert read_item(command, ended=False) == [ToolUse("c", "exec_command", {"command": "ls", "cwd": "/w"})]
    assert read_item(command | {"status": "completed"}, ended=True) == [ToolResult("c", "a\n")]
    assert read_item(patch, ended=False) == [ToolUse("f", "apply_patch", {"paths": ["a.txt"]})]
    assert read_item(patch, ended=True) == [ToolResult("f", "declined", error=True)]
    assert read_item(tool, ended=False) == [ToolUse("t", "send", {"text": "x"})]
    done = tool | {"status": "completed", "result": {"content": [{"type": "text", "text": "sent"}]}}
    assert read_item(done, ended=True) == [ToolResult("t", "sent")]
    failed = tool | {"status": "failed", "error": {"message": "not yours"}}
    assert read_item(failed, ended=True) == [ToolResult("t", "not yours", error=True)]
    assert read_item(tool | {"server": "other"}, ended=False) == [ToolUse("t", "other/send", {"text": "x"})]
    assert read_item({"type": "reasoning", "id": "r"}, ended=True) == []


def test_what_came_from_a_cache_is_not_among_the_input() -> None:
    last = {"inputTokens": 100, "cachedInputTokens": 40, "outputTokens": 7}

    assert read_usage({"tokenUsage": {"last": last, "total": {}}}) == {
        "input_tokens": 60,
        "output_tokens": 7,
        "cache_read_tokens": 40,
    }


def test_only_what_yes_or_no_answers_is_a_permission() -> None:
    asked = AppServerRequest(
        7, "item/commandExecution/requestApproval", {"command": "rm", "reason": None, "threadId": "t"}
    )

    assert read_permission(asked, "p1") == PermissionRequest("p1-7", "exec_command", {"command": "rm"})
    assert read_permission(AppServerRequest(8, "item/tool/requestUserInput", {}), "p1") is None


def test_its_questions_are_asked_and_answered_by_their_ids_and_secrets_are_not_asked_for() -> None:
    asked = {"id": "drink", "header": "Drink", "question": "Which?", "isOther": True, "isSecret": False}
    options = [{"label": "Tea", "description": "Green."}]
    request = AppServerRequest(9, "item/tool/requestUserInput", {"questions": [{**asked, "options": options}]})
    permission = read_permission(request, "p1")
    assert permission is not None and (permission.id, permission.kind) == ("p1-9", "question")
    assert permission.input["questions"][0]["options"] == options
    given = {"answers": {"Drink": "Tea"}}
    assert render_answer(request, allow=True, given=given) == {"answers": {"drink": {"answers": ["Tea"]}}}
    no = render_answer(request, allow=False, given=given, reason="Nobody was there.")
    assert no == {"answers": {"drink": {"answers": ["There is no answer. Nobody was there."]}}}

    secret = AppServerRequest(9, "item/tool/requestUserInput", {"questions": [{**asked, "isSecret": True}]})
    assert read_permission(secret, "p1") is None


def test_a_change_of_files_is_named_by_the_step_that_tells_it() -> None:
    asked = AppServerRequest(0, "item/fileChange/requestApproval", {"itemId": "call_1", "reason": None})

    assert read_permission(asked, "p1") == PermissionRequest("p1-0", "apply_patch", {"itemId": "call_1"})
    assert read_permission(asked, "p2") == PermissionRequest("p2-0", "apply_patch", {"itemId": "call_1"})


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        ("unauthorized", "auth"),
        ("usageLimitExceeded", "quota"),
        ("serverOverloaded", "overload"),
        ("contextWindowExceeded", "overflow"),
        ("badRequest", "fatal"),
        ("other", "fatal"),
        (None, "fatal"),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "retryable"),
        ({"responseStreamDisconnected": {}}, "retryable"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "overload"),
        ({"httpConnectionFailed": {"httpStatusCode": 402}}, "quota"),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "auth"),
    ],
)
def test_its_errors_have_the_four_classes(info: Any, kind: str) -> None:
    trouble = read_turn_error({"status": "failed", "error": {"message": "so it was", "codexErrorInfo": info}}, False)

    assert trouble is not None and trouble.kind == kind and "so it was" in trouble.message


def test_an_answer_that_is_not_whole_was_cut_or_refused() -> None:
    def fail(why: str) -> dict[str, Any]:
        return {"status": "failed", "error": {"message": f"Incomplete response returned, reason: {why}"}}

    refused = read_turn_error(fail("content_filter"), False)

    assert is_cut(fail("max_output_tokens")) and not is_cut(fail("content_filter"))
    assert refused is not None and refused.kind == "refusal" and "Incomplete" not in refused.message
    about = {"message": "Reconnecting... 1/11", "additionalDetails": fail("content_filter")["error"]["message"]}
    assert is_refused(about)


@pytest.mark.parametrize(
    ("message", "info", "said"),
    [
        (
            "unexpected status 402 Payment Required: no money: none, url: http://127.0.0.1:5/v1/responses",
            {"httpConnectionFailed": {"httpStatusCode": 402}},
            ("no money: none", "quota"),
        ),
        (
            '{"error": {"message": "no such model", "type": "invalid_request_error"}}',
            "other",
            ("the model's endpoint refused the request: no such model", "fatal"),
        ),
        (
            "stream disconnected before completion: gone",
            "other",
            ("Codex could not go on: stream disconnected before completion: gone", "retryable"),
        ),
    ],
)
def test_an_error_is_told_in_the_endpoints_words(message: str, info: Any, said: tuple[str, str]) -> None:
    trouble = read_turn_error({"status": "failed", "error": {"message": message, "codexErrorInfo": info}}, False)

    assert trouble is not None and (trouble.message, trouble.kind) == said


def test_a_turn_that_was_stopped_says_so_and_one_that_ended_has_no_trouble() -> None:
    stopped = read_turn_error({"status": "interrupted"}, False)

    assert stopped is not None and stopped.message == "interrupted"
    assert read_turn_error({"status": "completed", "error": None}, False) is None


# A double of it.


@pytest.fixture
async def doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Codex]:
    for name in ("run", "agent", "state", "bin"):
        (tmp_path / name).mkdir()
    program = tmp_path / "bin" / "codex"
    program.write_text(f"#!{sys.executable}\n{DOUBLE.read_text()}")
    program.chmod(0o755)
    (tmp_path / "run" / "egress.sock").touch()
    monkeypatch.setenv("PATH", str(program.parent))
    codex = Codex(place_in(tmp_path))
    yield codex
    await codex.close()


def asked_of(path: Path) -> list[dict[str, Any]]:
    lines = (path / "state" / "home" / "asked.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def words_of(path: Path) -> list[str]:
    """Return what it was told, turn by turn."""
    given = [each["params"]["input"][0]["text"] for each in asked_of(path) if each.get("method") == "turn/start"]
    return [str(text) for text in given]


async def push(codex: Codex, given: Batch) -> None:
    """As soon as a turn runs."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await codex.push(given)
            except NotImplementedError as error:
                if "no turn is running" not in str(error):
                    raise
            await asyncio.sleep(0.01)


async def test_a_follow_up_that_was_taken_too_late_gets_a_turn_of_its_own(tmp_path: Path, doubled: Codex) -> None:
    running = asyncio.create_task(read_all(doubled.query(make_batch("wait"), "")))
    await push(doubled, make_batch("pears", 2))
    heard = await running

    assert heard[1] == Text("first done") and heard[-1] == TurnResult("answer to pears")
    assert words_of(tmp_path) == ["wait", "pears"]


async def test_a_follow_up_that_is_not_taken_is_handed_over_whole_the_next_time(tmp_path: Path, doubled: Codex) -> None:
    running = asyncio.create_task(read_all(doubled.query(make_batch("wait"), "")))
    with pytest.raises(NotImplementedError, match="no active turn"):
        await push(doubled, make_batch("too late", 2))
    assert (await running)[-1] == TurnResult("first done")
    heard = await read_all(doubled.query(make_batch("too late", 2), "th-1"))

    assert heard[-1] == TurnResult("answer to too late")
    assert words_of(tmp_path) == ["wait", "too late"]


async def test_when_it_dies_its_last_words_are_told_and_the_turn_goes_on_without_its_prompt_twice(
    tmp_path: Path, doubled: Codex
) -> None:
    heard = await read_all(doubled.query(make_batch("die"), ""))
    assert heard[-1] == TurnFailed("Codex ended: it was too much", TurnErrorClass.RETRYABLE)
    again = replace(make_batch("die"), continued=True)
    heard = await read_all(doubled.query(again, "th-1"))

    assert isinstance(heard[-1], TurnResult)
    assert [each["method"] for each in asked_of(tmp_path) if "thread/" in each.get("method", "")] == [
        "thread/start",
        "thread/resume",
    ]
    first, second = words_of(tmp_path)
    assert first == "die" and "die" not in second and "continued" in second


async def test_a_line_that_is_no_message_ends_it_and_the_next_turn_starts_another(
    tmp_path: Path, doubled: Codex
) -> None:
    *_, failed = await read_all(doubled.query(make_batch("babble"), ""))
    assert isinstance(failed, TurnFailed) and failed.kind == "retryable"
    assert failed.message.startswith("Codex ended: it said what nobody understands")

    heard = await read_all(doubled.query(make_batch("plums", 2, "t-2"), "th-1"))
    assert heard[-1] == TurnResult("answer to plums")
    assert [each["method"] for each in asked_of(tmp_path)].count("initialize") == 2


async def test_what_it_writes_is_told_while_somebody_watches(doubled: Codex) -> None:
    plain = await read_all(doubled.query(make_batch("write"), ""))
    assert not [event for event in plain if isinstance(event, DraftText)]
    doubled._place = replace(doubled._place, is_watched=lambda: True)
    first, second, *_ = await read_all(doubled.query(make_batch("write", 2, "t-2"), "th-1"))
    assert isinstance(first, ConversationStarted)
    assert second == DraftText("Hel")  # and nothing of a sub-agent


async def test_a_question_that_nobody_can_answer_does_not_hold_it_up(doubled: Codex) -> None:
    heard = await read_all(doubled.query(make_batch("ask"), ""))

    assert heard[-1] == TurnResult("there is nobody to ask")


@pytest.mark.parametrize(("verdict", "action"), [("allow", "accept"), ("deny", "decline")])
async def test_a_tool_of_a_server_that_is_not_ours_is_asked_for_under_its_whole_name(
    doubled: Codex, verdict: str, action: str
) -> None:
    heard: list[Event] = []
    async for event in doubled.query(make_batch("poke"), ""):
        heard.append(event)
        if isinstance(event, PermissionRequest):
            assert (event.tool, event.input, event.kind) == ("gatepost_evil/send", {"x": "1"}, "tool")
            await doubled.answer(event.id, verdict, {})
    assert heard[-1] == TurnResult(action)


def test_what_a_server_itself_wants_to_know_is_no_permission() -> None:
    about = {"serverName": "other", "message": 'run tool "x"', "_meta": None}
    assert read_permission(AppServerRequest(9, "mcpServer/elicitation/request", about), "p1") is None


PLAN = "1. sweep\n2. mop"


async def planned(codex: Codex, given: Batch, resume: str = "") -> list[Event]:
    """A turn whose plan is answered."""
    heard: list[Event] = []
    async with asyncio.timeout(60):
        async for event in codex.query(given, resume):
            heard.append(event)
            if isinstance(event, PermissionRequest):
                await codex.answer(event.id, "allow", {})
    return heard


async def test_a_plan_is_shown_and_its_turn_ends_when_it_is_answered(tmp_path: Path, doubled: Codex) -> None:
    await doubled.set_mode("plan")
    heard = await planned(doubled, make_batch("propose"))
    *_, shown, asked, ended = heard
    assert isinstance(asked, PermissionRequest)
    assert (asked.kind, asked.input, asked.next_mode) == ("plan", {"plan": PLAN}, "on-request")
    assert PLAN in asked.follow_up and (shown, ended) == (Text(PLAN), TurnResult())

    await doubled.set_mode("on-request")
    assert (await read_all(doubled.query(make_batch(asked.follow_up, 2, "t-2"), "th-1")))[-1] != ended
    plan, work = (each["params"] for each in asked_of(tmp_path) if each.get("method") == "turn/start")
    assert (plan["approvalPolicy"], work["approvalPolicy"]) == ("untrusted", "on-request")
    assert plan["collaborationMode"] == {
        "mode": "plan",
        "settings": {"model": "m-1", "reasoning_effort": "low", "developer_instructions": None},
    }
    assert work["collaborationMode"]["mode"] == "default"


async def test_a_turn_that_plans_nothing_just_ends_and_one_that_works_is_told_nothing_about_plans(
    tmp_path: Path, doubled: Codex
) -> None:
    await read_all(doubled.query(make_batch("plums"), ""))
    await doubled.set_mode("plan")
    heard = await read_all(doubled.query(make_batch("pears", 2, "t-2"), "th-1"))

    assert heard[-1] == TurnResult("answer to pears")
    first, _ = (each["params"] for each in asked_of(tmp_path) if each.get("method") == "turn/start")
    assert "collaborationMode" not in first


async def test_a_turn_that_broke_off_with_its_plan_asks_the_same_again_and_does_not_plan_anew(
    tmp_path: Path, doubled: Codex
) -> None:
    await doubled.set_mode("plan")
    events = doubled.query(make_batch("propose"), "")
    async with asyncio.timeout(60):
        first = [event async for event in until_asked(events)][-1]
    await doubled.close()

    note = Item(row=0, seq=0, kind=ItemKind.SYSTEM, sender="", text="it broke off", content={"event": "continued"})
    again = Batch(turn="t-1", prompt="it broke off", items=(note,), continued=True)
    heard = await planned(doubled, again, "th-1")
    assert heard == [ConversationStarted("th-1"), first, TurnResult()]
    assert words_of(tmp_path) == ["propose"]


async def until_asked(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        yield event
        if isinstance(event, PermissionRequest):
            return


async def test_an_interrupt_ends_the_wait_for_a_plans_approval(doubled: Codex) -> None:
    await doubled.set_mode("plan")
    heard: list[Event] = []
    async with asyncio.timeout(60):
        async for event in doubled.query(make_batch("propose"), ""):
            heard.append(event)
            if isinstance(event, PermissionRequest):
                await doubled.interrupt()
    assert heard[-1] == TurnFailed("interrupted")


# A real one.


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(65536):
        sink.write(piece)
        await sink.drain()
    sink.close()


@asynccontextmanager
async def a_codex(path: Path, store: SqliteStore, endpoint: ModelEndpoint, **options: Any) -> AsyncIterator[Codex]:
    async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", endpoint.port)
        with suppress(asyncio.CancelledError):  # the test ends
            await asyncio.gather(_pump(reader, out), _pump(there, writer), return_exceptions=True)

    for name in ("run", "agent", "state"):
        (path / name).mkdir()
    agent = await GateAgent.create(path, store)
    tools = ToolSocket(agent.dispatch, agent.caller, lambda pid: True)
    await tools.open(path / "run" / "router.sock")
    async with await asyncio.start_unix_server(arrive, path / "run" / "egress.sock"):
        codex = Codex(place_in(path, **options))
        try:
            yield codex
        finally:
            await codex.close()
            await tools.close()


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CODEX is not None
    monkeypatch.setenv("PATH", f"{CODEX.parent}{os.pathsep}{os.environ['PATH']}")


SCRIPT: dict[str, Any] = {
    "tools": True,
    "turns": [
        {"when": "plumcake", "do": [{"call": "exec_command", "with": {"cmd": "touch made"}}, {"say": "well"}]},
        {"when": "moin", "do": [{"say": "here"}]},
    ],
}


@real
@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(("verdict", "made"), [("allow", True), ("deny", False)])
async def test_in_a_mode_that_asks_somebody_is_asked(
    tmp_path: Path, store: SqliteStore, verdict: str, made: bool
) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, a_codex(tmp_path, store, endpoint, mode="untrusted") as codex:
        heard: list[Event] = []
        async with asyncio.timeout(60):
            async for event in codex.query(make_batch("plumcake"), ""):
                heard.append(event)
                if isinstance(event, PermissionRequest):
                    assert event.tool == "exec_command" and "touch made" in event.input["command"]
                    await codex.answer(event.id, verdict, {})

        assert len([event for event in heard if isinstance(event, PermissionRequest)]) == 1
        assert (tmp_path / "agent" / "made").exists() == made
        assert heard[-1] == TurnResult("well")


@real
@pytest.mark.usefixtures("on_path")
async def test_one_process_serves_turn_after_turn_and_a_mode_can_be_changed(tmp_path: Path, store: SqliteStore) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, a_codex(tmp_path, store, endpoint, mode="untrusted") as codex:
        first, *rest = await read_all(codex.query(make_batch("moin"), ""))
        assert isinstance(first, ConversationStarted) and rest[-1] == TurnResult("here")
        (usage,) = [event.numbers for event in rest if isinstance(event, UsageReport)]
        assert usage["requests"] == 1 and usage["input_tokens"] > 0
        await codex.set_mode("never")
        (tmp_path / "agent" / "PERSONA.md").write_text("You like pears now.")
        second, *rest = await read_all(codex.query(make_batch("plumcake", 2, "t-2"), first.conversation))

        assert second == first and not [event for event in rest if isinstance(event, PermissionRequest)]
        assert (tmp_path / "agent" / "made").exists()
        with pytest.raises(NotImplementedError, match="yolo"):
            await codex.set_mode("yolo")
    assert endpoint.calls[-1].count_text("moin") == 1
    assert b"You like pears now." in endpoint.calls[-1].raw


@real
@pytest.mark.usefixtures("on_path")
async def test_follow_ups_join_a_turn_that_runs_and_it_ends_with_one_result(tmp_path: Path, store: SqliteStore) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "pears|plums", "do": [{"say": "fruit"}]},
            {"when": "first", "do": [{"hold": True, "say": "first done"}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint, a_codex(tmp_path, store, endpoint) as codex:
        running = asyncio.create_task(read_all(codex.query(make_batch("first"), "")))
        await endpoint.wait_for(1)
        await codex.push(make_batch("pears", 2))
        await codex.push(make_batch("plums", 3))
        endpoint.release()
        heard = await running

        assert (
            heard[-1] == TurnResult("fruit") and len([event for event in heard if isinstance(event, TurnResult)]) == 1
        )
    last = endpoint.calls[-1]
    assert (last.count_text("pears"), last.count_text("plums")) == (1, 1)


@real
@pytest.mark.usefixtures("on_path")
async def test_a_follow_up_after_the_end_is_not_taken_and_is_not_forgotten(tmp_path: Path, store: SqliteStore) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, a_codex(tmp_path, store, endpoint) as codex:
        first, *_ = await read_all(codex.query(make_batch("moin"), ""))
        assert isinstance(first, ConversationStarted)
        with pytest.raises(NotImplementedError):
            await codex.push(make_batch("plumcake", 2))
        await read_all(codex.query(make_batch("plumcake", 2), first.conversation))
    assert endpoint.calls[-1].count_text("plumcake") == 1


@real
@pytest.mark.usefixtures("on_path")
async def test_an_interrupted_turn_says_so_and_the_next_one_goes_on(tmp_path: Path, store: SqliteStore) -> None:
    script = {"tools": True, "turns": [SCRIPT["turns"][1], {"when": "hangs", "do": [{"fault": "hang", "times": -1}]}]}
    async with ModelEndpoint(script) as endpoint, a_codex(tmp_path, store, endpoint) as codex:
        running = asyncio.create_task(read_all(codex.query(make_batch("hangs"), "")))
        await endpoint.wait_for(1)
        await codex.interrupt()
        first, *_, last = await running
        assert isinstance(first, ConversationStarted) and last == TurnFailed("interrupted")
        heard = await read_all(codex.query(make_batch("moin", 2, "t-2"), first.conversation))

        assert heard[0] == first and heard[-1] == TurnResult("here")


@real
@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (402, "quota"), (429, "overload"), (400, "fatal")])
async def test_what_the_endpoint_refuses_has_its_class(
    tmp_path: Path, store: SqliteStore, status: int, kind: str
) -> None:
    fault = {"fault": status, "times": -1, "error": "not today"}
    script = {"tools": True, "turns": [{"when": "moin", "do": [fault]}]}
    async with ModelEndpoint(script) as endpoint, a_codex(tmp_path, store, endpoint, retries=0) as codex:
        *_, last = await read_all(codex.query(make_batch("moin"), ""))

    assert isinstance(last, TurnFailed) and last.kind == kind
    assert "{" not in last.message and "127.0.0.1" not in last.message
    assert "not today" in last.message or status == 429


@real
@pytest.mark.usefixtures("on_path")
async def test_a_conversation_can_be_copied(tmp_path: Path, store: SqliteStore) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, a_codex(tmp_path, store, endpoint) as codex:
        first, *_ = await read_all(codex.query(make_batch("moin"), ""))
        assert isinstance(first, ConversationStarted)
        twin = await codex.fork(first.conversation)
        started, *_ = await read_all(codex.query(make_batch("plumcake", 2, "t-2"), twin))

        assert twin != first.conversation and started == ConversationStarted(twin)
    assert endpoint.calls[-1].count_text("moin") == 1


@real
@pytest.mark.usefixtures("on_path")
async def test_a_conversation_that_goes_on_without_a_model_of_its_own_asks_the_usual_one(
    tmp_path: Path, store: SqliteStore
) -> None:
    resume, asked = "", []
    async with ModelEndpoint(SCRIPT) as endpoint, a_codex(tmp_path, store, endpoint):
        for number, model in enumerate(("", "gpt-5.2", "nosuchmodel", ""), 1):
            codex = Codex(replace(place_in(tmp_path), model=model))
            first, *_ = await read_all(codex.query(make_batch("moin", number, f"t-{number}"), resume))
            await codex.close()
            assert isinstance(first, ConversationStarted)
            resume = first.conversation
            asked.append(endpoint.calls[-1].body["model"])

    assert asked[1:3] == ["gpt-5.2", "nosuchmodel"]
    assert asked[3] == asked[0]


@real
@pytest.mark.usefixtures("on_path")
async def test_while_somebody_watches_what_the_real_one_writes_is_told(tmp_path: Path, store: SqliteStore) -> None:
    text = "One two three four five six seven eight nine ten eleven twelve."
    script = {"tools": True, "turns": [{"when": "count", "do": [{"say": text, "hold_within": True}]}]}
    drafts: list[str] = []
    async with ModelEndpoint(script) as endpoint, a_codex(tmp_path, store, endpoint) as codex:
        codex._place = replace(codex._place, is_watched=lambda: True)
        async with asyncio.timeout(PATIENCE_S):
            async for event in codex.query(make_batch("count"), ""):
                if isinstance(event, DraftText):
                    drafts.append(event.text)
                    endpoint.release()  # the model is in the middle of its answer
    assert drafts and text not in drafts[0] and all(text.startswith(each) for each in drafts)
