"""Providers that are an ACP agent by another name: how each is started, and how it finds its model. The emulator stands
in for the programs; it writes down the variables that it was given."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside.acp.agent import AcpAgent
from gatepost.inside.providers.contract import Batch, ConversationStarted, Event, Item, ItemKind, TurnResult
from gatepost.inside.runner import find_provider
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.sessions import groups
from gatepost_testing.agent_profiles import PATIENCE, ROOM
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway
from gatepost_testing.programs import find as find_test_program
from gatepost_testing.provider_context import make_context

EMULATOR = Path(__file__).parent / "acp_agent.py"
GEMINI = find_test_program("gemini")
ANSWER = {"candidates": [{"content": {"role": "model", "parts": [{"text": "here"}]}, "finishReason": "STOP"}]}


@pytest.fixture
async def egress(tmp_path: Path) -> AsyncIterator[None]:
    (tmp_path / "run").mkdir()

    async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_unix_server(arrive, tmp_path / "run" / "egress.sock"):
        yield


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("gemini", "goose"):
        (folder / name).write_text(f'#!/bin/sh\nGIVEN="$*" exec {sys.executable} {EMULATOR}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def make(path: Path, provider: str, model: str = "", **options: Any) -> AcpAgent:
    for name in ("agent", "state"):
        (path / name).mkdir()
    place = make_context(path, model=model, options=options)
    agent = find_provider(provider, None)(place)
    assert isinstance(agent, AcpAgent)
    return agent


async def ask(agent: AcpAgent, row: int, resume: str = "") -> list[Event]:
    item = Item(row=row, seq=row, kind=ItemKind.CHAT, sender="ann", text="hello")
    async with asyncio.timeout(60):
        return [event async for event in agent.query(Batch(turn=f"t-{row}", prompt="hello", items=(item,)), resume)]


async def variables(path: Path, provider: str, model: str = "", **options: Any) -> dict[str, str]:
    """Return what the program was started with, after a turn that went well."""
    agent = make(path, provider, model, **options)
    try:
        assert isinstance((await ask(agent, 1))[-1], TurnResult)
    finally:
        await agent.close()
    _, given = json.loads((path / "state" / "home" / "servers.json").read_text())
    return {str(name): str(value) for name, value in given.items()}


async def test_gemini_asks_googles_host_through_the_way_out(tmp_path: Path, egress: None) -> None:
    given = await variables(tmp_path, "gemini", "gemini-2.5-flash")

    assert given["GIVEN"] == "--acp" and given["GEMINI_MODEL"] == "gemini-2.5-flash"
    assert given["GOOGLE_GEMINI_BASE_URL"].endswith("/google") and given["GEMINI_API_KEY"] == "gatepost"
    settings = json.loads(Path(given["GEMINI_CLI_SYSTEM_SETTINGS_PATH"]).read_text())
    assert settings["privacy"]["usageStatisticsEnabled"] is False


def test_what_gemini_has_stored_is_renamed_once_before_it_is_loaded(tmp_path: Path) -> None:
    """Its next start in the same minute would begin a conversation of that name, and lose the one that there is."""
    gemini = make(tmp_path, "gemini")
    chats = tmp_path / "state" / "home" / ".gemini" / "tmp" / "agent" / "chats"
    chats.mkdir(parents=True)
    (chats / "session-2026-11-19T10-48-abcdef01.jsonl").write_text("the conversation")
    (chats / "session-2026-11-19T10-48-99999999.jsonl").write_text("another one")

    gemini._prepare_to_load("abcdef01-2345")
    (chats / "session-2026-11-19T10-49-abcdef01.jsonl").write_text("begun")
    gemini._prepare_to_load("abcdef01-2345")
    gemini._prepare_to_load("none-of-that-name")

    kept = {each.name.removeprefix("session-"): each.read_text() for each in chats.iterdir()}
    assert kept == {
        "1970-01-01T00-00-abcdef01.jsonl": "the conversation",
        "2026-11-19T10-49-abcdef01.jsonl": "begun",
        "2026-11-19T10-48-99999999.jsonl": "another one",
    }


@pytest.mark.parametrize(
    ("model", "vendor", "permissions", "mode"),
    [("", "openai", "allow", "auto"), ("claude-sonnet-4-5", "anthropic", "ask", "approve")],
)
async def test_goose_asks_the_vendor_of_its_model(
    tmp_path: Path, egress: None, model: str, vendor: str, permissions: str, mode: str
) -> None:
    given = await variables(tmp_path, "goose", model, permissions=permissions)

    assert given["GIVEN"] == "acp"
    assert (given["GOOSE_PROVIDER"], given["GOOSE_MODEL"], given["GOOSE_MODE"]) == (vendor, model or "gpt-5-mini", mode)
    assert f"{given['OPENAI_HOST']}/{given['OPENAI_BASE_PATH']}" == f"{given['OPENAI_BASE_URL']}/chat/completions"
    assert given["ANTHROPIC_HOST"] == given["ANTHROPIC_BASE_URL"]


async def test_a_command_and_variables_of_the_groups_win(tmp_path: Path, egress: None) -> None:
    given = await variables(tmp_path, "goose", command="goose acp --with-builtin developer", env="GOOSE_MODE=chat")

    assert given["GIVEN"] == "acp --with-builtin developer" and given["GOOSE_MODE"] == "chat"


@pytest.mark.slow
@pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")
async def test_in_a_sandbox_the_program_is_mounted_and_has_the_declared_variables(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    goose, channel = tmp_path / "goose", FakeChannel()
    goose.write_text(EMULATOR.read_text().replace('"""', '#!/usr/bin/python3\n"""', 1))
    goose.chmod(0o755)
    given: dict[str, Any] = {
        "sandbox__kind": "bubblewrap",
        "sessions__provider": "goose",
        "programs": [f"goose={goose}"],
    }
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await gateway.store.write(groups.update, "home", {"model": "claude-sonnet-4-5"})
        await open_room(gateway, "fake", ROOM)
        await channel.say("hello")
        await channel.wait_for(1, timeout=PATIENCE)
        (live,) = gateway.sessions.awake
        written = gateway.home.session(live.session.id) / "state" / "goose" / "home" / "servers.json"
        _, variables = json.loads(written.read_text())

    assert (variables["GOOSE_DISABLE_KEYRING"], variables["GOOSE_PROVIDER"]) == ("1", "anthropic")


@pytest.mark.slow
@pytest.mark.skipif(GEMINI is None, reason="gemini is not in the folder of test programs")
async def test_the_real_gemini_answers_and_goes_on_in_its_conversation(
    tmp_path: Path, egress: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.lower().splitlines() if line.startswith("content-length")
        )
        asked.append(head.split()[1] + (await reader.readexactly(int(length))).decode()[-200:])
        body = b"data: " + json.dumps(ANSWER).encode() + b"\r\n\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + body)
        writer.close()

    assert GEMINI is not None
    monkeypatch.setenv("PATH", f"{GEMINI.parent}:{os.defpath}")
    monkeypatch.setenv("GEMINI_API_KEY", "gatepost")
    monkeypatch.setenv("GEMINI_CLI_NO_RELAUNCH", "true")
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/to/google"
        gemini = make(
            tmp_path, "gemini", "gemini-2.5-flash", command=f"{GEMINI} --acp", env={"GOOGLE_GEMINI_BASE_URL": url}
        )
        try:
            first, *_, last = await ask(gemini, 1)
            assert isinstance(first, ConversationStarted) and last == TurnResult("here")
            assert (await ask(gemini, 2, first.conversation))[-1] == TurnResult("here")
        finally:
            await gemini.close()
    assert (
        all(each.startswith("/to/google/v1beta/models/gemini-2.5-flash:stream") for each in asked) and len(asked) == 2
    )
