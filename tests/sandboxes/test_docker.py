"""docker: its arguments and complaints; where its daemon answers, also containers that are started and ended."""

import asyncio
import uuid
from pathlib import Path

import pytest

from gatepost.core.settings import Config
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.sandboxes.containers import ContainerFolder
from gatepost.sandboxes.contract import SandboxPlan, trouble_of
from gatepost.sandboxes.docker import Docker
from gatepost_testing.waiting import PATIENCE_S

CONFIG = Config()


def plan(script: str) -> SandboxPlan:
    name = f"gatepost-test-{uuid.uuid4().hex}"
    return SandboxPlan(name=name, mounts=(), command=("/bin/sh", "-c", script), cwd="/", uid=sandbox_uid(CONFIG))


@pytest.fixture
def working() -> Docker:
    kind = Docker(CONFIG)
    trouble = trouble_of(kind)
    if trouble is not None:
        pytest.skip(trouble)
    return kind


def test_it_starts_from_an_image_of_its_own_or_the_one_that_was_set() -> None:
    own = Docker(CONFIG).run_command(plan("true"), "c", ContainerFolder(Path("/p")))
    given = Docker(Config({"sandbox.image": "mine", "sandbox.runtime": "runsc"}))
    set_by_hand = given.run_command(plan("true"), "c", ContainerFolder(Path("/p")))

    assert own[-3].startswith("gatepost-root:")
    assert set_by_hand[-5:] == ["--runtime", "runsc", "mine", "-c", "true"]


def test_the_operators_docker_settings_stay_outside() -> None:
    """config.json may name proxies with their passwords, which docker would hand to every container."""
    assert not Path(Docker(CONFIG).env()["DOCKER_CONFIG"], "config.json").exists()


def test_known_complaints_come_with_the_way_out() -> None:
    explain = Docker(CONFIG).explain

    assert "systemctl start docker" in explain("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
    assert "group docker" in explain("permission denied while trying to connect to the Docker daemon socket")


def test_without_docker_it_says_how_to_install_it() -> None:
    kind = Docker(CONFIG)
    kind.program = None

    assert "apt install docker.io" in (kind._find_trouble() or "")


@pytest.mark.slow
async def test_it_is_started_owned_and_ended(working: Docker) -> None:
    started = await working.start(plan("trap '' TERM; while :; do :; done"))

    assert started.owns(started.inner_pid)
    assert not started.owns(started.pid)
    started.kill()
    assert await asyncio.wait_for(started.wait(), PATIENCE_S) == -9
    assert await (await working.start(plan("exit 7"))).wait() == 7


@pytest.mark.slow
async def test_a_sweep_ends_what_an_earlier_daemon_left(working: Docker) -> None:
    left = plan("sleep 60")
    started = await working.start(left)

    assert await asyncio.to_thread(working.sweep, left.name) == 1
    assert await asyncio.wait_for(started.wait(), PATIENCE_S) != 0
