"""The sandbox that is none."""

import os
import select
import sys
from pathlib import Path

import pytest

from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config
from gatepost.sandboxes.contract import Mount, SandboxPlan
from gatepost.sandboxes.process import ProcessSandboxKind, to_host_path
from gatepost_testing.waiting import PATIENCE_S

MOUNTS = (
    Mount(source=Path("/h/sessions/1"), target="/workspace"),
    Mount(source=Path("/h/groups/acme"), target="/workspace/agent"),
    Mount(source=Path("/usr/lib"), target="/opt/gatepost/lib"),
)


@pytest.mark.parametrize(
    ("inside", "host"),
    [
        ("/workspace", "/h/sessions/1"),
        ("/workspace/in/inbound.db", "/h/sessions/1/in/inbound.db"),
        ("/workspace/agent/work.md", "/h/groups/acme/work.md"),
        ("/workspaces", "/workspaces"),
        ("/opt/gatepost/lib:/workspace/x", "/usr/lib:/h/sessions/1/x"),
        ("see /workspace", "see /workspace"),
        ("UTC", "UTC"),
    ],
)
def test_paths_inside_become_paths_of_the_host(inside: str, host: str) -> None:
    assert to_host_path(inside, MOUNTS) == host


def plan(tmp_path: Path, script: str) -> SandboxPlan:
    mount = Mount(source=tmp_path, target="/workspace", writable=True)
    command = ("sh", "-c", script)
    return SandboxPlan(name="x", mounts=(mount,), command=command, env={"PLACE": "/workspace"}, cwd="/workspace")


async def test_it_runs_where_the_plan_says_and_tells_its_exit_code(tmp_path: Path) -> None:
    started = await ProcessSandboxKind(Config()).start(
        plan(tmp_path, 'echo "$PLACE" > here; echo gone wrong >&2; exit 3')
    )

    assert await started.wait() == 3
    assert (tmp_path / "here").read_text().strip() == str(tmp_path)
    assert started.last_words == "gone wrong"


async def test_killing_it_ends_its_children(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    started = await ProcessSandboxKind(Config()).start(plan(tmp_path, "sleep 60 & echo $! > ready; wait"))
    child = int((tmp_path / "ready").read_text())
    handle = os.pidfd_open(child) if sys.platform == "linux" else None

    assert started.owns(child)
    assert started.owns(started.pid)
    assert not started.owns(os.getpid())
    started.kill()

    assert await started.wait() == -9
    if handle is not None:
        assert select.select([handle], [], [], PATIENCE_S)[0]
        os.close(handle)


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nosuch"):
        await ProcessSandboxKind(Config()).start(SandboxPlan(name="x", mounts=(), command=("nosuch",), cwd="/"))


async def test_it_says_that_it_is_no_sandbox() -> None:
    assert ProcessSandboxKind.isolated is False
    assert ProcessSandboxKind(Config()).trouble() is None


async def test_the_log_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "yes x | head -c 3000000 >&2; echo end >&2"
    started = await ProcessSandboxKind(Config()).start(
        SandboxPlan(name="x", mounts=(), command=("sh", "-c", script), env={}, cwd="/", log=log)
    )

    assert await started.wait() == 0
    assert log.stat().st_size <= 256 * 1024
