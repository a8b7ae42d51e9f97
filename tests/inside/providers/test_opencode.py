"""opencode's words and ours, and the provider by itself, without walls: a real server against the scripted model."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.records import replace
from gatepost.inside.coding_agent import parse_options
from gatepost.inside.mcp_json import McpServerConfig
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.contract import (
    ConversationStarted,
    DraftText,
    Event,
    Misconfigured,
    PermissionRequest,
    ProviderContext,
    Text,
    ToolResult,
    ToolUse,
    TurnFailed,
    TurnResult,
    UsageReport,
)
from gatepost.inside.providers.opencode import Opencode, OpencodeOptions, OpencodeSentPromptLog
from gatepost.inside.providers.opencode.protocol import (
    APIS,
    OpencodeEvent,
    OpencodeEventReader,
    api_of,
    message_id,
    read_error,
    read_permission,
    read_retry,
    render_config,
    render_prompt,
    render_question_reply,
)
from gatepost.inside.providers.opencode.server import OpencodeError, OpencodeServer
from gatepost.mailbox.runner_frames import TurnErrorClass
from gatepost_testing import programs
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.provider_context import make_batch, make_context, read_all

SES = "ses_1"
PATIENCE = 90.0
needs_program = pytest.mark.skipif(programs.find("opencode") is None, reason="opencode is not installed")


def message(id: str, parent: str = "msg_1", **more: Any) -> OpencodeEvent:
    info = {"id": id, "role": "assistant", "parentID": parent, **more}
    return OpencodeEvent("message.updated", {"sessionID": SES, "info": info})


def part(kind: str, id: str = "prt_1", of: str = "msg_2", **more: Any) -> OpencodeEvent:
    return OpencodeEvent(
        "message.part.updated", {"sessionID": SES, "part": {"id": id, "messageID": of, "type": kind, **more}}
    )


def test_every_prompt_names_its_model() -> None:
    """A conversation goes on when the group has another one."""
    prompt = render_prompt("msg_7a", "hello", "", "build", "vendor/small-1")

    assert prompt["model"] == {"providerID": "gatepost", "modelID": "vendor/small-1"}


def test_what_the_model_says_is_said_once_and_when_it_is_whole() -> None:
    reader = OpencodeEventReader(SES)
    reader.read(message("msg_2"))
    whole = part("text", text="here", time={"start": 1, "end": 2})

    assert reader.read(part("text", text="he", time={"start": 1})) == []
    assert reader.read(whole) == [Text("here")]
    assert reader.read(whole) == []


def grow(text: str, id: str = "prt_1", of: str = "msg_2", field: str = "text") -> OpencodeEvent:
    about = {"sessionID": SES, "messageID": of, "partID": id, "field": field, "delta": text}
    return OpencodeEvent("message.part.delta", about)


def test_what_the_model_writes_for_people_grows_and_nothing_else_does() -> None:
    reader = OpencodeEventReader(SES)
    reader.read(message("msg_2"))
    for event in (part("reasoning", "prt_0", text=""), part("text", "prt_9", "msg_1", text="of people")):
        reader.read(event)
    reader.read(part("text", text="", time={"start": 1}))

    assert reader.read(grow("hidden", "prt_0")) == reader.read(grow("x", "prt_9", "msg_1")) == []
    assert reader.read(grow("x", field="other")) == []
    assert reader.read(grow("he")) == [DraftText("he")]
    assert reader.read(grow("re")) == [DraftText("here")]
    assert reader.read(part("text", text="here", time={"start": 1, "end": 2})) == [Text("here")]
    assert reader.read(grow("late")) == []


def test_neither_what_people_say_nor_a_summary_is_said_to_people() -> None:
    reader = OpencodeEventReader(SES)
    reader.read(message("msg_3", summary=True))

    assert reader.read(part("text", of="msg_1", text="hello", time={"start": 1, "end": 2})) == []
    assert reader.read(part("text", of="msg_3", text="so far", time={"start": 1, "end": 2})) == []


def test_a_tool_is_told_when_it_begins_and_when_it_ends() -> None:
    reader, given = OpencodeEventReader(SES), {"command": "make", "timeout": 90_000}
    running = part("tool", tool="bash", state={"status": "running", "input": given})

    assert reader.read(part("tool", tool="bash", state={"status": "pending", "input": {}})) == []
    assert reader.read(running) == [ToolUse("prt_1", "bash", given, 90.0)]
    assert reader.read(running) == []
    ended = part("tool", tool="bash", state={"status": "completed", "input": given, "output": "made"})
    assert reader.read(ended) == [ToolResult("prt_1", "made")]


def test_a_tool_that_failed_at_once_is_told_whole_and_the_groups_tools_by_their_own_names() -> None:
    state = {"status": "error", "input": {}, "error": "no such task"}

    assert OpencodeEventReader(SES).read(part("tool", tool="gatepost_cancel_task", state=state)) == [
        ToolUse("prt_1", "cancel_task", {}),
        ToolResult("prt_1", "no such task", True),
    ]


def test_usage_is_summed_over_steps_each_counted_once() -> None:
    reader = OpencodeEventReader(SES)
    tokens = {"input": 10, "output": 2, "reasoning": 0, "cache": {"read": 3, "write": 1}}
    for id in ("prt_1", "prt_1", "prt_2"):
        reader.read(part("step-finish", id, tokens=tokens))

    assert (
        reader.spent["requests"] == 2 and reader.spent["input_tokens"] == 20 and reader.spent["cache_read_tokens"] == 6
    )


def test_what_the_model_has_before_it_is_known_by_the_message_it_answers() -> None:
    reader = OpencodeEventReader(SES)
    reader.read(message("msg_5", parent="msg_4"))
    reader.read(message("msg_3", parent="msg_1"))

    assert reader.newest == "msg_4"


def test_names_of_messages_stand_in_the_order_of_time() -> None:
    earlier, later = message_id(1_794_722_934_465), message_id(1_794_722_934_466)

    assert earlier < later
    assert earlier.startswith("msg_1ddd2aec1")  # as opencode calls one of that moment


def test_what_is_said_again_has_the_same_names() -> None:
    once, again = (render_prompt("msg_7a", "hello", "be kind", "build", "small-1") for _ in range(2))

    assert once == again
    assert once["parts"] == [{"id": "prt_7a", "type": "text", "text": "hello"}]


@pytest.mark.parametrize(
    ("model", "api"),
    [("claude-sonnet-4-5", "messages"), ("gpt-5", "responses"), ("o3", "responses"), ("qwen3-coder", "chat")],
)
def test_a_models_name_says_how_it_is_asked(model: str, api: str) -> None:
    assert api_of(model) == api


def test_the_configuration_has_our_endpoint_and_tools_only_and_fetches_nothing() -> None:
    config = render_config(
        model="m",
        api=APIS["chat"],
        endpoint="http://127.0.0.1:1/openai/v1",
        key="none",
        command=["bridge", "--socket", "s"],
        context=1000,
        max_tokens=10,
    )

    assert config["enabled_providers"] == ["gatepost"] and config["model"] == "gatepost/m"
    assert config["autoupdate"] is False and config["share"] == "disabled"
    assert config["permission"] == {"*": "allow", "webfetch": "deny", "websearch": "deny", "skill": "deny"}
    assert config["mcp"] == {
        "gatepost": {"type": "local", "command": ["bridge", "--socket", "s"], "timeout": 3_600_000}
    }


def test_tools_of_other_servers_are_asked_for_in_the_modes_that_ask_and_ours_never() -> None:
    config = render_config(
        model="m",
        api=APIS["chat"],
        endpoint="http://127.0.0.1:1/openai/v1",
        key="none",
        command=["bridge"],
        context=1000,
        max_tokens=10,
        own={"other": McpServerConfig("run")},
    )
    agents = config["agent"]

    assert isinstance(agents, dict)
    for name, edit in (("ask", "ask"), ("plan", "deny")):
        rules = agents[name]["permission"]
        assert (rules["other_*"], rules["bash"], rules["edit"]) == ("ask", "ask", edit)
        assert not [each for each in rules if each.startswith(("gatepost", "*"))]


def api_error(status: int | None, body: str) -> dict[str, Any]:
    return {"name": "APIError", "data": {"message": "so it is", "statusCode": status, "responseBody": body}}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (api_error(401, '{"error": {"message": "who are you"}}'), "auth"),
        (api_error(402, ""), "quota"),
        (api_error(429, ""), "overload"),
        (api_error(400, '{"error": {"message": "too odd"}}'), "fatal"),
        (api_error(None, ""), "retryable"),
        ({"name": "ProviderAuthError", "data": {"message": "no key"}}, "auth"),
        ({"name": "ContextOverflowError", "data": {"message": "too long"}}, "overflow"),
        ({"name": "X", "data": {"message": "blocked by the provider's content filter"}}, "refusal"),
        ({}, "fatal"),
    ],
)
def test_an_error_has_one_of_four_classes(error: dict[str, Any], kind: str) -> None:
    assert read_error(error).kind == kind


def test_it_may_ask_again_a_few_times_but_not_for_ever() -> None:
    status = {"type": "retry", "attempt": 2, "message": "overloaded", "next": 1_005_000}
    trouble = read_retry({**status, "attempt": 3}, 2, 60.0, 1000.0)

    assert read_retry({"type": "busy"}, 2, 60.0, 1000.0) is None
    assert read_retry(status, 2, 60.0, 1000.0) is None
    assert trouble is not None and trouble.kind == "retryable" and "overloaded" in trouble.message


def test_the_endpoints_own_words_say_why_it_asked_again() -> None:
    seen = ProviderError("too many", TurnErrorClass.OVERLOAD)
    trouble = read_retry({"type": "retry", "attempt": 3, "message": "x"}, 2, 60.0, 1000.0, seen)

    assert trouble is not None and (trouble.message, trouble.kind) == ("too many", "overload")


def test_a_long_wait_is_told_instead_of_waited() -> None:
    trouble = read_retry({"type": "retry", "attempt": 1, "next": 1_600_000}, 4, 60.0, 1000.0)

    assert trouble is not None and trouble.retry_after == 600.0


def test_a_permission_says_what_is_to_be_done() -> None:
    asked = {"id": "per_1", "permission": "bash", "patterns": ["make *"], "metadata": {"command": "make all"}}

    assert read_permission(asked) == PermissionRequest("per_1", "bash", {"command": "make all", "patterns": ["make *"]})


def test_a_mode_or_an_api_that_there_is_not_is_named() -> None:
    with pytest.raises(Misconfigured, match="no mode 'free'"):
        parse_options(Opencode.spec, {"mode": "free"}, OpencodeOptions)
    with pytest.raises(Misconfigured, match="not by 'grpc'"):
        parse_options(Opencode.spec, {"api": "grpc"}, OpencodeOptions)


def test_a_continued_turn_hands_over_only_what_the_conversation_lacks(tmp_path: Path) -> None:
    kept, place = OpencodeSentPromptLog(tmp_path / "handed.json"), place_in(tmp_path)
    first = kept.begin(make_batch("go", row=1), SES, place)
    kept.follow(make_batch("and pears", row=2))
    kept.known = frozenset({first.id})
    again = kept.begin(make_batch("go", row=1, continued=True), SES, place)

    assert "and pears" in again.text and "go" not in again.text.split()


async def test_a_program_that_is_no_server_is_told_with_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 'I am broken' >&2\n")
    program.chmod(0o755)
    with pytest.raises(OpencodeError, match="I am broken"):
        await OpencodeServer.start([str(program)], {}, tmp_path, tmp_path / "log", lambda event: None)


# With the program.


def place_in(path: Path, **options: Any) -> ProviderContext:
    return make_context(path, model="m1", options=options)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(65536):
        sink.write(piece.replace(b"POST /openai/", b"POST /"))
        await sink.drain()
    sink.close()


@asynccontextmanager
async def an_opencode(path: Path, endpoint: ModelEndpoint, **options: Any) -> AsyncIterator[Opencode]:
    async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", endpoint.port)
        with suppress(asyncio.CancelledError):  # the test ends
            await asyncio.gather(_pump(reader, out), _pump(there, writer), return_exceptions=True)

    for name in ("run", "agent", "state"):
        (path / name).mkdir()
    async with await asyncio.start_unix_server(arrive, path / "run" / "egress.sock"):
        opencode = Opencode(place_in(path, **options))
        try:
            yield opencode
        finally:
            await opencode.close()


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    found = programs.find("opencode")
    assert found is not None
    monkeypatch.setenv("PATH", str(found.parent), prepend=":")


@pytest.mark.slow
@needs_program
@pytest.mark.usefixtures("on_path")
async def test_in_the_mode_that_asks_a_command_waits_for_the_answer(tmp_path: Path) -> None:
    run = {"call": "bash", "with": {"command": "touch made", "description": "Makes a file"}}
    script = {"tools": True, "turns": [{"when": "zanzibar", "do": [run, {"say": "tried"}]}]}
    async with ModelEndpoint(script) as endpoint, an_opencode(tmp_path, endpoint, mode="ask") as opencode:
        for turn, verdict in enumerate(("deny", "allow")):
            seen: list[Event] = []
            async with asyncio.timeout(PATIENCE):
                async for event in opencode.query(make_batch("zanzibar", turn + 1, f"t-{turn}"), ""):
                    seen.append(event)
                    if isinstance(event, PermissionRequest):
                        assert event.tool == "bash" and not (tmp_path / "agent" / "made").exists()
                        await opencode.answer(event.id, verdict, {})
            assert seen[-1] == TurnResult("tried")
            assert [each.error for each in seen if isinstance(each, ToolResult)] == [verdict == "deny"]
            assert (tmp_path / "agent" / "made").exists() == (verdict == "allow")
        with pytest.raises(LookupError):
            await opencode.answer("per_none", "allow", {})


@pytest.mark.slow
@needs_program
@pytest.mark.usefixtures("on_path")
async def test_while_it_plans_it_changes_nothing_and_what_it_says_is_its_plan(tmp_path: Path) -> None:
    run = {"call": "bash", "with": {"command": "touch made", "description": "Makes a file"}}
    script = {
        "tools": True,
        "turns": [
            {"when": "is approved", "do": [run, {"say": "built"}]},
            {"when": "zanzibar", "do": [run, {"say": "1. sweep"}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint, an_opencode(tmp_path, endpoint, mode="plan") as opencode:
        asked: list[PermissionRequest] = []
        seen: list[Event] = []
        async with asyncio.timeout(PATIENCE):
            async for event in opencode.query(make_batch("zanzibar"), ""):
                seen.append(event)
                if isinstance(event, PermissionRequest):
                    asked.append(event)
                    await opencode.answer(event.id, "allow" if event.kind == "plan" else "deny", {})
        assert [each.tool for each in asked] == ["bash", "plan"] and not (tmp_path / "agent" / "made").exists()
        assert not {"write", "edit", "apply_patch"} & set(endpoint.calls[0].tools)
        plan = asked[-1]
        assert (plan.kind, plan.input, plan.next_mode) == ("plan", {"plan": "1. sweep"}, "allow")
        assert seen[-1] == TurnResult()

        await opencode.set_mode(plan.next_mode)
        started = next(each for each in seen if isinstance(each, ConversationStarted))
        heard = await read_all(opencode.query(make_batch(plan.follow_up, 2, "t-2"), started.conversation))
        assert heard[-1] == TurnResult("built") and (tmp_path / "agent" / "made").exists()


OR_BUSY = ("retryable", "overload")  # by whether the end of the call is heard before opencode speaks of it


@pytest.mark.slow
@needs_program
@pytest.mark.usefixtures("on_path")
async def test_retries_end_a_copy_goes_on_by_itself_and_a_dead_server_is_started_again(tmp_path: Path) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "zanzibar", "do": [{"fault": 529, "times": -1, "error": "too many"}]},
            {"when": "quokka", "do": [{"say": "here"}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint, an_opencode(tmp_path, endpoint, retries=0) as opencode:
        first, *_, usage, result = await read_all(opencode.query(make_batch("quokka"), ""))
        assert (
            isinstance(first, ConversationStarted) and isinstance(usage, UsageReport) and result == TurnResult("here")
        )
        copy = await opencode.fork(first.conversation)
        assert copy != first.conversation

        failed = (await read_all(opencode.query(make_batch("zanzibar", 2, "t-2"), first.conversation)))[-1]
        assert isinstance(failed, TurnFailed) and failed.kind in OR_BUSY and "too many" in failed.message

        await opencode.close()
        seen = await read_all(opencode.query(make_batch("quokka", 3, "t-3"), copy))
        assert seen[0] == ConversationStarted(copy) and seen[-1] == TurnResult("here")
    assert endpoint.calls[-1].count_text("quokka") == 2 and endpoint.calls[-1].count_text("zanzibar") == 0


def test_its_questions_are_asked_in_the_gateways_form_and_answered_in_its_own() -> None:
    asked = {
        "id": "que_1",
        "sessionID": "ses_1",
        "questions": [
            {
                "question": "Which?",
                "header": "Drink",
                "options": [{"label": "Tea"}, {"label": "Milk"}],
                "multiple": True,
            },
            {"question": "Who?", "header": "Drink", "options": [], "custom": True},
        ],
    }
    (event,) = OpencodeEventReader("ses_1").read(OpencodeEvent("question.asked", asked))
    assert isinstance(event, PermissionRequest)
    assert (event.id, event.kind, event.tool) == ("que_1", "question", "question")
    assert event.input["questions"][0]["multiSelect"] is True and event.input["questions"][1]["freeText"] is True
    given = {"answers": {"Drink": "Tea, Milk", "Who?": "Ada, of course"}}
    assert render_question_reply(event, given) == {"answers": [["Tea", "Milk"], ["Ada, of course"]]}
    assert render_question_reply(event, {}) == {"answers": [[], []]}


@pytest.mark.slow
@needs_program
async def test_what_it_writes_is_told_while_somebody_watches(tmp_path: Path, on_path: None) -> None:
    text = "One two three four five six seven eight nine ten eleven twelve."
    script = {"tools": True, "turns": [{"when": "count", "do": [{"say": text, "hold_within": True}]}]}
    drafts: list[str] = []
    async with ModelEndpoint(script) as endpoint, an_opencode(tmp_path, endpoint) as opencode:
        opencode._place = replace(opencode._place, is_watched=lambda: True)
        async with asyncio.timeout(PATIENCE):
            async for event in opencode.query(make_batch("count"), ""):
                if isinstance(event, DraftText):
                    drafts.append(event.text)
                    endpoint.release()  # the model is in the middle of its answer
    assert drafts and text not in drafts[0] and all(text.startswith(each) for each in drafts)
