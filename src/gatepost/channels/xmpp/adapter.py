"""The XMPP channel: what the gateway asks of it, as stanzas."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import BinaryIO
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

from gatepost.channels.contract import MYSELF, BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.http import PlatformHttp
from gatepost.channels.kit.send_attempts import SendAttempts
from gatepost.channels.kit.uploads import open_upload
from gatepost.channels.xmpp import CA_FILE, FILE_HOSTS
from gatepost.channels.xmpp.archive import ArchivedMessage, list_newest, list_page
from gatepost.channels.xmpp.receiving import XmppReceiver
from gatepost.channels.xmpp.render import (
    UPLOAD,
    is_own_id,
    render_edit,
    render_key,
    render_mark,
    render_reactions,
    render_receipt,
    render_retraction,
    render_slot,
    render_state,
    render_time,
    render_words,
)
from gatepost.channels.xmpp.session import (
    PLATFORM,
    RESOURCE,
    XmppConnection,
    XmppRefusal,
    XmppSession,
    close_connection,
)
from gatepost.channels.xmpp.wire import find_archive_id, find_origin, read_address
from gatepost.core.clock import MINUTE
from gatepost.core.errors import NotFound, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound, OpenFile
from gatepost.messages.outbound import Op, Outbound, OutboundFile

NICK_IN_USE = "conflict"
MOST_HISTORY = 200
MOST_REACTED = 1000
LOOK_BACK = 10 * MINUTE  # the server's clock and ours may differ
MOST_PAGES = 20
ITEMS = "http://jabber.org/protocol/disco#items"
INFO = "http://jabber.org/protocol/disco#info"
MOST_SERVICES = 20
CHUNK = 64 * 1024
ALLOWED_HEADERS = frozenset({"authorization", "cookie", "expires"})  # that a slot may ask for, by XEP-0363


class XmppFiles:
    """Files: sent by way of the server's upload service, and read only from hosts that were named.

    An address in a message is chosen by whoever wrote it. Fetched without a look, it would let them reach what only
    this machine can reach.
    """

    def __init__(self, own_jid: str, hosts: tuple[str, ...], ca_file: str = "") -> None:
        self._domain, self._hosts = own_jid.partition("@")[2], frozenset(each.lower() for each in hosts)
        # The authorities of the stream count here, too: the upload service is a part of the server (XEP-0363).
        self._http = PlatformHttp(PLATFORM, "https://localhost", ca_file=ca_file)
        self._service = ""

    async def close(self) -> None:
        await self._http.close()

    def open_url(self, url: str) -> OpenFile | None:
        """None for one that we do not fetch."""
        try:
            parts = urlsplit(url)
            host, place = (parts.hostname or "").lower(), parts.netloc.lower()
        except ValueError:
            return None
        own = self._domain and parts.scheme == "https" and (host == self._domain or host.endswith(f".{self._domain}"))
        if parts.scheme not in ("http", "https") or parts.username or not (own or {host, place} & self._hosts):
            return None

        def open_file() -> AsyncIterator[bytes]:
            return self._http.download(url, known_host=True)

        return open_file

    async def upload(self, connection: XmppConnection, file: OutboundFile) -> str:
        """The address by which people get it."""
        service = await self._find_service(connection)
        slot = await connection.ask("get", service, render_slot(file.name, file.size, file.mime))
        put, get = slot.find(f".//{{{UPLOAD}}}put"), slot.find(f".//{{{UPLOAD}}}get")
        if put is None or get is None or not put.get("url") or not get.get("url"):
            raise Unavailable(PLATFORM, "the upload service gave no place for a file")
        headers = {"content-type": file.mime, "content-length": str(file.size)}
        for each in put.findall(f"{{{UPLOAD}}}header"):
            name, value = (each.get("name") or "").lower(), " ".join((each.text or "").split())
            if name in ALLOWED_HEADERS:
                headers[name] = value
        async with open_upload(file) as data:
            url = str(put.get("url"))
            await self._http.call("PUT", url, action="send a file", reads=True, headers=headers, content=_stream(data))
        return str(get.get("url"))

    async def _find_service(self, connection: XmppConnection) -> str:
        if self._service:
            return self._service
        items = await connection.ask("get", self._domain, Element(f"{{{ITEMS}}}query"))
        named = [each.get("jid") or "" for each in items.findall(f".//{{{ITEMS}}}item")]
        for service in [self._domain, *named[:MOST_SERVICES]]:
            try:
                info = await connection.ask("get", service, Element(f"{{{INFO}}}query"))
            except XmppRefusal:
                continue
            if any(each.get("var") == UPLOAD for each in info.findall(f".//{{{INFO}}}feature")):
                self._service = service
                return service
        raise Unsupported("files", "xmpp", "the server has no upload service (XEP-0363); send the words alone")


async def _stream(data: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(data.read, CHUNK):
        yield chunk


class Xmpp:
    def __init__(self, deps: ChannelDeps) -> None:
        self._session = XmppSession(deps)
        hosts: tuple[str, ...] = deps.config[FILE_HOSTS]
        self._files = XmppFiles(self._session.own_jid, hosts, deps.config[CA_FILE])
        self._receiver = XmppReceiver(deps, self._session, self._files.open_url)
        self._attempts = SendAttempts(deps.cursor, deps.clock)
        self._others: list[str] = []  # resources of other gateways, when the server was asked last
        self._reacted: OrderedDict[tuple[str, str], list[str]] = OrderedDict()  # what stands at a message by us

    async def listen(self, receive: Receive) -> None:
        await self._receiver.run(receive)

    async def close(self) -> None:
        await self._session.close()
        await self._files.close()

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._session.nickname, self._session.own_jid} - {""})

    async def send(self, address: str, message: Outbound) -> str:
        chat = self._read_chat(address)
        connection = await self._session.get()
        group = self._is_room(connection, chat)
        stanza_id = render_key(message.key)
        match message.op:
            case Op.SEND | Op.FILE | Op.VOICE | Op.CARD:
                return await self._send_words(connection, chat, group, message)
            case Op.EDIT:
                original = await self._find_own_id(connection, chat, group, message.target)
                await connection.send_and_wait(render_edit(chat, group, stanza_id, original, message.text), group)
                return message.target
            case Op.DELETE:
                await connection.send_and_wait(render_retraction(chat, group, stanza_id, message.target), group)
                return message.target
            case Op.REACT:
                emojis = self._add_reaction(chat, message.target, message.reaction)
                stanza = render_reactions(chat, group, stanza_id, message.target, emojis)
                await connection.send_and_wait(stanza, group)
                return message.target
        raise Unsupported(message.op.value, "xmpp")

    async def typing(self, address: str, thread: str, on: bool) -> None:
        chat = self._read_chat(address)
        connection = await self._session.get()
        connection.client.send_xml(render_state(chat, self._is_room(connection, chat), on))

    async def mark_read(self, address: str, thread: str, messages: tuple[str, ...]) -> None:
        """Tell programs that asked. The mark of the newest message stands for those before it, too."""
        chat = self._read_chat(address)
        asked = self._receiver.asked.pop(chat, messages)
        if not asked:
            return
        connection = await self._session.get()
        group = self._is_room(connection, chat)
        for each in asked:
            if each.received:
                connection.client.send_xml(render_receipt(chat, each.received))
        if newest := next((each.read for each in reversed(asked) if each.read), ""):
            connection.client.send_xml(render_mark(chat, group, newest))

    async def open_direct(self, sender: str) -> str:
        """A private chat needs no opening: it is the person's address."""
        bare = read_address(sender)
        if not bare or bare in self._session.rooms:
            raise NotFound("person", sender, "a person of XMPP is xmpp:name@host; a nickname in a room is none")
        return f"xmpp:{bare}"

    async def look_up(self, address: str, key: str) -> str | None:
        """By our id in the archive, from the moment on at which the send began."""
        attempt = await self._attempts.find(key)
        if attempt is None:
            return None
        chat = self._read_chat(address)
        connection = await self._session.get()
        group = self._is_room(connection, chat)
        fields = {"start": render_time(attempt.at - LOOK_BACK)} | ({} if group else {"with": chat})
        page: dict[str, str] = {}
        for _ in range(MOST_PAGES):
            found, complete = await list_page(connection, chat if group else "", fields, page)
            for each in found:
                if self._is_own(connection, chat, group, each.message) and find_origin(each.message) == render_key(key):
                    return each.archive_id if group else render_key(key)
            if complete:
                return None
            page = {"after": found[-1].archive_id}
        raise Unsupported("finding a message again", "xmpp", "too much was said since then")

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        chat, wanted = self._read_chat(address), max(1, min(limit, MOST_HISTORY))
        connection = await self._session.get()
        group = self._is_room(connection, chat)
        fields = ({} if group else {"with": chat}) | ({} if before is None else {"end": render_time(before - 1)})
        room = chat if group else ""
        found: list[ArchivedMessage] = await list_newest(connection, room, fields, most=MOST_HISTORY)
        events: list[Inbound] = []
        for each in found:
            facts = self._receiver.make_facts(connection, room, each.archive_id, each.at, each.message)
            events += [event for event in self._receiver.read(room, each.message, facts) if event.event == "message"]
        return [replace(event, sender=MYSELF) if event.own else event for event in events[-wanted:]]

    async def check(self) -> BotIdentity:
        connection = await self._session.connect(aside=True)
        try:
            self._check_rooms()
            hidden = [room for room in connection.rooms if room not in connection.open_rooms]
            notes = [f"{room} hides accounts: what people say there is untrusted" for room in hidden]
            for archive in (*connection.rooms, ""):
                try:
                    await list_newest(connection, archive, most=1)
                except XmppRefusal:
                    notes.append(f"{archive or 'the account'} has no archive: what is said meanwhile is lost")
            await connection.ping()  # by now the server has named our other resources
            self._others = sorted(each for each in connection.resources if each.startswith(RESOURCE))
            missing = tuple(f"{room}: {why}" for room, why in self._session.refused.items())
            name = f"{connection.own_jid} ({self._session.nickname})"
            return BotIdentity(name=name, link=f"xmpp:{connection.own_jid}", missing=missing, notes=tuple(notes))
        finally:
            await close_connection(connection)

    def _check_rooms(self) -> None:
        """A server that lets a nickname in once refuses us where we already are; that is no missing right."""
        rooms, refused = self._session.rooms, self._session.refused
        barred = [each for each in rooms if each in refused and NICK_IN_USE not in refused[each]]
        if rooms and len(barred) == len(rooms):
            why = f"the bot may not enter {barred[0]} ({refused[barred[0]]})"
            raise ChannelEnded(EndReason.RIGHTS, why, "let it in there, or name another room")

    async def check_poller(self) -> None:
        """Raise ChannelEnded if `check` found another gateway on the account: it would answer everything. A person's
        program beside the bot does no harm."""
        if self._others:
            why = f"another gateway is logged in as {self._session.own_jid}/{self._others[0]}"
            raise ChannelEnded(EndReason.SECOND_POLLER, why, "stop it, or give it an account of its own")

    def _read_chat(self, address: str) -> str:
        chat = read_address(address)
        if not chat:
            raise NotFound("room", address, "a room or person of XMPP is xmpp:name@host")
        return chat

    def _is_room(self, connection: XmppConnection, chat: str) -> bool:
        if chat in connection.rooms:
            return True
        if chat in self._session.rooms:
            why = self._session.refused.get(chat)
            if why is None:
                raise Unavailable("XMPP", f"the bot is not in {chat} yet")
            raise NotFound("room", chat, f"the bot was not let in: {why}")
        return False

    def _is_own(self, connection: XmppConnection, chat: str, group: bool, message: Element) -> bool:
        sender = message.get("from") or ""
        if group:
            return sender == f"{chat}/{connection.rooms[chat]}"
        return sender.partition("/")[0].lower() == connection.own_jid

    async def _send_words(self, connection: XmppConnection, chat: str, group: bool, message: Outbound) -> str:
        stanza_id = render_key(message.key)
        urls = [await self._files.upload(connection, file) for file in message.files]
        if not message.text and not urls:
            raise Unsupported("an empty message", "xmpp", "write something")
        answered = ""
        if message.reply_to:
            answered = self._receiver.known.find_author(chat, message.reply_to)[1] if group else chat
        stanza = render_words(
            chat, group, stanza_id, message.text, reply_to=message.reply_to, answered=answered, urls=urls
        )
        async with self._attempts.attempt(message.key):
            echo = await connection.send_and_wait(stanza, group)
        if echo is None:
            return stanza_id
        platform_id = find_archive_id(echo, chat) or stanza_id
        own = f"xmpp:{connection.own_jid}"
        self._receiver.known.add(chat, own, stanza_id, platform_id, echo.get("from") or "")
        return platform_id

    async def _find_own_id(self, connection: XmppConnection, chat: str, group: bool, target: str) -> str:
        """A correction names the id that we gave, not the room's."""
        if not group:
            return target
        for _ in range(2):
            own_id = self._receiver.known.find_author(chat, target)[0]
            if own_id:
                return own_id
            await self._receiver.read_archive(chat)
        if is_own_id(target):  # of a room that gives no ids
            return target
        raise NotFound("message", target, "it is too old to be found in the archive; send a new one")

    def _add_reaction(self, chat: str, target: str, emoji: str) -> list[str]:
        kept = self._reacted.setdefault((chat, target), [])
        if emoji not in kept:
            kept.append(emoji)
        while len(self._reacted) > MOST_REACTED:
            self._reacted.popitem(last=False)
        return list(kept)
