"""Messages for a group whose gateway is away: they wait, and each room is told of it once.

The gateway goes on with them when it is back. Until then nobody else can: it has the group's folder.
"""

from gatepost.core import log
from gatepost.core.clock import SECOND, Clock, to_microseconds
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config, setting
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, find_or_add
from gatepost.store.gateways import group_places
from gatepost.store.gateways.group_places import AwayWorld, WaitingRoom
from gatepost.store.messages.outbox import REPLAY_INSTANCE, EffectOrigin
from gatepost.store.port import Db, Store
from gatepost.store.sessions import errands

NOTICE = (
    "The machine that has this agent's files is away. Your message is kept, and is answered when the machine is back."
)
AFTER_S = setting(
    "groups.away_notice_s",
    60.0,
    help="People whose message waits for a gateway that is away are told so after this many seconds.",
)
LOOK_S = 5.0
LOOKED_AT = 30 * SECOND
NOBODY_THERE = frozenset({errands.INSTANCE, REPLAY_INSTANCE})  # rooms in which no person waits

_log = log.get("gateways")


class PlaceNotices:
    def __init__(
        self, store: Store, clock: Clock, config: Config, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._bells, self._channels = store, clock, events, channels
        self._after = to_microseconds(config[AFTER_S])
        self._since: dict[AwayWorld, int] = {}  # when it was first seen that a world's gateway is away

    async def run(self) -> None:
        """Until cancelled."""
        failure = "what waits for other gateways cannot be looked at"
        await WakeLoop(_log.warning, failure, pause_s=LOOK_S).run(self.check)

    async def check(self) -> None:
        now = self._clock.monotonic()
        away = await self._store.read(group_places.list_away)
        self._since = {each: self._since.get(each, now) for each in away}
        for each, since in self._since.items():
            await self._store.write(_defer, each.world, self._clock.now(), durable=False)
            if now - since >= self._after:
                await self._send_notices(each)

    async def _send_notices(self, away: AwayWorld) -> None:
        before = self._clock.now() - self._after
        found = await self._store.read(group_places.list_waiting_rooms, away.world, before)
        rooms = [each for each in found if each.instance not in NOBODY_THERE]
        if not rooms:
            return
        for room in await self._store.write(add_notices, self._channels, away, rooms, self._clock.now()):
            self._bells.room(room.instance, room.address)


def _defer(db: Db, world: str, now: int) -> int:
    return group_places.defer_due(db, world, now, now + LOOKED_AT)


def add_notices(
    db: Db, channels: ChannelInstances, away: AwayWorld, rooms: list[WaitingRoom], now: int
) -> list[WaitingRoom]:
    """Once for each room and absence: what was said before is there already. Those that are new."""
    added = []
    for room in rooms:
        notice = OutgoingMessage(
            key=f"notice:away:{away.gateway}:{away.epoch}:{room.instance}:{room.address}",
            origin=EffectOrigin.NOTICE,
            instance=room.instance,
            address=room.address,
            thread=room.thread,
            text=NOTICE,
        )
        _, new = find_or_add(db, channels, notice, now)
        added += [room] if new else []
    return added
