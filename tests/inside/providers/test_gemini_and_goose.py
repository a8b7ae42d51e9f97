"""Providers that are an ACP agent by another name: how each is started, and how it finds its model. The emulator stands
in for the programs; it writes down the variables that it was given."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside.acp.agent import AcpAgent
from gatepost.inside.providers.contract import Batch, Item, ProviderContext, TurnResult
from gatepost.inside.runner import find_provider

EMULATOR = Path(__file__).parent / "acp_agent.py"


@pytest.fixture
async def way_out(tmp_path: Path) -> AsyncIterator[None]:
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


async def variables(path: Path, provider: str, model: str = "", **options: Any) -> dict[str, str]:
    """What the program was started with, after a turn that went well."""
    for name in ("agent", "state"):
        (path / name).mkdir()
    place = ProviderContext(
        workspace=path,
        agent=path / "agent",
        start=path / "agent",
        state=path / "state",
        router=path / "run" / "router.sock",
        folder="home",
        name="Home",
        model=model,
        timezone="UTC",
        options=options,
    )
    agent = find_provider(provider, None)(place)
    assert isinstance(agent, AcpAgent)
    item = Item(row=1, seq=1, kind="chat", sender="ann", text="hello")
    try:
        async with asyncio.timeout(60):
            events = [event async for event in agent.query(Batch(turn="t-1", prompt="hello", items=(item,)), "")]
    finally:
        await agent.close()
    assert isinstance(events[-1], TurnResult)
    _, given = json.loads((path / "state" / "home" / "servers.json").read_text())
    return {str(name): str(value) for name, value in given.items()}


async def test_gemini_asks_googles_host_through_the_way_out(tmp_path: Path, way_out: None) -> None:
    given = await variables(tmp_path, "gemini", "gemini-2.5-flash")

    assert given["GIVEN"] == "--acp" and given["GEMINI_MODEL"] == "gemini-2.5-flash"
    assert given["GOOGLE_GEMINI_BASE_URL"] == f"{given['GATEPOST_TO']}/generativelanguage.googleapis.com"


@pytest.mark.parametrize(
    ("model", "vendor", "permissions", "mode"),
    [("", "openai", "allow", "auto"), ("claude-sonnet-4-5", "anthropic", "ask", "approve")],
)
async def test_goose_asks_the_vendor_of_its_model(
    tmp_path: Path, way_out: None, model: str, vendor: str, permissions: str, mode: str
) -> None:
    given = await variables(tmp_path, "goose", model, permissions=permissions)

    assert given["GIVEN"] == "acp"
    assert (given["GOOSE_PROVIDER"], given["GOOSE_MODEL"], given["GOOSE_MODE"]) == (vendor, model or "gpt-5-mini", mode)
    assert f"{given['OPENAI_HOST']}/{given['OPENAI_BASE_PATH']}" == f"{given['OPENAI_BASE_URL']}/chat/completions"
    assert given["ANTHROPIC_HOST"] == given["ANTHROPIC_BASE_URL"]


async def test_a_command_and_variables_of_the_groups_win(tmp_path: Path, way_out: None) -> None:
    given = await variables(tmp_path, "goose", command="goose acp --with-builtin developer", env="GOOSE_MODE=chat")

    assert given["GIVEN"] == "acp --with-builtin developer" and given["GOOSE_MODE"] == "chat"
