"""What every provider keeps, run over those that talk to a model's endpoint; and what these keep besides."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.records import replace
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    DraftText,
    Item,
    ItemKind,
    Misconfigured,
    Provider,
    ProviderContext,
    Text,
    ToolResult,
    ToolUse,
    TurnFailed,
    TurnResult,
    UsageReport,
)
from gatepost.inside.runner import find_provider
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.provider_context import make_context, read_all

TOOLS = [
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "send", "inputSchema": {"type": "object"}},
]


class Router:
    """A tool server with two tools, which counts their uses."""

    def __init__(self) -> None:
        self.uses: list[tuple[str, dict[str, Any]]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if "id" in message:
                result = self._answer(message["method"], message["params"])
                writer.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
        writer.close()

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "tools/list":
            return {"tools": TOOLS}
        if method == "tools/call":
            self.uses.append((params["name"], params["arguments"]))
            return {"content": [{"type": "text", "text": f"use {len(self.uses)}"}]}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}


@pytest.fixture
async def endpoint() -> AsyncIterator[ModelEndpoint]:
    async with ModelEndpoint() as made:
        yield made


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Router]:
    made = Router()
    server = await asyncio.start_unix_server(made.serve, str(tmp_path / "router.sock"))
    yield made
    server.close()


@pytest.fixture(params=["anthropic", "openai"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path, name: str, endpoint: ModelEndpoint, router: Router) -> ProviderContext:
    for folder in ("agent", "state"):
        (tmp_path / folder).mkdir()
    return make_context(
        tmp_path,
        router=tmp_path / "router.sock",
        options={"base_url": endpoint.anthropic if name == "anthropic" else endpoint.openai, "silence": "20"},
    )


@pytest.fixture
async def provider(name: str, place: ProviderContext) -> AsyncIterator[Provider]:
    made = find_provider(name, None)(place)
    yield made
    await made.close()


def a_batch(*texts: str, turn: str = "t-1", first: int = 1, continued: bool = False) -> Batch:
    items = tuple(
        Item(row=seq + 100, seq=seq, kind=ItemKind.CHAT, sender="Ann", text=text, content={"text": text})
        for seq, text in enumerate(texts, first)
    )
    return Batch(turn=turn, prompt="\n".join(texts), items=items, continued=continued)


async def test_a_turn_ends_with_exactly_one_result_and_its_conversation_is_named_first(provider: Provider) -> None:
    events = await read_all(provider.query(a_batch("one", "two"), ""))

    assert [type(event) for event in events] == [ConversationStarted, UsageReport, TurnResult]


async def test_what_is_written_is_told_while_somebody_watches(
    name: str, place: ProviderContext, endpoint: ModelEndpoint
) -> None:
    text = "One two three four five six seven eight nine ten eleven twelve."
    endpoint.play({"turns": [{"when": "count", "do": [{"say": text, "hold_within": True}]}]})
    made = find_provider(name, None)(replace(place, is_watched=lambda: True))
    drafts, last = [], None
    async for event in made.query(a_batch("count"), ""):
        if isinstance(event, DraftText):
            drafts.append(event.text)
            endpoint.release()  # the model is in the middle of its answer
        last = event
    await made.close()

    assert drafts and text not in drafts[0]
    assert all(text.startswith(each) for each in drafts)
    assert last == TurnResult(text)


async def test_whoever_leaves_in_the_middle_of_an_answer_leaves_no_request_behind(
    name: str, place: ProviderContext, endpoint: ModelEndpoint
) -> None:
    endpoint.play({"turns": [{"when": "count", "do": [{"say": "One two three four " * 9, "hold_within": True}]}]})
    made = find_provider(name, None)(replace(place, is_watched=lambda: True))
    events = made.query(a_batch("count"), "")
    async for event in events:
        if isinstance(event, DraftText):
            break
    assert isinstance(events, AsyncGenerator)
    before = asyncio.all_tasks()
    await events.aclose()
    await made.close()
    assert len(asyncio.all_tasks()) < len(before)


async def test_a_conversation_is_resumed_under_its_name(provider: Provider, endpoint: ModelEndpoint) -> None:
    first, *_ = await read_all(provider.query(a_batch("one"), ""))
    assert isinstance(first, ConversationStarted)
    second, *_ = await read_all(provider.query(a_batch("two", turn="t-2", first=5), first.conversation))

    assert second == first
    assert [line.text for line in endpoint.calls[-1].lines if line.role != "system"] == ["one", "echo: one", "two"]


async def test_a_conversation_can_be_copied(provider: Provider, endpoint: ModelEndpoint) -> None:
    first, *_ = await read_all(provider.query(a_batch("one"), ""))
    assert isinstance(first, ConversationStarted)
    name = await provider.fork(first.conversation)
    await read_all(provider.query(a_batch("two", turn="t-2", first=5), name))

    assert name != first.conversation and endpoint.calls[-1].count_text("one") == 1


async def test_a_push_without_a_turn_is_refused(provider: Provider) -> None:
    with pytest.raises(NotImplementedError):
        await provider.push(a_batch("late"))
    await read_all(provider.query(a_batch("one"), ""))
    with pytest.raises(NotImplementedError):
        await provider.push(a_batch("late"))


async def test_what_is_pushed_while_a_tool_runs_stands_behind_its_result(
    provider: Provider, endpoint: ModelEndpoint
) -> None:
    endpoint.play({"turns": [{"when": "one", "do": [{"say": "looking", "call": "look"}]}]})
    said = []
    async for event in provider.query(a_batch("one"), ""):
        if isinstance(event, ToolUse):
            await provider.push(a_batch("two", first=7))
        if isinstance(event, Text | TurnResult):
            said.append(event.text)

    assert said == ["looking", "echo: two"]
    roles = [line.role for line in endpoint.calls[-1].lines if line.role != "system"]
    assert roles == ["user", "assistant", "tool", "user"]


async def test_an_interrupt_ends_a_request_and_the_next_turn_goes_well(
    provider: Provider, endpoint: ModelEndpoint
) -> None:
    endpoint.play({"turns": [{"when": "after", "do": [{"say": "here"}]}, {"do": [{"hold": True, "say": "never"}]}]})

    async def stop() -> None:
        await endpoint.wait_for(1)
        await provider.interrupt()

    stopping = asyncio.create_task(stop())
    events = await read_all(provider.query(a_batch("one"), ""))
    await stopping
    again = await read_all(provider.query(a_batch("after", turn="t-2", first=60), ""))

    assert isinstance(events[-1], TurnFailed) and again[-1] == TurnResult("here")


async def test_tools_are_used_in_order_and_every_use_is_told(
    provider: Provider, endpoint: ModelEndpoint, router: Router
) -> None:
    uses = [{"call": "look"}, {"call": "send", "with": {"text": "x"}}]
    endpoint.play({"turns": [{"do": [{"calls": uses}, {"say": "{result}"}]}]})
    events = await read_all(provider.query(a_batch("one"), ""))

    assert router.uses == [("look", {}), ("send", {"text": "x"})]
    assert [type(event) for event in events[2:6]] == [ToolUse, ToolResult, ToolUse, ToolResult]
    assert events[-1] == TurnResult("use 2")


async def test_only_a_harmless_call_is_made_again_when_its_result_was_lost(
    name: str, place: ProviderContext, endpoint: ModelEndpoint, router: Router
) -> None:
    uses = [{"call": "look"}, {"call": "send", "with": {"text": "x"}}]
    endpoint.play({"turns": [{"when": "broke", "do": [{"say": "rest"}]}, {"do": [{"calls": uses}]}]})
    before = find_provider(name, None)(place)
    conversation = ""
    async for event in before.query(a_batch("one"), ""):
        if isinstance(event, ConversationStarted):
            conversation = event.conversation
        if isinstance(event, ToolUse):
            break  # as a process that ends here
    after = find_provider(name, None)(place)
    note = Item(row=900, seq=9, kind=ItemKind.SYSTEM, sender="", text="", content={"event": "continued", "done": []})
    batch = Batch(turn="t-1", prompt="it broke off", items=(note,), continued=True)
    events = await read_all(after.query(batch, conversation))

    assert router.uses == [("look", {})] and events[-1] == TurnResult("rest")
    results = [line.text for line in endpoint.calls[-1].lines if line.role == "tool"]
    assert "use 1" in results[0] and "its result was lost" in results[1]
    await before.close()
    await after.close()


async def test_a_message_that_the_conversation_holds_is_not_put_in_again(
    provider: Provider, endpoint: ModelEndpoint
) -> None:
    first, *_ = await read_all(provider.query(a_batch("apple"), ""))
    assert isinstance(first, ConversationStarted)
    await read_all(provider.query(a_batch("apple", "pear", continued=True), first.conversation))

    assert endpoint.calls[-1].count_text("apple") == 1 and endpoint.calls[-1].count_text("pear") == 1


async def test_a_request_that_the_endpoint_does_not_take_does_not_spoil_the_next(
    provider: Provider, endpoint: ModelEndpoint
) -> None:
    endpoint.play({"turns": [{"when": "bad", "do": [{"fault": 400, "error": "a picture is broken"}]}]})
    first, *_, failed = await read_all(provider.query(a_batch("bad"), ""))
    assert isinstance(first, ConversationStarted) and isinstance(failed, TurnFailed)
    events = await read_all(provider.query(a_batch("good", turn="t-2", first=5), first.conversation))

    assert failed.kind == "fatal" and "a picture is broken" in failed.message
    assert events[-1] == TurnResult("echo: good") and endpoint.calls[-1].count_text("bad") == 0


async def test_a_long_pause_that_is_asked_for_ends_the_turn_with_it(
    provider: Provider, endpoint: ModelEndpoint
) -> None:
    endpoint.play({"turns": [{"do": [{"fault": 429, "retry_after": 900, "error": "slow down"}]}]})
    *_, failed = await read_all(provider.query(a_batch("one"), ""))

    assert isinstance(failed, TurnFailed) and (failed.kind, failed.retry_after) == ("overload", 900.0)


async def test_a_model_that_says_nothing_for_too_long_is_given_up(
    name: str, place: ProviderContext, endpoint: ModelEndpoint
) -> None:
    endpoint.play({"turns": [{"do": [{"fault": "hang"}]}]})
    place.options.update(silence=0.1, patience=0)
    provider = find_provider(name, None)(place)
    *_, failed = await read_all(provider.query(a_batch("one"), ""))

    assert isinstance(failed, TurnFailed) and failed.kind == "network" and "said nothing for 0.1" in failed.message
    await provider.close()


async def test_an_answer_that_turns_into_something_else_is_asked_for_again(
    provider: Provider, endpoint: ModelEndpoint
) -> None:
    endpoint.play({"turns": [{"do": [{"fault": "malformed", "say": "the whole long answer"}]}]})
    events = await read_all(provider.query(a_batch("one"), ""))

    assert events[-1] == TurnResult("the whole long answer") and len(endpoint.calls) == 2


async def test_usage_is_added_up_over_a_turn(provider: Provider, endpoint: ModelEndpoint) -> None:
    numbers = {"input": 100, "output": 7}
    endpoint.play({"turns": [{"do": [{"call": "look", "usage": numbers}, {"say": "x", "usage": numbers}]}]})
    events = await read_all(provider.query(a_batch("one"), ""))
    *_, last = [event.numbers for event in events if isinstance(event, UsageReport)]

    assert (last["input_tokens"], last["output_tokens"], last["requests"]) == (200, 14, 2)


async def test_without_tools_to_reach_the_turn_is_tried_later(
    name: str, place: ProviderContext, router: Router
) -> None:
    place.router.unlink()
    provider = find_provider(name, None)(place)
    *_, failed = await read_all(provider.query(a_batch("one"), ""))

    assert isinstance(failed, TurnFailed) and failed.kind == "retryable" and "tools" in failed.message


async def test_a_base_url_that_is_none_is_said(name: str, place: ProviderContext) -> None:
    place.options["base_url"] = "ftp://x"
    with pytest.raises(Misconfigured, match="no base URL"):
        find_provider(name, None)(place)


async def test_an_option_that_makes_no_sense_is_named(name: str, place: ProviderContext) -> None:
    place.options["max_tokens"] = "many"
    with pytest.raises(Misconfigured, match="max_tokens"):
        find_provider(name, None)(place)


async def test_a_file_of_the_workspace_is_read(
    provider: Provider, place: ProviderContext, endpoint: ModelEndpoint
) -> None:
    (place.agent / "a.md").write_text("it says plum")
    endpoint.play({"turns": [{"do": [{"call": "read_file", "with": {"path": "a.md"}}, {"say": "{result}"}]}]})
    events = await read_all(provider.query(a_batch("read it"), ""))

    assert events[-1] == TurnResult("it says plum")


async def test_the_variable_names_the_endpoint_if_the_group_does_not(
    name: str, place: ProviderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{name.upper()}_BASE_URL", place.options.pop("base_url"))
    provider = find_provider(name, None)(place)
    events = await read_all(provider.query(a_batch("one"), ""))

    assert events[-1] == TurnResult("echo: one")
    await provider.close()


async def test_without_either_it_goes_the_way_out_that_its_sandbox_has(
    name: str, place: ProviderContext, endpoint: ModelEndpoint
) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))

    server = await asyncio.start_unix_server(serve, str(place.router.parent / "egress.sock"))
    del place.options["base_url"]
    provider = find_provider(name, None)(place)
    events = await read_all(provider.query(a_batch("one"), ""))

    assert events[-1] == TurnResult("echo: one")
    paths = {"anthropic": "/anthropic/v1/messages", "openai": "/openai/v1/chat/completions"}
    assert [request.path for request in endpoint.calls] == [paths[name]]
    await provider.close()
    server.close()
