"""The provider by itself, without walls: a real Claude Code against the scripted model, through the test's socket.
The words to which a script answers must not stand in what Claude Code says about itself."""

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside.providers.claude import Claude, load_sdk, read_options
from gatepost.inside.providers.contract import (
    Batch,
    Event,
    Failed,
    Item,
    Misconfigured,
    Permission,
    Place,
    Result,
    Started,
    Text,
    ToolResult,
)
from gatepost.testing.models import ModelEndpoint

needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("claude_agent_sdk") is None,
    reason="claude-agent-sdk is not installed: pip install gatepost[claude]",
)


def batch(text: str, row: int = 1, turn: str = "t-1") -> Batch:
    item = Item(row=row, seq=row, kind="chat", sender="ann", text=text)
    return Batch(turn=turn, prompt=text, items=(item,))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(65536):
        sink.write(piece)
        await sink.drain()
    sink.close()


@asynccontextmanager
async def a_claude(path: Path, endpoint: ModelEndpoint, **options: Any) -> AsyncIterator[Claude]:
    async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", endpoint.port)
        with suppress(asyncio.CancelledError):  # the test ends
            await asyncio.gather(_pump(reader, out), _pump(there, writer), return_exceptions=True)

    for name in ("run", "agent", "state"):
        (path / name).mkdir()
    place = Place(
        workspace=path,
        agent=path / "agent",
        state=path / "state",
        router=path / "run" / "router.sock",
        folder="home",
        name="Home",
        model="claude-sonnet-4-5",
        timezone="UTC",
        options=options,
    )
    async with await asyncio.start_unix_server(arrive, path / "run" / "egress.sock"):
        claude = Claude(place)
        try:
            yield claude
        finally:
            await claude.close()


async def all_of(events: AsyncIterator[Event]) -> list[Event]:
    async with asyncio.timeout(60):
        return [event async for event in events]


def test_without_the_sdk_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)

    with pytest.raises(Misconfigured, match=r"pip install gatepost\[claude\]"):
        load_sdk()


def test_a_mode_that_there_is_not_is_named() -> None:
    with pytest.raises(Misconfigured, match="'yolo', only default, acceptEdits, plan, bypassPermissions"):
        read_options({"mode": "yolo"})


@needs_sdk
@pytest.mark.parametrize(("verdict", "made"), [("allow", True), ("deny", False)])
async def test_in_the_default_mode_somebody_is_asked(tmp_path: Path, verdict: str, made: bool) -> None:
    use = {"call": "Bash", "with": {"command": "touch made"}}
    script = {"tools": True, "turns": [{"when": "plumcake", "do": [use, {"say": "well"}]}]}
    async with ModelEndpoint(script) as endpoint, a_claude(tmp_path, endpoint, mode="default") as claude:
        heard: list[Event] = []
        async with asyncio.timeout(60):
            async for event in claude.query(batch("plumcake"), ""):
                heard.append(event)
                if isinstance(event, Permission):
                    assert (event.tool, event.input["command"]) == ("Bash", "touch made")
                    await claude.answer(event.id, verdict, {})

        assert len([event for event in heard if isinstance(event, Permission)]) == 1
        assert [event.error for event in heard if isinstance(event, ToolResult)] == [not made]
        assert (tmp_path / "agent" / "made").exists() == made
        assert heard[-1] == Result("well")


@needs_sdk
async def test_a_mode_can_be_changed_while_it_lives(tmp_path: Path) -> None:
    use = {"call": "Bash", "with": {"command": "touch made"}}
    script = {
        "tools": True,
        "turns": [{"when": "plumcake", "do": [use, {"say": "well"}]}, {"when": "moin", "do": [{"say": "here"}]}],
    }
    async with ModelEndpoint(script) as endpoint, a_claude(tmp_path, endpoint, mode="default") as claude:
        first, *_ = await all_of(claude.query(batch("moin"), ""))
        assert isinstance(first, Started)
        await claude.set_mode("bypassPermissions")
        heard = await all_of(claude.query(batch("plumcake", 2, "t-2"), first.conversation))

        assert not [event for event in heard if isinstance(event, Permission)]
        assert (tmp_path / "agent" / "made").exists()
        with pytest.raises(NotImplementedError, match="yolo"):
            await claude.set_mode("yolo")


@needs_sdk
async def test_follow_ups_that_come_with_the_last_word_end_with_one_result(tmp_path: Path) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "pears|plums", "do": [{"say": "fruit"}]},
            {"when": "first", "do": [{"hold": True, "say": "first done"}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint, a_claude(tmp_path, endpoint) as claude:
        running = asyncio.create_task(all_of(claude.query(batch("first"), "")))
        await endpoint.wait_for(1)
        await claude.push(batch("pears", 2))
        await claude.push(batch("plums", 3))
        endpoint.release()
        heard = await running

        assert Text("first done") in heard
        assert heard[-1] == Result("fruit") and len([event for event in heard if isinstance(event, Result)]) == 1
        assert endpoint.calls[-1].said("pears") == endpoint.calls[-1].said("plums") == 1
        with pytest.raises(NotImplementedError):
            await claude.push(batch("late", 4))


@needs_sdk
async def test_a_command_is_answered(tmp_path: Path) -> None:
    async with ModelEndpoint({"tools": True}) as endpoint, a_claude(tmp_path, endpoint) as claude:
        heard = await all_of(claude.query(batch("/no-such-command"), ""))

        assert isinstance(heard[-1], Result) and "no-such-command" in heard[-1].text


@needs_sdk
async def test_an_interrupted_turn_ends_and_the_conversation_goes_on(tmp_path: Path) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "moin", "do": [{"say": "here"}]},
            {"when": "stall", "do": [{"fault": "hang", "times": -1}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint, a_claude(tmp_path, endpoint) as claude:
        running = asyncio.create_task(all_of(claude.query(batch("stall"), "")))
        await endpoint.wait_for(1)
        await claude.interrupt()
        first, *_, last = await running
        assert isinstance(first, Started) and last == Failed("interrupted")

        heard = await all_of(claude.query(batch("moin", 2, "t-2"), first.conversation))
        assert heard[0] == first and heard[-1] == Result("here")
        assert endpoint.calls[-1].said("stall") == 1


@needs_sdk
async def test_before_a_turn_nothing_is_started_and_nothing_is_taken(tmp_path: Path) -> None:
    async with ModelEndpoint() as endpoint, a_claude(tmp_path, endpoint) as claude:
        with pytest.raises(NotImplementedError):
            await claude.push(batch("early"))
        with pytest.raises(LookupError):
            await claude.answer("nobody-asked", "allow", {})
        await claude.interrupt()
        await claude.close()

        assert not (tmp_path / "state" / "home").exists() and endpoint.requests == []
