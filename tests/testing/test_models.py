"""The scripted model: the same script in three shapes, streamed or not, and what goes wrong on request."""

import asyncio
import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gatepost_testing.model_script import (
    ModelScript,
    ModelScriptMessage,
    ModelScriptReply,
    ModelScriptTurn,
    OfferedTool,
    find_tool,
    make_answer,
    parse_script,
)
from gatepost_testing.models import GARBAGE, ModelEndpoint
from gatepost_testing.waiting import PATIENCE_S

SCRIPT = {
    "turns": [
        {"when": "word", "recall": r"remember (\w+)", "do": [{"say": "It was {1}."}]},
        {
            "when": "remember",
            "do": [{"say": "noting", "call": "set_work", "with": {"content": "x"}}, {"say": "{result}"}],
        },
        {"when": "both", "do": [{"calls": [{"call": "a"}, {"call": "b"}]}, {"say": "done"}]},
    ]
}
PATHS = {"messages": "/v1/messages?beta=true", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


def ask(endpoint: ModelEndpoint, path: str, body: dict[str, Any], **headers: str) -> tuple[int, str, dict[str, str]]:
    """One request, by a client that is not ours."""
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=PATIENCE_S)
    connection.request("POST", path, json.dumps(body), headers)
    got = connection.getresponse()
    text = got.read().decode()
    connection.close()
    return got.status, text, {name.lower(): value for name, value in got.getheaders()}


def a_body(shape: str, *, stream: bool, text: str = "remember plum") -> dict[str, Any]:
    schema = {"type": "object"}
    if shape == "messages":
        tools: list[dict[str, Any]] = [{"name": "mcp__gatepost__set_work", "input_schema": schema}]
        return {"messages": [{"role": "user", "content": text}], "tools": tools, "stream": stream}
    if shape == "chat":
        tools = [{"type": "function", "function": {"name": "gatepost_set_work", "parameters": schema}}]
        return {"messages": [{"role": "user", "content": text}], "tools": tools, "stream": stream}
    tools = [{"type": "namespace", "name": "mcp__gatepost", "tools": [{"type": "function", "name": "set_work"}]}]
    content = [{"type": "input_text", "text": text}]
    return {"input": [{"type": "message", "role": "user", "content": content}], "tools": tools, "stream": stream}


@pytest.mark.parametrize(
    ("said", "filled"),
    [
        ("{result.permission.id}", "p-1"),
        ("{result.agents.1}", '{"n": 2}'),
        ("{result.nothing} {other.x} {result.agents.7}", "{result.nothing} {other.x} {result.agents.7}"),
        ("{1}|{2}", "plum|"),
    ],
)
def test_a_model_takes_what_it_needs_from_a_result(said: str, filled: str) -> None:
    script = ModelScript(
        [ModelScriptTurn([ModelScriptReply(call="a"), ModelScriptReply(say=said)], r"remember (\w+)( please)?")]
    )
    result = '{"permission": {"id": "p-1"}, "agents": [1, {"n": 2}]}'
    lines = [
        ModelScriptMessage("user", "remember plum"),
        ModelScriptMessage("assistant", ""),
        ModelScriptMessage("tool", result),
    ]
    assert make_answer(script, lines, [OfferedTool("a")]).text == filled


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("shape", sorted(PATHS))
async def test_words_and_a_tool_call_come_in_each_shape(shape: str, stream: bool) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint:
        status, text, headers = await asyncio.to_thread(ask, endpoint, PATHS[shape], a_body(shape, stream=stream))

    assert status == 200 and "noting" in text and "set_work" in text
    assert ("event-stream" in headers["content-type"]) == stream
    assert [request.count_text("plum") for request in endpoint.calls] == [1]
    if not stream:
        assert json.loads(text)["usage"]


async def test_a_status_comes_as_often_as_the_script_says_then_the_answer() -> None:
    script = {"turns": [{"do": [{"fault": 529, "times": 2, "retry_after": 0, "say": "at last"}]}]}
    async with ModelEndpoint(script) as endpoint:
        got = [
            await asyncio.to_thread(ask, endpoint, PATHS["messages"], a_body("messages", stream=False))
            for _ in range(3)
        ]

    assert [status for status, _, _ in got] == [529, 529, 200]
    assert "overloaded_error" in got[0][1] and got[0][2]["retry-after"] == "0"
    assert "at last" in got[2][1]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_answer_ends_in_the_middle(stream: bool) -> None:
    async with ModelEndpoint({"turns": [{"do": [{"fault": "cut", "say": "a long answer"}]}]}) as endpoint:
        with pytest.raises(http.client.IncompleteRead):
            await asyncio.to_thread(ask, endpoint, PATHS["chat"], a_body("chat", stream=stream))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("shape", PATHS)
async def test_a_malformed_answer_is_none_and_an_empty_account_is_told_as_the_vendor_does(
    shape: str, stream: bool
) -> None:
    faults = [{"fault": "malformed", "say": "a long answer"}, {"fault": "credit", "say": "x"}]
    script = {"turns": [{"when": text, "do": [do]} for text, do in zip(("one", "two"), faults, strict=True)]}
    async with ModelEndpoint(script) as endpoint:
        bad, empty = [
            await asyncio.to_thread(ask, endpoint, PATHS[shape], a_body(shape, stream=stream, text=text))
            for text in ("one", "two")
        ]

    assert bad[0] == 200 and bad[1].rstrip().endswith(GARBAGE)
    status, word = (400, "credit balance") if shape == "messages" else (429, "insufficient_quota")
    assert empty[0] == status and word in empty[1]


async def test_an_endpoint_that_is_away_refuses_and_comes_back_at_its_address() -> None:
    async with ModelEndpoint() as endpoint:
        async with endpoint.away():
            with pytest.raises(ConnectionRefusedError):
                await asyncio.to_thread(ask, endpoint, PATHS["chat"], a_body("chat", stream=False))
        status, _, _ = await asyncio.to_thread(ask, endpoint, PATHS["chat"], a_body("chat", stream=False))

    assert status == 200


async def test_without_the_key_nobody_is_answered() -> None:
    async with ModelEndpoint(SCRIPT, key="k-1") as endpoint:
        body = a_body("messages", stream=False)
        denied, _, _ = await asyncio.to_thread(ask, endpoint, PATHS["messages"], body)
        known, _, _ = await asyncio.to_thread(lambda: ask(endpoint, PATHS["messages"], body, **{"x-api-key": "k-1"}))
        bearer, _, _ = await asyncio.to_thread(lambda: ask(endpoint, PATHS["chat"], body, Authorization="Bearer k-1"))

    assert (denied, known, bearer) == (401, 200, 200)


async def test_tokens_are_counted_and_other_paths_are_unknown() -> None:
    async with ModelEndpoint(SCRIPT) as endpoint:
        counted = await asyncio.to_thread(ask, endpoint, "/v1/messages/count_tokens", {})
        unknown = await asyncio.to_thread(ask, endpoint, "/v1/files", {})

    assert "input_tokens" in counted[1] and unknown[0] == 404
    assert endpoint.calls == [] and len(endpoint.requests) == 2


def test_a_reply_follows_from_the_request_alone() -> None:
    script = parse_script(json.dumps(SCRIPT))
    tools = [OfferedTool("set_work")]
    asked = [ModelScriptMessage("user", "remember plum")]
    first = make_answer(script, asked, tools)
    second = make_answer(
        script, [*asked, ModelScriptMessage("assistant", "noting"), ModelScriptMessage("tool", "ok")], tools
    )

    assert [call.name for call in first.calls] == ["set_work"] and second.text == "ok"
    assert make_answer(script, asked, tools) == first


def test_an_answer_in_several_lines_is_one_step() -> None:
    script = parse_script(json.dumps(SCRIPT))
    lines = [
        ModelScriptMessage("user", "both"),
        ModelScriptMessage("assistant", ""),
        ModelScriptMessage("assistant", ""),
        ModelScriptMessage("tool", "1"),
        ModelScriptMessage("tool", "2"),
    ]

    assert make_answer(script, lines, [OfferedTool("a"), OfferedTool("b")]).text == "done"


def test_what_was_said_before_is_recalled_only_if_it_is_there() -> None:
    script = parse_script(json.dumps(SCRIPT))
    before = [ModelScriptMessage("user", "remember plum"), ModelScriptMessage("assistant", "ok")]

    assert make_answer(script, [*before, ModelScriptMessage("user", "which word?")], []).text == "It was plum."
    assert make_answer(script, [ModelScriptMessage("user", "which word?")], []).text == "echo: which word?"


def test_a_tool_that_is_not_offered_is_said() -> None:
    script = parse_script(json.dumps(SCRIPT))

    assert make_answer(script, [ModelScriptMessage("user", "remember plum")], []).text == "I have no tool set_work."
    assert find_tool("send", [OfferedTool("x_send"), OfferedTool("send")]) == OfferedTool("send")


def test_a_side_request_has_no_tools_where_the_script_says_that_there_are() -> None:
    script = ModelScript(tools=True, side="A title")

    assert make_answer(script, [ModelScriptMessage("user", "hello")], []).text == "A title"
    assert make_answer(script, [ModelScriptMessage("user", "hello")], [OfferedTool("send")]).text == "echo: hello"


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(ValueError, match="sya"):
        parse_script('{"turns": [{"do": [{"sya": "x"}]}]}')


def test_a_script_survives_its_json() -> None:
    script = parse_script(json.dumps(SCRIPT))

    assert parse_script(script.json()) == script


async def test_a_recording_is_transcribed_as_the_script_says() -> None:
    async with ModelEndpoint({"heard": "good morning"}) as endpoint:
        status, text, _ = await asyncio.to_thread(ask, endpoint, "/v1/audio/transcriptions", {})

    assert status == 200 and json.loads(text)["text"] == "good morning"
    assert endpoint.calls == [] and len(endpoint.requests) == 1


def by_itself(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gatepost_testing.models", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_by_itself_it_says_how_it_is_called_and_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"turns": [{"do": [{"sya": "x"}]}]}')
    told, bad, none = by_itself("--help"), by_itself(str(tmp_path / "bad.json")), by_itself(str(tmp_path / "none.json"))

    assert told.returncode == 0 and "--port" in told.stdout and "/v1" in told.stdout
    assert bad.returncode == none.returncode == 2
    assert "sya" in bad.stderr and "none.json" in none.stderr
    assert "Traceback" not in told.stderr + bad.stderr + none.stderr


def test_words_are_filled_into_what_a_tool_is_given_not_into_its_name() -> None:
    script = parse_script('{"turns": [{"when": "do (\\\\w+)", "do": [{"call": "{1}", "with": {"what": ["{1}"]}}]}]}')
    lines = [ModelScriptMessage("user", "do send")]

    assert make_answer(script, lines, [OfferedTool("send")]).text == "I have no tool {1}."
    script.turns[0].do[0].call = "send"
    assert make_answer(script, lines, [OfferedTool("send")]).calls[0].arguments == {"what": ["send"]}
