"""Receiving: what comes over the connection, and what the archives have of the time without one.

The cursor of an archive is the id of the last message that became durable. Private chats share one archive and are
received one after the other; rooms are received beside each other.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from xml.etree.ElementTree import Element

from msgspec import Struct

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff, stay_connected
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.xmpp.archive import NO_ARCHIVE, iterate_after, list_newest
from gatepost.channels.xmpp.session import IncomingStanza, XmppConnection, XmppRefusal, XmppSession
from gatepost.channels.xmpp.wire import (
    CLIENT,
    CORRECT,
    MARKERS,
    RECEIPTS,
    OpenUrl,
    StanzaFacts,
    find_archive_id,
    find_origin,
    find_origin_of,
    find_real_jid,
    get_address,
    get_occupant_address,
    is_id,
    read_address,
    read_message,
    split_jid,
)
from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.messages.inbound import Inbound, Verb
from gatepost.messages.text import may_stop

PING_S = 30.0
BEGINNING = "beginning"  # the archive was empty when we first saw it
DIRECT = "direct"  # the name of our own archive's cursor
MOST_KNOWN = 5000
LOG = log.get("channels")


class KnownMessages:
    """Ids of messages in rooms: the room's id by its author's id, and back. Bounded: older ones are in the archive."""

    def __init__(self) -> None:
        self._by_author: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._by_id: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()

    def add(self, room: str, sender: str, own_id: str, platform_id: str, occupant: str) -> None:
        """An id that somebody uses a second time stays with the first message."""
        self._by_author.setdefault((room, sender, own_id), platform_id)
        self._by_id.setdefault((room, platform_id), (own_id, occupant))
        for kept in (self._by_author, self._by_id):
            while len(kept) > MOST_KNOWN:
                kept.popitem(last=False)

    def find_id(self, room: str, sender: str, own_id: str) -> str:
        return self._by_author.get((room, sender, own_id), "")

    def find_author(self, room: str, platform_id: str) -> tuple[str, str]:
        """(the author's own id, the author's JID in the room), or ('', '')."""
        return self._by_id.get((room, platform_id), ("", ""))


class AskedMark(Struct, frozen=True):
    """By which ids somebody's program wants to be told of a message; '' if it does not."""

    read: str = ""
    received: str = ""


class AskedMarks:
    """Messages whose senders asked to be told that they were read (XEP-0333) or received (XEP-0184). Bounded."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[tuple[str, str], AskedMark] = OrderedDict()

    def add(self, chat: str, platform_id: str, message: Element, *, group: bool) -> None:
        """A mark in a room names the room's id if there is one; receipts are of private chats alone."""
        own_id = message.get("id") or ""
        known = platform_id if group and platform_id != find_origin(message) else own_id
        read = known if message.find(f"{{{MARKERS}}}markable") is not None else ""
        received = own_id if not group and message.find(f"{{{RECEIPTS}}}request") is not None else ""
        asked = AskedMark(*(each if is_id(each) else "" for each in (read, received)))
        if asked.read or asked.received:
            self._by_id[chat, platform_id] = asked
        while len(self._by_id) > MOST_KNOWN:
            self._by_id.popitem(last=False)

    def pop(self, chat: str, messages: Sequence[str]) -> list[AskedMark]:
        """Return what was asked for these and not yet popped, in their order."""
        found = [self._by_id.pop((chat, each), None) for each in messages]
        return [each for each in found if each is not None]


class XmppReceiver:
    def __init__(self, deps: ChannelDeps, session: XmppSession, open_url: OpenUrl) -> None:
        self._deps, self._session, self._open_url = deps, session, open_url
        self.known, self.asked = KnownMessages(), AskedMarks()

    async def run(self, receive: Receive) -> None:
        receive = skip_invalid(receive)
        async with RoomQueues() as queues:

            async def connect(backoff: Backoff) -> None:
                connection = await self._session.get()
                await self._catch_up(connection, queues, receive)
                backoff.reset()
                await self._serve(connection, queues, receive)

            report = partial(LOG.info, "the connection to XMPP is made again", instance=self._deps.instance)
            await stay_connected(connect, report)

    async def _serve(self, connection: XmppConnection, queues: RoomQueues, receive: Receive) -> None:
        """Until the connection is lost, which is raised."""
        pinging = asyncio.create_task(self._ping(connection))
        lost = asyncio.create_task(connection.lost.wait())
        try:
            while True:
                taking = asyncio.create_task(connection.incoming.get())
                try:
                    await asyncio.wait((taking, lost), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not taking.done():
                        taking.cancel()
                if not taking.done():
                    break
                await self._put(connection, taking.result(), queues, receive)
        finally:
            for each in (pinging, lost):
                each.cancel()
            await asyncio.gather(pinging, lost, return_exceptions=True)
        if connection.conflict:
            raise ChannelEnded(
                EndReason.SECOND_POLLER,
                f"another program logged in as {connection.own_jid} in this one's place",
                "stop it, or give it an account of its own",
            )
        raise Unavailable("XMPP", "the connection broke")

    async def _ping(self, connection: XmppConnection) -> None:
        """A server that does not answer any more is left."""
        while connection.is_up:
            try:
                await connection.ping()
            except Unavailable:
                connection.end()
                return
            self._deps.beat()
            await asyncio.sleep(PING_S)

    async def _put(
        self, connection: XmppConnection, incoming: IncomingStanza, queues: RoomQueues, receive: Receive
    ) -> None:
        self._deps.beat()
        stanza, room = incoming.stanza, split_jid(incoming.stanza.get("from") or "")[0]
        if stanza.tag == f"{{{CLIENT}}}presence":
            joined = self._read_join(stanza, incoming.real_jid)
            await queues.put(room, partial(self._receive_all, [joined], receive))
            return
        archive = room if room in connection.rooms else ""
        facts = StanzaFacts(own_jid=connection.own_jid, rooms=dict(connection.rooms), real_jid=incoming.real_jid)
        archive_id = find_archive_id(stanza, archive or connection.own_jid)
        job = partial(self._handle, archive, archive_id, stanza, facts, receive)
        await queues.put(archive, job, urgent=_is_urgent(stanza))

    async def _catch_up(self, connection: XmppConnection, queues: RoomQueues, receive: Receive) -> None:
        for archive in (*connection.rooms, ""):
            name = archive or DIRECT
            try:
                cursor = await self._deps.cursor.load(name)
                if not cursor:
                    newest = await list_newest(connection, archive, most=1)
                    await self._deps.cursor.save(newest[-1].archive_id if newest else BEGINNING, name, durable=True)
                    continue
                after = "" if cursor == BEGINNING else cursor
                async for each in iterate_after(connection, archive, after):
                    facts = self.make_facts(connection, archive, each.archive_id, each.at, each.message)
                    job = partial(self._handle, archive, each.archive_id, each.message, facts, receive)
                    await queues.put(archive, job)
            except XmppRefusal as error:
                if error.condition not in NO_ARCHIVE:
                    raise Unavailable("XMPP", str(error)) from None
                LOG.warning("there is no archive: what is said while the gateway is away is lost", archive=name)

    def make_facts(
        self, connection: XmppConnection, archive: str, archive_id: str, at: int | None, message: Element
    ) -> StanzaFacts:
        """Make the facts of an archived message. Only a room that shows all accounts tells whose it was."""
        real = find_real_jid(message) if archive in connection.open_rooms else ""
        return StanzaFacts(
            own_jid=connection.own_jid, rooms=dict(connection.rooms), real_jid=real, archive_id=archive_id, at=at
        )

    async def _handle(
        self, archive: str, archive_id: str, message: Element, facts: StanzaFacts, receive: Receive
    ) -> None:
        await self._receive_all(await self._read(archive, message, facts), receive)
        if archive_id and not _is_urgent(message):  # before that one, something may still be under way
            await self._deps.cursor.save(archive_id, archive or DIRECT)

    async def _receive_all(self, events: list[Inbound], receive: Receive) -> None:
        for event in events:
            await receive(event)

    async def _read(self, room: str, message: Element, facts: StanzaFacts) -> list[Inbound]:
        """An edit names the author's id: where we do not know it, the newest of the archive are read first."""
        replace = message.find(f"{{{CORRECT}}}replace")
        origin = find_origin_of(message, facts)
        target = str(replace.get("id")) if replace is not None and origin is not None else ""
        if room and target and origin is not None and not self.known.find_id(room, origin.sender, target):
            await self.read_archive(room)
        return self.read(room, message, facts)

    def read(self, room: str, message: Element, facts: StanzaFacts) -> list[Inbound]:
        events = read_message(message, facts, partial(self.known.find_id, room), self._open_url)
        for event in events:
            if room and event.event == "message":
                occupant = message.get("from") or ""
                self.known.add(room, event.sender, find_origin(message), event.platform_id, occupant)
            if event.event == "message" and not event.own:
                self.asked.add(read_address(event.address), event.platform_id, message, group=bool(room))
        return events

    async def read_archive(self, room: str) -> None:
        """So that its messages are known."""
        connection = await self._session.get()
        if room not in connection.rooms:
            return
        try:
            for each in await list_newest(connection, room):
                self.read(room, each.message, self.make_facts(connection, room, each.archive_id, each.at, each.message))
        except XmppRefusal as error:
            LOG.info("the archive of a room cannot be read", room=room, error=str(error))

    def _read_join(self, presence: Element, real_jid: str) -> Inbound:
        room, nickname = split_jid(presence.get("from") or "")
        at = self._deps.clock.now()
        return Inbound(
            address=get_address(room),
            platform_id=f"join-{at}",
            sender=get_address(real_jid) if real_jid else get_occupant_address(room, nickname),
            sender_name=nickname[:100],
            text="",
            event="join",
            verb=Verb.JOIN,
            own=real_jid == self._session.own_jid,
            at=at,
        )


def _is_urgent(stanza: Element) -> bool:
    return may_stop(stanza.findtext(f"{{{CLIENT}}}body"))
