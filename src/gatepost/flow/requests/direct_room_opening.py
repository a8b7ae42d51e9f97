"""Somebody should decide, and nobody knows where to reach them alone: a channel that can, opens a room with them.

It is asked off the writer, each call with a bound, one after another. A room that was opened is remembered in
`direct_rooms`; who cannot be reached is not tried again for a while.
"""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from gatepost.channels.contract import SupportsDirect
from gatepost.core import log
from gatepost.core.clock import HOUR, MINUTE, Clock
from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskingRules, ask_next, list_approvers, list_asked, read_rules
from gatepost.messages import address as addresses
from gatepost.messages.outbound import Feature
from gatepost.store.people import identities
from gatepost.store.port import Db, Store
from gatepost.store.rights import request_cards, requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms

AT_ONCE = 20  # requests that one run looks at
LONGEST_CALL_S = 15.0
PAUSE = HOUR  # before somebody is tried again who could not be reached
SHORT_PAUSE = MINUTE  # the same if the platform did not answer
MOST_REMEMBERED = 1000

_log = log.get("requests")

Reachable = tuple[str, str]  # an identity, and the instance that may open a room with it


class UnreachedDecider(Struct, frozen=True):
    """The person who should be asked next, and their identities on channels that can open a room."""

    request_id: str
    contacts: tuple[Reachable, ...]
    escalated: bool  # others were asked before, and nobody decided


class DirectRoomOpener:
    def __init__(
        self, store: Store, clock: Clock, config: Config, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._config, self._events, self._channels = store, clock, config, events, channels
        self._escalated: set[str] = set()  # requests for which ask_next found nobody
        self._pauses: dict[Reachable, int] = {}  # until when, the oldest first
        self._running: asyncio.Task[None] | None = None
        self._again = False

    def start(self, tasks: asyncio.TaskGroup, escalated: Iterable[str] = ()) -> None:
        """Look for deciders who cannot be reached, beside everything else. Costs nothing without such a channel."""
        if not self._channels.list_instances(Feature.DIRECT):
            return
        self._escalated.update(escalated)
        if self._running is None or self._running.done():
            self._running = tasks.create_task(self._run())
        else:
            self._again = True

    async def _run(self) -> None:
        while True:
            self._again = False
            try:
                await self.open_missing()
            except Unavailable as error:
                _log.warning("no direct room is opened", why=str(error))
            if not self._again:
                return

    async def open_missing(self) -> None:
        escalated, self._escalated = self._escalated, set()
        for each in await self._store.read(list_unreached, self._channels, frozenset(escalated)):
            await self._open(each)

    async def _open(self, unreached: UnreachedDecider) -> None:
        for identity, instance in unreached.contacts:
            address = await self._ask_channel(identity, instance)
            if address:
                rules, now = read_rules(self._config), self._clock.now()
                room = (identity, instance, address)
                for woken in await self._store.write(record_opened, self._channels, rules, unreached, room, now):
                    self._events.room(*woken)
                return

    async def _ask_channel(self, identity: str, instance: str) -> str:
        """The address of the room, '' if there is none."""
        way, now = (identity, instance), self._clock.monotonic()
        channel: object = self._channels.find_channel(instance)
        if not isinstance(channel, SupportsDirect) or self._pauses.get(way, now) > now:
            return ""
        try:
            async with asyncio.timeout(LONGEST_CALL_S):
                return str(addresses.parse(await channel.open_direct(self._channels.remove_server(instance, identity))))
        except Exception as error:  # noqa: BLE001  part of delivering: one who cannot be reached must not end the others
            away = isinstance(error, (Unavailable, TimeoutError, OSError))
            self._set_pause(way, now + (SHORT_PAUSE if away else PAUSE))
            _log.warning("no direct room could be opened", instance=instance, identity=identity, error=repr(error))
            return ""

    def _set_pause(self, way: Reachable, until: int) -> None:
        self._pauses.pop(way, None)
        self._pauses[way] = until
        if len(self._pauses) > MOST_REMEMBERED:
            del self._pauses[next(iter(self._pauses))]


def list_unreached(db: Db, channels: ChannelInstances, escalated: frozenset[str]) -> list[UnreachedDecider]:
    """For each request that too few were asked about: the nearest decider who is left, and can be reached by opening a
    room alone."""
    waiting = {each.id: each for each in waiting_requests.list_short_of_cards(db, AT_ONCE)}
    late = [each for each in requests.list_by_ids(db, sorted(escalated)[:AT_ONCE]) if each.id not in waiting]
    found = [_find_unreached(db, channels, each, escalated=False) for each in waiting.values()]
    found += [_find_unreached(db, channels, each, escalated=True) for each in late if _is_open(each)]
    return [each for each in found if each is not None]


def _is_open(request: Request) -> bool:
    return request.state is RequestState.PENDING and request.kind is not RequestKind.QUESTION


def _find_unreached(
    db: Db, channels: ChannelInstances, request: Request, *, escalated: bool
) -> UnreachedDecider | None:
    """None: everybody was asked, or the next one is reached without us."""
    ranked = list_approvers(db, request.folder)
    asked = list_asked(db, request)
    known = {room.user_id for room in direct_rooms.list_for_people(db, tuple(ranked)) if asked.can_try(room)}
    left = [person for person in ranked if person not in asked.people]
    if any(person in known for person in left):
        return None
    failed = {instance for instance, _ in asked.failed}  # a room that it opens there is the one that failed
    contacts = [
        contact
        for person in left
        for contact in _list_contacts(db, channels, person, request.instance)
        if contact[1] not in failed
    ]
    return UnreachedDecider(request.id, tuple(contacts), escalated) if contacts else None


def _list_contacts(db: Db, channels: ChannelInstances, person: str, preferred: str) -> list[Reachable]:
    """On the channel that the request came from first."""
    able = sorted(channels.list_instances(Feature.DIRECT), key=lambda instance: (instance != preferred, instance))
    names = dict.fromkeys(identities.list_names(db, person))
    return [(name, instance) for instance in able for name in names if channels.remove_server(instance, name)]


def record_opened(
    db: Db,
    channels: ChannelInstances,
    rules: AskingRules,
    unreached: UnreachedDecider,
    room: tuple[str, str, str],
    now: int,
) -> tuple[tuple[str, str], ...]:
    """Remember the room and show the card there. The rooms to ring."""
    direct_rooms.add(db, *room, now)
    request = requests.get(db, unreached.request_id)
    if request is None or not _is_open(request):
        return ()
    shown = sum(card.open for card in request_cards.list_for_request(db, request.id))
    if shown >= request.quorum and not unreached.escalated:  # somebody else was found meanwhile
        return ()
    return ask_next(db, channels, rules, request, now)
