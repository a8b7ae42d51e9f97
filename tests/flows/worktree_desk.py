"""A gateway whose agents do as they are told in worktrees of a repository, for the tests of worktrees."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.flow.worktrees.new_worktree import NewWorktree
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.sessions.worktrees import Worktree
from gatepost_testing.clients.management_client import ManagementClient, open_management_gateway
from gatepost_testing.repositories import repository

from .conftest import add_looker

BY = "operator"

needs_bwrap = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    tmp_path.chmod(0o711)
    return repository(tmp_path / "code" / "shop")


@asynccontextmanager
async def a_gateway(shop: Path, kind: str = "bubblewrap", **more: Any) -> AsyncIterator[ManagementClient]:
    """Whose agents do as they are told, and whose operator allows the folder that the repository is in."""
    home = shop.parents[1] / "h"
    add_looker(home)
    given: dict[str, Any] = {
        "sandbox__kind": kind,
        "sessions__provider": "looker",
        "sandbox__mounts_allowed": (str(shop.parent),),
    }
    async with open_management_gateway(home, "memory", **given, **more) as desk:
        yield desk


async def run(desk: ManagementClient, agent: str, program: str) -> str:
    """In the agent's sandbox; what it says at the end."""
    told = await desk("send_agent_prompt", agentId=agent, prompt=f"run {program}")
    return str(told["lastMessage"])


async def shell(desk: ManagementClient, agent: str, command: str) -> str:
    return await run(
        desk, agent, f"answer = subprocess.run(['sh', '-ec', {command!r}], capture_output=True, text=True).stdout"
    )


async def make(gateway: Gateway, source: Path, name: str = "fix", **more: Any) -> Worktree:
    return await gateway.agents.create_worktree(NewWorktree(source=str(source), folder="agents", name=name, **more), BY)


def left_behind(gateway: Gateway) -> list[str]:
    """Return what jobs have left, wherever they could have."""
    home = gateway.home
    found = [*home.sessions.iterdir(), *home.logs.iterdir(), *home.run.rglob("*")]
    return [str(path) for path in found if path.name.startswith("job-")] + [
        str(each) for each in gateway.worktrees.jobs.running
    ]
