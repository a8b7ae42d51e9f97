"""An ntfy server: a stream of lines per topic, and messages by one request each.

Our own messages carry a sequence that is made from their key. By it they are known when the topic repeats them, found
again in the server's cache, renewed and removed. The server keeps messages for twelve hours unless it says otherwise.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff, retry_until_done, stay_connected, unwrap_group
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal, open_download
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.kit.send_attempts import SendAttempts
from gatepost.channels.ntfy import API_URL, CA_FILE, TOKEN, TOPICS, wire
from gatepost.core import log
from gatepost.core.clock import HOUR
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.inbound import OpenFile, UnrecordedState
from gatepost.messages.markdown.blocks import clean_text
from gatepost.messages.markdown.markup import GITHUB, render
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("channels")
STREAM_S = 100.0  # a line comes every 45 seconds at least
MOST_TOPICS = 20
MOST_SEEN = 5_000
LARGEST_MESSAGE = 4096  # bytes; the server makes a file of more, or refuses it
REPLENISHED_S = 5.0  # in which the server allows one request more, unless it is set otherwise; it does not say so
LONGEST_LINE = 64 * 1024
CACHED_FOR = 2 * HOUR  # for so long a message is surely in the server's cache
WAY_OUT = "make a new access token and set it with `gatepost channel set`"
UPDATE = "update the ntfy server to 2.16 or newer"


def render_text(text: str) -> str:
    """Return a text with its marks. One that escapes would make too long goes as it was written."""
    rendered = render(text, GITHUB)
    if len(rendered.encode()) <= LARGEST_MESSAGE:
        return rendered
    return clean_text(text).replace("\ufffd", "?")


class NtfyTopics:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        topics: tuple[str, ...] = deps.config[TOPICS]
        self._topics = tuple(dict.fromkeys(topics))
        self._http: PlatformHttp | None = None
        self._seen: OrderedDict[tuple[str, str], str] = OrderedDict()  # (topic, sequence) -> the message's own id
        self._attempts = SendAttempts(deps.cursor, deps.clock)
        self._is_old = False

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        self._check_topics()
        await unwrap_group(lambda: self._listen_everywhere(skip_invalid(receive)))

    async def _listen_everywhere(self, receive: Receive) -> None:
        async with asyncio.TaskGroup() as group:
            for topic in self._topics:
                group.create_task(self._listen_to(topic, receive))

    async def _listen_to(self, topic: str, receive: Receive) -> None:
        report = partial(LOG.info, "ntfy did not answer", instance=self._deps.instance)
        try:
            await stay_connected(partial(self._read_stream, topic, receive), report)
        except PlatformRefusal as refusal:
            if refusal.status != 403:
                raise
            raise _no_right(topic) from None

    async def _read_stream(self, topic: str, receive: Receive, backoff: Backoff) -> None:
        since = await self._deps.cursor.load(topic)
        async with aclosing(self._list_lines(f"{topic}/json?since={since or 'none'}")) as lines:
            async for line in lines:
                self._check_age()
                self._deps.beat()
                backoff.reset()
                if line.get("event") == wire.NtfyEvent.OPEN and not since:
                    since = str(wire.read_seconds(line))  # what is said from now on, also if this connection breaks
                    await self._deps.cursor.save(since, topic)
                await self._receive_line(topic, line, receive)
                if line.get("event") in (wire.NtfyEvent.MESSAGE, wire.NtfyEvent.DELETED) and wire.read_id(line):
                    since = wire.read_id(line)
                    await self._deps.cursor.save(since, topic)
        raise Unavailable("ntfy", "it ended the stream")

    async def _list_lines(self, path: str) -> AsyncGenerator[Mapping[str, Any], None]:
        http, rest = await self._connect(), b""
        async with aclosing(http.download(path, action="read a topic")) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > LONGEST_LINE:
                    raise Unavailable("ntfy", "it sent a line that is too long")
                for line in lines:
                    if (read := _decode(line)) is not None:
                        yield read

    async def _receive_line(self, topic: str, line: Mapping[str, Any], receive: Receive) -> None:
        sequence, number = wire.read_sequence(line), wire.read_id(line)
        first = self._seen.get((topic, sequence))
        event = wire.read_line(topic, line, edited=first not in (None, number), open_file=self._open)
        if event is None:
            return
        receipt = await retry_until_done(partial(receive, event))
        is_known = not event.own and not receipt.new and receipt.state is not UnrecordedState.INVALID
        if first is None and is_known and number != sequence:
            # The message is older than this process, and this is what became of it.
            edit = wire.read_line(topic, line, edited=True, open_file=self._open)
            assert edit is not None
            await retry_until_done(partial(receive, edit))
        self._seen.setdefault((topic, sequence), number)
        while len(self._seen) > MOST_SEEN:
            self._seen.popitem(last=False)

    def _open(self, url: str) -> OpenFile | None:
        return open_download(self._connect, url) if wire.is_below(url, self._deps.config[API_URL]) else None

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        topic = self._get_topic(address)
        match message.op:
            case Op.SEND | Op.FILE | Op.CARD | Op.VOICE:
                return await self._publish_once(topic, message)
            case Op.EDIT:
                return await self._publish(topic, _check_own(message.target), message.text, "edit a message")
            case Op.DELETE:
                path = f"{topic}/{_check_own(message.target)}"
                await self._call("DELETE", path, action="delete a message")
                return message.target
        raise Unsupported(message.op.value, "ntfy", "use send with the same text")

    async def _publish_once(self, topic: str, message: Outbound) -> str:
        async with self._attempts.attempt(message.key):
            return await self._publish(topic, wire.get_sequence(message.key), message.text, "send a message")

    async def _publish(self, topic: str, sequence: str, text: str, action: str) -> str:
        body = wire.render_message(topic, sequence, render_text(text))
        answer = await self._call("POST", "", action=action, json=body)
        if not isinstance(answer, Mapping) or answer.get("sequence_id") != sequence:
            self._is_old = True  # it was published; from now on nothing is, and `listen` says why
        return sequence

    async def look_up(self, address: str, key: str) -> str | None:
        topic, sequence = self._get_topic(address), wire.get_sequence(key)
        attempt = await self._attempts.find(key)
        if attempt is None:
            return None
        async for line in self._list_lines(f"{topic}/json?poll=1&since=all"):
            if wire.read_sequence(line) == sequence:
                return sequence
        if attempt.at < self._deps.clock.now() - CACHED_FOR:
            raise Refused("this bot", "find the message", address, "the server may have forgotten it")
        return None

    async def _call(self, method: str, path: str, **more: Any) -> Any:
        self._check_age()
        http = await self._connect()
        return await http.call(method, path, **more)

    # The connection.

    async def check(self) -> BotIdentity:
        self._check_topics()
        http = await self._connect()
        health = await http.call("GET", "v1/health", action="ask how it is")
        if not isinstance(health, Mapping) or health.get("healthy") is not True:
            raise Unavailable("ntfy", "it says that it is not well")
        account = await http.call("GET", "v1/account", action="read its own account")
        for topic in self._topics:
            try:
                await http.call("GET", f"{topic}/auth", action=f"read {topic}")
            except PlatformRefusal:
                raise _no_right(topic) from None
        name = str(account.get("username") or "") if isinstance(account, Mapping) else ""
        return BotIdentity(
            name=f"{'anybody' if name in ('', '*') else name} at {http.base_url.rstrip('/')}",
            link=f"{http.base_url}{self._topics[0]}",
            notes=("nobody who writes in a topic is proved", "the server must be ntfy 2.16 or newer"),
        )

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _connect(self) -> PlatformHttp:
        if self._http is None:
            token = await self._deps.secret(TOKEN)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            self._http = PlatformHttp(
                "ntfy",
                self._deps.config[API_URL],
                headers=headers,
                remedy=WAY_OUT,
                timeout=STREAM_S,
                read_error=_read_error,
                ca_file=self._deps.config[CA_FILE],
            )
        return self._http

    def _check_age(self) -> None:
        if self._is_old:
            why = "the ntfy server is too old: it does not name our own messages, so the bot would answer itself"
            raise ChannelEnded(EndReason.SETTING, why, UPDATE)

    def _check_topics(self) -> None:
        wrong = [name for name in self._topics if not wire.is_topic(name)]
        if wrong or not 0 < len(self._topics) <= MOST_TOPICS:
            why = f"{wrong[0]!r} is no topic" if wrong else f"channels.ntfy.topics has {len(self._topics)} topics"
            remedy = f"name one to {MOST_TOPICS}, each of letters, digits, - and _"
            raise ChannelEnded(EndReason.SETTING, why, remedy)

    def _get_topic(self, address: str) -> str:
        """Only what the operator named: a topic is a password, and an agent shall not try others."""
        topic = wire.parse_address(address)
        if topic not in self._topics:
            raise NotFound("room", address, f"the topics are: {', '.join(self._topics)}")
        return topic


def _read_error(given: PlatformAnswer) -> Unavailable | None:
    """The server counts by visitor, not by topic."""
    if given.status != 429:
        return None
    wait = REPLENISHED_S if given.retry_after is None else given.retry_after
    return Unavailable("ntfy", "it asks us to wait", retry_after=wait, everywhere=True)


def _no_right(topic: str) -> ChannelEnded:
    why = f"ntfy does not let this token read the topic {topic}"
    return ChannelEnded(EndReason.RIGHTS, why, "give it read and write access there, or set another token")


def _check_own(target: str) -> str:
    if not target.startswith(wire.OWN) or not wire.is_topic(target):
        raise NotFound("message", target[:40], "only the bot's own messages can be changed")
    return target


def _decode(line: bytes) -> Mapping[str, Any] | None:
    try:
        read = json.loads(line) if line.strip() else None
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, Mapping) else None
