"""podman: its arguments and complaints; where it is installed, also containers that are started, owned and ended."""

import asyncio
import os
import select
import shutil
import signal
import socket
import struct
from pathlib import Path

import pytest

from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.flow.sessions.sandbox.sandbox_plan import choose_sandbox
from gatepost.sandboxes.bubblewrap import Bubblewrap
from gatepost.sandboxes.containers import ContainerFolder, ContainerSandbox
from gatepost.sandboxes.contract import Mount, SandboxLimits, SandboxPlan, trouble_of
from gatepost.sandboxes.engine import check_file_owner, check_folder_identity, find_missing_limits
from gatepost.sandboxes.podman import Podman, choose_runtime
from gatepost.store.sessions.groups import Group
from gatepost_testing.shell_plan import make_shell_plan
from gatepost_testing.waiting import PATIENCE_S, until

CONFIG = Config()
INSTALLED = shutil.which("podman") is not None


def engine_tests(test: object) -> object:
    """Slow, and only where there is an engine."""
    skip = pytest.mark.skipif(not INSTALLED, reason="podman is not installed: apt install podman runc catatonit uidmap")
    return pytest.mark.slow(skip(test))


def plan(script: str, *mounts: Mount, limits: SandboxLimits = SandboxLimits()) -> SandboxPlan:  # noqa: B008  frozen
    return make_shell_plan(script, *mounts, limits=limits, uid=sandbox_uid(CONFIG))


async def start(script: str, *mounts: Mount, limits: SandboxLimits = SandboxLimits()) -> ContainerSandbox:  # noqa: B008  frozen
    return await Podman(CONFIG).start(plan(script, *mounts, limits=limits))


def shared(tmp_path: Path) -> Mount:
    folder = tmp_path / "shared"
    folder.mkdir()
    os.mkfifo(folder / "ready")
    os.chmod(folder / "ready", 0o666)
    uid = sandbox_uid(CONFIG)
    if uid is not None:
        os.chown(folder, uid, uid)
    return Mount(source=folder, target="/shared", writable=True)


def test_runtime_flags_and_image_are_settings() -> None:
    config = Config({"sandbox.runtime": "runsc", "sandbox.runtime_flags": ("network=none",), "sandbox.image": "mine"})
    command = Podman(config).run_command(plan("true"), "c", ContainerFolder(Path("/p")))
    text = " ".join(command)

    assert "--runtime runsc --runtime-flag network=none" in text
    assert command[-3:] == ["mine", "-c", "true"]
    assert "--rootfs" not in command
    assert "--rootfs /p/root -c true" in " ".join(
        Podman(CONFIG).run_command(plan("true"), "c", ContainerFolder(Path("/p")))
    )


def test_runc_is_taken_where_cgroup_v1_is_left() -> None:
    assert choose_runtime(unified=False, runc="/usr/sbin/runc") == "runc"
    assert choose_runtime(unified=False, runc=None) == ""
    assert choose_runtime(unified=True, runc="/usr/sbin/runc") == ""


def test_known_complaints_come_with_the_way_out() -> None:
    explain = Podman(CONFIG).explain

    assert "apt install runc" in explain("Error: crun: cgroups in hybrid mode not supported, drop all controllers")
    assert "may not raise" in explain("Error: crun: setrlimit RLIMIT_NOFILE: Operation not permitted")
    assert "apt install catatonit" in explain('Error: container-init binary not found: exec: "catatonit"')
    assert explain("out of luck") == "a trial start failed: out of luck"


def test_an_engine_that_ignores_limits_or_changes_owners_is_not_used(tmp_path: Path) -> None:
    words = "Resource limits are not supported and ignored on cgroups V1 rootless systems"
    (tmp_path / "seen").touch()

    assert "cannot limit" in (find_missing_limits("podman", words) or "")
    assert find_missing_limits("podman", "Your kernel does not support swap limit capabilities") is None
    assert check_file_owner("podman", tmp_path / "seen", os.geteuid()) is None
    assert "remapping" in (check_file_owner("podman", tmp_path / "seen", os.geteuid() + 1) or "")
    assert "runc or crun" in (check_folder_identity(tmp_path / "seen") or "")
    assert "not on this machine" in (check_file_owner("podman", tmp_path / "none", 0) or "")


def test_without_podman_it_says_how_to_install_it() -> None:
    kind = Podman(CONFIG)
    kind.program = None

    assert "apt install podman" in (kind._find_trouble() or "")
    assert kind.sweep("gatepost-none") == 0


def test_auto_prefers_bubblewrap() -> None:
    if trouble_of(Bubblewrap(CONFIG)) is not None:
        pytest.skip("bubblewrap does not work here")

    assert choose_sandbox(CONFIG, Group(folder="a", name="a", created_at=0), "x")[0] == "bubblewrap"


@engine_tests
def test_it_has_no_trouble_here() -> None:
    assert Podman(CONFIG).trouble() is None


@engine_tests
async def test_its_exit_code_and_last_words_come_back_and_nothing_is_left() -> None:
    kind, given = Podman(CONFIG), plan("echo gone wrong >&2; exit 7")
    started = await kind.start(given)

    assert await started.wait() == 7
    assert started.last_words == "gone wrong"
    assert not started._place.folder.exists()
    assert (kind.ask(kind.list_command(given.name)) or pytest.fail("no answer")).out == ""


@engine_tests
async def test_killing_it_ends_everything_inside_at_once(tmp_path: Path) -> None:
    mount = shared(tmp_path)
    started = await start("trap '' TERM INT HUP; setsid sleep 60 & echo up > /shared/ready; while :; do :; done", mount)
    await asyncio.to_thread((mount.source / "ready").read_text)
    inner = os.pidfd_open(started.inner_pid)

    assert started.owns(started.inner_pid)
    assert not started.owns(os.getpid())
    assert not started.owns(started.pid)
    started.kill()
    started.kill()
    assert await asyncio.wait_for(started.wait(), PATIENCE_S) == -9
    assert select.select([inner], [], [], 0)[0]
    assert not started.owns(started.inner_pid)
    os.close(inner)


@engine_tests
async def test_what_runs_inside_has_no_rights_and_no_network(tmp_path: Path) -> None:
    mount = shared(tmp_path)
    script = """
        exec > /shared/found
        id -u; grep CapEff /proc/self/status; (echo 1 > /proc/sys/kernel/panic) 2>&1 | grep -c Read-only
        grep -c : /proc/net/dev; find /sys -type f | wc -l; touch /usr/planted 2>&1 | grep -c Read-only
        unshare --user true 2>&1 | grep -c 'not permitted'
    """
    await (await start(script, mount)).wait()
    uid, capabilities, *counts = (mount.source / "found").read_text().splitlines()

    assert int(uid) == mount.source.stat().st_uid != 0
    assert capabilities.split() == ["CapEff:", "0" * 16]
    assert counts == ["1", "1", "0", "1", "1"]  # one device: its own loopback


@engine_tests
async def test_processes_and_memory_are_limited() -> None:
    fork = "i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done; exit 0"
    eat = '[ "$(head -c 300000000 /dev/zero | tail -c 300000000 | wc -c)" = 300000000 ] && exit 9; exit 0'
    crowded = await start(fork, limits=SandboxLimits(processes=20))
    hungry = await start(eat, limits=SandboxLimits(memory_mb=64))

    assert await crowded.wait() != 0
    assert await hungry.wait() != 9


@engine_tests
async def test_a_sweep_ends_what_an_earlier_daemon_left() -> None:
    kind, left = Podman(CONFIG), plan("sleep 60")
    started = await kind.start(left)

    assert await asyncio.to_thread(kind.sweep, left.name) == 1
    assert await asyncio.wait_for(started.wait(), PATIENCE_S) != 0
    assert kind.sweep(left.name) == 0


@engine_tests
async def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    kind = Podman(Config({"sandbox.runtime": str(tmp_path / "missing")}))

    with pytest.raises(Unavailable, match="missing"):
        await kind.start(plan("true"))
    assert "missing" in (kind.trouble() or "")


@engine_tests
@pytest.mark.skipif(shutil.which("runsc") is None, reason="runsc is not installed: apt install runsc")
async def test_under_gvisor_whoever_connects_for_the_container_is_its_own(tmp_path: Path) -> None:
    flags = ("platform=ptrace", "network=none", "fsgofer-host-uds")
    kind = Podman(Config({"sandbox.runtime": "runsc", "sandbox.runtime_flags": flags}))
    mount = Mount(source=tmp_path, target="/run/gatepost")
    tmp_path.chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    (tmp_path / "s").chmod(0o777)
    listener.listen()
    listener.settimeout(PATIENCE_S)

    started = await kind.start(plan("exec socat - UNIX-CONNECT:/run/gatepost/s,retry=5 < /dev/zero", mount))
    connection, _ = await asyncio.to_thread(listener.accept)
    peer, *_ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))

    assert started.owns(peer)
    assert not started.owns(os.getpid())
    assert not started.owns(started.pid)
    started.kill()
    assert await asyncio.wait_for(started.wait(), PATIENCE_S) != 0
    connection.close()
    listener.close()


@engine_tests
async def test_it_is_frozen_by_its_own_cgroup_and_goes_on(tmp_path: Path) -> None:
    mount = shared(tmp_path)
    loop = "echo up > /shared/ready; while :; do echo x >> /shared/out; done"
    started = await start(loop, mount)
    await asyncio.to_thread((mount.source / "ready").read_text)
    out = mount.source / "out"
    freezer = started.freezer
    assert freezer is not None and started._place.container in str(freezer)
    await until(out.exists)

    assert started.freeze()
    await until(lambda: freezer.read_text().strip() in ("FROZEN", "1"))
    size = out.stat().st_size
    started.thaw()
    await until(lambda: out.stat().st_size > size)
    started.freeze()
    started.kill()
    assert await asyncio.wait_for(started.wait(), PATIENCE_S) == -signal.SIGKILL
