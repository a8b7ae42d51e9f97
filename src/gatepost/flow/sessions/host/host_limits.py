"""Holds awake sandboxes to what they may take of this machine's disk and memory, where the kernel does not do it.

It looks at the free space of the disk, at the memory of sandboxes that no cgroup limits, and at the trees that
sandboxes write to. Each look has its own pace.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from gatepost.core import log
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.flow.notices import add_owner_notices
from gatepost.flow.sessions.awake_session import AwakeSession
from gatepost.flow.sessions.host import sandbox_processes
from gatepost.flow.sessions.host.disk_usage import (
    FLOOR_FILES,
    FLOOR_MB,
    NO_SHARE,
    DiskGrowth,
    DiskShortage,
    FileSystemSpace,
    SpaceLevel,
    check_space,
    find_breach,
    find_floor,
    find_share,
    measure_growth,
    pick_heaviest,
)
from gatepost.flow.sessions.sandbox.group_limits import DISK_MB, FILES
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.session_ending import Ending
from gatepost.sandboxes.contract import Sandbox
from gatepost.store.port import Db
from gatepost.store.sessions import groups

FLOOR_S = 0.3
MEMORY_S = 1.0
DISK_S = 2.0
SMALL = 2  # a disk with less free than so many times the limit of one agent is small
DUTY = 20  # a look that took a second is not repeated for so many
GONE_S = 2.0  # what the kernel has to free what an ended sandbox held
MIB = 1024 * 1024

_log = log.get("sessions")
SPACE = "space"  # the file that takes the bytes
ROOM = 4  # a reserve is made only if so many times as much is free


class ReserveSize(Struct, frozen=True):
    size: int
    files: int


class DiskReserve:
    """A reserve of space and of files on a small disk: whoever has filled it does not keep everybody else from running.

    It is made only where one agent could fill the disk below its own limit. When the disk is full it is given up, so
    that the others have something to work with, and made again once there is space for it.
    """

    def __init__(self, home: Home) -> None:
        self._folder: Path = home.path / "reserve"
        self.released = False  # it was given up, and there is no space yet to make it again

    def is_there(self) -> bool:
        return self._folder.is_dir()

    def make(self, wanted: ReserveSize) -> bool:
        """False: there is no space for it after all."""
        try:
            self._folder.mkdir(mode=0o700)
            with (self._folder / SPACE).open("wb") as file:
                if wanted.size:
                    os.posix_fallocate(file.fileno(), 0, wanted.size)
            for number in range(wanted.files):
                (self._folder / f"{number}").touch()
        except OSError:
            self._remove()
            return False
        self.released = False
        return True

    def release(self) -> bool:
        """Give it up. False: there was none."""
        if not self.is_there():
            return False
        self.released = True
        self._remove()
        return True

    def _remove(self) -> None:
        with suppress(OSError):
            shutil.rmtree(self._folder)


class HostLimits:
    def __init__(
        self, deps: SessionDeps, awake: Callable[[], list[AwakeSession]], end_others: Callable[[], None]
    ) -> None:
        self._deps, self._awake, self._end_others = deps, awake, end_others
        self._usage, self.shortage = deps.usage, deps.shortage
        self.low = ""  # why nothing may be woken, '' if there is space
        self._not_before = 0.0  # the next look for who filled the disk
        self._looked: dict[str, float] = {}  # by session: when its trees are looked at next
        self._filled: dict[str, str] = {}  # groups that are kept asleep, because their files filled the disk, and why
        self._reserve = DiskReserve(deps.home)
        self._share = NO_SHARE  # of the disk, that one agent may have

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._every(FLOOR_S, self.watch_floor))
                tasks.create_task(self._every(MEMORY_S, self.watch_memory))
                tasks.create_task(self._every(DISK_S, self.watch_trees))
        finally:
            self._usage.close()

    async def _every(self, seconds: float, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        failure, errors = "sandboxes could not be looked at", (GatepostError, OSError)
        await WakeLoop(_log.warning, failure, pause_s=seconds, errors=errors).run(look, first_s=seconds)

    def _started(self) -> list[tuple[AwakeSession, Sandbox]]:
        return [(live, live.sandbox) for live in self._awake() if live.sandbox is not None and not live.ending]

    # The free space of the disk.

    async def watch_floor(self) -> None:
        config = self._deps.config
        spaces = await self._usage.quick(self.shortage.measure, self._deps.disks)
        shortage = check_space(spaces, config[FLOOR_MB], config[FLOOR_FILES])
        if shortage.level is not SpaceLevel.EMPTY and self.low:
            _log.warning("there is space on the disk again")
            self.low = ""
        if shortage.level is SpaceLevel.ENOUGH and spaces:
            await self._keep_reserve(spaces[0])
        if shortage.level is not SpaceLevel.ENOUGH and time.monotonic() >= self._not_before:
            await self._relieve(shortage)

    async def _keep_reserve(self, space: FileSystemSpace) -> None:
        """There is enough now. `space`: of the home. Groups that filled the disk may wake once a reserve that was given
        up could be made again."""
        config = self._deps.config
        self._share = find_share(space)
        floor = find_floor(space, config[FLOOR_MB], config[FLOOR_FILES])
        of_size = bool(floor.size) and space.free < SMALL * config[DISK_MB] * MIB
        of_files = bool(floor.files) and space.free_files < SMALL * config[FILES]
        wanted = ReserveSize(floor.size if of_size else 0, floor.files if of_files else 0)
        has_room = space.free >= ROOM * wanted.size and space.free_files >= ROOM * wanted.files
        if (of_size or of_files) and has_room and not await self._usage.quick(self._reserve.is_there):
            await self._usage.quick(self._reserve.make, wanted)
        if self._filled and (has_room or not self._reserve.released):
            _log.warning("there is space on the disk again", groups=sorted(self._filled))
            self._filled.clear()

    def find_why_asleep(self, folder: str) -> str:
        """Why nothing of a group is woken, '' if it may be."""
        return self._filled.get(folder, "")

    async def _notify_owners(self, live: AwakeSession, why: str) -> None:
        """Once for each time. Its room is told with the end of its turn."""
        now, deps, folder = self._deps.clock.now(), self._deps, live.session.folder
        text = f"The agent {folder} was stopped: {why}. Its files stay; the other agents go on."
        with suppress(GatepostError):
            rooms = await deps.store.write(add_owner_notices, deps.channels, f"disk:{live.session.id}:{now}", text, now)
            for room in rooms:
                deps.events.room(*room)

    async def _relieve(self, shortage: DiskShortage) -> None:
        """Freeze them all, so that what is measured stays true; end who grew most; let the others go on."""
        began, lives = time.monotonic(), self._started()
        sandboxes = [sandbox for _, sandbox in lives]
        ended: list[AwakeSession] = []
        await self._usage.quick(sandbox_processes.freeze, sandboxes)
        try:
            growth = await self._growth(lives)
            heaviest = pick_heaviest(growth, shortage)
            if heaviest:
                ended = [live for live, _ in lives if live.session.id == heaviest]
                for live in ended:
                    why = f"{shortage.why}; this agent's files grew most"
                    self._filled[live.session.folder] = why
                    live.kill(Ending.for_disk(why))
            elif shortage.level is SpaceLevel.EMPTY or self._filled:
                ended = await self._find_space([live for live, _ in lives], shortage)
        finally:
            if self._deps.freezer.may_go_on():  # else whoever lets them all go on does so with these
                await self._usage.quick(sandbox_processes.thaw, [each for live, each in lives if live not in ended])
        if ended:
            _log.warning("the disk is nearly full", why=shortage.why, ended=[live.session.id for live in ended])
        for live in ended if heaviest else ():
            await self._notify_owners(live, self._filled[live.session.folder])
        await _until_gone(ended)
        if not ended:
            took = time.monotonic() - began
            self._not_before = time.monotonic() + max(1.0, DUTY * took)

    async def _find_space(self, lives: list[AwakeSession], shortage: DiskShortage) -> list[AwakeSession]:
        """Nobody can be seen to have filled it. First those end who write where nothing is counted; then the reserve is
        given up; then all end. Those that did."""
        is_empty = shortage.level is SpaceLevel.EMPTY
        ended = [live for live in lives if live.writes_elsewhere] if is_empty else []
        if not ended and await self._usage.quick(self._reserve.release):
            _log.warning("the reserve on the disk was given up", why=shortage.why)
            return []
        if not is_empty:
            return []
        ended = ended or lives
        for live in ended:
            live.kill(Ending.by_gateway(shortage.why))
        if len(ended) == len(lives):
            self._stop(shortage)
        return ended

    def _stop(self, shortage: DiskShortage) -> None:
        if not self.low:
            _log.warning("no sandbox runs until there is space on the disk", why=shortage.why)
        self.low = shortage.why
        self._end_others()

    async def _growth(self, lives: Sequence[tuple[AwakeSession, Sandbox]]) -> dict[str, DiskGrowth]:
        folders = await self._deps.store.read(_folders)
        pids = await self._usage.quick(sandbox_processes.list_pids, [sandbox for _, sandbox in lives])
        found = {}
        for (live, _), own in zip(lives, pids, strict=True):
            usage = await self._usage.run_measurement(self._usage.measure, live.trees(folders), live.most_counted)
            held = await self._usage.run_measurement(sandbox_processes.measure_unlinked_files, own, self._devices())
            found[live.session.id] = measure_growth(usage, held.deleted, live.baseline)
        return found

    def _devices(self) -> set[int]:
        found = set()
        for place in (self._deps.home.path, self._deps.home.worktrees):
            with suppress(OSError):
                found.add(os.stat(place).st_dev)
        return found

    # Memory.

    async def watch_memory(self) -> None:
        lives = [(live, each) for live, each in self._started() if not getattr(each, "memory_is_limited", False)]
        if not lives:
            return
        pids = await self._usage.quick(sandbox_processes.list_pids, [sandbox for _, sandbox in lives])
        for (live, sandbox), own in zip(lives, pids, strict=True):
            limit = live.limits.memory_mb * MIB
            if (
                await self._usage.run_memory_check(sandbox_processes.measure_memory, own, sandbox.inner_pid, limit)
                > limit
            ):
                live.kill(Ending(f"the agent takes more than {live.limits.memory_mb} MB of memory (sandbox.memory_mb)"))

    # Trees.

    async def watch_trees(self) -> None:
        lives, now = self._started(), time.monotonic()
        due = [(live, each) for live, each in lives if self._looked.get(live.session.id, 0.0) <= now]
        if not due:
            return
        folders = await self._deps.store.read(_folders)
        pids = await self._usage.quick(sandbox_processes.list_pids, [sandbox for _, sandbox in due])
        awake = {live.session.folder for live, _ in lives}
        for (live, _), own in zip(due, pids, strict=True):
            began = time.monotonic()
            await self._check_usage(live, own, folders, awake)
            ended = time.monotonic()
            self._looked[live.session.id] = ended + DUTY * (ended - began)
        self._looked = {
            key: self._looked[key] for key in self._looked if any(key == each.session.id for each, _ in lives)
        }

    async def _check_usage(self, live: AwakeSession, pids: list[int], folders: list[str], awake: set[str]) -> None:
        own = live.trees(folders)
        others = live.trees_below([each for each in folders if each not in awake], folders)
        found = await self._usage.run_measurement(self._usage.measure, [*own, *others], live.most_counted)
        held = await self._usage.run_measurement(sandbox_processes.measure_unlinked_files, pids, self._devices())
        breach = find_breach(found, own, held.deleted, live.limits, live.baseline, self._share)
        if breach and not live.ending:
            live.kill(Ending.for_disk(breach))
            await self._notify_owners(live, breach)


async def _until_gone(ended: Sequence[AwakeSession]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(GONE_S):
            for live in ended:
                await live.gone.wait()


def _folders(db: Db) -> list[str]:
    return [each.folder for each in groups.list_all(db)]
