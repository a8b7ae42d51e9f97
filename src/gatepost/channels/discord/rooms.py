"""Which room a channel of Discord is: told by the gateway, or asked for once."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from gatepost.channels.discord.rest import DiscordHttp
from gatepost.channels.discord.wire import DiscordRoom, Payload, is_id, read_room
from gatepost.channels.kit.http import PlatformRefusal

MOST_ROOMS = 20_000


class DiscordRooms:
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
