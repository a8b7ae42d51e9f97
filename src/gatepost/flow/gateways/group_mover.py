"""Moves worlds between gateways that have folders of their own: each does its part of the moves that concern it.

Every step may be cut short and is begun anew: what counts is the row (`store/gateways/group_moves.py`). Nothing of a
world is woken while it moves. The target has everything on its disk, and has compared it, before the world's place
changes; the source removes what it had only after that.
"""

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path

from gatepost.core import log
from gatepost.core.errors import GatepostError, Invalid, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import setting
from gatepost.flow.gateways import world_archive
from gatepost.flow.gateways.world_archive import ArchiveLimits, WorldPacker, WorldUnpacker, list_tops
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.gateways.group_moves import MOST_SESSIONS, GroupMove, GroupMoveState
from gatepost.store.messages import passed_files
from gatepost.store.messages.passed_files import CHUNK

MOST_MB = setting("groups.move_mb", 4096, help="The most that the files of a group may have which is moved, in MB.")
MOST_FILES = 100_000
LOOK_S = 10.0  # behind the bell
TURN_S = 15.0  # for which turns may end by themselves
REST_S = 60.0  # after which a world that does not come to rest stays
FOLDER = "moves"  # in the home: what is unpacked, and what lay there before
NEW, BEFORE, PLACED = "new", "before", "placed"
MOVES = "its group moves to another gateway"

_log = log.get("gateways")


class GroupMover:
    def __init__(self, sessions: SessionSupervisor, gateway: str, events: EventBus) -> None:
        self._sessions, self._gateway, self._events = sessions, gateway, events
        deps = sessions.deps
        self._home, self._store, self._clock = deps.home, deps.store, deps.clock
        self._limits = ArchiveLimits(deps.config[MOST_MB] * 1024**2, MOST_FILES)
        self._loop = WakeLoop(_log.warning, "moves of groups wait", pause_s=LOOK_S)
        self._is_swept = False
        events.on_gateways(self._loop.wake)

    async def run(self) -> None:
        """Until cancelled."""
        await self._loop.run(self._sweep_and_check)

    async def _sweep_and_check(self) -> None:
        if not self._is_swept:
            await self._sweep()
            self._is_swept = True
        await self.check()

    async def check(self) -> None:
        """Do what there is to do now."""
        for move in await self._store.read(group_moves.list_open, self._gateway):
            try:
                await self._advance(move)
            except Unavailable as error:
                if error.what != "the disk":
                    raise
                await self._give_up(move, str(error))
            except (GatepostError, OSError) as error:
                await self._give_up(move, str(error))

    async def _advance(self, move: GroupMove) -> None:
        is_source = move.source == self._gateway
        if is_source and move.state is GroupMoveState.ARRIVED:
            await self._remove_moved(move)
        elif is_source and await self._is_gone(move.target):
            await self._give_up(move, f"gateway {move.target} is gone")
        elif is_source and move.state is GroupMoveState.WANTED:
            await self._pack(move)
        elif move.target == self._gateway and move.state is GroupMoveState.PACKED:
            await self._unpack(move)

    async def _is_gone(self, name: str) -> bool:
        row = await self._store.read(gateways.get, name)
        return row is None or row.state is GatewayState.GONE

    async def _give_up(self, move: GroupMove, why: str) -> None:
        """Everything is still where it was, and is run there again."""
        note = f"{self._gateway}: {why}"
        if await self._store.write(group_moves.set_failed, move, note, self._clock.now()):
            _log.warning("a group was not moved", world=move.world, target=move.target, why=why)
            self._events.gateways()
        elif move.state is GroupMoveState.ARRIVED:
            _log.warning("what a moved group left cannot be removed", world=move.world, why=why)
        if move.target == self._gateway:
            await asyncio.to_thread(_undo, self._home.path, move)

    # The source.

    async def _pack(self, move: GroupMove) -> None:
        await self._end_sessions(move.world)
        sessions = await self._store.read(group_moves.list_sessions, move.world)
        if len(sessions) > MOST_SESSIONS:
            raise Invalid("", f"it has more than {MOST_SESSIONS:,} sessions; close and remove old ones first")
        here = await asyncio.to_thread(self._list_kept, sessions)
        packer = WorldPacker(self._home.path, list_tops(move.world, here), self._limits)
        await self._put(move, packer)
        summary = packer.summary
        packed = await self._store.write(
            group_moves.set_packed, move, here, summary.files, summary.bytes, summary.digest
        )
        if not packed:
            await self._store.write(passed_files.remove, [group_moves.name_pieces(move)])
        self._events.gateways()

    def _list_kept(self, sessions: list[str]) -> list[str]:
        """Those of which there is a folder."""
        return [each for each in sessions if os.path.lexists(self._home.session(each))]

    async def _put(self, move: GroupMove, packer: WorldPacker) -> None:
        name, number = group_moves.name_pieces(move), 0
        await self._store.write(passed_files.remove, [name])  # what an earlier try left
        while True:
            data = await asyncio.to_thread(packer.read, CHUNK)
            await self._store.write(passed_files.put, name, number, data, self._clock.now(), durable=False, lane=name)
            if len(data) < CHUNK:
                return
            number += 1

    async def _end_sessions(self, world: str) -> None:
        """End the sessions of a world. Turns get some time to end by themselves; the rest go on at the target, as after
        a restart."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while not await self._is_at_rest(world):
            waited = loop.time() - begun
            if waited > REST_S:
                raise Invalid("", "its sessions do not end")
            for live in self._sessions.awake:
                if group_places.get_world(live.session.folder) == world:
                    if waited > TURN_S:
                        await self._sessions.end(live.session.id, MOVES)
                    else:
                        live.end_after_turn(MOVES)
            await asyncio.sleep(0.05)

    async def _is_at_rest(self, world: str) -> bool:
        """A claim from before the move was written down belongs to a session that is not at rest here."""
        if any(group_places.get_world(live.session.folder) == world for live in self._sessions.awake):
            return False
        found = await self._store.read(group_moves.list_sessions, world)
        if not all(map(self._sessions.is_at_rest, found)):
            return False
        return not await self._store.read(group_moves.list_running, world)

    async def _remove_moved(self, move: GroupMove) -> None:
        await asyncio.to_thread(_remove_trees, self._home.path, list_tops(move.world, move.sessions))
        await self._store.write(group_moves.set_done, move, self._clock.now())
        _log.info("a group has moved", world=move.world, target=move.target, files=move.files)

    # The target.

    async def _unpack(self, move: GroupMove) -> None:
        home = self._home.path
        new = await asyncio.to_thread(_prepare, home, move)
        try:
            await self._fetch(move, new)
            found = await asyncio.to_thread(
                world_archive.measure, new, list_tops(move.world, move.sessions), self._limits
            )
        except OSError as error:
            raise Unavailable("the disk", error.strerror or "") from None
        if found.digest != move.digest:
            raise Invalid("", "what came is not what was sent; run it again")
        kept = await asyncio.to_thread(_place, home, move)
        note = f"what lay on {self._gateway} before is in {kept}" if kept else ""
        if not await self._store.write(group_moves.set_arrived, move, note, self._clock.now()):
            await asyncio.to_thread(_undo, home, move)
            return
        await asyncio.to_thread(_clear, home, move.id)
        self._events.gateways()

    async def _fetch(self, move: GroupMove, new: Path) -> None:
        name, number = group_moves.name_pieces(move), 0
        with WorldUnpacker(new) as unpacker:
            while not unpacker.ended:
                data = await self._store.read(passed_files.get, name, number)
                if data is None:
                    raise Invalid("", "a piece of it is not in the store any more; run it again")
                await asyncio.to_thread(unpacker.feed, data)
                number += 1

    async def _sweep(self) -> None:
        """Remove the files of moves that ended while this gateway was away."""
        for move_id in await asyncio.to_thread(_list_left, self._home.path):
            move = await self._store.read(group_moves.get, move_id)
            if move is not None and move.state in (GroupMoveState.WANTED, GroupMoveState.PACKED):
                continue
            if move is not None and move.state is GroupMoveState.FAILED:
                await asyncio.to_thread(_undo, self._home.path, move)
            else:
                await asyncio.to_thread(_clear, self._home.path, move_id)


def _list_left(home: Path) -> list[str]:
    folder = home / FOLDER
    return sorted(each.name for each in folder.iterdir() if (each / NEW).is_dir()) if folder.is_dir() else []


def _prepare(home: Path, move: GroupMove) -> Path:
    """Make an empty folder for the files that arrive. Raises Unavailable if the disk has no room for them. Raises
    Invalid if it is on another disk than the target folders, since the files are moved there in one step."""
    own = home / FOLDER / move.id
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = own / NEW
    _remove_trees(own, [NEW])
    for each in (world_archive.GROUPS, world_archive.SESSIONS):
        (new / each).mkdir(mode=0o700, parents=True)
    for each in (world_archive.GROUPS, world_archive.SESSIONS):
        if (home / each).stat().st_dev != own.stat().st_dev:
            raise Invalid("", f"{home / each} and {own.parent} must be on one disk; mount {home} as a whole")
    free = shutil.disk_usage(own).free
    if free < move.bytes:
        raise Unavailable("the disk", f"{move.bytes // 1024**2} MB are to come, and {free // 1024**2} MB are free")
    return new


def _place(home: Path, move: GroupMove) -> Path | None:
    """Put the unpacked files where they belong. Files that lay there before are kept; return their folder, or None."""
    own = home / FOLDER / move.id
    tops = list_tops(move.world, move.sessions)
    if not (own / PLACED).exists():
        _set_aside(home, own / BEFORE, tops)
        (own / PLACED).touch()
    else:  # an earlier try was cut short: what lies there is its own
        _remove_trees(home, tops)
    for top in tops:
        if os.path.lexists(own / NEW / top):
            _move(home, own / NEW / top, home / top)
    os.sync()
    return own / BEFORE if (own / BEFORE).is_dir() else None


def _move(home: Path, path: Path, to: Path) -> None:
    """Also what an agent has closed to its owner."""
    with open_untrusted(home) as root:
        root.move(str(path.relative_to(home)), str(to.relative_to(home)))


def _set_aside(home: Path, kept: Path, tops: list[str]) -> None:
    for top in tops:
        if os.path.lexists(home / top):
            (kept / top).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _move(home, home / top, kept / top)


def _undo(home: Path, move: GroupMove) -> None:
    """The move is given up: what lay here before lies here again."""
    own, tops = home / FOLDER / move.id, list_tops(move.world, move.sessions)
    if (own / PLACED).exists():
        _remove_trees(home, tops)
    for top in tops:
        if os.path.lexists(own / BEFORE / top):
            _move(home, own / BEFORE / top, home / top)
    shutil.rmtree(own / BEFORE, ignore_errors=True)
    _clear(home, move.id)


def _clear(home: Path, move_id: str) -> None:
    """All but what lay here before."""
    own = home / FOLDER / move_id
    (own / PLACED).unlink(missing_ok=True)
    _remove_trees(own, [NEW])
    for each in (own, own.parent):
        with suppress(OSError):  # what lay here before is kept in it
            each.rmdir()


def _remove_trees(base: Path, tops: list[str]) -> None:
    for top in tops:
        below, _, name = top.rpartition("/")
        if os.path.lexists(base / below):
            with open_untrusted(base / below) as root:
                root.remove_tree(name)
