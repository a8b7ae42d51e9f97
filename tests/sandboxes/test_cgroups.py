"""Limits by cgroup: read from what the kernel tells, tried on plain folders, and on real ones where we may."""

import subprocess
import uuid
from pathlib import Path

import pytest

from gatepost.sandboxes import cgroups
from gatepost.sandboxes.cgroups import CgroupBases
from gatepost.sandboxes.contract import SandboxLimits
from gatepost_testing.waiting import PATIENCE_S, block_until

HYBRID_MOUNTS = """\
proc /proc proc rw,relatime 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
HYBRID_OWN = "8:pids:/\n4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/user.slice\n"


def fake_v2(tmp_path: Path, controllers: str = "cpu memory pids", handed_down: str = "") -> Path:
    for name, text in (("cgroup.controllers", controllers), ("cgroup.subtree_control", handed_down)):
        (tmp_path / name).write_text(text)
    (tmp_path / "cgroup.procs").write_text("1\n2\n")
    return tmp_path


def test_our_own_cgroup_is_found_in_each_hierarchy() -> None:
    found = cgroups.find_bases(HYBRID_MOUNTS, HYBRID_OWN)

    assert found.v1 == {
        "cpu": Path("/sys/fs/cgroup/cpu,cpuacct"),
        "memory": Path("/sys/fs/cgroup/memory/jobs/7"),
        "pids": Path("/sys/fs/cgroup/pids"),
    }
    assert found.v2 == Path("/sys/fs/cgroup/unified/user.slice")


def test_a_machine_of_version_two_alone_is_understood() -> None:
    found = cgroups.find_bases("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/system.slice/gatepost.service\n")

    assert found == CgroupBases({}, Path("/sys/fs/cgroup/system.slice/gatepost.service"))


def test_without_a_cgroup_there_is_none(tmp_path: Path) -> None:
    assert cgroups.make("x", SandboxLimits(), CgroupBases({}, None)) is None
    assert cgroups.make("x", SandboxLimits(), CgroupBases({"pids": tmp_path / "missing"}, None)) is None
    assert cgroups.make("x", SandboxLimits(), CgroupBases({}, tmp_path)) is None


def test_version_two_is_not_used_where_controllers_are_not_ours_to_hand_down(tmp_path: Path) -> None:
    assert cgroups.make("x", SandboxLimits(), CgroupBases({}, fake_v2(tmp_path, controllers="cpuset"))) is None
    assert not (tmp_path / "x").exists()


def test_half_a_limit_is_none(tmp_path: Path) -> None:
    """A plain folder has no pids.max: what cannot be set is not pretended."""
    base = fake_v2(tmp_path, handed_down="pids memory")

    assert cgroups.make("x", SandboxLimits(), CgroupBases({}, base)) is None
    assert not (base / "x").exists()


def real() -> CgroupBases:
    bases = cgroups.find_own_bases()
    trial = cgroups.make(f"gatepost-test-{uuid.uuid4().hex}", SandboxLimits(), bases)
    if trial is None:
        pytest.skip("no cgroup with the pids controller can be made here")
    trial.remove()
    return bases


def test_processor_time_is_limited_where_it_can_be() -> None:
    bases = real()
    made = cgroups.make(f"gatepost-test-{uuid.uuid4().hex}", SandboxLimits(cpu_percent=50), bases)
    assert made is not None
    try:
        if not cgroups.can_limit_cpu(bases):
            pytest.skip("the cpu controller is not ours to use here")
        folder = made.folders["cpu"]
        found = (folder / ("cpu.max" if made.unified else "cpu.cfs_quota_us")).read_text().split()
        assert found[0] == "50000"
    finally:
        made.remove()


def test_without_a_limit_on_time_there_is_none_and_a_start_has_a_smaller_share_than_work() -> None:
    bases = real()
    made = cgroups.make(f"gatepost-test-{uuid.uuid4().hex}", SandboxLimits(), bases)
    assert made is not None
    try:
        if not cgroups.can_limit_cpu(bases):
            pytest.skip("the cpu controller is not ours to use here")
        quota, share = ("cpu.max", "cpu.weight") if made.unified else ("cpu.cfs_quota_us", "cpu.shares")
        assert (made.folders["cpu"] / quota).read_text().split()[0] in ("max", "-1")
        starting = int((made.folders["cpu"] / share).read_text())
        made.set_share(cgroups.WORKING_SHARE)
        working = int((made.folders["cpu"] / share).read_text())
    finally:
        made.remove()

    assert starting < working < (100 if made.unified else 1024)


def test_processes_are_limited_and_killed_together() -> None:
    made = cgroups.make(f"gatepost-test-{uuid.uuid4().hex}", SandboxLimits(processes=5), real())
    assert made is not None
    script = "read go; for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; echo all; wait"
    shell = subprocess.Popen(["sh", "-c", script], stdin=-1, stdout=-1, stderr=-1, text=True)
    made.add(shell.pid)
    said, complaint = "", ""
    try:
        assert shell.stdin is not None and shell.stderr is not None
        shell.stdin.write("go\n")
        shell.stdin.flush()
        complaint = shell.stderr.readline()
        assert not made.remove()
    finally:
        made.kill()
        said, _ = shell.communicate(timeout=PATIENCE_S)

    assert "fork" in complaint.lower()
    assert said == ""
    block_until(made.remove, "its end")


def test_a_sweep_ends_what_bears_the_prefix_and_nothing_else() -> None:
    bases, mark = real(), uuid.uuid4().hex
    left = cgroups.make(f"gatepost-{mark}-a", SandboxLimits(), bases)
    other = cgroups.make(f"gatepost-other-{mark}", SandboxLimits(), bases)
    assert left is not None and other is not None
    sleeper = subprocess.Popen(["sleep", "60"])
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        left.add(sleeper.pid)
        other.add(bystander.pid)

        assert cgroups.sweep(f"gatepost-{mark}-", Path("/proc/self/mounts").read_text()) == 1
        assert sleeper.wait(timeout=PATIENCE_S) == -9
        assert bystander.poll() is None
    finally:
        for process in (sleeper, bystander):
            process.kill()
            process.wait()
        block_until(left.remove, "its end")
        block_until(other.remove, "its end")
