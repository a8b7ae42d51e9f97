"""The account at Bluesky.

News of posts are a list, newest first, without a cursor forwards. It is read back to a minute before the newest moment
that was received, since posts may be listed late. News of private conversations are a log with a cursor.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

from gatepost.channels.bluesky import API_URL, HANDLE, PASSWORD, POLL_S, wire
from gatepost.channels.bluesky.posting import BlueskyPosting
from gatepost.channels.bluesky.session import BlueskySession
from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff, stay_connected, unwrap_group
from gatepost.channels.kit.http import PlatformRefusal, open_download
from gatepost.channels.kit.receiving import receive_batch
from gatepost.core import log
from gatepost.core.clock import MINUTE
from gatepost.core.errors import NotFound, Refused
from gatepost.messages.inbound import Inbound, OpenFile
from gatepost.messages.outbound import Outbound

LOG = log.get("channels")
PAGE, MOST_PAGES = 100, 20
LATE = MINUTE  # so long after its moment a post may appear in the list
BEGINNING, CHAT_LOG = "beginning", "chat"  # cursors, besides the unnamed one of the list
EARLIEST = "2222222222222"  # the first revision that there could be
MOST_KNOWN = 5000


class BlueskyChannel:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, config = deps, deps.config
        self._session = BlueskySession(config[API_URL], config[HANDLE], self._read_password)
        self._posting = BlueskyPosting(self._session, deps.clock)
        self._received: OrderedDict[str, None] = OrderedDict()  # so that each poll does not receive a minute again

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._session.handle} - {""})

    async def _read_password(self) -> str:
        return await self._deps.secret(PASSWORD)

    async def check(self) -> BotIdentity:
        session = self._session
        await session.get_http()
        if session.inactive:
            why = f"the account @{session.handle} is {session.inactive}, so it can neither read nor post"
            raise ChannelEnded(EndReason.RIGHTS, why, "make it active again at https://bsky.app, or use another")
        await session.call("GET", "app.bsky.notification.listNotifications", params={"limit": 1}, action="read news")
        missing: tuple[str, ...] = ()
        try:
            await session.call("GET", "chat.bsky.convo.getLog", chat=True, action="read private conversations")
        except PlatformRefusal:
            missing = ("direct messages: make the app password with access to them, if people shall write privately",)
        return BotIdentity(
            name=f"@{session.handle}", link=f"https://bsky.app/profile/{session.handle}", missing=missing
        )

    async def close(self) -> None:
        await self._session.close()

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poll_posts(receive))
                group.create_task(self._poll_chat(receive))

        await unwrap_group(run)

    async def _poll_posts(self, receive: Receive) -> None:
        async def poll(backoff: Backoff) -> None:
            await self._receive_news(receive)
            self._deps.beat()
            backoff.reset()
            await asyncio.sleep(self._deps.config[POLL_S])

        await stay_connected(poll, partial(LOG.info, "Bluesky did not answer", instance=self._deps.instance))

    async def _receive_news(self, receive: Receive) -> None:
        saved = await self._deps.cursor.load()
        if not saved:
            newest = (await self._list_notes("", 1))[0]
            moment = str(max((wire.read_time(each.get("indexedAt")) for each in newest), default=0) + 1)
            await self._deps.cursor.save(moment, BEGINNING)
            await self._deps.cursor.save(moment)
            return
        beginning = int(await self._deps.cursor.load(BEGINNING) or 0)
        notes = await self._list_since(max(int(saved) - LATE, beginning))
        events = [event for note in notes if (event := await self._read_note(note)) is not None]
        await receive_batch(events, receive)
        newest_moment = max((wire.read_time(each.get("indexedAt")) for each in notes), default=0)
        for note in notes:
            self._received[_identify(note)] = None
        while len(self._received) > MOST_KNOWN:
            self._received.popitem(last=False)
        if newest_moment > int(saved):
            await self._deps.cursor.save(str(newest_moment))

    async def _list_since(self, since: int) -> list[dict[str, Any]]:
        """Return what is not received yet, oldest first."""
        found: list[dict[str, Any]] = []
        cursor = ""
        for _ in range(MOST_PAGES):
            page, cursor = await self._list_notes(cursor, PAGE)
            moments = [wire.read_time(each.get("indexedAt")) for each in page]
            found += [note for note, at in zip(page, moments, strict=True) if at >= since]
            if not cursor or not page or min(moments) < since:
                break
        else:
            LOG.warning("more happened than is read at once", instance=self._deps.instance)
        return [each for each in reversed(found) if _identify(each) not in self._received]

    async def _list_notes(self, cursor: str, limit: int) -> tuple[list[dict[str, Any]], str]:
        params = {"limit": limit, **({"cursor": cursor} if cursor else {})}
        name = "app.bsky.notification.listNotifications"
        answer = await self._session.call("GET", name, params=params, action="read news")
        return [each for each in answer.get("notifications", []) if isinstance(each, dict)], str(
            answer.get("cursor") or ""
        )

    async def _read_note(self, note: Mapping[str, Any]) -> Inbound | None:
        images: list[tuple[str, str]] = []
        if wire.has_images(note):
            try:
                view, _ = await self._posting.get_view(str(note.get("uri", "")))
                images = wire.read_images(view)
            except (
                Refused,
                NotFound,
            ) as refusal:  # the post is gone, or hidden: no picture is worth the news behind it
                LOG.warning("pictures were not read", instance=self._deps.instance, error=str(refusal))
        return wire.read_note(note, images, self._open, self._session.handle)

    async def _poll_chat(self, receive: Receive) -> None:
        async def poll(backoff: Backoff) -> None:
            await self._receive_chat(receive)
            backoff.reset()
            await asyncio.sleep(self._deps.config[POLL_S])

        try:
            await stay_connected(
                poll, partial(LOG.debug, "Bluesky's chat did not answer", instance=self._deps.instance)
            )
        except PlatformRefusal as refusal:  # the app password does not allow them; posts are received all the same
            LOG.warning("no private conversations", instance=self._deps.instance, error=refusal.detail)

    async def _receive_chat(self, receive: Receive) -> None:
        cursor = await self._deps.cursor.load(CHAT_LOG)
        asked = {"cursor": cursor} if cursor else {}
        answer = await self._session.call(
            "GET", "chat.bsky.convo.getLog", chat=True, params=asked, action="read private conversations"
        )
        newest = str(answer.get("cursor") or cursor)
        if cursor:
            entries = [each for each in answer.get("logs", []) if isinstance(each, Mapping)]
            events = [event for each in entries if (event := wire.read_log(each, self._session.did)) is not None]
            await receive_batch(events, receive)
        else:
            newest = await self._find_newest_revision() or newest or EARLIEST
        if newest and newest != cursor:
            await self._deps.cursor.save(newest, CHAT_LOG)

    async def _find_newest_revision(self) -> str:
        """Return where the log ends before we came: what was said earlier is not ours to answer."""
        answer = await self._session.call(
            "GET", "chat.bsky.convo.listConvos", chat=True, params={"limit": 100}, action="list conversations"
        )
        return max((str(each.get("rev") or "") for each in answer.get("convos", [])), default="")

    def _open(self, url: str) -> OpenFile:
        return open_download(self._session.get_http, url)

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        return await self._posting.send(address, message)

    async def look_up(self, address: str, key: str) -> str | None:
        return await self._posting.find_key(address, key)

    async def open_direct(self, sender: str) -> str:
        asked = {"members": [wire.get_did(sender)]}
        try:
            answer = await self._session.call(
                "GET", "chat.bsky.convo.getConvoForMembers", chat=True, params=asked, action="open a conversation"
            )
        except PlatformRefusal:
            raise NotFound("person", sender, "they do not take messages from this account") from None
        address = f"bluesky:direct/{wire.get_in(answer, 'convo', 'id')}"
        wire.parse_conversation(address)
        return address


def _identify(note: Mapping[str, Any]) -> str:
    return f"{note.get('uri')} {note.get('reason')}"
