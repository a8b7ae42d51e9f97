"""The store of a running gateway, watched: what a start had no time to look at, and what a read or a write met.

One place says what is wrong with it (`find_trouble`): health, status, the overview and `/readyz` ask it. An alert tells
owners (`list_untold`).

A start also finds out whether the store is still the one that it was (`StoreLife`). While the gateway runs, the machine
remembers how far it has come; see `store/gateways/incarnations.py`. A store that several gateways share has no such
life: its database is not on this machine.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from gatepost.core import ids, log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.requests.restored_rows import CURSORS, KEEP, BegunIncarnation, begin_incarnation
from gatepost.store.engine.damage_check import DISK_FULL, READ_ONLY, WAY_BACK, check_tables
from gatepost.store.engine.place import OLD_LOG, PUT_BACK, SAVED
from gatepost.store.engine.sqlite_copy import save_open_store
from gatepost.store.gateways import incarnations
from gatepost.store.gateways.incarnations import Incarnation, IncarnationReason, StorePresence
from gatepost.store.gateways.machine_memory import (
    HOME_MEMORY,
    MachineMemory,
    MemoryFile,
    find_state_folder,
    get_memory_path,
    identify_machine,
    is_in_place,
    sync_log,
)
from gatepost.store.port import Db, OpenStore, Store

LOOK_S = 5.0
MOST_UNTOLD = 10
LOST = (
    f"its file was removed or replaced while the gateway runs. It is saved as {SAVED} in the home, now and when the"
    f" gateway stops: {PUT_BACK}. {OLD_LOG}"
)

_log = log.get("store")
MARKER = "restored"  # a file in the home that a restore leaves: it says from what
LONGEST_SOURCE = 200
KEPT_S = 1.0  # between two looks at how far the ledger has come


class StoreWatch:
    def __init__(
        self,
        home: Home,
        store: OpenStore,
        events: EventBus,
        pop_full: Callable[[], bool],
        unchecked: Sequence[str] = (),
        file: str = "",
    ) -> None:
        """`pop_full`: returns True if the disk was full since it was last called. `unchecked`: tables of a file that a
        start had no time for. `file`: that is open, as it was identified before; '' for a database."""
        self._home, self._store, self._events = home, store, events
        self._pop_full, self._unchecked = pop_full, tuple(unchecked)
        self._stopping = threading.Event()
        self._file = file
        self._damage, self._lost, self._read_only = "", "", False
        self._noticed = ""  # the trouble that was last seen
        self._current: tuple[str, ...] = ()
        self._untold = dict[str, None]()  # that no alert was made of yet, in its order

    def find_trouble(self) -> str:
        """Why nobody should rely on the store; '' if nothing is known."""
        return self._damage or self._lost or self._store.find_trouble() or (READ_ONLY if self._read_only else "")

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch())
                if self._unchecked:
                    tasks.create_task(self._check_rest())
        finally:
            self._stopping.set()

    async def _check_rest(self) -> None:
        over = self._stopping.is_set
        try:
            report = await asyncio.to_thread(check_tables, self._home.store, self._unchecked, None, over)
        except GatepostError as error:
            _log.warning("the rest of the store could not be looked through", error=str(error))
            return
        if report.damage:
            self._damage = f"it is damaged ({report.damage}); {WAY_BACK}"

    async def _watch(self) -> None:
        while True:
            self._read_only = await asyncio.to_thread(self._home.is_read_only)
            await self._check_file()
            self._notice(self.find_trouble() or self._find_full_disk(), self._store.pop_trouble())
            await asyncio.sleep(LOOK_S)

    def _find_full_disk(self) -> str:
        """Return why a full disk is trouble, although writes into space that the file has may still be taken."""
        return DISK_FULL if self._pop_full() and self._file else ""

    def _notice(self, trouble: str, met: str) -> None:
        """A full disk takes no alert, so what was met is kept until one could be written, also afterwards. `met`:
        trouble that a write met since the last look, although it may be over."""
        if (seen := trouble or met) and seen != self._noticed:
            _log.error("the store is not well", trouble=seen)
            self._events.operation()
        self._noticed = seen
        self._current = (trouble,) if trouble else ()
        new = [each for each in (trouble, met) if each]
        self._untold |= dict.fromkeys(new[: max(MOST_UNTOLD - len(self._untold), 0)])

    def list_untold(self) -> tuple[str, ...]:
        """Return what is wrong, and what was since the last alert about it."""
        return tuple(dict.fromkeys((*self._untold, *self._current)))

    def forget_notices(self, told: Sequence[str]) -> None:
        """An alert was made of these."""
        for each in told:
            self._untold.pop(each, None)

    async def _check_file(self) -> None:
        if self._file and not self._lost and not await asyncio.to_thread(is_in_place, self._home.store, self._file):
            self._lost = LOST
            await self.close()

    async def close(self) -> None:
        """Nothing is written after this: a store whose file is gone would be gone, too."""
        if not self._lost:
            return
        try:
            await self._store.read(save_open_store, self._home.path / SAVED)
        except Exception as error:  # noqa: BLE001  whatever it is, the gateway goes on or stops as it would
            _log.error("the store whose file is gone could not be saved", error=str(error))
            self._lost = f"{LOST}; it could not be saved ({error}), so do not stop the gateway before it can"


class StoreLife:
    def __init__(self, home: Home, config: Config, store: Store, clock: Clock, events: EventBus, file: str) -> None:
        """`file`: that the store is in, as it was identified before it was opened."""
        self._home, self._config, self._store, self._clock, self._events = home, config, store, clock, events
        self._here = StorePresence(file, str(home.path), identify_machine())
        self._life = ids.new("life")
        self._incarnation, self._memories = "", [MemoryFile(home.path / HOME_MEMORY)]
        self._mark = -1
        self.said = ""  # of an incarnation that began with this start

    async def begin(self, channels: ChannelInstances) -> None:
        """Before anything is delivered, received or woken."""
        known = await self._store.read(incarnations.get_current)
        older = await self._store.read(incarnations.list_older)
        memory = await asyncio.to_thread(self._find_memory, known, older) if known is not None else None
        marker = await asyncio.to_thread(self._read_marker)
        mark = await self._store.read(incarnations.get_mark)
        reason = incarnations.judge_presence(known, self._here, memory, mark)
        if marker is not None:
            reason = IncarnationReason.RESTORED
        if memory is not None and reason is None:  # before the store is: a life that it does not know yet is well
            stored = [each for each in memory.lives if known is not None and each in known.lives]
            await asyncio.to_thread(self._remember, (*stored[-1:], self._life), min(memory.mark, mark))
        source = marker or _describe_source(known, self._here)
        begun, current = await self._store.write(self._record, channels, reason, source, self._clock.now())
        self._open_memory(current)
        await self._keep_mark()
        if begun is not None:
            (self._home.path / MARKER).unlink(missing_ok=True)
            self.said = begun.said
            _log.warning("the store begins another incarnation", reason=reason, said=begun.said)
            for room in begun.rooms:
                self._events.room(*room)

    def _record(
        self, db: Db, channels: ChannelInstances, reason: IncarnationReason | None, source: str, now: int
    ) -> tuple[BegunIncarnation | None, Incarnation]:
        begun = None
        if reason is not None:
            keep = self._config[CURSORS] == KEEP
            rules = read_rules(self._config)
            begun = begin_incarnation(db, channels, rules, reason, now, source=source, keep_cursors=keep)
        return begun, incarnations.record_life(db, self._life, self._here, now)

    def _find_memory(self, known: Incarnation, older: tuple[str, ...]) -> MachineMemory | None:
        self._open_memory(known)
        machine, beside = (each.load() for each in self._memories)
        return incarnations.choose_memory(self._here, older, machine, beside)

    def _open_memory(self, known: Incarnation) -> None:
        self._incarnation = known.id
        path = get_memory_path(find_state_folder(self._config), known.id)
        self._memories = [MemoryFile(path), self._memories[-1]]

    def _read_marker(self) -> str | None:
        """None: nobody has said that this home was restored."""
        with suppress(OSError):
            with (self._home.path / MARKER).open(encoding="utf-8", errors="replace") as file:
                return file.read(LONGEST_SOURCE).strip() or "a backup"
        return None

    async def run(self) -> None:
        """Until cancelled."""
        # A store that cannot be read is told of elsewhere.
        loop = WakeLoop(_log.debug, "the mark cannot be kept", pause_s=KEPT_S, errors=(GatepostError,))
        await loop.run(self._keep_mark, first_s=KEPT_S)

    async def close(self) -> None:
        """The gateway stops, and nothing is written after this."""
        with suppress(GatepostError):
            await self._keep_mark(clean=True)

    async def _keep_mark(self, *, clean: bool = False) -> None:
        """Never more than is on the disk: else a power failure would look like a store that was rolled back."""
        mark = await self._store.read(incarnations.get_mark)
        if mark == self._mark and not clean:
            return
        await asyncio.to_thread(self._sync_and_remember, mark, clean)
        self._mark = mark

    def _sync_and_remember(self, mark: int, clean: bool) -> None:
        sync_log(self._home.store)
        self._remember((self._life,), mark, clean=clean)

    def _remember(self, lives: tuple[str, ...], mark: int, *, clean: bool = False) -> None:
        known = MachineMemory(
            incarnation=self._incarnation,
            home=self._here.home,
            file=self._here.file,
            lives=lives,
            mark=mark,
            clean=clean,
        )
        for each in self._memories:
            each.save(known)


def _describe_source(known: Incarnation | None, here: StorePresence) -> str:
    if known is None:
        return ""
    where = "" if known.machine == here.machine else " on another machine"
    return f"it last ran in {known.home}{where}" if known.home != here.home or where else ""
