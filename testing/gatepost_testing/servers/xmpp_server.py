"""XMPP for tests: a real server, Prosody if it is not another one, people with slixmpp, and a relay before the bot that
breaks and holds connections.

Ann and bob are in the room `team`, which shows accounts; what can be seen is what ann's and bob's programs get. Their
stanzas are written by hand here, apart from the channel's own. XMPP tells no time to wait and no acknowledgement, and a
real server neither repeats nor reorders: those faults do not exist.
"""

import asyncio
import itertools
import re
import ssl
from contextlib import suppress
from typing import Any, Protocol
from xml.etree.ElementTree import Element, SubElement, fromstring
from xml.sax.saxutils import escape, quoteattr

import httpx2
from slixmpp import JID, ClientXMPP

from gatepost_testing.platform_rules.xmpp import BY_NAME
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile, GivenMessage, PlatformFault, ShownMessage
from gatepost_testing.servers.prosody import DOMAIN, ROOM_HOST, Prosody
from gatepost_testing.waiting import PATIENCE_S

BOT = f"bot@{DOMAIN}"
PASSWORD = "the password"
TEAM = f"team@{ROOM_HOST}"
PEOPLE = ("ann", "bob")
ACCOUNTS = ("bot", *PEOPLE, "carl")
NAMESPACES = {
    "c": "jabber:client",
    "sid": "urn:xmpp:sid:0",
    "edit": "urn:xmpp:message-correct:0",
    "reply": "urn:xmpp:reply:0",
    "react": "urn:xmpp:reactions:0",
    "retract": "urn:xmpp:message-retract:1",
    "oob": "jabber:x:oob",
    "states": "http://jabber.org/protocol/chatstates",
    "up": "urn:xmpp:http:upload:0",
    "mark": "urn:xmpp:chat-markers:0",
    "receipt": "urn:xmpp:receipts",
}
ERRORS = "urn:ietf:params:xml:ns:xmpp-stanzas"
REFUSALS = {PlatformFault.FORBIDDEN: "rights in a room", PlatformFault.BUSY: "pace"}  # rules, where the relay refuses


class XmppProcess(Protocol):
    """A server that runs. People come to `port` without TLS, files to `http_port`."""

    port: int
    http_port: int

    def wait_until_up(self) -> None: ...

    def set_password(self, name: str, password: str) -> None: ...

    def stop(self) -> None: ...


class XmppServer(EmulatedPlatform):
    kind = "xmpp"
    cannot = frozenset({"click", "rate_limit", "duplicate", "reorder", "forgotten"})
    shows_accounts = True
    most_history = 0  # of what was said before, that the room tells somebody who enters
    verify: ssl.SSLContext | bool = True  # with which people's programs get files

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)
        self._started: XmppProcess | None = None
        self._relay_server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._clients: dict[str, ClientXMPP] = {}
        self._typing: list[str] = []
        self._marks: list[tuple[str, str, str]] = []  # of the bot: the room, the kind and the message
        self._ids: dict[str, str] = {}  # of the room, by the id that the sender gave
        self._came = asyncio.Condition()

    # How it is run.

    def make_server(self) -> XmppProcess:
        """Start it. In it are the accounts of `ACCOUNTS`."""
        made = Prosody(shows_accounts=self.shows_accounts)
        for name in ACCOUNTS:
            made.set_password(name, PASSWORD)
        return made

    @property
    def server(self) -> XmppProcess:
        assert self._started is not None
        return self._started

    def start(self, port: int = 0) -> None:
        self._started = self.make_server()
        self.server.wait_until_up()
        super().start(port)

    def stop(self) -> None:
        super().stop()
        self.server.stop()

    async def _open(self, port: int) -> None:
        self._relay_server = await asyncio.start_server(self._relay, "127.0.0.1", port)
        self.port = int(self._relay_server.sockets[0].getsockname()[1])
        await self._let_people_in()

    async def _let_people_in(self) -> None:
        for person in PEOPLE:
            self._clients[person] = await self._log_in(f"{person}@{DOMAIN}/desk", person)
            await self._enter(person)

    async def _log_in(self, jid: str, person: str) -> ClientXMPP:
        client = ClientXMPP(jid, PASSWORD)
        client.enable_starttls = client.enable_direct_tls = False
        client.enable_plaintext = True
        client.plugin["feature_mechanisms"].unencrypted_plain = True
        client.register_plugin("xep_0199")
        up = asyncio.get_running_loop().create_future()
        client.add_event_handler("session_start", lambda _: None if up.done() else up.set_result(None))
        if person:
            client.add_filter("in", lambda stanza: self._note(person, stanza))
        client.connect("127.0.0.1", self.server.port)
        async with asyncio.timeout(PATIENCE_S):
            await up
        client.send_raw("<presence/>")
        return client

    async def _enter(self, person: str) -> None:
        entered = asyncio.get_running_loop().create_future()
        client = self._clients[person]

        def note(stanza: Any) -> Any:
            if stanza.xml.get("from") == f"{TEAM}/{person}" and not entered.done():
                entered.set_result(None)
            return stanza

        client.add_filter("in", note)
        client.send_raw(
            f"<presence to='{TEAM}/{person}'><x xmlns='http://jabber.org/protocol/muc'>"
            f"<history maxstanzas='{self.most_history}'/></x></presence>"
        )
        async with asyncio.timeout(PATIENCE_S):
            await entered
        client.del_filter("in", note)

    async def _close(self) -> None:
        await self.drop_connections()
        assert self._relay_server is not None
        self._relay_server.close()
        for client in self._clients.values():
            client.abort()
        await self._cancel_others()

    # How a channel is pointed at it.

    def get_settings(self) -> dict[str, Any]:
        return {
            "user": BOT,
            "rooms": (TEAM,),
            "server": f"127.0.0.1:{self.port}",
            "security": "none",
            "file_hosts": (f"127.0.0.1:{self.server.http_port}",),
        }

    def get_secrets(self) -> dict[str, str]:
        return {"password": PASSWORD}

    def get_address(self, room: str) -> str:
        return f"xmpp:{_get_jid(room)}"

    def get_sender(self, person: str) -> str:
        return f"xmpp:{person}@{DOMAIN}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        inner = f"<reply xmlns='{NAMESPACES['reply']}' id={quoteattr(given.reply_to)}/>" if given.reply_to else ""
        if given.thread:
            inner += f"<thread>{escape(given.thread)}</thread>"
        urls = [self._run_in_loop(self._upload(given.sender, file)) for file in given.files]
        inner += "".join(f"<x xmlns='{NAMESPACES['oob']}'><url>{escape(url)}</url></x>" for url in urls)
        body = "\n".join([given.render_named("bot:"), *urls])
        return self.post(given.room, given.sender, f"<body>{escape(body)}</body>{inner}")

    def post(self, room: str, sender: str, inner: str) -> str:
        """A message with these elements; its id, as the channel names it."""
        return str(self._run_in_loop(self._post(room, sender, inner)))

    async def _post(self, room: str, sender: str, inner: str) -> str:
        own_id = f"{sender}-{next(self._numbers)}"
        group = not room.startswith("direct:")
        to, kind = (TEAM, "groupchat") if group else (BOT, "chat")
        raw = (
            f"<message xmlns='jabber:client' to='{to}' type='{kind}' id='{own_id}'>"
            f"{inner}<store xmlns='urn:xmpp:hints'/></message>"
        )
        self._clients[sender].send_raw(raw)
        if not group:
            await self._clients[sender].plugin["xep_0199"].ping(JID(DOMAIN))
            self._keep(fromstring(raw), own_id, room, sender)
            return own_id
        async with asyncio.timeout(PATIENCE_S), self._came:
            await self._came.wait_for(lambda: own_id in self._ids)
        return self._ids[own_id]

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        own_id = next((own for own, given in self._ids.items() if given == message), message)
        self.post(room, sender, f"<body>{escape(text)}</body><replace xmlns='{NAMESPACES['edit']}' id='{own_id}'/>")
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        self.post(room, sender, f"<retract xmlns='{NAMESPACES['retract']}' id={quoteattr(message)}/>")
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        inner = f"<reaction>{escape(emoji)}</reaction>"
        self.post(room, sender, f"<reactions xmlns='{NAMESPACES['react']}' id={quoteattr(message)}>{inner}</reactions>")
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        self._run_in_loop(self._leave_and_enter(sender))
        return ""

    async def _leave_and_enter(self, person: str) -> None:
        client = self._clients[person]
        client.send_raw(f"<presence to='{TEAM}/{person}' type='unavailable'/>")
        await client.plugin["xep_0199"].ping(JID(DOMAIN))
        await self._enter(person)

    async def _upload(self, person: str, file: GivenFile) -> str:
        iq = self._clients[person].make_iq_get(ito=f"files.{DOMAIN}")
        given = {"filename": file.name, "size": str(len(file.data)), "content-type": file.mime}
        iq.append(Element(f"{{{NAMESPACES['up']}}}request", given))
        slot = (await iq.send(timeout=PATIENCE_S)).xml  # type: ignore[no-untyped-call]
        put, get = slot.find(".//up:put", NAMESPACES), slot.find(".//up:get", NAMESPACES)
        headers = {each.get("name"): each.text for each in put.findall("up:header", NAMESPACES)}
        async with httpx2.AsyncClient(trust_env=False, verify=self.verify) as http:
            headers |= {"content-type": file.mime}
            (await http.put(put.get("url"), content=file.data, headers=headers)).raise_for_status()
        return str(get.get("url"))

    # Visible state.

    def get_typing(self) -> list[str]:
        self._settle()
        return list(self._typing)

    def list_marks(self) -> list[tuple[str, str, str]]:
        self._settle()
        return list(self._marks)

    def list_features(self, person: str, jid: str) -> list[str]:
        """Return what a program says that it can do, to somebody's program that asks."""
        return list(self._run_in_loop(self._list_features(person, jid)))

    async def _list_features(self, person: str, jid: str) -> list[str]:
        iq = self._clients[person].make_iq_get(ito=jid)
        SubElement(iq.xml, "{http://jabber.org/protocol/disco#info}query")
        answer = (await iq.send(timeout=PATIENCE_S)).xml  # type: ignore[no-untyped-call]
        return [each.get("var") for each in answer.iter("{http://jabber.org/protocol/disco#info}feature")]

    def list_shown(self, room: str = "", *, by_bot: bool = True) -> list[ShownMessage]:
        self._settle()
        return super().list_shown(room, by_bot=by_bot)

    def find(self, message: str) -> ShownMessage:
        self._settle()
        return super().find(message)

    def _settle(self) -> None:
        """Wait until everything that the server has sent to people has arrived: it answers in order. In `wait_for`
        nobody waits."""
        if not self.changed._is_owned():  # type: ignore[attr-defined]
            self._run_in_loop(self._ping_all())

    async def _ping_all(self) -> None:
        for client in self._clients.values():
            await client.plugin["xep_0199"].ping(JID(DOMAIN))

    def _note(self, person: str, stanza: Any) -> Any:
        xml: Element = stanza.xml
        bare, _, resource = (xml.get("from") or "").partition("/")
        if xml.tag != "{jabber:client}message" or xml.get("type") == "error":
            return stanza
        if bare == BOT or (bare == TEAM and resource == "bot" and person == "ann"):
            self._note_marks("team" if bare == TEAM else f"direct:{person}", xml)
        if bare == TEAM and person == "ann":
            given = xml.find("sid:stanza-id", NAMESPACES)
            if resource and given is not None:
                self._keep(xml, str(given.get("id")), "team", resource)
                self._loop.create_task(self._announce(str(xml.get("id")), str(given.get("id"))))
            elif resource == "bot" and xml.find("states:composing", NAMESPACES) is not None:
                self._note_typing("team")
        elif bare == BOT:
            if xml.find("states:composing", NAMESPACES) is not None:
                self._note_typing(f"direct:{person}")
            self._keep(xml, str(xml.get("id")), f"direct:{person}", "bot")
        return stanza

    async def _announce(self, own_id: str, given: str) -> None:
        async with self._came:
            self._ids[own_id] = given
            self._came.notify_all()

    def _note_marks(self, room: str, xml: Element) -> None:
        with self.changed:
            for name in ("mark:displayed", "receipt:received"):
                found = xml.findall(name, NAMESPACES)
                self._marks += [(room, name.partition(":")[2], str(each.get("id"))) for each in found]
            self.changed.notify_all()

    def _note_typing(self, room: str) -> None:
        with self.changed:
            self._typing.append(room)
            self.changed.notify_all()

    def _keep(self, xml: Element, shown_id: str, room: str, sender: str) -> None:
        with self.changed:
            self._record(xml, shown_id, room, sender)
            self.changed.notify_all()

    def _record(self, xml: Element, shown_id: str, room: str, sender: str) -> None:
        body = xml.findtext("c:body", None, NAMESPACES)
        replace, retract = xml.find("edit:replace", NAMESPACES), xml.find("retract:retract", NAMESPACES)
        reactions = xml.find("react:reactions", NAMESPACES)
        if reactions is not None:
            for each in self._find_all(room, str(reactions.get("id"))):
                others = [pair for pair in each.reactions if pair[1] != sender]
                each.reactions = others + [(mark.text or "", sender) for mark in reactions]
        elif retract is not None:
            for each in self._find_all(room, str(retract.get("id"))):
                each.deleted = each.deleted or each.sender == sender
        elif replace is not None:
            for each in self.record:
                if (each.key, each.room, each.sender) == (replace.get("id"), room, sender):
                    each.text, each.edits = body or "", each.edits + 1
        elif body is not None:
            reply = xml.find("reply:reply", NAMESPACES)
            urls = [each.text or "" for each in xml.findall("oob:x/oob:url", NAMESPACES)]
            shown = ShownMessage(
                id=shown_id, room=room, sender=sender, text=body, raw=xml, key=str(xml.get("id")),
                reply_to=str(reply.get("id")) if reply is not None else "",
                files=[self._fetch(url) for url in urls] if sender == "bot" else [],
            )  # fmt: skip
            self.record.append(shown)

    def _find_all(self, room: str, message: str) -> list[ShownMessage]:
        return [each for each in self.record if each.room == room and each.id == message]

    def _fetch(self, url: str) -> GivenFile:
        with httpx2.Client(trust_env=False, verify=self.verify) as http:
            answer = http.get(url)
        return GivenFile(url.rpartition("/")[2], answer.content, answer.headers.get("content-type", ""))

    # Faults.

    def fault(self, *faults: PlatformFault) -> None:
        if PlatformFault.UNAUTHORIZED in faults:
            self.server.set_password("bot", "another one")
        if PlatformFault.NO_RIGHTS in faults:
            self._run_in_loop(self._set_affiliation("outcast"))
        if PlatformFault.CONFLICT in faults:  # the server then ends the bot's connection itself, and says why
            self._clients["intruder"] = self._run_in_loop(self._log_in(f"{BOT}/gatepost-xmpp", ""))
            faults = tuple(each for each in faults if each is not PlatformFault.DROPPED)
        super().fault(*faults)
        if PlatformFault.UNAUTHORIZED in faults:
            self._run_in_loop(self.drop_connections())

    def heal(self) -> None:
        self.server.set_password("bot", PASSWORD)
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            self._run_in_loop(self._set_affiliation("none"))
        super().heal()

    async def _set_affiliation(self, affiliation: str) -> None:
        """Set the affiliation of the bot in the room, as the room's owner."""
        iq = self._clients["ann"].make_iq_set(ito=TEAM)
        query = SubElement(iq.xml, "{http://jabber.org/protocol/muc#admin}query")
        SubElement(query, "{http://jabber.org/protocol/muc#admin}item", affiliation=affiliation, jid=BOT)
        await iq.send(timeout=PATIENCE_S)  # type: ignore[no-untyped-call]

    async def drop_connections(self) -> None:
        for writer in list(self._connections):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.server.port)
        self._connections.update((writer, back))
        try:
            await asyncio.gather(self._pump_up(reader, back, writer), self._pump_down(there, writer))
        except asyncio.CancelledError:  # at the end of all; raised, the loop would report it
            writer.transport.abort()
        finally:
            self._connections.difference_update((writer, back))

    async def _pump_up(
        self, source: asyncio.StreamReader, server: asyncio.StreamWriter, bot: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await source.read(262_144):
                fault = self.claim_fault(*REFUSALS, PlatformFault.NO_ANSWER) if b"<body" in data else None
                if fault in REFUSALS:
                    refused, data = refuse(data.decode(), REFUSALS[fault])
                    bot.write(refused)
                server.write(data)
                await server.drain()
                if fault is PlatformFault.NO_ANSWER:
                    bot.transport.abort()
        server.close()

    async def _pump_down(self, source: asyncio.StreamReader, bot: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(262_144):
                while self.is_faulty(PlatformFault.HELD_POLL):  # noqa: ASYNC110  `changed` is of threads
                    await asyncio.sleep(0.02)
                bot.write(data)
                await bot.drain()
        bot.close()


def refuse(data: str, name: str) -> tuple[bytes, bytes]:
    """Return the refusal of a rule, for the first message of what the bot sent, and the rest of it."""
    refusal, _, words = BY_NAME[name].refusal.partition(": ")
    kind, condition = refusal.split(" ")
    found = re.search(r"<message .*?</message>", data, re.DOTALL)
    assert found is not None, data
    own_id, to = (re.search(rf"""\b{name}=["']([^"']+)["']""", found[0]) for name in ("id", "to"))
    assert own_id is not None and to is not None
    text = f"<text xmlns='{ERRORS}'>{escape(words)}</text>" if words else ""
    answer = (
        f"<message type='error' id='{own_id[1]}' from='{to[1]}' to='{BOT}'><error type='{kind}'>"
        f"<{condition} xmlns='{ERRORS}'/>{text}</error></message>"
    )
    return answer.encode(), (data[: found.start()] + data[found.end() :]).encode()


def _get_jid(room: str) -> str:
    return TEAM if room == "team" else f"{room.removeprefix('direct:')}@{DOMAIN}"
