"""The store of a running gateway, watched: what a start had no time to look at, and what a read or a write met.

One place says what is wrong with it (`find_trouble`): health, status, the overview and `/readyz` ask it, and owners
are told once.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.owner_notices import add_owner_notices
from gatepost.store.engine.damage_check import DISK_FULL, READ_ONLY, WAY_BACK, check_tables
from gatepost.store.engine.place import OLD_LOG, PUT_BACK, SAVED
from gatepost.store.engine.sqlite_copy import save_open_store
from gatepost.store.gateways.machine_memory import is_in_place
from gatepost.store.port import OpenStore

LOOK_S = 5.0
AGAIN = 600_000_000  # microseconds, until owners are told of the same trouble once more if it comes and goes
LOST = (
    f"its file was removed or replaced while the gateway runs. It is saved as {SAVED} in the home, now and when the"
    f" gateway stops: {PUT_BACK}. {OLD_LOG}"
)

_log = log.get("store")


class StoreWatch:
    def __init__(
        self,
        home: Home,
        store: OpenStore,
        clock: Clock,
        events: EventBus,
        channels: ChannelInstances,
        pop_full: Callable[[], bool],
        unchecked: Sequence[str] = (),
        file: str = "",
    ) -> None:
        """`pop_full`: returns True if the disk was full since it was last called. `unchecked`: tables of a file that a
        start had no time for. `file`: that is open, as it was identified before; '' for a database."""
        self._home, self._store, self._clock, self._bells, self._channels = home, store, clock, events, channels
        self._pop_full, self._unchecked = pop_full, tuple(unchecked)
        self._stopping = threading.Event()
        self._file = file
        self._damage, self._lost, self._read_only = "", "", False
        self._noticed, self._unreported = "", ""  # the trouble that was last seen, and that owners do not know of yet
        self._notified, self._notified_at = "", 0

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
            await self._notice(self.find_trouble() or self._find_full_disk(), self._store.pop_trouble())
            await asyncio.sleep(LOOK_S)

    def _find_full_disk(self) -> str:
        """Return why a full disk is trouble, although writes into space that the file has may still be taken."""
        return DISK_FULL if self._pop_full() and self._file else ""

    async def _notice(self, trouble: str, met: str) -> None:
        """A full disk takes no notice to owners, so they are told as soon as it can be written, also afterwards. `met`:
        trouble that a write met since the last look, although it may be over."""
        if (seen := trouble or met) and seen != self._noticed:
            _log.error("the store is not well", trouble=seen)
            self._bells.operation()
            if seen != self._notified or self._clock.now() - self._notified_at > AGAIN:
                self._unreported = seen
        self._noticed = seen
        if self._unreported and await self._notify_owners(self._unreported, is_over=not trouble):
            self._notified, self._notified_at, self._unreported = self._unreported, self._clock.now(), ""

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

    async def _notify_owners(self, trouble: str, *, is_over: bool) -> bool:
        """False: that cannot be written now."""
        now, is_or_was = self._clock.now(), "was not well for a while" if is_over else "is not well"
        text = f"The store of this gateway {is_or_was}: {trouble}"
        try:
            rooms = await self._store.write(add_owner_notices, self._channels, f"store:{now}", text, now)
        except GatepostError as error:
            _log.error("owners could not be told of the store", error=str(error))
            return False
        for room in rooms:
            self._bells.room(*room)
        return True
