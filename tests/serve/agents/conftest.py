"""An endpoint of MCP over HTTP, with a few tools behind a real gate; and the management of agents over every transport.

A test that takes `desk` (or `opening`, to set more, or to start anew on the same home) runs on each of them.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.sessions import groups
from gatepost_testing.clients.management_client import TRANSPORTS, ManagementClient, open_management_gateway
from gatepost_testing.clients.mcp_http_client import McpHttpClient, serve_mcp
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.sample_tools import FEW, SlowToolEvents

# In make test-all: what is done differently for the newer era, tests of the endpoint and of the bridge see.
LATER = ("http-2026", "bridge-2026")


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    SlowToolEvents.renew()
    agent = await GateAgent.create(tmp_path / "home", store, tools=FEW)
    await store.write(lambda db: groups.add(db, "acme", "acme", "scripted", agent.deps.clock.now()))
    return agent


@pytest.fixture
async def web(agent: GateAgent, tmp_path: Path) -> AsyncIterator[McpHttpClient]:
    async with serve_mcp(agent, tmp_path / "c.sock") as web:
        yield web


@pytest.fixture(params=[pytest.param(each, marks=pytest.mark.slow if each in LATER else ()) for each in TRANSPORTS])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opening(transport: str) -> Callable[..., AbstractAsyncContextManager[ManagementClient]]:
    """`opening(home, script=…, agents__wait_s=…)`: a gateway, and somebody in front of it."""
    return partial(open_management_gateway, transport=transport)
