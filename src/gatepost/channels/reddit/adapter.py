"""An account of Reddit: its inbox and what it watches by asking, comments and messages by one request each."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from gatepost.channels.contract import MYSELF, BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff, stay_connected
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.reddit import POLL_S, SUBREDDITS, USERNAME, wire
from gatepost.channels.reddit.posting import RedditPosting
from gatepost.channels.reddit.receiving import RedditMemory, RedditReceiving
from gatepost.channels.reddit.session import RedditSession
from gatepost.channels.reddit.wire import RedditRoom, Thing
from gatepost.core import log
from gatepost.core.errors import NotFound, Unavailable
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Outbound

LOG = log.get("channels")
MOST_SUBREDDITS = 50
MOST_HISTORY = 100
LITTLE_KARMA = 50
USEFUL_SCOPES = {
    "read": "the scope read: without it no subreddit is watched, and threads are not told apart",
    "history": "the scope history: without it a comment whose answer got lost is uncertain",
    "edit": "the scope edit: without it nothing can be edited or deleted",
}


class RedditAccount:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._session, self._memory = RedditSession(deps), RedditMemory()
        self._receiving = RedditReceiving(deps, self._session, self._memory)
        self._posting = RedditPosting(deps, self._session, self._memory, self._get_name)
        self._name = ""

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._name} - {""})

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        self._check_subreddits()

        async def poll(backoff: Backoff) -> None:
            await self._receiving.receive_news(await self._get_name(), receive)
            self._deps.beat()
            backoff.reset()
            await asyncio.sleep(self._config[POLL_S])

        try:
            await stay_connected(poll, partial(LOG.info, "Reddit did not answer", instance=self._deps.instance))
        except PlatformRefusal:
            await self._read_me()  # it says so if the account is suspended
            raise

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        """Return the newest comments of a post, as far as Reddit shows them at once, or the newest private messages."""
        room, me = wire.parse_address(address), await self._get_name()
        things = await (self._list_messages(room, me) if room.person else self._list_comments(room, me))
        events = [self._read_past(each, me) for each in wire.sort_things(things) if each.room == room]
        found = [each for each in events if each.at and (before is None or each.at < before)]
        return found[-limit:] if limit > 0 else []

    async def _list_comments(self, room: RedditRoom, me: str) -> list[Thing]:
        asked = {"sort": "new", "limit": str(MOST_HISTORY), "raw_json": "1"}
        answer = await self._session.call("GET", f"comments/{room.post}", action="read a post", params=asked)
        pages = answer if isinstance(answer, list) else []
        children = [child for page in pages[:2] for child in wire.walk_comments(wire.list_children(page))]
        return [thing for child in children if (thing := wire.read_thing(child, me)) is not None]

    async def _list_messages(self, room: RedditRoom, me: str) -> list[Thing]:
        asked, children = {"limit": str(MOST_HISTORY), "raw_json": "1", "mark": "false"}, []
        for path in ("message/inbox", "message/sent"):
            page = await self._session.call("GET", path, action="read its messages", params=asked)
            children += wire.list_children(page)
        return [thing for child in children if (thing := wire.read_thing(child, me)) is not None]

    def _read_past(self, thing: Thing, me: str) -> Inbound:
        root = self._memory.find_root(thing.name) or ("" if thing.parent else thing.name)
        event = wire.read_event(thing, root if thing.kind is wire.ThingKind.COMMENT else "", me)
        return replace(event, sender=MYSELF, own=False) if event.own else event

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        try:
            return await self._posting.send(address, message)
        except PlatformRefusal as refusal:
            if refusal.status == 403:
                with suppress(Unavailable, PlatformRefusal):
                    await self._read_me()  # a suspended account can read, and gets this for whatever it says
            raise

    async def look_up(self, address: str, key: str) -> str | None:
        return await self._posting.look_up(address, key)

    async def open_direct(self, sender: str) -> str:
        name = wire.parse_person(sender)
        try:
            found = await self._session.call("GET", f"user/{name}/about", action="find somebody")
        except PlatformRefusal:
            found = None
        data = found.get("data") if isinstance(found, Mapping) else None
        if not isinstance(data, Mapping) or data.get("is_suspended"):
            raise NotFound("person", sender, "there is no such account, or it is suspended")
        return f"reddit:direct/{name}"

    # The account.

    async def check(self) -> BotIdentity:
        self._check_subreddits()
        token, me = await self._session.get_token(), await self._read_me()
        missing = [words for scope, words in USEFUL_SCOPES.items() if not token.allows(scope)]
        missing += [each for name in self._config[SUBREDDITS] for each in await self._check_subreddit(name)]
        notes = ["Reddit forbids votes by programs, so the bot has no likes"]
        if me.get("has_verified_email") is False:
            notes.append("its mail address is not verified; Reddit may hold back what it says")
        karma = me.get("total_karma")
        if isinstance(karma, int) and karma < LITTLE_KARMA:
            notes.append("it has little karma; Reddit may let it comment only once in some minutes")
        return BotIdentity(
            name=f"u/{self._name}",
            link=f"https://www.reddit.com/user/{self._name}",
            missing=tuple(missing),
            notes=tuple(notes),
        )

    async def _check_subreddit(self, name: str) -> list[str]:
        try:
            await self._session.call("GET", f"r/{name}/about", action=f"read r/{name}")
        except PlatformRefusal as refusal:
            return [f"the right to read r/{name}: it is private, or there is no such subreddit ({refusal.status})"]
        return []

    def _check_subreddits(self) -> None:
        names = self._config[SUBREDDITS]
        wrong = [name for name in names if not wire.is_subreddit(name)]
        if wrong or len(names) > MOST_SUBREDDITS:
            why = f"{wrong[0]!r} is no subreddit" if wrong else f"there are over {MOST_SUBREDDITS} subreddits"
            raise ChannelEnded(EndReason.SETTING, why, "write each by its name alone, without r/")

    async def _get_name(self) -> str:
        if not self._name:
            await self._read_me()
        return self._name

    async def _read_me(self) -> Mapping[str, Any]:
        answer = await self._session.call("GET", "api/v1/me", action="read its own account")
        me: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {}
        name = me.get("name")
        if not wire.is_name(name):
            raise Unavailable("Reddit", "it does not say whose token this is")
        if me.get("is_suspended"):
            why = f"the account u/{name} is suspended by Reddit"
            raise ChannelEnded(EndReason.RIGHTS, why, "appeal at reddit.com/appeals, or use another account")
        expected = self._config[USERNAME].removeprefix("u/")
        if expected and expected.lower() != str(name).lower():
            why = f"the token belongs to u/{name}, not to u/{expected}"
            raise ChannelEnded(EndReason.SETTING, why, "set the right name, or the token of that account")
        self._name = str(name)
        return me

    async def close(self) -> None:
        await self._session.close()
