"""Discord: the gateway brings events, the REST API sends.

Missed events are found in two ways. Within a session, the number of the last durable event is kept, and the platform
replays the events after it. If the session is gone, each room is read from its last message on.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

from gatepost.channels.contract import MYSELF, BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.discord import API_URL, TOKEN
from gatepost.channels.discord.gateway import (
    PORTAL,
    GatewayConnection,
    GatewaySession,
    NextStep,
    check_connections,
    check_intents,
    render_invitation,
)
from gatepost.channels.discord.render import (
    LARGEST_REQUEST,
    MOST_FILES,
    make_nonce,
    render_commands,
    render_edit,
    render_message,
    render_receipt,
)
from gatepost.channels.discord.rest import DiscordHttp
from gatepost.channels.discord.rooms import DiscordMissedMessages, DiscordRooms
from gatepost.channels.discord.wire import (
    DiscordRoom,
    DiscordSelf,
    Payload,
    is_command,
    is_id,
    parse_person,
    parse_room,
    read_click,
    read_command,
    read_delete,
    read_edit,
    read_message,
    read_reaction,
    to_snowflake,
)
from gatepost.channels.kit.backoff import Backoff
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.native_commands import CommandRules, fit_commands, register_commands
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.kit.send_attempts import SendAttempts
from gatepost.channels.kit.uploads import split_files
from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound, OpenFile
from gatepost.messages.outbound import MESSAGES, Op, Outbound
from gatepost.messages.text import may_stop

LOG = log.get("channels")
NONCE_WINDOW = 120 * SECOND  # the platform compares nonces "of the past few minutes": we rely on two
SKEW = 5 * SECOND
MOST_KNOWN = 2000
PAGE = 100
INTERACTION = "INTERACTION_CREATE"
ANSWER_S = 2.0
UNKNOWN_EMOJI = 10014
FILE_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
MOST_FAILURES = 3
COMMAND_RULES = CommandRules(name=r"[-_a-z0-9]{1,32}", longest_help=100, most=100)
LASTING = 30 * SECOND  # a connection that held so long was a good one


class DiscordChannel:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        self._http: DiscordHttp | None = None
        self._me = DiscordSelf()
        self._attempts = SendAttempts(deps.cursor, deps.clock)
        self._sent: OrderedDict[str, str] = OrderedDict()  # nonce: the platform's id
        self._authors: OrderedDict[str, tuple[str, str, bool]] = OrderedDict()  # of messages, for their deletion
        self._session = GatewaySession()
        self._queues = RoomQueues()
        self._receive: Receive | None = None
        self._rooms = DiscordRooms(self._get_http)
        self._commands = fit_commands(deps.commands, COMMAND_RULES)
        self._missed = DiscordMissedMessages(deps, self._get_http, self._hand_in_message)

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._me.name.lower()} - {""})

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _get_http(self) -> DiscordHttp:
        if self._http is None:
            token = await self._deps.secret(TOKEN)
            if not token:
                raise ChannelEnded(EndReason.TOKEN, "there is no token of a bot", f"copy it from {PORTAL} and set it")
            if self._http is None:
                self._http = DiscordHttp(self._deps.config[API_URL], token)
        return self._http

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        self._receive = skip_invalid(receive)
        http = await self._get_http()
        self._me = _read_self(await http.call("GET", "users/@me", action="ask who it is"))
        self._session = _read_session(await self._deps.cursor.load("session"))
        await self._missed.begin()
        await register_commands(self._deps, self._me.id, self._commands, partial(self._set_commands, http))
        backoff, failed = Backoff(), 0
        self._queues = RoomQueues()
        async with self._queues:
            while True:
                connection = GatewayConnection(http.token, self._session, self._dispatch, self._record_heartbeat)
                begun = self._deps.clock.monotonic()
                await self._run(connection, http)
                failed = 0 if connection.ready else failed + 1
                if self._deps.clock.monotonic() - begun > LASTING:
                    backoff.reset()
                await backoff.wait()  # also after a short success: the platform counts new sessions
                if failed >= MOST_FAILURES:
                    self._session = GatewaySession()  # where it could be resumed there may be nobody any more

    async def _set_commands(self, http: DiscordHttp) -> None:
        application = await http.call("GET", "applications/@me", action="ask for its application")
        path = f"applications/{application['id']}/commands"
        await http.call("PUT", path, json=render_commands(self._commands), reads=True, action="set its commands")

    async def _run(self, connection: GatewayConnection, http: DiscordHttp) -> None:
        try:
            url = "" if self._session.url else (await http.call("GET", "gateway/bot"))["url"]
            step = await connection.run(url)
            self._session = connection.session if step is NextStep.RESUME else GatewaySession()
        except (Unavailable, TimeoutError):
            self._session = connection.session

    async def _record_heartbeat(self) -> None:
        """The oldest event under way is the first that must come again."""
        self._deps.beat()
        session = self._session
        marks = (each.rpartition(" ") for each in self._queues.list_marks())
        first = next((int(seq) for ident, _, seq in marks if ident == session.id), session.seq + 1)
        await self._deps.cursor.save(json.dumps([session.id, session.url, first - 1]), "session")

    async def _dispatch(self, name: str, data: Any, session: GatewaySession) -> None:
        self._session = session
        self._deps.beat()
        if name == "READY":
            self._me = _read_self(data["user"])
            await self._missed.check_direct(self._queues)
        elif name == "GUILD_CREATE":
            self._rooms.add_guild(data)
            await self._missed.check_guild(self._queues, data)
        elif name in ("CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE"):
            self._rooms.add(data)
        elif name in HANDLERS and is_id(data.get("channel_id")):
            job = partial(self._handle, name, data)
            # A command must be answered soon, so it waits for no files of an earlier message.
            stops = name == "MESSAGE_CREATE" and may_stop(data.get("content"))
            urgent = is_command(data) if name == INTERACTION else stops
            await self._queues.put(data["channel_id"], job, mark=f"{session.id} {session.seq}", urgent=urgent)

    async def _handle(self, name: str, data: Payload) -> None:
        room = await self._rooms.find(data["channel_id"])
        if room is not None:
            await HANDLERS[name](self, data, room)

    async def _receive_message(self, data: Payload, room: DiscordRoom) -> None:
        await self._hand_in_message(data, room)

    async def _hand_in_message(self, data: Payload, room: DiscordRoom | None = None) -> None:
        place = room or await self._rooms.find(str(data.get("channel_id")))
        made = self._read(read_message, data, place, self._me, self._open_url) if place is not None else None
        if place is None or made is None:
            return
        self._remember(self._authors, made.platform_id, (made.sender, made.sender_name, made.own))
        if made.own and data.get("nonce"):
            self._remember(self._sent, str(data["nonce"]), made.platform_id)
        await self._hand_in(made)
        if not may_stop(made.text):  # before that one, something may still be under way
            await self._missed.record(str(data["channel_id"]), made.platform_id, place.direct)

    async def _receive_edit(self, data: Payload, room: DiscordRoom) -> None:
        await self._hand_in(self._read(read_edit, data, room, self._me, self._open_url))

    async def _receive_delete(self, data: Payload, room: DiscordRoom) -> None:
        for ident in (data.get("ids") or (data.get("id"),))[:PAGE]:
            await self._hand_in(read_delete(ident, room, self._authors.get(str(ident))))

    async def _receive_reaction(self, data: Payload, room: DiscordRoom) -> None:
        await self._hand_in(self._read(read_reaction, data, room, self._me))

    async def _receive_interaction(self, data: Payload, room: DiscordRoom) -> None:
        """The platform shows an error to the person unless it gets an answer within three seconds. An event that is not
        stored by then comes again, so the answer need not wait for it."""
        command = is_command(data)
        made = self._read(read_command, data, room, self._commands) if command else self._read(read_click, data, room)
        if made is None:
            return
        storing = asyncio.ensure_future(self._hand_in(made))
        try:
            await asyncio.wait({storing}, timeout=ANSWER_S)
            await self._answer(data, made, render_receipt(made) if command else {"type": 6})
            await storing
        finally:
            storing.cancel()

    async def _answer(self, data: Payload, made: Inbound, answer: Payload) -> None:
        http = await self._get_http()
        path = f"interactions/{made.platform_id}/{quote(str(data.get('token')), safe='')}/callback"
        try:
            await http.call("POST", path, json=answer, action="answer a click", reads=True)
        except (Unavailable, PlatformRefusal):
            return  # it is ours; only its sign on the screen is late

    def _read(self, read: Callable[..., Inbound | None], *given: Any) -> Inbound | None:
        """An event that is not as documented would come again with every resume, so it is left out."""
        try:
            return read(*given)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            LOG.warning("an event of Discord cannot be read", instance=self._deps.instance, error=repr(error))
            return None

    async def _hand_in(self, made: Inbound | None) -> None:
        if made is not None and self._receive is not None:
            await self._receive(made)

    def _remember(self, known: OrderedDict[str, Any], key: str, value: Any) -> None:
        known[key] = value
        if len(known) > MOST_KNOWN:
            known.popitem(last=False)

    def _open_url(self, url: str) -> OpenFile:
        async def read() -> AsyncIterator[bytes]:
            http = await self._get_http()
            parts, own = urlsplit(url), urlsplit(http.base_url)
            if parts.hostname not in FILE_HOSTS and (parts.scheme, parts.netloc) != (own.scheme, own.netloc):
                raise Invalid("file", f"{parts.hostname} is no place where Discord keeps files")
            async for chunk in http.download(url):
                yield chunk

        return read

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        # A post stands in the channel itself, wherever it was asked for.
        channel = _find_channel(address, "" if message.op is Op.POST else message.thread)
        if message.op in MESSAGES:
            return await self._post(channel, message)
        http, target = await self._get_http(), message.target
        if message.op is Op.UNPIN_ALL:
            return await self._unpin_all(http, channel)
        if not is_id(target):
            raise NotFound("message", target)
        path = f"channels/{channel}/messages/{target}"
        pin = f"channels/{channel}/messages/pins/{target}"
        match message.op:
            case Op.EDIT:
                await http.call("PATCH", path, json=render_edit(message), action="edit a message")
            case Op.DELETE:
                await self._remove(http, path, "delete a message")
            case Op.REACT:
                await self._react(http, path, message.reaction)
            case Op.PIN:
                await http.call("PUT", pin, action="pin a message")
            case Op.UNPIN:
                await self._remove(http, pin, "unpin a message")
            case _:
                raise Unsupported(message.op.value, "discord")
        return target

    async def _post(self, channel: str, message: Outbound) -> str:
        if message.op not in (Op.SEND, Op.FILE, Op.CARD, Op.VOICE, Op.POST):
            raise Unsupported(message.op.value, "discord", "use send")
        http = await self._get_http()
        parts = split_files(message, MOST_FILES, LARGEST_REQUEST)
        async with self._attempts.attempt(message.key, thread=channel):
            made = [str((await self._post_body(http, channel, each))["id"]) for each in parts]
        self._remember(self._sent, make_nonce(message.key), made[-1])
        return made[0]

    async def _post_body(self, http: DiscordHttp, channel: str, message: Outbound) -> Any:
        body, path = render_message(message), f"channels/{channel}/messages"
        if not message.files:
            return await http.call("POST", path, json=body, action="send a message")
        with ExitStack() as opened:
            files = _open_files(opened, message, body)
            return await http.call(
                "POST", path, data={"payload_json": json.dumps(body)}, files=files, action="send a file"
            )

    async def _react(self, http: DiscordHttp, path: str, emoji: str) -> None:
        """The platform knows each emoji in one spelling, with or without the sign that asks for a picture."""
        other = emoji.replace("\ufe0f", "") if "\ufe0f" in emoji else f"{emoji}\ufe0f"
        try:
            await http.call("PUT", f"{path}/reactions/{quote(emoji, safe='')}/@me", action="react")
        except PlatformRefusal as error:
            if not isinstance(error.answer, dict) or error.answer.get("code") != UNKNOWN_EMOJI or emoji.isascii():
                raise
            await http.call("PUT", f"{path}/reactions/{quote(other, safe='')}/@me", action="react")

    async def _remove(self, http: DiscordHttp, path: str, action: str) -> None:
        try:
            await http.call("DELETE", path, action=action)
        except PlatformRefusal as error:
            if error.status != 404:  # gone is gone
                raise

    async def _unpin_all(self, http: DiscordHttp, channel: str) -> str:
        """Fifty pins a page; a room has at most 250."""
        for _ in range(6):
            found = await http.call("GET", f"channels/{channel}/messages/pins", action="list pins")
            items = found.get("items") or []
            for each in items:
                ident = str((each.get("message") or {}).get("id"))
                await self._remove(http, f"channels/{channel}/messages/pins/{ident}", "unpin a message")
            if not found.get("has_more"):
                break
        return channel

    async def look_up(self, address: str, key: str) -> str | None:
        """While the platform compares nonces, a second send is safe. Later, only a silent room tells."""
        nonce = make_nonce(key)
        if nonce in self._sent:
            return self._sent[nonce]
        attempt = await self._attempts.find(key)
        if attempt is None or self._deps.clock.now() - attempt.at < NONCE_WINDOW:
            return None
        channel = attempt.thread or _find_channel(address, "")
        http = await self._get_http()
        since = {"after": str(to_snowflake(attempt.at - SKEW)), "limit": str(PAGE)}
        rows = await http.call("GET", f"channels/{channel}/messages", params=since, action="read what was said")
        me = self._me.id or _read_self(await http.call("GET", "users/@me")).id
        for row in rows:
            if row.get("nonce") == nonce and is_id(row.get("id")):
                return str(row["id"])
        if len(rows) < PAGE and not any((row.get("author") or {}).get("id") == me for row in rows):
            return None
        raise Refused("this bot", "find out whether a message was sent", address, "it is too long ago")

    # The rest.

    async def typing(self, address: str, thread: str, on: bool) -> None:
        if on:  # it ends by itself after ten seconds, or with the next message
            http = await self._get_http()
            await http.call(
                "POST", f"channels/{_find_channel(address, thread)}/typing", reads=True, action="show typing"
            )

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        channel, http = _find_channel(address, ""), await self._get_http()
        if not self._me.id:
            self._me = _read_self(await http.call("GET", "users/@me"))
        room = await self._rooms.find(channel)
        edge, found = to_snowflake(before) if before is not None else 0, list[Inbound]()
        while room is not None and len(found) < limit:
            wanted = {"limit": str(min(limit - len(found), PAGE)), **({"before": str(edge)} if edge else {})}
            rows = await http.call("GET", f"channels/{channel}/messages", params=wanted, action="read what was said")
            made = [read_message(row, room, self._me, self._open_url) for row in rows]
            found += [replace(each, sender=MYSELF) if each.own else each for each in made if each is not None]
            if len(rows) < int(wanted["limit"]):
                break
            edge = int(rows[-1]["id"])
        return found[:limit][::-1]

    async def open_direct(self, sender: str) -> str:
        person = parse_person(sender)
        if not person:
            raise NotFound("person", sender, "a person on Discord is discord:user/<id>")
        http = await self._get_http()
        opened = await http.call(
            "POST", "users/@me/channels", json={"recipient_id": person}, reads=True, action="open a direct chat"
        )
        return f"discord:dm/{opened['id']}"

    async def check(self) -> BotIdentity:
        http = await self._get_http()
        me = _read_self(await http.call("GET", "users/@me", action="ask who it is"))
        application = await http.call("GET", "applications/@me", action="ask for its application")
        check_intents(application)
        check_connections(await http.call("GET", "gateway/bot", action="ask where it connects"))
        return BotIdentity(name=f"@{me.name}", link=render_invitation(application))


HANDLERS = {
    "MESSAGE_CREATE": DiscordChannel._receive_message,
    "MESSAGE_UPDATE": DiscordChannel._receive_edit,
    "MESSAGE_DELETE": DiscordChannel._receive_delete,
    "MESSAGE_DELETE_BULK": DiscordChannel._receive_delete,
    "MESSAGE_REACTION_ADD": DiscordChannel._receive_reaction,
    INTERACTION: DiscordChannel._receive_interaction,
}


def _open_files(opened: ExitStack, message: Outbound, body: Payload) -> list[tuple[str, tuple[str, IO[bytes], str]]]:
    """The client reads them in parts while it sends."""
    names = [str(each["filename"]) for each in body["attachments"]]
    return [
        (f"files[{at}]", (names[at], opened.enter_context(Path(each.path).open("rb")), each.mime))
        for at, each in enumerate(message.files)
    ]


def _find_channel(address: str, thread: str) -> str:
    found = parse_room(address)
    if found is None or (thread and not is_id(thread)):
        raise NotFound("room", address, "a room on Discord is discord:<server>/channel/<id> or discord:dm/<id>")
    return thread or found[1]


def _read_self(user: Payload) -> DiscordSelf:
    return DiscordSelf(str(user.get("id") or ""), str(user.get("username") or ""))


def _read_session(text: str) -> GatewaySession:
    return GatewaySession(*json.loads(text)) if text else GatewaySession()
