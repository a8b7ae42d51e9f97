"""A channel's cursor, kept in the store. If a save is lost, the platform brings something again, which intake knows by
its identity. So a save waits for nothing, unless the channel says that it must."""

from collections.abc import Callable

from gatepost.core.clock import Clock
from gatepost.store.port import Store
from gatepost.store.rooms import channel_cursors


class StoreCursor:
    def __init__(self, store: Store, clock: Clock, instance: str, get_term: Callable[[], int]) -> None:
        self._store, self._clock, self._instance = store, clock, instance
        self._get_term = get_term
        self._lane = f"channel {instance}"

    @property
    def term(self) -> int:
        return self._get_term()

    async def load(self, name: str = "") -> str:
        """In the lane of the saves: one that is still to be written is written before."""
        row = await self._store.write(channel_cursors.get, self._instance, name, durable=False, lane=self._lane)
        return row.received if row is not None else ""

    async def save(self, value: str, name: str = "", *, acknowledged: bool = False, durable: bool = False) -> None:
        row = (self._instance, name, value, acknowledged, self._clock.now())
        if durable:
            await self._store.write(channel_cursors.put, *row, lane=self._lane)
        else:
            self._store.post(channel_cursors.put, *row, lane=self._lane)

    async def update(self, change: Callable[[str], str], name: str = "", *, durable: bool = False) -> str:
        asked = (self._instance, name, change, self._clock.now())
        return await self._store.write(channel_cursors.update, *asked, durable=durable, lane=self._lane)
