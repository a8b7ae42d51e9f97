"""The sync loop: each event of each room, in order, and the cursor behind them.

The homeserver is asked for the events after the cursor, and the cursor moves once all of them are durable. Messages
that it leaves out between two answers are fetched.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

from nio import Event, ForwardedRoomKeyEvent, MegolmEvent, RoomKeyEvent, SyncResponse
from nio.responses import RoomInfo

from gatepost.channels.contract import ChannelDeps, Receive
from gatepost.channels.kit.backoff import Backoff, retry_until_done
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.matrix.encryption import LOG, RoomKeys
from gatepost.channels.matrix.invitations import RoomInvitations
from gatepost.channels.matrix.session import MatrixSession
from gatepost.channels.matrix.wire import ROOM_ID, RoomFacts, is_id, read_event
from gatepost.core.errors import Unavailable
from gatepost.messages.inbound import Inbound, Verb

POLL_MS = 30_000
FIRST_SYNC_S = 120.0
ROOMS_AT_ONCE = 8
GAP_PAGE, MOST_GAP_PAGES = 100, 50
MOST_AUTHORS = 4096
MOST_UNDECRYPTED = 200
UNDECRYPTED = "undecrypted"  # the cursor that names messages whose key is missing
FILTER = {
    "presence": {"types": []},
    "room": {
        "state": {"lazy_load_members": True},
        "timeline": {"limit": 100, "lazy_load_members": True},
        "ephemeral": {"types": []},
    },
}
AnyEvent: TypeAlias = Any  # Event, BadEvent or UnknownBadEvent of nio: each has a `source`


class MatrixReceiver:
    def __init__(
        self, deps: ChannelDeps, session: MatrixSession, keys: RoomKeys, invitations: RoomInvitations, since: int
    ) -> None:
        """`since`: at the very first sync, older messages are left alone (microseconds)."""
        self._deps, self._session, self._keys, self._invitations = deps, session, keys, invitations
        self._begun = since
        self._authors: OrderedDict[str, str] = OrderedDict()  # of recent messages: only they may edit them
        self._undecrypted: OrderedDict[tuple[str, str], MegolmEvent | None] = OrderedDict()
        self.undecryptable = 0  # so far, also those whose key came later
        self.synced = asyncio.Event()
        self._learning = asyncio.Lock()

    async def run(self, receive: Receive) -> None:
        since, first, backoff = await self._deps.cursor.load(), True, Backoff()
        await self._invitations.load()
        await self._load_undecrypted()
        while True:
            try:
                response = await self._sync(since, first)
            except Unavailable as error:
                LOG.info("a sync failed", instance=self._deps.instance, error=str(error))
                await backoff.wait(error.retry_after)
                continue
            backoff.reset()
            self._deps.beat()
            await self._refresh_keys()
            self._invitations.read(response)
            await self._receive_rooms(response, since, receive)
            await self._retry_undecrypted(response, receive)
            since, first = response.next_batch, False
            await self._deps.cursor.save(since)
            self.synced.set()
            await self._invitations.accept(response)

    async def learn_rooms(self) -> None:
        """For a send while nobody listens. The cursor stays where it is, so that what came is received later."""
        async with self._learning:
            if self.synced.is_set():
                return
            await self._invitations.load()
            self._invitations.read(await self._sync(await self._deps.cursor.load(), True))
            await self._refresh_keys()
            self.synced.set()

    async def _sync(self, since: str, first: bool) -> SyncResponse:
        """The first one brings the state of every room: it is kept in memory alone."""
        client = self._session.client
        client.next_batch = ""  # else nio would leave an answer alone that it saw before a restart of this loop
        try:
            async with asyncio.timeout(FIRST_SYNC_S):
                response: SyncResponse = await self._session.run(
                    client.sync(
                        timeout=0 if first else POLL_MS,
                        sync_filter=FILTER,
                        since=since or None,
                        full_state=True if first and since else None,
                    )
                )
        except TimeoutError:
            raise Unavailable("Matrix", "a sync was not answered") from None
        return response

    async def _refresh_keys(self) -> None:
        try:
            await self._keys.refresh()
        except Unavailable as error:  # asked again after the next sync, and before each encrypted send
            LOG.info("keys were not exchanged", instance=self._deps.instance, error=str(error))

    async def _receive_rooms(self, response: SyncResponse, since: str, receive: Receive) -> None:
        """Several rooms at once, each in its own order."""
        async with RoomQueues(ROOMS_AT_ONCE) as queues:
            for room_id, info in list(response.rooms.join.items()):
                if is_id(room_id, ROOM_ID):
                    await queues.put(room_id, partial(self._receive_room, room_id, info, since, receive))
            await queues.drain()

    async def _receive_room(self, room_id: str, info: RoomInfo, since: str, receive: Receive) -> None:
        events: list[AnyEvent] = list(info.timeline.events)
        if info.timeline.limited:
            self._forget_members(room_id)
            if since and find_own_arrival(events, self._session.own_id) is None:
                events = await self._fetch_gap(room_id, info.timeline.prev_batch or "", since) + events
        arrived = find_own_arrival(events, self._session.own_id)
        for event in events if arrived is None else events[arrived + 1 :]:
            if since or event.source.get("origin_server_ts", 0) * 1000 >= self._begun:
                await self._receive_event(room_id, event, receive)

    def _forget_members(self, room_id: str) -> None:
        """People may have left in what was left out. They must not get the keys of what follows."""
        client = self._session.client
        room = client.rooms.get(room_id)
        if room is not None and room.encrypted and client.olm is not None:
            room.members_synced = False
            client.invalidate_outbound_session(room_id)

    async def _fetch_gap(self, room_id: str, start: str, end: str) -> list[AnyEvent]:
        found: list[AnyEvent] = []
        for _ in range(MOST_GAP_PAGES):
            answer = await self._retry(
                f"rooms/{quote(room_id, safe='')}/messages", {"from": start, "to": end, "dir": "b", "limit": GAP_PAGE}
            )
            page = self.open_events(room_id, answer.get("chunk") or [])
            found += page
            start = answer.get("end") or ""
            if not start or not page or find_own_arrival(page, self._session.own_id) is not None:
                break
        else:
            LOG.warning("older messages are left out", instance=self._deps.instance, room=room_id, fetched=len(found))
        return found[::-1]

    async def _retry(self, path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        return await retry_until_done(partial(self._session.get, path, **query))

    def open_events(self, room_id: str, raw: Sequence[Any]) -> list[AnyEvent]:
        """Events as the homeserver stores them, decrypted where we have the key."""
        opened: list[AnyEvent] = []
        for each in raw:
            event = Event.parse_event(each) if isinstance(each, dict) else None
            if isinstance(event, MegolmEvent):
                event.room_id = room_id
                event = self._keys.decrypt(event) or event
            if event is not None:
                opened.append(event)
        return opened

    async def _receive_event(self, room_id: str, event: AnyEvent, receive: Receive) -> None:
        if isinstance(event, MegolmEvent):
            await self._keep_undecrypted(room_id, event)
            return
        inbound = await self.read(room_id, event)
        if inbound is None or not await self._check_author(room_id, event, inbound):
            return
        if inbound.event == "message":
            self._authors[inbound.platform_id] = inbound.sender
            if len(self._authors) > MOST_AUTHORS:
                self._authors.popitem(last=False)
        await retry_until_done(partial(receive, inbound))

    async def read(self, room_id: str, event: AnyEvent) -> Inbound | None:
        room = self._session.client.rooms.get(room_id)
        checked = event.source.get("type") in ("m.room.message", "m.sticker") and isinstance(event, Event)
        facts = RoomFacts(
            room_id=room_id,
            own_id=self._session.own_id,
            direct=self._invitations.is_direct(room_id),
            name=(room.display_name or "") if room else "",
            proved=not checked or await self._is_proved(event, bool(room and room.encrypted)),
        )

        def get_name(user: str) -> str:
            return (room.user_name(user) if room else None) or user

        return read_event(event.source, facts, get_name, self._session.open_file)

    async def _is_proved(self, event: Any, encrypted: bool) -> bool:
        try:
            return await self._keys.is_proved(event, encrypted)
        except Unavailable:
            return False  # unsure means no

    async def _check_author(self, room_id: str, event: AnyEvent, inbound: Inbound) -> bool:
        """A homeserver lets anybody send an edit of anything; programs are to leave alone what is not the author's."""
        if inbound.verb is not Verb.EDIT:
            return True
        author = self._authors.get(inbound.platform_id)
        if author is None:
            path = f"rooms/{quote(room_id, safe='')}/event/{quote(inbound.platform_id, safe='')}"
            try:
                author = f"matrix:user/{(await self._retry(path, {})).get('sender')}"
            except PlatformRefusal:
                author = ""
        room = self._session.client.rooms.get(room_id)
        proved = isinstance(event, Event) and await self._is_proved(event, bool(room and room.encrypted))
        if author == inbound.sender and proved:
            return True
        LOG.warning("an edit is not its author's", instance=self._deps.instance, room=room_id, sender=inbound.sender)
        return False

    # Messages whose key is missing.

    async def _keep_undecrypted(self, room_id: str, event: MegolmEvent) -> None:
        place = (room_id, event.event_id)
        event.room_id = room_id
        if place in self._undecrypted:
            return
        self.undecryptable += 1
        LOG.warning(
            "a message cannot be decrypted; its key was asked for", instance=self._deps.instance, room=room_id,
            sender=event.sender, device=event.device_id, event_id=event.event_id, count=self.undecryptable,
        )  # fmt: skip
        self._undecrypted[place] = event
        while len(self._undecrypted) > MOST_UNDECRYPTED:
            self._undecrypted.popitem(last=False)
        await self._save_undecrypted()
        try:
            await self._keys.request(event)
        except Unavailable as error:
            LOG.info("a key was not asked for", instance=self._deps.instance, error=str(error))

    async def _retry_undecrypted(self, response: SyncResponse, receive: Receive) -> None:
        keys = (RoomKeyEvent, ForwardedRoomKeyEvent)
        if not self._undecrypted or not any(isinstance(each, keys) for each in response.to_device_events):
            return
        for room_id, event_id in list(self._undecrypted):
            event = self._undecrypted[room_id, event_id] or await self._fetch_event(room_id, event_id)
            opened = self._keys.decrypt(event) if isinstance(event, MegolmEvent) else None
            if opened is not None:
                await self._receive_event(room_id, opened, receive)
            if opened is not None or event is None:
                del self._undecrypted[room_id, event_id]
        await self._save_undecrypted()

    async def _fetch_event(self, room_id: str, event_id: str) -> MegolmEvent | None:
        path = f"rooms/{quote(room_id, safe='')}/event/{quote(event_id, safe='')}"
        try:
            event = Event.parse_event(await self._retry(path, {}))
        except PlatformRefusal:
            return None
        if not isinstance(event, MegolmEvent):
            return None
        event.room_id = room_id
        return event

    async def _load_undecrypted(self) -> None:
        kept = json.loads(await self._deps.cursor.load(UNDECRYPTED) or "[]")
        for room_id, event_id in kept:
            self._undecrypted.setdefault((room_id, event_id), None)

    async def _save_undecrypted(self) -> None:
        await self._deps.cursor.save(json.dumps(list(self._undecrypted)), UNDECRYPTED)


def find_own_arrival(events: Sequence[AnyEvent], own_id: str) -> int | None:
    """Return the place of our invitation to this room if it is among these, else of our join. Messages between the two
    are for us, too."""
    found: dict[str, int] = {}
    for at, event in enumerate(events):
        source = event.source
        if source.get("type") == "m.room.member" and source.get("state_key") == own_id:
            content, before = source.get("content") or {}, (source.get("unsigned") or {}).get("prev_content") or {}
            if content.get("membership") in ("invite", "join") and before.get("membership") != "join":
                found[content["membership"]] = at
    return found.get("invite", found.get("join"))
