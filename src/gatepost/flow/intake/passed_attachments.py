"""Files of a message, for a session that may run on another gateway: in the store before their message is."""

from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.accepted_message import Arrival
from gatepost.flow.intake.admission import wants_files
from gatepost.store.file_passing import FilePassing
from gatepost.store.port import Store


class PassedAttachments:
    def __init__(self, store: Store, reach: ChannelInstances, passing: FilePassing | None) -> None:
        self._store, self._reach, self._passing = store, reach, passing

    async def put(self, arrival: Arrival, now: int) -> None:
        """Only if somebody would get the message: a stranger must not fill the store."""
        if self._passing is None or not arrival.kept or not await self._passing.has_others():
            return
        if await self._store.read(wants_files, self._reach, arrival, now):
            await self._passing.put([each.path for each in arrival.kept])

    async def record(self, arrival: Arrival, message_id: int) -> None:
        """What became of their message says how long they stay."""
        if self._passing is not None and arrival.kept:
            await self._passing.set_message([each.path for each in arrival.kept], message_id)
