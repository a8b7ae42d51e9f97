"""Posts of the account at Reddit, and how they are found again.

Reddit takes no key of ours. Before each send it is written down what would be there: under which comment, which words,
and which was our newest one until then. A comment that is newer, and has these words in this place, is the one.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gatepost.channels.contract import ChannelDeps
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.send_attempts import SendAttempts
from gatepost.channels.reddit import SETTLE_S, wire
from gatepost.channels.reddit.receiving import RedditMemory
from gatepost.channels.reddit.session import RedditSession
from gatepost.channels.reddit.wire import RedditRoom, SendNote, Thing, ThingKind
from gatepost.core.clock import SECOND
from gatepost.core.errors import GatepostError, NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.outbound import Op, Outbound

PAGE, MOST_PAGES = 100, 5
LATEST = 25
UNKNOWN = -1
FORM = {"api_type": "json", "raw_json": "1"}


class RedditPosting:
    def __init__(
        self, deps: ChannelDeps, session: RedditSession, memory: RedditMemory, get_me: Callable[[], Awaitable[str]]
    ) -> None:
        self._deps, self._session, self._memory, self._get_me = deps, session, memory, get_me
        self._attempts = SendAttempts(deps.cursor, deps.clock)
        self._newest: dict[ThingKind, int] = {}  # the number of our own newest comment and message

    async def send(self, address: str, message: Outbound) -> str:
        room = wire.parse_address(address)
        match message.op:
            case Op.POST:
                if room.person:
                    raise Unsupported("post", "reddit", "use send: only subreddits have posts")
                return await self._submit_once(room, message)
            case Op.SEND | Op.FILE | Op.CARD | Op.VOICE:
                return await self._send_once(room, message)
            case Op.EDIT:
                if await self._check_own(room, message.target) is None:
                    raise NotFound("comment", message.target)
                changed = {**FORM, "thing_id": message.target, "text": wire.render_text(message.text)}
                answer = await self._session.call("POST", "api/editusertext", action="edit a comment", data=changed)
                wire.check_answer(answer, "edit a comment")
                return message.target
            case Op.DELETE:
                if await self._check_own(room, message.target) is not None:
                    gone = {"id": message.target}
                    await self._session.call("POST", "api/del", action="delete a comment", data=gone)
                return message.target
        raise Unsupported(message.op.value, "reddit", "use send with the same text")

    # Saying something.

    async def _send_once(self, room: RedditRoom, message: Outbound) -> str:
        parent, text = await self._find_parent(room, message), wire.render_text(message.text)
        kind = ThingKind.MESSAGE if room.person else ThingKind.COMMENT
        note = SendNote(
            kind=kind,
            address=room.address,
            parent=parent if wire.is_id(parent, ThingKind.COMMENT) else "",
            digest=wire.digest_text(text),
            after=await self._get_newest(kind),
            at=self._deps.clock.now(),
        )
        await self._attempts.begin(message.key, thread=message.thread, note=wire.render_note(note))
        try:
            name = await self._send_text(room, parent, text, note)
        except GatepostError as error:
            if not (isinstance(error, Unavailable) and error.uncertain):
                self._attempts.remove(message.key)
            raise
        self._attempts.end(message.key)
        self._remember(room, parent, name, message.thread)
        return name

    async def _submit_once(self, room: RedditRoom, message: Outbound) -> str:
        """A post of its own in the subreddit of the room. Its first line is the title."""
        title, text = wire.split_title(wire.render_text(message.text))
        note = SendNote(
            kind=ThingKind.POST,
            address=room.address,
            parent="",
            digest=wire.digest_text(f"{title}\n\n{text}".strip()),
            after=await self._get_newest(ThingKind.POST),
            at=self._deps.clock.now(),
        )
        async with self._attempts.attempt(message.key, note=wire.render_note(note)):
            body = {**FORM, "sr": room.subreddit, "kind": "self", "title": title, "text": text}
            answer = await self._session.call("POST", "api/submit", action="make a post", data=body)
            name = wire.check_answer(answer, "make a post").get("name")
            if not wire.is_id(name, ThingKind.POST):
                raise Unavailable("Reddit", "its answer names no post", uncertain=True)
        self._newest[ThingKind.POST] = max(self._newest.get(ThingKind.POST, 0), wire.get_number(str(name)))
        return str(name)

    async def _send_text(self, room: RedditRoom, parent: str, text: str, note: SendNote) -> str:
        if not parent:
            return await self._compose(room, text, note)
        body = {**FORM, "thing_id": parent, "text": text}
        answer = await self._session.call("POST", "api/comment", action="comment", data=body)
        things = wire.check_answer(answer, "comment").get("things")
        for each in things if isinstance(things, list) else ():
            raw = each.get("data") if isinstance(each, Mapping) else None
            name = raw.get("name") or raw.get("id") if isinstance(raw, Mapping) else None
            if wire.is_id(name, note.kind):
                return str(name)
        raise Unavailable("Reddit", "its answer names no comment", uncertain=True)

    async def _compose(self, room: RedditRoom, text: str, note: SendNote) -> str:
        """The first words to somebody. Reddit does not say which message it made of them."""
        body = {**FORM, "to": room.person, "subject": f"u/{await self._get_me()}", "text": text}
        answer = await self._session.call("POST", "api/compose", action="send a message", data=body)
        wire.check_answer(answer, "send a message")
        try:
            found = await self._find_own(note)
        except (Unavailable, PlatformRefusal):
            found = None  # it was sent; only its name is not known
        return found.name if found is not None else f"sent-{note.digest}"

    async def _find_parent(self, room: RedditRoom, message: Outbound) -> str:
        """Return what is answered: what is named, else what was said last in the thread, else the thread, else the
        post."""
        if room.person:
            known = self._memory.find_room(message.reply_to) == room.address
            return message.reply_to if known else self._memory.find_newest(room.address, "")
        newest = self._memory.find_newest(room.address, message.thread) if message.thread else ""
        asked = message.reply_to or newest or message.thread or room.post_id
        if asked != room.post_id:
            await self._check_place(room, asked)
        return asked

    async def _check_place(self, room: RedditRoom, name: str) -> None:
        """An agent may name anything: only what is in this room is answered from it."""
        place = self._memory.find_room(name)
        if not place and wire.is_id(name, ThingKind.COMMENT):
            thing = wire.read_thing(await self._read_raw(name), await self._get_me())
            place = thing.room.address if thing is not None else ""
            if place:
                self._memory.add(name, place)
        if place != room.address:
            raise NotFound("comment", name[:40], f"there is none such in {room.address}")

    async def _check_own(self, room: RedditRoom, target: str) -> Thing | None:
        """The bot's comment that is to be changed; None if it is deleted."""
        if room.person or wire.is_id(target, ThingKind.MESSAGE):
            raise Unsupported("changing a message", "reddit", "send another one")
        if not wire.is_id(target, ThingKind.COMMENT, ThingKind.POST):
            raise NotFound("comment", target[:40])
        thing = wire.read_thing(await self._read_raw(target), await self._get_me())
        if thing is None:
            return None
        is_here = thing.room == room or (thing.kind is ThingKind.POST and thing.room.subreddit == room.subreddit)
        if thing.author.lower() != (await self._get_me()).lower() or not is_here:
            raise Refused("this bot", "change what is not its own", target)
        return thing

    async def _read_raw(self, name: str) -> Mapping[str, Any]:
        asked = {"id": name, "raw_json": "1"}
        answer = await self._session.call("GET", "api/info", action="read a comment", params=asked)
        return next((each for each in wire.list_children(answer)), {})

    def _remember(self, room: RedditRoom, parent: str, name: str, thread: str) -> None:
        """Answers to it are then known to be in its thread."""
        if not wire.is_id(name):
            return
        kind = ThingKind(name.partition("_")[0])
        self._newest[kind] = max(self._newest.get(kind, 0), wire.get_number(name))
        begins = name if parent == room.post_id else ""
        self._memory.add(name, room.address, thread or self._memory.find_root(parent) or begins)

    # Finding it again.

    async def look_up(self, address: str, key: str) -> str | None:
        attempt = await self._attempts.find(key)
        if attempt is None:
            return None
        note = wire.parse_note(attempt.note)
        if note.after == UNKNOWN:
            raise Refused("this bot", "find the comment", address, "the token lacks the scope history")
        found = await self._find_own(note)
        if found is not None:
            if found.kind is not ThingKind.POST:
                self._remember(found.room, found.parent or found.room.post_id, found.name, attempt.thread)
            return found.name
        left = note.at / SECOND + self._deps.config[SETTLE_S] - self._deps.clock.now() / SECOND
        if left > 0:
            raise Unavailable("Reddit", "it may not list yet what was just said", retry_after=left)
        return None

    async def _find_own(self, note: SendNote) -> Thing | None:
        after = ""
        for _ in range(MOST_PAGES):
            things, after = await self._list_own(note.kind, PAGE, after)
            found = [each for each in things if note.matches(each)]
            if found:
                return found[-1]  # the oldest of them
            if not after or any(each.number <= note.after for each in things):
                return None
        raise Refused("this bot", "find the comment", "Reddit", f"there are over {PAGE * MOST_PAGES} newer ones")

    async def _list_own(self, kind: ThingKind, limit: int, after: str = "") -> tuple[list[Thing], str]:
        me = await self._get_me()
        places = {ThingKind.MESSAGE: "message/sent", ThingKind.POST: f"user/{me}/submitted"}
        path = places.get(kind, f"user/{me}/comments")
        params = {"limit": str(limit), "sort": "new", "raw_json": "1"} | ({"after": after} if after else {})
        page = await self._session.call("GET", path, action="read its own comments", params=params)
        read = [wire.read_thing(child, me) for child in wire.list_children(page)]
        return [each for each in read if each is not None], wire.read_after(page)

    async def _get_newest(self, kind: ThingKind) -> int:
        """Return the number of our newest thing of a kind; later ones are new. Reddit is asked once."""
        if kind not in self._newest:
            try:
                things, _ = await self._list_own(kind, LATEST)
            except PlatformRefusal:
                return UNKNOWN
            self._newest.setdefault(kind, max((each.number for each in things), default=0))
        return self._newest[kind]
