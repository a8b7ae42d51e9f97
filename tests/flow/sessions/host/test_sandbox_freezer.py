"""A real sandbox is held still, by its gateway and by its keeper, and goes on where it stopped."""

import asyncio
import os
import signal
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
from gatepost.flow.sessions.host.sandbox_freezer import SandboxFreezer
from gatepost.sandboxes import cgroups
from gatepost.sandboxes.bubblewrap import Bubblewrap, BubblewrapSandbox, find_bwrap
from gatepost_testing.shell_plan import make_shell_plan, share
from gatepost_testing.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")
CONFIG = Config()
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
