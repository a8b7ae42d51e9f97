"""The bot at a Mattermost server.

The websocket brings events; what was said while there was none is read by `posts?since` from the saved moment on. The
server numbers the events of a connection: a missing number means a lost event, and ends the connection.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from gatepost.channels.contract import (
    MYSELF,
    BotIdentity,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    Receive,
)
from gatepost.channels.kit.backoff import Backoff, unwrap_group
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.channels.kit.receiving import make_deletion, receive_batch
from gatepost.channels.mattermost import API_URL, CA_FILE, TOKEN, wire
from gatepost.channels.mattermost.posting import MattermostPosting
from gatepost.channels.mattermost.wire import MattermostBot, MattermostRoom, SocketEvent
from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Outbound

LOG = log.get("channels")
PING_S = 20.0
HELLO_S = 30.0
LARGEST_FRAME = 4 * 1024 * 1024
MOST_WAITING = 1000  # frames that were read and are not received yet; then the socket is not read
BATCH = 100
OVERLAP_MS = 30_000  # events of two channels may come in another order than they were made
BEGINNING = "beginning"  # the cursor that says from which moment on posts are ours to receive
MOST_MISSED = 1000  # posts that the server gives for one `since`
MOST_KNOWN = 5000  # names and channels that are remembered
WRONG_ROOT = "api.post.create_post.channel_root_id.app_error"  # the thread is in another channel
WAY_OUT = "make a new token for the bot account, and set it with `gatepost channel set`"


class SocketLost(Exception):
    """The connection ended, or skipped an event: open another."""


class MattermostChannel:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        self._http: PlatformHttp | None = None
        self._bot = MattermostBot("", "")
        self._rooms: dict[str, MattermostRoom] = {}
        self._names: dict[str, str] = {}
        self._posting = MattermostPosting(self._connect, deps.clock)

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._bot.name} - {""})

    # Connecting.

    async def _connect(self) -> tuple[PlatformHttp, MattermostBot]:
        """The client, once the server has accepted the token."""
        if self._http is None:
            token = await self._deps.secret(TOKEN)
            url = self._deps.config[API_URL]
            if not token or not url:
                lacking = "a token" if url else "the address of its server"
                raise ChannelEnded(EndReason.SETTING, f"the Mattermost bot has no {lacking}", WAY_OUT)
            self._http = PlatformHttp(
                "Mattermost",
                url,
                headers={"Authorization": f"Bearer {token}"},
                remedy=WAY_OUT,
                find_retry_after=_find_retry_after,
                read_error=_read_error,
                ca_file=self._deps.config[CA_FILE],
            )
        if not self._bot.id:
            me = await self._http.call("GET", "api/v4/users/me", action="read its own account")
            self._bot = MattermostBot(str(me["id"]), str(me["username"]))
        return self._http, self._bot

    async def check(self) -> BotIdentity:
        http, bot = await self._connect()
        teams = await http.call("GET", "api/v4/users/me/teams", action="list its teams")
        if not teams:
            why, remedy = f"@{bot.name} is in no team, so nobody can invite it", "add it to a team on the server"
            raise ChannelEnded(EndReason.RIGHTS, why, remedy)
        names = ", ".join(str(each.get("display_name", "")) for each in teams[:10])
        return BotIdentity(
            name=f"@{bot.name}",
            link=f"{http.base_url}messages/@{bot.name}",
            notes=(f"teams: {names}",),
        )

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        backoff = Backoff()
        while True:
            try:
                await unwrap_group(lambda: self._listen_once(receive, backoff))
            except (SocketLost, WebSocketException, OSError, TimeoutError) as error:
                LOG.info("the connection to Mattermost ended", instance=self._deps.instance, error=repr(error))
                await backoff.wait()
            except Unavailable as error:
                await backoff.wait(error.retry_after)

    async def _listen_once(self, receive: Receive, backoff: Backoff) -> None:
        http, _ = await self._connect()
        await http.call(
            "GET", "api/v4/users/me", action="read its own account"
        )  # a revoked token ends the channel here
        token, url = await self._deps.secret(TOKEN), _make_socket_url(http.base_url)
        tls = await http.get_tls() if url.startswith("wss:") else None
        try:
            socket = await connect(url, max_size=LARGEST_FRAME, proxy=None, ssl=tls)
        except InvalidStatus as error:
            raise SocketLost(f"the websocket was refused with {error.response.status_code}") from None
        frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)
        async with socket:
            await socket.send(json.dumps({"seq": 1, "action": "authentication_challenge", "data": {"token": token}}))
            await _wait_for_hello(socket)
            self._deps.beat()
            backoff.reset()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read_socket(socket, frames))
                group.create_task(_send_pings(socket))
                group.create_task(self._receive_frames(frames, receive))

    async def _read_socket(self, socket: ClientConnection, frames: asyncio.Queue[dict[str, Any]]) -> None:
        expected = 1  # the greeting was 0
        async for raw in socket:
            frame = wire.read_json(raw if isinstance(raw, str) else "")
            self._deps.beat()
            number = frame.get("seq")
            if "event" not in frame or not isinstance(number, int):
                continue  # the answer to a ping
            if number < expected:
                continue
            if number > expected:
                raise SocketLost(f"event {expected} is missing")
            expected += 1
            await frames.put(frame)
        raise SocketLost("the server closed it")

    async def _receive_frames(self, frames: asyncio.Queue[dict[str, Any]], receive: Receive) -> None:
        await self._receive_missed(receive)
        while True:
            batch = [await frames.get()]
            while len(batch) < BATCH and not frames.empty():
                batch.append(frames.get_nowait())
            events = [event for frame in batch if (event := await self._read_frame(frame)) is not None]
            await receive_batch(events, receive)
            await self._save([event.at for event in events if event.at])

    async def _save(self, moments: list[int]) -> None:
        known = await self._load()
        newest = max((each // wire.MILLISECOND for each in moments), default=0)
        if newest > known:
            await self._deps.cursor.save(str(newest))

    async def _load(self) -> int:
        saved = await self._deps.cursor.load()
        return int(saved) if saved.isdecimal() else 0

    async def _read_frame(self, frame: dict[str, Any]) -> Inbound | None:
        name, data = frame["event"], wire.read_json(frame.get("data"))
        if name == SocketEvent.REACTED:
            reaction = wire.read_json(data.get("reaction"))
            room = await self._get_room(str(wire.read_json(frame.get("broadcast")).get("channel_id", "")))
            user = str(reaction.get("user_id", ""))
            return wire.read_reaction(reaction, room, self._bot, await self._get_name(user)) if room else None
        if name not in (SocketEvent.POSTED, SocketEvent.EDITED, SocketEvent.DELETED):
            return None
        post = wire.read_json(data.get("post"))
        room = await self._get_room(str(post.get("channel_id", "")))
        if room is None:
            return None
        sender_name = str(data.get("sender_name") or "").removeprefix("@")[:200]
        name_of = sender_name or await self._get_name(str(post.get("user_id", "")))
        found = wire.read_post(post, room, self._bot, self._open, name=name_of, mentions=data.get("mentions"))
        if found is None or name == SocketEvent.POSTED:
            return found
        return wire.read_edit(found, post) if name == SocketEvent.EDITED else make_deletion(found)

    # Messages that were missed.

    async def _receive_missed(self, receive: Receive) -> None:
        http, bot = await self._connect()
        channels = await http.call("GET", f"api/v4/users/{bot.id}/channels", action="list its channels")
        for each in channels:
            self._remember_room(each)
        known = await self._load()
        if not known:
            newest = max((int(each.get("last_post_at") or 0) for each in channels), default=0)
            beginning = str(newest or 1)  # the server's own clock counts: with no post yet, every one is new
            await self._deps.cursor.save(beginning, BEGINNING)
            await self._deps.cursor.save(beginning)
            return
        beginning = await self._deps.cursor.load(BEGINNING)
        since = max(known - OVERLAP_MS, int(beginning or 1))
        events: list[Inbound] = []
        for each in channels:
            if int(each.get("last_post_at") or 0) > since and (room := self._rooms.get(str(each.get("id")))):
                try:
                    events += await self._list_missed(room, since)
                except PlatformRefusal as refusal:
                    LOG.warning("a channel cannot be read", instance=self._deps.instance, error=str(refusal))
        await receive_batch(events, receive)
        await self._save([event.at for event in events if event.at])

    async def _list_missed(self, room: MattermostRoom, since: int) -> list[Inbound]:
        http, _ = await self._connect()
        answer = await http.call(
            "GET", f"api/v4/channels/{room.id}/posts", params={"since": since}, action="read what it missed"
        )
        posts = list(wire.read_json(answer.get("posts")).values())
        if len(posts) >= MOST_MISSED:
            LOG.warning("more was said than Mattermost repeats", instance=self._deps.instance, room=room.address)
        found: list[Inbound] = []
        for post in sorted(posts, key=lambda post: int(post.get("create_at") or 0)):
            name = await self._get_name(str(post.get("user_id", "")))
            read = wire.read_post(post, room, self._bot, self._open, name=name)
            found += wire.read_missed(read, post, since) if read else []
        return found

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        found: list[Inbound] = []
        room = await self._get_room(wire.get_channel_id(address))
        async for post in self._posting.list_newest(address):
            at = wire.read_time(post.get("create_at"))
            if room is None or (before is not None and (at is None or at >= before)):
                continue
            read = wire.read_post(
                post, room, self._bot, self._open, name=await self._get_name(str(post.get("user_id", "")))
            )
            if read is not None:
                found.append(replace(read, sender=MYSELF, own=False) if read.own else read)
            if len(found) >= limit:
                break
        return found[::-1]

    # Names.

    async def _get_room(self, channel: str) -> MattermostRoom | None:
        if not wire.ID.match(channel):
            return None
        if channel not in self._rooms:
            http, _ = await self._connect()
            try:
                self._remember_room(await http.call("GET", f"api/v4/channels/{channel}", action="read a channel"))
            except PlatformRefusal as refusal:  # it is gone, or the bot was removed from it
                LOG.info("a channel cannot be read", instance=self._deps.instance, error=str(refusal))
        return self._rooms.get(channel)

    def _remember_room(self, channel: dict[str, Any]) -> None:
        room = wire.read_room(channel)
        if room is not None:
            if len(self._rooms) >= MOST_KNOWN:
                self._rooms.clear()
            self._rooms[room.id] = room

    async def _get_name(self, user: str) -> str:
        if not wire.ID.match(user):
            return ""
        if user not in self._names:
            http, _ = await self._connect()
            try:
                person = await http.call("GET", f"api/v4/users/{user}", action="read who somebody is")
            except PlatformRefusal:  # a guest, or somebody who was removed for good: their words count all the same
                person = {}
            if len(self._names) >= MOST_KNOWN:
                self._names.clear()
            self._names[user] = str(person.get("username", ""))[:200]
        return self._names[user]

    def _open(self, file: str) -> Any:
        async def read() -> AsyncIterator[bytes]:
            http, _ = await self._connect()
            async for chunk in http.download(f"api/v4/files/{file}"):
                yield chunk

        return read

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        return await self._posting.send(address, message)

    async def look_up(self, address: str, key: str) -> str | None:
        return await self._posting.find_key(address, key)

    async def typing(self, address: str, thread: str, on: bool) -> None:
        if on:
            await self._posting.send_typing(address, thread)

    async def open_direct(self, sender: str) -> str:
        room = wire.read_room(await self._posting.open_direct(sender))
        if room is None:
            raise Unavailable("Mattermost", "it opened no direct channel")
        self._rooms[room.id] = room
        return room.address


def _make_socket_url(base: str) -> str:
    scheme, rest = base.split("://", 1)
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}api/v4/websocket"


async def _wait_for_hello(socket: ClientConnection) -> None:
    async with asyncio.timeout(HELLO_S):
        async for raw in socket:
            frame = wire.read_json(raw)
            if frame.get("event") == SocketEvent.HELLO:
                return
    raise SocketLost("the server did not greet")


async def _send_pings(socket: ClientConnection) -> None:
    """Its answers are the evidence that the connection still brings something."""
    number = 1
    while True:
        await asyncio.sleep(PING_S)
        number += 1
        await socket.send(json.dumps({"seq": number, "action": "ping"}))


def _read_error(given: PlatformAnswer) -> PlatformRefusal | None:
    """Return the refusal that the server answers by 500, which would be tried again."""
    if wire.read_json(given.body).get("id") != WRONG_ROOT:
        return None
    return PlatformRefusal("Mattermost", given.action, given.status, given.body)


def _find_retry_after(response: httpx2.Response, answer: Any) -> float | None:
    """Seconds until the window ends. `Retry-After` is read first, where a server sends it."""
    if "retry-after" in response.headers:
        return None
    try:
        return max(float(response.headers.get("x-ratelimit-reset", "")), 0.0)
    except ValueError:
        return None
