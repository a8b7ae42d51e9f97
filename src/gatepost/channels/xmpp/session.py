"""One connection to an XMPP server at a time: logging in, rooms, requests with an answer, and incoming stanzas.

Incoming stanzas wait in a bounded queue. If nobody reads it for too long the connection is ended, and the archive tells
the rest once there is another.
"""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal
from xml.etree.ElementTree import Element, SubElement

from msgspec import Struct
from slixmpp import ClientXMPP
from slixmpp.exceptions import IqError, IqTimeout
from slixmpp.xmlstream import StanzaBase

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.tls import find_bad_certificate, make_tls
from gatepost.channels.xmpp import CA_FILE, NICKNAME, PASSWORD, READ_MARKS, ROOMS, SECURITY, SERVER, USER, XmppSecurity
from gatepost.channels.xmpp.render import render_join
from gatepost.channels.xmpp.wire import CLIENT, MAM, MARKERS, MUC_USER, RECEIPTS, find_real_jid, is_jid, split_jid
from gatepost.core import log
from gatepost.core.errors import GatepostError, Refused, Unavailable

PLATFORM = "XMPP"
NOT_INSIDE = "not-acceptable"  # XEP-0045: who speaks in a room is not in it, as after a restart of its service
CANNOT_CHECK = "temporary-auth-failure"  # RFC 6120, section 6.5.11: its account is asked for again later
WAY_OUT = "set the account and its password with `gatepost channel set`"
CONNECT_S = 15.0
ANSWER_S = 15.0
MOST_WAITING = 2000  # stanzas that nobody has read yet
ERRORS = "urn:ietf:params:xml:ns:xmpp-stanzas"
PING = "urn:xmpp:ping"
RESOURCE, ASIDE = "gatepost-", "gatepost check-"  # the beginnings of their names
IqType = Literal["get", "set"]
LOG = log.get("channels")
logging.getLogger("slixmpp").setLevel(logging.CRITICAL)  # what matters is raised; its debug lines hold passwords


class IncomingStanza(Struct, frozen=True):
    stanza: Element
    real_jid: str  # of whoever had the nickname when it came; '' if the room does not show it


class XmppConnection:
    """From one login to the loss of the connection. It is never used again."""

    def __init__(self, client: ClientXMPP, own_jid: str, returning: Iterable[tuple[str, str]] = ()) -> None:
        """`returning`: who was in a room when the last connection broke. They come again, and are no newcomers."""
        self.client, self.own_jid = client, own_jid
        self._returning = set(returning)
        self.lost = asyncio.Event()
        self.conflict = False
        self.resources: set[str] = set()  # of our own account, that are logged in besides this one
        self.incoming: asyncio.Queue[IncomingStanza] = asyncio.Queue(MOST_WAITING)
        self.rooms: dict[str, str] = {}  # joined, with our nickname there
        self.open_rooms: set[str] = set()  # those that show everybody the accounts of all
        self.real_jids: dict[tuple[str, str], str] = {}
        self.answers: dict[str, asyncio.Future[Element]] = {}  # to messages of ours, by their id
        self.results: dict[str, list[Element]] = {}  # of archives, by the id of the query
        self.joining: dict[str, asyncio.Future[Element]] = {}
        self.heard = 0  # stanzas that came

    @property
    def is_up(self) -> bool:
        return not self.lost.is_set()

    def end(self) -> None:
        self.lost.set()
        for future in [*self.answers.values(), *self.joining.values()]:
            if not future.done():
                future.set_exception(Unavailable(PLATFORM, "the connection broke", uncertain=True))
                future.exception()  # somebody may not be waiting any more
        self.client.abort()

    def note(self, stanza: StanzaBase) -> StanzaBase:
        """Each stanza that comes, before the library looks at it."""
        self.heard += 1
        xml: Element = stanza.xml
        if xml.tag == f"{{{CLIENT}}}message":
            self._note_message(xml)
        elif xml.tag == f"{{{CLIENT}}}presence":
            self._note_presence(xml)
        return stanza

    def _note_message(self, message: Element) -> None:
        result = message.find(f"{{{MAM}}}result")
        if result is not None:
            self._note_result(message, result)
            return
        bare, resource = split_jid(message.get("from") or "")
        waiting = self.answers.get(message.get("id") or "")
        echo = message.get("type") == "groupchat" and self.rooms.get(bare) == resource
        if waiting is not None and not waiting.done() and (echo or message.get("type") == "error"):
            waiting.set_result(message)
        if message.get("type") != "error":
            self._queue(message)

    def _note_result(self, message: Element, result: Element) -> None:
        """Only of an archive that was asked: our own, or that of a room."""
        found = self.results.get(result.get("queryid") or "")
        bare = split_jid(message.get("from") or self.own_jid)[0]
        if found is not None and (bare == self.own_jid or bare in self.rooms):
            found.append(result)

    def _note_presence(self, presence: Element) -> None:
        room, nickname = split_jid(presence.get("from") or "")
        joining, kind = self.joining.get(room), presence.get("type")
        if room == self.own_jid and kind is None and nickname != self.client.boundjid.resource:
            self.resources.add(nickname)
        if joining is not None and not joining.done():
            codes = _list_codes(presence)
            if kind == "error" or (kind is None and "110" in codes):
                joining.set_result(presence)
        if kind == "unavailable":
            self.real_jids.pop((room, nickname), None)
            if self.rooms.get(room) == nickname:  # put out, or the room is gone: joined again with the next connection
                LOG.warning("the bot is no longer in a room", room=room)
                del self.rooms[room]
                self.end()
        elif kind is None and (room in self.rooms or joining is not None):
            known = (room, nickname) in self.real_jids or (room, nickname) in self._returning
            self._returning.discard((room, nickname))
            self.real_jids[room, nickname] = find_real_jid(presence)
            if room in self.rooms and not known:
                self._queue(presence)

    def _queue(self, stanza: Element) -> None:
        sender = split_jid(stanza.get("from") or "")
        try:
            self.incoming.put_nowait(IncomingStanza(stanza, self.real_jids.get(sender, "")))
        except asyncio.QueueFull:
            LOG.warning("nobody reads what comes, so the connection is ended; the archive has the rest")
            self.end()

    # Asking.

    async def ask(self, kind: IqType, to: str, payload: Element) -> Element:
        """A request that changes no room. Raise Refused with the server's word, or Unavailable."""
        if not self.is_up:
            raise Unavailable(PLATFORM, "the connection broke")
        iq = self.client.make_iq(itype=kind)
        if to:
            iq["to"] = to
        iq.append(payload)
        sending = asyncio.ensure_future(iq.send(timeout=ANSWER_S))  # type: ignore[no-untyped-call]
        lost = asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait((sending, lost), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise Unavailable(PLATFORM, "the connection broke")
            answer: Element = sending.result().xml
            return answer
        except IqTimeout:
            raise Unavailable(PLATFORM, "it does not answer") from None
        except IqError as error:
            raise read_error(error.iq.xml, "answer a request") from None
        finally:
            for each in (sending, lost):
                each.cancel()
            await asyncio.gather(sending, lost, return_exceptions=True)

    async def ping(self) -> None:
        with suppress(Refused):  # a server without pings has answered, too
            await self.ask("get", self.own_jid.partition("@")[2], Element(f"{{{PING}}}ping"))

    async def send_and_wait(self, message: Element, group: bool) -> Element | None:
        """A room repeats what we say, with its id. In a private chat an answer to a ping shows that the server has
        what was sent before it; a refusal of it comes first."""
        if not self.is_up:
            raise Unavailable(PLATFORM, "the connection broke")
        stanza_id = str(message.get("id"))
        future = asyncio.get_running_loop().create_future()
        self.answers[stanza_id] = future
        try:
            self.client.send_xml(message)
            if not group:
                try:
                    await self.ping()
                except Unavailable as error:
                    raise Unavailable(PLATFORM, error.why, uncertain=True) from None
                if not future.done():
                    return None
            async with asyncio.timeout(ANSWER_S):
                answer: Element = await future
        except TimeoutError:
            raise Unavailable(PLATFORM, "the room does not repeat the message", uncertain=True) from None
        finally:
            self.answers.pop(stanza_id, None)
        if answer.get("type") == "error":
            refusal, room = read_error(answer, "send a message"), split_jid(answer.get("from") or "")[0]
            if group and isinstance(refusal, XmppRefusal) and refusal.condition == NOT_INSIDE:
                LOG.warning("a room has forgotten the bot", room=room)
                self.rooms.pop(room, None)
                self.end()  # it is joined again with the next connection
                raise Unavailable(PLATFORM, f"the bot is no longer in {room}")
            raise refusal
        return answer

    async def join(self, room: str, nickname: str) -> None:
        future = asyncio.get_running_loop().create_future()
        self.joining[room] = future
        try:
            self.client.send_xml(render_join(room, nickname))
            async with asyncio.timeout(ANSWER_S):
                answer: Element = await future
        except TimeoutError:
            raise Unavailable(PLATFORM, f"the room {room} does not answer") from None
        finally:
            self.joining.pop(room, None)
        if answer.get("type") == "error":
            raise read_error(answer, f"join {room}")
        self.rooms[room] = split_jid(answer.get("from") or "")[1]
        if "100" in _list_codes(answer):
            self.open_rooms.add(room)


class XmppSession:
    """The connection that there is now; made when somebody needs it."""

    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        self._lock = asyncio.Lock()
        self._connection: XmppConnection | None = None
        config = deps.config
        self.own_jid = split_jid(config[USER])[0]
        self.rooms = tuple(dict.fromkeys(split_jid(each)[0] for each in config[ROOMS]))
        self.nickname = config[NICKNAME] or self.own_jid.partition("@")[0]
        self.refused: dict[str, str] = {}  # rooms that did not let us in, and why

    async def get(self) -> XmppConnection:
        async with self._lock:
            old = self._connection
            if old is not None and old.is_up:
                return old
            if old is not None:
                await close_connection(old)
            self._connection = made = await self.connect()
            return made

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_connection(connection)

    async def connect(self, *, join: bool = True, aside: bool = False) -> XmppConnection:
        """`aside`: beside the connection that receives. A server lets a resource in once, and ends the earlier."""
        for each in (self.own_jid, *self.rooms):
            if not is_jid(each):
                raise ChannelEnded(EndReason.SETTING, f"{each!r} is no account or room of XMPP", "write name@host")
        resource = f"{RESOURCE}{self._deps.instance}"
        resource = f"{ASIDE}{secrets.token_hex(4)}" if aside else resource
        connection = await self._log_in(await self._deps.secret(PASSWORD), resource)
        try:
            if join:
                await self._join_rooms(connection, "-1" if aside else "1")
        except BaseException:
            await close_connection(connection)
            raise
        return connection

    async def _join_rooms(self, connection: XmppConnection, priority: str) -> None:
        """A room that refuses us does not keep the others from working. With a negative priority no private message
        comes here."""
        presence = Element(f"{{{CLIENT}}}presence")
        SubElement(presence, f"{{{CLIENT}}}priority").text = priority
        connection.client.send_xml(presence)
        self.refused.clear()
        for room in self.rooms:
            try:
                await connection.join(room, self.nickname)
            except Refused as error:
                self.refused[room] = str(error)
                LOG.warning("a room does not let the bot in", room=room, error=str(error))

    async def _log_in(self, password: str, resource: str) -> XmppConnection:
        if not password:
            raise ChannelEnded(EndReason.SETTING, "no password is set", WAY_OUT)
        tls = await asyncio.to_thread(make_tls, self._deps.config[CA_FILE])
        client = self._make_client(password, resource, tls)
        before = self._connection
        connection = XmppConnection(client, self.own_jid, before.real_jids if before is not None else ())
        outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        def settle(error: Exception | None) -> None:
            if not outcome.done():
                outcome.set_result(error)

        def lose(why: Any) -> None:  # also the first that is said of a certificate, after STARTTLS
            connection.end()
            settle(self._find_refusal(why) or Unavailable(PLATFORM, "the server ended the connection"))

        def fail(why: Any) -> None:
            settle(self._find_refusal(why) or _cannot_reach(why))

        def note_stream_error(error: Any) -> None:
            connection.conflict = connection.conflict or error["condition"] == "conflict"

        def refuse(failure: Any) -> None:  # of one way to log in; the library then tries the next
            if failure["condition"] == CANNOT_CHECK:
                settle(Unavailable(PLATFORM, "the server cannot check passwords now"))

        refusal = ChannelEnded(EndReason.TOKEN, f"{PLATFORM} refuses the password of {self.own_jid}", WAY_OUT)
        client.add_event_handler("session_start", lambda _: settle(None))
        client.add_event_handler("failed_auth", refuse)
        client.add_event_handler("failed_all_auth", lambda _: settle(refusal))
        client.add_event_handler("connection_failed", fail)
        client.add_event_handler("ssl_invalid_chain", fail)
        client.add_event_handler("stream_error", note_stream_error)
        client.add_event_handler("disconnected", lose)
        client.add_filter("in", connection.note)
        client.connect(*self._read_server())
        try:
            async with asyncio.timeout(CONNECT_S):
                error = await outcome
        except TimeoutError:
            error = Unavailable(PLATFORM, f"the server of {self.own_jid} does not answer")
        except asyncio.CancelledError:
            await close_connection(connection)
            raise
        if error is not None:
            await close_connection(connection)
            raise error
        return connection

    def _find_refusal(self, why: object) -> ChannelEnded | None:
        return find_bad_certificate(self.own_jid.partition("@")[2], why)

    def _make_client(self, password: str, resource: str, tls: ssl.SSLContext) -> ClientXMPP:
        client = ClientXMPP(f"{self.own_jid}/{resource}", password)
        client.ssl_context = tls
        security = XmppSecurity(self._deps.config[SECURITY])
        client.enable_direct_tls = security is XmppSecurity.TLS
        client.enable_starttls = security is XmppSecurity.STARTTLS
        client.enable_plaintext = security is XmppSecurity.NONE
        mechanisms = client.plugin["feature_mechanisms"]
        mechanisms.unencrypted_scram = mechanisms.unencrypted_plain = security is XmppSecurity.NONE
        client.register_plugin("xep_0030")
        client.register_plugin("xep_0199")
        for feature in (MARKERS, RECEIPTS) if self._deps.config[READ_MARKS] else ():
            client.plugin["xep_0030"].add_feature(feature)
        return client

    def _read_server(self) -> tuple[Any, ...]:
        server = self._deps.config[SERVER]
        if not server:
            return ()
        host, colon, port = server.rpartition(":")
        if not colon or not port.isdecimal():
            raise ChannelEnded(EndReason.SETTING, f"{server!r} is no server", "write `server` as host:port")
        return host, int(port)


def _list_codes(presence: Element) -> set[str | None]:
    return {each.get("code") for each in presence.findall(f"{{{MUC_USER}}}x/{{{MUC_USER}}}status")}


async def close_connection(connection: XmppConnection) -> None:
    """Leave in good order if the server lets us, and leave no task."""
    client = connection.client
    client.cancel_connection_attempt()
    if client.transport is not None and connection.is_up:
        with suppress(Exception):
            async with asyncio.timeout(2.0):
                await client.disconnect(wait=1.0, ignore_send_queue=True)
    connection.end()
    sending = client._run_out_filters  # the library ends it only when it is collected
    if sending is not None:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def _cannot_reach(why: object) -> Unavailable:
    return Unavailable(PLATFORM, f"it cannot be reached ({' '.join(str(why).split())[:100]})")


def read_error(stanza: Element, action: str) -> GatepostError:
    """Return what an error means for us: `wait` is for later, everything else is a no."""
    error = stanza.find(f"{{{CLIENT}}}error")
    condition, text, kind = "unknown", "", ""
    if error is not None:
        kind = error.get("type") or ""
        for each in error:
            name = each.tag.rpartition("}")[2]
            if name == "text":
                text = " ".join((each.text or "").split())[:200]
            elif each.tag.startswith(f"{{{ERRORS}}}"):
                condition = name
    if kind == "wait" or condition in ("resource-constraint", "remote-server-timeout"):
        return Unavailable(PLATFORM, f"it asks us to wait ({condition})")
    return XmppRefusal(action, condition, text)


class XmppRefusal(Refused):
    """The server or a room says no."""

    def __init__(self, action: str, condition: str, text: str) -> None:
        super().__init__("this bot", action, PLATFORM, f"{condition} {text}".strip())
        self.condition = condition
