"""An endpoint of MCP over HTTP, with a few tools behind a real gate."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.store import groups
from gatepost.store.writer import SqliteStore
from gatepost.testing.agent import Agent
from gatepost.testing.few_tools import FEW, Gates
from gatepost.testing.mcp_web import Web, serving


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> Agent:
    Gates.renew()
    agent = await Agent.arrive(tmp_path / "home", store, tools=FEW)
    await store.write(lambda db: groups.add(db, "acme", "acme", "scripted", agent.around.clock.now()))
    return agent


@pytest.fixture
async def web(agent: Agent, tmp_path: Path) -> AsyncIterator[Web]:
    async with serving(agent, tmp_path / "c.sock") as web:
        yield web
