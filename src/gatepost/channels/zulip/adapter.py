"""The bot at a Zulip organization.

Events come from a queue that the server keeps for ten minutes without a poll. It is asked for again after a restart;
once it is lost, what was said since the last received message is read from the archive.
"""

import base64
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import httpx2

from gatepost.channels.contract import (
    MYSELF,
    BotIdentity,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    Receive,
)
from gatepost.channels.kit.backoff import Backoff, stay_connected
from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal
from gatepost.channels.kit.receiving import receive_batch
from gatepost.channels.zulip import API_KEY, API_URL, CA_FILE, EMAIL, TOPIC, wire
from gatepost.channels.zulip.posting import ZulipPosting
from gatepost.channels.zulip.wire import QueueEvent, ZulipSeen
from gatepost.core import log
from gatepost.core.errors import NotFound
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound, OpenFile
from gatepost.messages.outbound import Outbound

LOG = log.get("channels")
POLL_S = 120.0  # above the server's own bound of a poll
QUEUE = "queue"  # the cursor of the event queue; the unnamed one is the last message
PAGE = 500
MOST_SEEN = 10_000
WEBHOOK_BOT = "not available to incoming webhook bots"  # in the words of a 401
WAY_OUT = "copy the bot's key from Settings > Bots, and set it with `gatepost channel set`"
EVENTS = json.dumps([each.value for each in QueueEvent])


class ZulipChannel:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        self._http: PlatformHttp | None = None
        self._me = 0
        self._name = ""
        self._seen: OrderedDict[int, ZulipSeen] = OrderedDict()
        self._posting = ZulipPosting(self._connect, deps.config[TOPIC])

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._name} - {""})

    async def _connect(self) -> PlatformHttp:
        """The client, once the server has accepted the key."""
        if self._http is None:
            key, config = await self._deps.secret(API_KEY), self._deps.config
            if not key or not config[API_URL] or not config[EMAIL]:
                lacking = "the organization's address" if not config[API_URL] else "the bot's e-mail and key"
                raise ChannelEnded(EndReason.SETTING, f"the Zulip bot has not got {lacking}", WAY_OUT)
            basic = base64.b64encode(f"{config[EMAIL]}:{key}".encode()).decode()
            self._http = PlatformHttp(
                "Zulip",
                config[API_URL],
                headers={"Authorization": f"Basic {basic}", "User-Agent": "Gatepost"},
                remedy=WAY_OUT,
                find_retry_after=_find_retry_after,
                ca_file=config[CA_FILE],
            )
        if not self._me:
            me = await self._http.call("GET", "api/v1/users/me", action="read its own account")
            self._me, self._name = wire.read_number(me.get("user_id")), str(me.get("full_name", ""))
        return self._http

    async def check(self) -> BotIdentity:
        try:
            http = await self._connect()
        except ChannelEnded as error:
            if WEBHOOK_BOT not in error.why:
                raise
            why = "the bot is of the type incoming webhook, which cannot receive"
            raise ChannelEnded(EndReason.RIGHTS, why, "make one of the type Generic bot, and use its key") from None
        mine = await http.call("GET", "api/v1/users/me/subscriptions", action="list its channels")
        names = [str(each.get("name", "")) for each in mine.get("subscriptions", [])[:10]]
        return BotIdentity(
            name=f"{self._name} ({self._deps.config[EMAIL]})",
            link=f"{http.base_url}#narrow/dm/{self._me}",
            missing=() if names else ("it is in no channel: subscribe it to those in which it shall listen",),
            notes=(f"channels: {', '.join(names)}",) if names else (),
        )

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        async def connect(backoff: Backoff) -> None:
            try:
                await self._poll_queue(receive, backoff)
            except PlatformRefusal as refusal:
                if not _is_lost_queue(refusal):
                    raise
                await self._deps.cursor.save("", QUEUE)

        await stay_connected(connect, partial(LOG.info, "Zulip did not answer", instance=self._deps.instance))

    async def _poll_queue(self, receive: Receive, backoff: Backoff) -> None:
        http = await self._connect()
        queue, _, last = (await self._deps.cursor.load(QUEUE)).partition(" ")
        if not queue:
            queue, last = await self._register(receive)
        while True:
            answer = await http.call(
                "GET",
                "api/v1/events",
                params={"queue_id": queue, "last_event_id": last},
                timeout=POLL_S,
                action="read events",
            )
            self._deps.beat()
            backoff.reset()
            events = [each for each in answer.get("events", []) if isinstance(each, Mapping)]
            if not events:
                continue
            read = [inbound for event in events if (inbound := await self._read_event(event)) is not None]
            await receive_batch(read, receive)
            await self._save_newest(read)
            last = str(max(int(each.get("id", -1)) for each in events))
            await self._deps.cursor.save(f"{queue} {last}", QUEUE)

    async def _register(self, receive: Receive) -> tuple[str, str]:
        """A new queue first, then what it does not have: a message may then come twice, but not be missed."""
        http = await self._connect()
        asked = {"event_types": EVENTS, "fetch_event_types": json.dumps([]), "apply_markdown": "false"}
        answer = await http.call("POST", "api/v1/register", data=asked, reads=True, action="ask for events")
        queue, last = str(answer["queue_id"]), str(answer["last_event_id"])
        known = await self._deps.cursor.load()
        if not known:
            newest = await self._list_messages(anchor="newest", num_before=1, num_after=0)
            await self._deps.cursor.save(str(newest[-1]["id"]) if newest else "0")
        else:
            await self._receive_missed(known, receive)
        await self._deps.cursor.save(f"{queue} {last}", QUEUE)
        return queue, last

    async def _receive_missed(self, known: str, receive: Receive) -> None:
        while True:
            asked = {"anchor": known, "num_before": 0, "num_after": PAGE, "include_anchor": "false"}
            messages = await self._list_messages(**asked)
            read = [inbound for each in messages if (inbound := self._read(each, each.get("flags"))) is not None]
            await receive_batch(read, receive)
            await self._save_newest(read)
            self._deps.beat()
            if len(messages) < PAGE:
                return
            known = str(messages[-1]["id"])

    async def _list_messages(self, **asked: Any) -> list[dict[str, Any]]:
        http = await self._connect()
        params = {"apply_markdown": "false", "narrow": "[]", **asked}
        answer = await http.call("GET", "api/v1/messages", params=params, action="read messages")
        return [each for each in answer.get("messages", []) if isinstance(each, dict)]

    async def _save_newest(self, read: list[Inbound]) -> None:
        newest = max((int(each.platform_id) for each in read if each.event == "message"), default=0)
        if newest > wire.read_number(await self._deps.cursor.load()):
            await self._deps.cursor.save(str(newest))

    def _read(self, message: Mapping[str, Any], flags: Any) -> Inbound | None:
        inbound = wire.read_message(message, flags, self._me, self._open)
        if inbound is not None:
            self._seen[int(inbound.platform_id)] = ZulipSeen(
                inbound.address, inbound.thread, inbound.sender, inbound.direct
            )
            while len(self._seen) > MOST_SEEN:
                self._seen.popitem(last=False)
        return inbound

    async def _read_event(self, event: Mapping[str, Any]) -> Inbound | None:
        name, number = event.get("type"), wire.read_number(event.get("message_id"))
        if name == QueueEvent.MESSAGE:
            message = event.get("message")
            return self._read(message, event.get("flags")) if isinstance(message, Mapping) else None
        if not number or name not in list(QueueEvent):
            return None
        if number not in self._seen and name != QueueEvent.DELETED:
            await self._read_again(number)
        seen = self._seen.get(number)
        if seen is None:
            return None
        if name == QueueEvent.EDITED:
            changed = "content" in event and not event.get("rendering_only")
            return wire.read_edit(event, number, seen, self._me) if changed else None
        if name == QueueEvent.DELETED:
            return wire.read_deletion(number, seen)
        return wire.read_reaction(event, number, seen, self._me) if event.get("op") == wire.ADDED else None

    async def _read_again(self, number: int) -> None:
        """Remember where a message is that an event names; one that is gone meanwhile, or not ours to see, is not."""
        http = await self._connect()
        asked = {"apply_markdown": "false"}
        with suppress(PlatformRefusal):
            answer = await http.call("GET", f"api/v1/messages/{number}", params=asked, action="read a message")
            self._read(answer.get("message") or {}, None)

    def _open(self, path: str) -> OpenFile:
        async def read() -> AsyncIterator[bytes]:
            http = await self._connect()
            answer = await http.call("GET", f"api/v1{path}", action="read a file")  # gives a short-lived address
            async for chunk in http.download(str(answer["url"])):
                yield chunk

        return read

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        await self._connect()
        place = wire.parse_address(address)
        where = {"operator": "stream", "operand": place.stream}
        narrow = [where if place.stream else {"operator": "dm", "operand": list(place.people)}]
        asked = {"narrow": json.dumps(narrow), "anchor": "newest", "num_before": PAGE, "num_after": 0}
        read = [self._read(each, each.get("flags")) for each in await self._list_messages(**asked)]
        kept = [each for each in read if each is not None and (before is None or (each.at or 0) < before)]
        return [replace(each, sender=MYSELF, own=False) if each.own else each for each in kept[-limit:]]

    async def open_direct(self, sender: str) -> str:
        http, user = await self._connect(), wire.read_number(sender.removeprefix("zulip:user/"))
        try:
            await http.call("GET", f"api/v1/users/{user}", action="find somebody")
        except PlatformRefusal:
            raise NotFound("person", sender) from None
        return f"zulip:direct/{user}"

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        return await self._posting.send(address, message)

    async def mark_read(self, address: str, thread: str, messages: tuple[str, ...]) -> None:
        await self._posting.mark_read(messages)

    async def typing(self, address: str, thread: str, on: bool) -> None:
        await self._posting.send_typing(address, thread, on)


def _is_lost_queue(refusal: PlatformRefusal) -> bool:
    return isinstance(refusal.answer, Mapping) and refusal.answer.get("code") == "BAD_EVENT_QUEUE_ID"


def _find_retry_after(response: httpx2.Response, answer: Any) -> float | None:
    wait_s = answer.get("retry-after") if isinstance(answer, Mapping) else None
    return float(wait_s) if isinstance(wait_s, int | float) else None
