"""Names of people and rooms: asked for once, and left out where the app may not know."""

from collections import OrderedDict
from collections.abc import Iterable

from gatepost.channels.contract import ChannelEnded
from gatepost.channels.slack.rest import SlackHttp
from gatepost.channels.slack.wire import SlackNames, is_id
from gatepost.core.errors import GatepostError, Refused

MOST_NAMES = 10_000


class NameCache:
    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()

    async def find(self, http: SlackHttp, channel: str, people: Iterable[str]) -> SlackNames:
        room = "" if channel.startswith("D") or not is_id(channel) else await self._find(http, channel)
        return SlackNames(room, {each: await self._find(http, each) for each in people})

    async def _find(self, http: SlackHttp, ident: str) -> str:
        if ident in self._known:
            return self._known[ident]
        try:
            name = await self._ask(http, ident)
        except (Refused, ChannelEnded):
            name = ""  # the app may not know; it stays so until the next start
        except GatepostError:
            return ""  # not now
        self._known[ident] = name
        if len(self._known) > MOST_NAMES:
            self._known.popitem(last=False)
        return name

    async def _ask(self, http: SlackHttp, ident: str) -> str:
        if ident[0] in "UW":
            user = (await http.ask("users.info", user=ident)).get("user") or {}
            profile = user.get("profile") or {}
            return str(profile.get("display_name") or user.get("real_name") or user.get("name") or "")[:100]
        channel = (await http.ask("conversations.info", channel=ident)).get("channel") or {}
        return str(channel.get("name") or "")[:100]
