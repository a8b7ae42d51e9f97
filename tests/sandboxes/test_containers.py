"""Containers as arguments: walls, limits and mounts, whatever the engine; and the guard beside each."""

import asyncio
import io
import itertools
import os
import resource
import tarfile
from pathlib import Path

import pytest

from gatepost.core.errors import Unavailable
from gatepost.sandboxes.containers import (
    ContainerFolder,
    ContainerReaper,
    cgroup_of,
    limit_options,
    mount_options,
    namespace_of,
    pack_root,
    run_options,
)
from gatepost.sandboxes.contract import Mount, SandboxLimits, SandboxPlan
from gatepost_testing.waiting import PATIENCE_S

PLAN = SandboxPlan(
    name="gatepost-test",
    mounts=(
        Mount(source=Path("/srv/in"), target="/workspace/in"),
        Mount(source=Path("/srv/out"), target="/workspace/out", writable=True),
    ),
    command=("/bin/sh", "-c", "true"),
    env={"HOME": "/workspace/state/home"},
    uid=64123,
)


def pairs(options: list[str]) -> set[tuple[str, str]]:
    return set(itertools.pairwise(options))


def test_every_wall_is_asked_for() -> None:
    options = run_options(PLAN, "gatepost-test.1", ContainerFolder(Path("/p")), image=False)

    assert {"--init", "--read-only", "--rm"} <= set(options)
    assert {
        ("--network", "none"),
        ("--ipc", "private"),
        ("--cap-drop", "ALL"),
        ("--user", "64123:64123"),
        ("--security-opt", "no-new-privileges"),
        ("--security-opt", "seccomp=/p/seccomp.json"),
        ("--env", "HOME=/workspace/state/home"),
        ("--name", "gatepost-test.1"),
        ("--pull", "never"),
    } <= pairs(options)
    assert not {"--privileged", "--interactive", "--publish"} & set(options)


def test_mounts_are_read_only_unless_the_plan_says_otherwise() -> None:
    options = mount_options(PLAN, ContainerFolder(Path("/p")), image=False)
    writable = [each for each in options if each.startswith("type=") and not each.endswith(",readonly")]

    assert writable == ["type=bind,source=/srv/out,target=/workspace/out"]
    assert "type=bind,source=/usr,target=/usr,readonly" in options
    assert "type=bind,source=/p/etc/passwd,target=/etc/passwd,readonly" in options


def test_with_an_image_nothing_of_the_hosts_own_is_mounted() -> None:
    sources = " ".join(mount_options(PLAN, ContainerFolder(Path("/p")), image=True))

    assert "source=/usr" not in sources
    assert "source=/etc" not in sources
    assert "target=/etc/passwd" in sources


def test_a_path_that_an_engine_would_misread_is_refused() -> None:
    odd = SandboxPlan(name="n", mounts=(Mount(source=Path("/srv/a,readonly=false"), target="/x"),), command=("true",))

    with pytest.raises(Unavailable, match="commas"):
        mount_options(odd, ContainerFolder(Path("/p")), image=False)


def test_no_limit_is_ever_raised() -> None:
    options = limit_options(SandboxLimits(memory_mb=64, processes=32, files=1 << 30, cpu_percent=150))
    rlimits = dict(value.split("=") for name, value in pairs(options) if name == "--ulimit")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert set(rlimits) == {"nofile", "nproc", "core"}
    assert hard == resource.RLIM_INFINITY or rlimits["nofile"] == f"{hard}:{hard}"
    assert {("--memory", "64m"), ("--memory-swap", "64m"), ("--pids-limit", "32"), ("--cpus", "1.5")} <= pairs(options)


def test_the_root_is_the_same_bytes_each_time_and_almost_empty() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack_root())) as packed:
        members = packed.getmembers()

    assert pack_root() == pack_root()
    assert not any(each.isreg() for each in members)
    assert {each.name: each.mode for each in members}["tmp"] == 0o1777


def test_a_process_of_ours_lives_in_no_container() -> None:
    assert namespace_of(os.getpid()) is None
    assert namespace_of(0) is None
    assert cgroup_of(os.getpid(), "0123456789abcdef") is None
    assert cgroup_of(os.getpid(), "") is None


@pytest.mark.slow
@pytest.mark.parametrize("dismissed", [True, False])
async def test_a_guard_acts_unless_it_is_dismissed(tmp_path: Path, dismissed: bool) -> None:
    place = ContainerFolder(tmp_path / "place")
    place.make(os.geteuid(), os.getegid())
    guard = ContainerReaper(place, ["touch", str(tmp_path / "ended")], {"PATH": os.environ["PATH"]})

    if dismissed:
        guard.dismiss()
    else:
        guard.act()
    await asyncio.wait_for(guard.wait(), PATIENCE_S)

    assert (tmp_path / "ended").exists() is not dismissed
    assert place.folder.exists() is dismissed
