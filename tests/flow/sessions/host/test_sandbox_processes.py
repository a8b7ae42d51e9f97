"""Processes of sandboxes as the host sees them: found, stopped, and what they hold. A sandbox that is held still goes
on where it stopped."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatepost.core.process.keeper_process import read_clock
from gatepost.core.settings import Config
from gatepost.flow.gateways.keeper import Keeper
from gatepost.flow.sessions.host import sandbox_processes
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.flow.sessions.host.sandbox_processes import SandboxFreezer
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


LOOP = "(while :; do echo x >> /shared/inner; done) & while :; do echo x >> /shared/outer; done"
FILES = ("outer", "inner")
WITNESS = 'while :; do echo x >> "$0"; done'
ENOUGH = 1000  # bytes that somebody who is not frozen has written meanwhile


def list_sizes(folder: Path) -> list[int]:
    return [(folder / name).stat().st_size if (folder / name).exists() else 0 for name in FILES]


async def is_still(folder: Path) -> bool:
    """Return True if nothing is written, while a process outside writes as fast as it can."""
    before = list_sizes(folder)
    with tempfile.NamedTemporaryFile() as file:
        witness = await asyncio.create_subprocess_exec("/bin/sh", "-c", WITNESS, file.name)
        try:
            await until(lambda: Path(file.name).stat().st_size > ENOUGH)
        finally:
            witness.kill()
            await witness.wait()
    return list_sizes(folder) == before


async def wait_for_growth(folder: Path) -> None:
    before = list_sizes(folder)
    await until(lambda: all(now > then for now, then in zip(list_sizes(folder), before, strict=True)))


def is_stopped(sandbox: BubblewrapSandbox) -> bool:
    """As the kernel tells it: nothing of it runs any more."""
    freezer = sandbox.freezer
    if freezer is not None:
        events = freezer.with_name("cgroup.events")
        return "frozen 1" in events.read_text() if events.exists() else freezer.read_text().strip() == "FROZEN"
    (inside,) = sandbox_processes.list_pids([sandbox])
    states = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] for pid in inside]
    return all(state == "T" for state in states)


async def wait_until_still(sandbox: BubblewrapSandbox, folder: Path) -> None:
    await until(lambda: is_stopped(sandbox))
    assert await is_still(folder)


@asynccontextmanager
async def started_loop(folder: Path, *, with_cgroup: bool) -> AsyncIterator[BubblewrapSandbox]:
    """Two processes of it write without a pause."""
    uid = sandbox_uid(CONFIG)
    if uid is not None:
        os.chown(folder, uid, uid)
    kind = Bubblewrap(CONFIG)
    if not with_cgroup:
        kind._bases = cgroups.CgroupBases({}, None)
    started = await kind.start(make_shell_plan(LOOP, share(folder), uid=uid))
    try:
        yield started
    finally:
        started.kill()
        await asyncio.wait_for(started.wait(), PATIENCE_S)


@pytest.mark.parametrize("with_cgroup", [True, False])
async def test_a_loop_writes_nothing_while_it_is_frozen_and_goes_on_after(tmp_path: Path, with_cgroup: bool) -> None:
    freezer = SandboxFreezer()
    async with started_loop(tmp_path, with_cgroup=with_cgroup) as started:
        freezer.add(started)
        await wait_for_growth(tmp_path)
        assert freezer.set_frozen(True)
        await wait_until_still(started, tmp_path)
        assert freezer.set_frozen(False)
        await wait_for_growth(tmp_path)


@pytest.mark.parametrize("with_cgroup", [True, False])
async def test_what_starts_while_everything_is_frozen_is_frozen(tmp_path: Path, with_cgroup: bool) -> None:
    in_contact = False
    freezer = SandboxFreezer(lambda: in_contact)
    async with started_loop(tmp_path, with_cgroup=with_cgroup) as started:
        freezer.add(started)
        assert freezer.is_frozen and not freezer.may_go_on()
        await wait_until_still(started, tmp_path)
        in_contact = True
        freezer.set_frozen(False)
        await wait_for_growth(tmp_path)


@pytest.mark.parametrize("with_cgroup", [True, False])
async def test_the_keeper_freezes_and_thaws_and_a_lost_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_cgroup: bool
) -> None:
    monkeypatch.setenv("GATEPOST_STORE_URL", "postgresql://ann:hush@db.example/x")
    keeper = Keeper()
    freezer = SandboxFreezer(keeper=keeper)
    keeper.set_time(read_clock() + 600, 1)
    assert keeper.pid is None  # there is nothing to keep yet
    async with started_loop(tmp_path, with_cgroup=with_cgroup) as started:
        freezer.add(started)
        first = keeper.pid
        assert first is not None
        assert b"hush" not in Path(f"/proc/{first}/environ").read_bytes()
        keeper.set_time(read_clock() + 0.1, 1)
        await wait_until_still(started, tmp_path)
        keeper.set_time(read_clock() + 600, 1)
        await wait_for_growth(tmp_path)

        os.kill(first, signal.SIGKILL)
        await until(lambda: keeper._process is not None and keeper._process.poll() is not None)
        keeper.set_time(read_clock() + 0.1, 1)
        assert keeper.pid != first and keeper.starts == 2
        await wait_until_still(started, tmp_path)

        keeper.stop()  # as when the gateway is gone
        await asyncio.wait_for(started.wait(), PATIENCE_S)
        freezer.remove(started)
