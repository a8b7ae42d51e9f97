"""Processes of sandboxes as the host sees them: found, stopped, and what they hold."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gatepost.core.settings import Config
from gatepost.flow.sessions.host import sandbox_processes
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.sandboxes import cgroups
from gatepost.sandboxes.bubblewrap import (
    Bubblewrap,
    BubblewrapSandbox,
    end_orphans,
    find_bwrap,
    is_descendant,
    parent_of,
)
from gatepost_testing.shell_plan import make_shell_plan, share
from gatepost_testing.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")
CONFIG = Config()


async def start(folder: Path, script: str, *, with_cgroup: bool) -> BubblewrapSandbox:
    """Started, and past its first line: it writes to a pipe that is read here."""
    uid = sandbox_uid(CONFIG)
    if uid is not None:
        os.chown(folder, uid, uid)
    os.mkfifo(folder / "ready")
    os.chmod(folder / "ready", 0o666)
    kind = Bubblewrap(CONFIG)
    if not with_cgroup:
        kind._bases = cgroups.CgroupBases({}, None)
    started = await kind.start(make_shell_plan(script, share(folder), uid=uid))
    await asyncio.to_thread((folder / "ready").read_text)
    return started


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]


def frozen(pid: int) -> bool:
    """Stopped by a signal, or held by its cgroup."""
    if state_of(pid) == "T":
        return True
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        state = Path(f"/sys/fs/cgroup/freezer{path}/freezer.state")
        if "freezer" in controllers.split(",") and state.exists():
            return state.read_text().strip() in ("FROZEN", "FREEZING")
        events = Path(f"/sys/fs/cgroup{path}/cgroup.freeze")
        if not controllers and events.exists():
            return events.read_text().strip() == "1"
    return False


@pytest.mark.parametrize("with_cgroup", [True, False])
async def test_stranger_06_a_sandbox_is_frozen_whole_and_goes_on(tmp_path: Path, with_cgroup: bool) -> None:
    started = await start(tmp_path, "sleep 60 & sleep 60 & echo up > /shared/ready; wait", with_cgroup=with_cgroup)
    (inside,) = sandbox_processes.list_pids([started])
    assert started.inner_pid in inside and len(inside) >= 3 and os.getpid() not in inside

    sandbox_processes.freeze([started])
    await until(lambda: all(frozen(pid) for pid in inside))
    sandbox_processes.thaw([started])
    await until(lambda: not any(frozen(pid) for pid in inside))
    sandbox_processes.freeze([started])
    started.kill()
    await asyncio.wait_for(started.wait(), PATIENCE_S)


async def test_stranger_06_a_deleted_file_that_is_open_is_seen_once(tmp_path: Path) -> None:
    script = "exec 5>/shared/x; rm /shared/x; head -c 3000000 /dev/zero >&5; sleep 60 & echo up > /shared/ready; wait"
    started = await start(tmp_path, script, with_cgroup=True)
    (inside,) = sandbox_processes.list_pids([started])

    held = sandbox_processes.measure_unlinked_files(inside, [tmp_path.stat().st_dev])

    assert 3_000_000 <= held.deleted < 4_000_000
    assert sandbox_processes.measure_unlinked_files(inside, []).deleted == 0
    started.kill()
    await started.wait()


async def test_stranger_06_a_deleted_file_that_is_only_mapped_is_seen(tmp_path: Path) -> None:
    code = (
        "import mmap, os, time; f = open('/shared/x', 'w+b'); f.write(bytes(3000000)); f.flush(); "
        "m = mmap.mmap(f.fileno(), 0); os.closerange(3, 64); os.unlink('/shared/x'); "  # mmap has a copy of its own
        "open('/shared/ready', 'w').write('up'); time.sleep(60)"
    )
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no interpreter in /usr to run inside")
    started = await start(tmp_path, f'/usr/bin/python3 -c "{code}"', with_cgroup=True)
    (inside,) = sandbox_processes.list_pids([started])

    assert 3_000_000 <= sandbox_processes.measure_unlinked_files(inside, [tmp_path.stat().st_dev]).deleted < 4_000_000
    started.kill()
    await started.wait()


ODD = r"""
import ctypes, sys
ctypes.CDLL(None).prctl(15, b"\xff\x0cPPid:\t1", 0, 0, 0)
kept = bytearray(40 << 20)
print("up", flush=True)
sys.stdin.read()
"""


def test_a_process_with_an_odd_name_is_read_like_any_other() -> None:
    with subprocess.Popen([sys.executable, "-c", ODD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as odd:
        assert odd.stdin is not None and odd.stdout is not None
        odd.stdout.readline()

        assert sandbox_processes.measure_memory([odd.pid], odd.pid, 0) > 40 << 20
        assert parent_of(odd.pid) == os.getpid()
        assert is_descendant(odd.pid, os.getpid())
        end_orphans()
        odd.stdin.close()


MANY_MAPS = """
import ctypes, mmap, os, sys, tempfile
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
with tempfile.TemporaryFile(dir=sys.argv[1]) as file:
    os.truncate(file.fileno(), 1 << 28)
    for number in range(int(sys.argv[2])):
        libc.mmap(None, mmap.PAGESIZE, 1, 1 + number % 2, file.fileno(), 2 * number * mmap.PAGESIZE)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_stranger_new_very_many_maps_neither_hold_the_look_nor_hide_a_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox's processes decide how many maps they have, not how long the host looks at them."""
    read: list[int] = []
    make = os.makedev
    monkeypatch.setattr(os, "makedev", lambda *of: (read.append(1), make(*of))[1])
    with (
        subprocess.Popen(
            [sys.executable, "-c", MANY_MAPS, str(tmp_path), "12000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as busy,
        subprocess.Popen(
            [sys.executable, "-c", MANY_MAPS, str(tmp_path), "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as quiet,
    ):
        for each in (busy, quiet):
            assert each.stdout is not None and each.stdout.readline()
        sandbox_processes.measure_unlinked_files([busy.pid] * 30, [1])
        assert 0 < len(read) <= sandbox_processes.LARGEST_MAPS // 40
        found = {key for key, _ in sandbox_processes._mapped_and_deleted([*([busy.pid] * 30), quiet.pid])}
        assert len(found) == 2
        for each in (busy, quiet):
            each.kill()
