"""The rooms of Slack that an app is in: their names and those of people, and the messages that it missed there."""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any

from gatepost.channels.contract import ChannelCursor, ChannelEnded
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.slack.rest import SlackHttp
from gatepost.channels.slack.wire import SlackNames, is_id, is_ts
from gatepost.core import log
from gatepost.core.errors import GatepostError, Refused

LOG = log.get("channels")
MOST_ROOMS = 100
PAGE = 100
MOST_PAGES = 20
ROOMS = "rooms"
MOST_NAMES = 10_000


class NameCache:
    """Names of people and rooms: asked for once, and left out where the app may not know."""

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


class SlackMissedMessages:
    """Messages that were missed because the channel was away for longer than the platform repeats its events.

    They are read from the history of each known room, from its last message on. Answers in threads are not in it, nor
    are edits and reactions.
    """

    def __init__(
        self, cursor: ChannelCursor, hand_in: Callable[[dict[str, Any], str], Awaitable[None]], *, shared: bool = False
    ) -> None:
        """`shared`: other gateways receive at the same time, and know other rooms."""
        self._cursor, self._hand_in, self._shared = cursor, hand_in, shared
        self._last: dict[str, str] | None = None  # by room, the latest last
        self._term = 0

    async def record(self, channel: str, ts: str) -> None:
        """All up to this message of a room is durable."""
        last = await self._load()
        if channel in last and Decimal(ts) <= Decimal(last[channel]):
            return
        if self._shared:
            self._last = _parse(await self._cursor.update(partial(_add_message, channel, ts), ROOMS))
        else:
            self._last = _put_last(last, channel, ts)
            await self._cursor.save(json.dumps(self._last), ROOMS)

    async def check(self, http: SlackHttp, queues: RoomQueues) -> None:
        for channel, ts in list((await self._load()).items()):
            await queues.put(channel, partial(self._read_room, http, channel, ts))

    async def _read_room(self, http: SlackHttp, channel: str, after: str) -> None:
        """The oldest page comes last there, so the pages are turned round."""
        found, more = list[dict[str, Any]](), ""
        try:
            for _ in range(MOST_PAGES):
                answer = await http.ask("conversations.history", channel=channel, oldest=after, limit=PAGE, cursor=more)
                found += answer.get("messages") or ()
                more = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
                if not more:
                    break
            if more:
                LOG.warning("more was missed than is read; the oldest is left out", channel=channel, read=len(found))
        except (Refused, ChannelEnded):
            return  # we are no longer in the room, or may not look back
        for message in sorted((each for each in found if is_ts(each.get("ts"))), key=lambda each: Decimal(each["ts"])):
            await self._hand_in(message, channel)

    async def _load(self) -> dict[str, str]:
        if self._last is None or self._term != self._cursor.term:
            term = self._cursor.term
            self._last = _parse(await self._cursor.load(ROOMS))
            self._term = term
        return self._last


def _parse(saved: str) -> dict[str, str]:
    known = json.loads(saved) if saved else {}
    return {channel: ts for channel, ts in known.items() if is_id(channel) and is_ts(ts)}


def _add_message(channel: str, ts: str, saved: str) -> str:
    """Another gateway may have a later one of the room."""
    last = _parse(saved)
    return json.dumps(_put_last(last, channel, max(ts, last.get(channel, ts), key=Decimal)))


def _put_last(last: dict[str, str], channel: str, ts: str) -> dict[str, str]:
    others = {room: latest for room, latest in last.items() if room != channel}
    return dict([*others.items(), (channel, ts)][-MOST_ROOMS:])
