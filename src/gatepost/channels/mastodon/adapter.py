"""The account at a Mastodon server.

The list of notifications is what counts: it is read from the cursor on, in order. The stream rings when there is more
to read; it also brings edits and deletions, which are in no list.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx2

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff, unwrap_group
from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal, open_download
from gatepost.channels.kit.receiving import make_deletion, receive_batch
from gatepost.channels.mastodon import API_URL, CA_FILE, TOKEN, VISIBILITY, wire
from gatepost.channels.mastodon.posting import MastodonPosting
from gatepost.channels.mastodon.wire import MastodonAccount, NoteType, StreamEvent
from gatepost.core import log
from gatepost.core.errors import NotFound, Unavailable
from gatepost.messages.inbound import Inbound, OpenFile
from gatepost.messages.outbound import Outbound

Value = TypeVar("Value")
LOG = log.get("channels")
PAGE = 40
POLL_S = 60.0  # the list is read so often even if nobody rings
MOST_KNOWN = 5000
MOST_WAITING = 500
WAY_OUT = "make a new token under Preferences > Development, and set it with `gatepost channel set`"


class MastodonChannel:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        self._http: PlatformHttp | None = None
        self._stream: PlatformHttp | None = None
        self._own = MastodonAccount("", "")
        self._roots: OrderedDict[str, str] = OrderedDict()  # the first post of a post's conversation
        self._seen: OrderedDict[str, Inbound] = OrderedDict()
        self._posting = MastodonPosting(self._connect, deps.config[VISIBILITY], self._remember_root)

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._own.acct} - {""})

    async def _connect(self) -> PlatformHttp:
        """The client, once the server has accepted the token."""
        if self._http is None:
            token, url = await self._deps.secret(TOKEN), self._deps.config[API_URL]
            if not token or not url:
                lacking = "a token" if url else "the address of its server"
                raise ChannelEnded(EndReason.SETTING, f"the Mastodon account has not got {lacking}", WAY_OUT)
            self._http = self._make_http(url, token)
        if not self._own.id:
            me = await self._http.call("GET", "api/v1/accounts/verify_credentials", action="read its own account")
            self._own = wire.read_account(me) or MastodonAccount("", "")
        return self._http

    def _make_http(self, url: str, token: str) -> PlatformHttp:
        headers = {"Authorization": f"Bearer {token}"}
        return PlatformHttp(
            "Mastodon",
            url,
            headers=headers,
            remedy=WAY_OUT,
            find_retry_after=_find_retry_after,
            ca_file=self._deps.config[CA_FILE],
        )

    async def check(self) -> BotIdentity:
        try:
            http = await self._connect()
            me = await http.call("GET", "api/v1/accounts/verify_credentials", action="read its own account")
            await self._list_notes(limit=1)
        except PlatformRefusal as refusal:
            raise _lacks_scope("read", refusal) from None
        await self._check_writing(http)
        instance = await http.call("GET", "api/v2/instance", action="read the server's limits")
        limit = _get_in(instance, "configuration", "statuses", "max_characters")
        bot = () if me.get("bot") else ("tick 'This is an automated account' in its profile",)
        return BotIdentity(
            name=f"@{self._own.acct}",
            link=str(me.get("url") or ""),
            notes=(f"posts of {limit or 500} characters", *bot),
        )

    async def _check_writing(self, http: PlatformHttp) -> None:
        """By a post without words, which the server refuses for that alone if the token may write. Mastodon tells the
        scopes of the application, not those of the token."""
        try:
            await http.call("POST", "api/v1/statuses", json={}, reads=True, action="make a post")
        except PlatformRefusal as refusal:
            if refusal.status == 403:
                raise _lacks_scope("write", refusal) from None

    async def close(self) -> None:
        for each in (self._http, self._stream):
            if each is not None:
                await each.close()
        self._http = self._stream = None

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        bell, changes = asyncio.Event(), asyncio.Queue[Inbound](MOST_WAITING)

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read_stream(bell, changes))
                group.create_task(self._read_list(bell, receive))
                group.create_task(_receive_changes(changes, receive))

        await unwrap_group(run)

    async def _read_list(self, bell: asyncio.Event, receive: Receive) -> None:
        backoff = Backoff()
        while True:
            bell.clear()
            try:
                await self._receive_notes(receive)
                backoff.reset()
            except Unavailable as error:
                LOG.info("Mastodon did not answer", instance=self._deps.instance, error=str(error))
                await backoff.wait(error.retry_after)
                continue
            try:
                async with asyncio.timeout(POLL_S):
                    await bell.wait()
            except TimeoutError:
                continue

    async def _receive_notes(self, receive: Receive) -> None:
        """All that is newer than the cursor, oldest first."""
        await self._connect()
        known = await self._deps.cursor.load()
        if not known:
            newest = await self._list_notes(limit=1)
            await self._deps.cursor.save(str(newest[0]["id"]) if newest else "0")
            self._deps.beat()
            return
        while True:
            notes = (await self._list_notes(min_id=known, limit=PAGE))[::-1]
            self._deps.beat()
            if not notes:
                return
            events = [event for note in notes if (event := await self._read_note(note)) is not None]
            await receive_batch(events, receive)
            known = str(notes[-1]["id"])
            await self._deps.cursor.save(known)

    async def _list_notes(self, **asked: Any) -> list[dict[str, Any]]:
        http = await self._connect()
        params = {**asked, "types[]": [each.value for each in NoteType]}
        found = await http.call("GET", "api/v1/notifications", params=params, action="read notifications")
        return [each for each in found if isinstance(each, dict) and wire.ID.match(str(each.get("id", "")))]

    async def _read_note(self, note: Mapping[str, Any]) -> Inbound | None:
        status = note.get("status")
        match note.get("type"):
            case NoteType.FOLLOW:
                return wire.read_follow(note)
            case NoteType.FAVOURITE if isinstance(status, Mapping):
                return wire.read_favourite(note, await self._find_root(status))
            case NoteType.MENTION if isinstance(status, Mapping):
                return await self._read_status(status)
        return None

    async def _read_status(self, status: Mapping[str, Any]) -> Inbound | None:
        read = wire.read_status(status, await self._find_root(status), self._own, self._open)
        if read is not None:
            _remember(self._seen, read.platform_id, read)
        return read

    async def _find_root(self, status: Mapping[str, Any]) -> str:
        """The first post of a conversation, as far as the server has it."""
        number, answers = str(status.get("id", "")), str(status.get("in_reply_to_id") or "")
        if not wire.ID.match(answers) or not wire.ID.match(number):
            return number
        if answers not in self._roots and number not in self._roots:
            http = await self._connect()
            try:
                context = await http.call("GET", f"api/v1/statuses/{number}/context", action="read a conversation")
                before = context.get("ancestors") or [status]
                self._remember_root(number, str(before[0].get("id", number)))
            except PlatformRefusal:
                self._remember_root(number, answers)  # it is gone meanwhile
        root = self._roots.get(number) or self._roots[answers]
        self._remember_root(number, root)
        return root

    def _remember_root(self, number: str, root: str) -> None:
        _remember(self._roots, number, root)

    async def _read_stream(self, bell: asyncio.Event, changes: asyncio.Queue[Inbound]) -> None:
        backoff = Backoff()
        while True:
            try:
                lines, stream, is_new = wire.EventLines(), await self._open_stream(), True
                async for chunk in stream.download("api/v1/streaming/user", action="read its stream"):
                    self._deps.beat()
                    if is_new:  # what came between two streams is in the list
                        backoff.reset()
                        bell.set()
                        is_new = False
                    for name, data in lines.feed(chunk):
                        await self._read_stream_event(name, data, bell, changes)
            except (Unavailable, PlatformRefusal, ValueError) as error:
                LOG.info("Mastodon's stream ended", instance=self._deps.instance, error=str(error))
            await backoff.wait()

    async def _open_stream(self) -> PlatformHttp:
        if self._stream is None:
            http = await self._connect()
            instance = await http.call("GET", "api/v2/instance", action="find its stream")
            stream_url = _get_in(instance, "configuration", "urls", "streaming")
            self._stream = self._make_http(
                wire.find_stream_url(http.base_url, stream_url), await self._deps.secret(TOKEN)
            )
        return self._stream

    async def _read_stream_event(
        self, name: str, data: str, bell: asyncio.Event, changes: asyncio.Queue[Inbound]
    ) -> None:
        if name == StreamEvent.NOTIFICATION:
            bell.set()
        elif name == StreamEvent.DELETED and (seen := self._seen.get(data)) is not None:
            await changes.put(make_deletion(seen))
        elif name == StreamEvent.EDITED:
            status = json.loads(data)
            if isinstance(status, Mapping) and str(status.get("id")) in self._seen:
                read = await self._read_status(status)
                if read is not None:
                    await changes.put(wire.read_edit(read, status))

    def _open(self, url: str) -> OpenFile:
        return open_download(self._connect, url)

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        return await self._posting.send(address, message)

    async def open_direct(self, sender: str) -> str:
        http, account = await self._connect(), wire.get_account_id(sender)
        try:
            await http.call("GET", f"api/v1/accounts/{account}", action="find somebody")
        except PlatformRefusal:
            raise NotFound("person", sender) from None
        return f"mastodon:direct/{account}"


async def _receive_changes(changes: asyncio.Queue[Inbound], receive: Receive) -> None:
    while True:
        await receive_batch([await changes.get()], receive)


def _remember(memory: OrderedDict[str, Value], key: str, value: Value) -> None:
    memory[key] = value
    while len(memory) > MOST_KNOWN:
        memory.popitem(last=False)


def _get_in(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _lacks_scope(scope: str, refusal: PlatformRefusal) -> ChannelEnded:
    why = f"the token lacks the scope {scope} ({refusal.detail})"
    return ChannelEnded(EndReason.RIGHTS, why, "make one with the scopes read and write")


def _find_retry_after(response: httpx2.Response, answer: Any) -> float | None:
    """Mastodon names the moment at which the window ends."""
    try:
        end = datetime.fromisoformat(response.headers.get("x-ratelimit-reset", ""))
    except ValueError:
        return None
    return max((end - datetime.now(UTC)).total_seconds(), 0.0)
