"""News for the account: its inbox, and the subreddits that it watches.

The inbox is what is unread there: an item is marked as read once it is durable. A subreddit has a cursor, the newest id
that was received. Reddit's own cursor (`before`) names a thing, and brings nothing any more once that is deleted.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from gatepost.channels.contract import ChannelDeps, Receive
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.receiving import receive_batch
from gatepost.channels.reddit import SUBREDDITS, wire
from gatepost.channels.reddit.session import RedditSession
from gatepost.channels.reddit.wire import Thing, ThingKind
from gatepost.core import log
from gatepost.messages.inbound import Inbound

Value = TypeVar("Value")
LOG = log.get("channels")
PAGE, MOST_PAGES = 100, 10  # Reddit lists a thousand things at most
READ_AT_ONCE = 25
MOST_KNOWN = 5000
CONTEXT, MOST_CLIMBS = 8, 4  # Reddit shows so many comments above one; a deeper thread is named by the highest seen
BEGUN = "begun"
STREAMS = {"comments": ThingKind.COMMENT, "new": ThingKind.POST}


class RedditMemory:
    """Things that were seen lately. It saves requests; Reddit can be asked for all of it again."""

    def __init__(self) -> None:
        self._rooms: OrderedDict[str, str] = OrderedDict()  # the room that a thing is in
        self._roots: OrderedDict[str, str] = OrderedDict()  # the comment at the top of a comment's thread
        self._newest: OrderedDict[tuple[str, str], str] = OrderedDict()  # what somebody said last in a room and thread

    def add(self, name: str, address: str, root: str = "") -> None:
        _remember(self._rooms, name, address)
        if root:
            _remember(self._roots, name, root)

    def add_event(self, event: Inbound) -> None:
        self.add(event.platform_id, event.address, event.thread)
        if not event.own:
            _remember(self._newest, (event.address, event.thread), event.platform_id)

    def find_room(self, name: str) -> str:
        return self._rooms.get(name, "")

    def find_root(self, name: str) -> str:
        return self._roots.get(name, "")

    def find_newest(self, address: str, thread: str) -> str:
        return self._newest.get((address, thread), "")


class RedditReceiving:
    def __init__(self, deps: ChannelDeps, session: RedditSession, memory: RedditMemory) -> None:
        self._deps, self._session, self._memory = deps, session, memory
        self._watched = "+".join(dict.fromkeys(name.lower() for name in deps.config[SUBREDDITS]))
        self._floors: dict[str, int] = {}  # what a stream had when we began to listen
        self._received: OrderedDict[str, str] = OrderedDict()  # of streams: one may be listed late

    async def receive_news(self, me: str, receive: Receive) -> None:
        """All that is new. The streams are read before the inbox: what is in both is then known as the inbox has it."""
        listed = await self._list_watched(me) if self._watched else {}
        unread = await self._list_all("message/unread", "read its inbox", mark="false")
        if not await self._deps.cursor.load():  # what was said before the bot came is not for it
            await self._mark_read(unread)
            await self._deps.cursor.save(BEGUN)
            return
        found = [thing for child in unread if (thing := wire.read_thing(child, me)) is not None]
        things = wire.sort_things([*(thing for stream in listed.values() for thing in stream), *found])
        events = [await self._read_event(thing, me) for thing in things]
        for event in events:  # before they are received: an answer may come at once
            self._memory.add_event(event)
        await receive_batch(events, receive)
        await self._save_streams(listed)
        await self._mark_read(unread)

    # The inbox.

    async def _list_all(self, path: str, action: str, **asked: str) -> list[Mapping[str, Any]]:
        children: list[Mapping[str, Any]] = []
        after = ""
        for _ in range(MOST_PAGES):
            page = await self._get_page(path, action, after, asked)
            children += wire.list_children(page)
            after = wire.read_after(page)
            if not after:
                break
        return children

    async def _get_page(self, path: str, action: str, after: str, asked: Mapping[str, str]) -> Any:
        params = {"limit": str(PAGE), "raw_json": "1", **asked} | ({"after": after} if after else {})
        return await self._session.call("GET", path, action=action, params=params)

    async def _mark_read(self, children: Sequence[Mapping[str, Any]]) -> None:
        """Also what was of no use: it would be listed for ever. If this is lost, all of it comes again."""
        raws = [each.get("data") for each in children]
        names = [str(raw["name"]) for raw in raws if isinstance(raw, Mapping) and wire.is_id(raw.get("name"))]
        names = list(dict.fromkeys(names))
        for at in range(0, len(names), READ_AT_ONCE):
            data = {"id": ",".join(names[at : at + READ_AT_ONCE])}
            await self._session.call("POST", "api/read_message", action="mark as read", reads=True, data=data)

    # Subreddits.

    async def _list_watched(self, me: str) -> dict[str, list[Thing]]:
        """New things by stream. A subreddit that cannot be read must not keep us from the inbox."""
        found = {}
        for stream in STREAMS:
            try:
                found[stream] = await self._list_stream(stream, me)
            except PlatformRefusal as error:
                LOG.warning("subreddits cannot be read", instance=self._deps.instance, error=str(error))
        return found

    async def _list_stream(self, stream: str, me: str) -> list[Thing]:
        known = await self._load_cursor(stream)
        things: list[Thing] = []
        after = ""
        for _ in range(MOST_PAGES if known else 1):
            page = await self._get_page(f"r/{self._watched}/{stream}", "read subreddits", after, {})
            read = [thing for child in wire.list_children(page) if (thing := wire.read_thing(child, me)) is not None]
            things += [each for each in read if each.kind is STREAMS[stream]]
            after = wire.read_after(page)
            if not after or any(each.number <= known for each in read):
                break
        if not known:  # what was said before we came
            newest = max((each.number for each in things), default=1)
            self._floors[stream] = newest
            await self._deps.cursor.save(str(newest), self._name_cursor(stream))
            return []
        floor = self._floors.setdefault(stream, known)
        return [each for each in things if each.number > floor and each.name not in self._received]

    async def _load_cursor(self, stream: str) -> int:
        saved = await self._deps.cursor.load(self._name_cursor(stream))
        return int(saved) if saved else 0

    def _name_cursor(self, stream: str) -> str:
        """Other subreddits are another stream: their past is not for the bot either."""
        return f"{stream} {self._watched}"

    async def _save_streams(self, listed: Mapping[str, list[Thing]]) -> None:
        for stream, things in listed.items():
            for each in things:
                _remember(self._received, each.name, "")
            known = await self._load_cursor(stream)
            newest = max((each.number for each in things), default=0)
            if newest > known:
                await self._deps.cursor.save(str(newest), self._name_cursor(stream))

    # Threads.

    async def _read_event(self, thing: Thing, me: str) -> Inbound:
        root = await self._find_root(thing) if thing.kind is ThingKind.COMMENT else ""
        return wire.read_event(thing, root, me)

    async def _find_root(self, thing: Thing) -> str:
        """Return the comment at the top. Comments in between are asked for once, and remembered."""
        if not thing.parent:
            return thing.name
        root = self._memory.find_root(thing.parent) or await self._climb(thing)
        self._memory.add(thing.name, thing.room.address, root)
        return root

    async def _climb(self, thing: Thing) -> str:
        name, top = thing.parent, thing.parent
        for _ in range(MOST_CLIMBS):
            top, above = await self._find_highest(thing.room.post, name)
            if not above:
                break
            name = top = above
        return top

    async def _find_highest(self, post: str, name: str) -> tuple[str, str]:
        """The highest comment that Reddit shows above this one, and what that answers, if that is a comment."""
        asked = {"comment": name.partition("_")[2], "context": str(CONTEXT), "limit": "1", "raw_json": "1"}
        try:
            answer = await self._session.call("GET", f"comments/{post}", action="read a thread", params=asked)
        except PlatformRefusal:
            return name, ""  # it is gone meanwhile
        tree = answer[1] if isinstance(answer, list) and len(answer) > 1 else None
        for child in wire.list_children(tree)[:1]:
            raw = child.get("data")
            if isinstance(raw, Mapping) and wire.is_id(raw.get("name"), ThingKind.COMMENT):
                parent = raw.get("parent_id")
                above = str(parent) if wire.is_id(parent, ThingKind.COMMENT) else ""
                return str(raw["name"]), above
        return name, ""


def _remember(memory: OrderedDict[Any, Value], key: Any, value: Value) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > MOST_KNOWN:
        memory.popitem(last=False)
