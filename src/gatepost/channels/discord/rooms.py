"""The rooms of Discord that a bot sees: which room a channel is, and the messages that it missed there."""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from gatepost.channels.contract import ChannelDeps
from gatepost.channels.discord.rest import DiscordHttp
from gatepost.channels.discord.wire import DiscordRoom, Payload, is_id, read_room, read_time, to_snowflake
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.room_queues import RoomQueues

MOST_ROOMS = 20_000
PAGE = 100
MOST_DIRECT = 200
BEGUN, DIRECT = "begun", "fact:direct"  # when we first listened; the direct rooms, which no event lists …
EARLIER_DIRECT = "direct"  # … and the name under which earlier versions kept them


class DiscordRooms:
    """The room of each channel of Discord: told by the gateway, or asked for once."""

    def __init__(self, get_http: Callable[[], Awaitable[DiscordHttp]]) -> None:
        self._get_http = get_http
        self._known: OrderedDict[str, Payload] = OrderedDict()

    def add(self, channel: Payload) -> None:
        if not is_id(channel.get("id")):
            return
        kept = {name: channel.get(name) for name in ("id", "type", "guild_id", "parent_id", "name")}
        self._known[str(channel["id"])] = kept
        if len(self._known) > MOST_ROOMS:
            self._known.popitem(last=False)

    def add_guild(self, guild: dict[str, Any]) -> None:
        """Its channels come without the server's id."""
        for channel in (*(guild.get("channels") or ()), *(guild.get("threads") or ())):
            self.add({**channel, "guild_id": guild.get("id")})

    async def find(self, ident: str) -> DiscordRoom | None:
        """None if it is no room, or hidden from the bot."""
        channel = await self._find_channel(ident)
        if channel is None:
            return None
        above = str(channel.get("parent_id") or "")
        parent = await self._find_channel(above) if channel.get("type") in (10, 11, 12) and is_id(above) else None
        return read_room(channel, parent)

    async def _find_channel(self, ident: str) -> Payload | None:
        if ident not in self._known:
            http = await self._get_http()
            try:
                self.add(await http.call("GET", f"channels/{ident}", action="ask for a channel"))
            except PlatformRefusal:
                return None
        return self._known.get(ident)


class DiscordMissedMessages:
    """Messages that were sent while there was no session: read from the history of each room, from its last message on.

    Edits, deletions and reactions of that time are not in a history, and stay unknown.
    """

    def __init__(
        self,
        deps: ChannelDeps,
        get_http: Callable[[], Awaitable[DiscordHttp]],
        hand_in: Callable[[Payload], Awaitable[None]],
    ) -> None:
        self._deps, self._get_http, self._hand_in = deps, get_http, hand_in
        self._direct: list[str] | None = None
        self._term = 0
        self._begun = 0
        self._last: dict[str, int] = {}  # what is saved, by room

    async def record(self, channel: str, message: str, direct: bool) -> None:
        """All up to this message of a room is durable."""
        if channel not in self._last:
            self._last[channel] = int(await self._deps.cursor.load(f"room:{channel}") or 0)
        if int(message) > self._last[channel]:
            await self._deps.cursor.save(message, f"room:{channel}")
            self._last[channel] = int(message)
            if len(self._last) > MOST_ROOMS:
                del self._last[next(iter(self._last))]
        if direct and channel not in await self._load_direct():
            self._direct = [channel, *await self._load_direct()][:MOST_DIRECT]
            await self._deps.cursor.save(json.dumps(self._direct), DIRECT)

    async def begin(self) -> None:
        """Remember the moment when the channel first listened: earlier messages are not for us."""
        saved = await self._deps.cursor.load(BEGUN)
        self._begun = int(saved or to_snowflake(self._deps.clock.now()))
        if not saved:
            await self._deps.cursor.save(str(self._begun), BEGUN)

    async def check_direct(self, queues: RoomQueues) -> None:
        """A new session began. Direct rooms are read now, the others when their server is named."""
        for channel in await self._load_direct():
            after = await self._deps.cursor.load(f"room:{channel}")
            await queues.put(channel, partial(self._read_room, channel, int(after or self._begun)))

    async def check_guild(self, queues: RoomQueues, guild: dict[str, Any]) -> None:
        """A room that was never seen is read from when we could first have seen it."""
        joined = to_snowflake(read_time(guild.get("joined_at")) or 0)
        for channel in (*(guild.get("channels") or ()), *(guild.get("threads") or ())):
            ident, last = channel.get("id"), channel.get("last_message_id")
            if not is_id(ident) or not is_id(last) or int(last) <= self._begun:
                continue
            after = await self._deps.cursor.load(f"room:{ident}")
            edge = int(after) if after else max(self._begun, joined)
            if int(last) > edge:
                await queues.put(ident, partial(self._read_room, ident, edge))

    async def _read_room(self, channel: str, after: int) -> None:
        http = await self._get_http()
        while True:  # each page is durable before the next is asked for
            wanted = {"after": str(after), "limit": str(PAGE)}
            try:
                rows = await http.call(
                    "GET", f"channels/{channel}/messages", params=wanted, action="read what was missed"
                )
            except PlatformRefusal:
                return  # the room is hidden from the bot
            for row in sorted(rows, key=lambda each: int(each["id"])):
                await self._hand_in({"channel_id": channel, **row})
                after = int(row["id"])
            if len(rows) < PAGE:
                return

    async def _load_direct(self) -> list[str]:
        if self._direct is None or self._term != self._deps.cursor.term:
            term = self._deps.cursor.term
            saved = await self._deps.cursor.load(DIRECT) or await self._deps.cursor.load(EARLIER_DIRECT)
            self._direct = [each for each in (json.loads(saved) if saved else []) if is_id(each)]
            self._term = term
        return self._direct
