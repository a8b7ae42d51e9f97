"""Topics of an ntfy server: one stream for all of them, and a publication for what is said."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal
from gatepost.channels.kit.room_queues import retry_until_done
from gatepost.channels.ntfy import API_URL, PROTECTED, TOKEN, TOPICS, wire
from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.messages.inbound import Attachment
from gatepost.messages.outbound import Op, Outbound

WAY_OUT = "set a valid access token with `gatepost channel set`"
STREAM_S = 120.0  # without a line; the server writes one every 45 s
LONGEST_LINE = 256 * 1024
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 30.0


class NtfyTopics:
    def __init__(self, around: ChannelDeps) -> None:
        self._around, self._url = around, around.config[API_URL]
        self._topics, self._protected = around.config[TOPICS], around.config[PROTECTED]
        self._clients: dict[float, PlatformHttp] = {}

    async def listen(self, receive: Receive) -> None:
        http = await self._connect(STREAM_S)
        wait = FIRST_WAIT_S
        while True:
            beats = self._around.pulse.beats if self._around.pulse is not None else 0
            try:
                await self._follow(http, receive)
            except Unavailable:
                pass  # it broke off, or cannot be reached: once more, later each time
            except PlatformRefusal as error:
                raise self._explain(error) from None
            alive = self._around.pulse is not None and self._around.pulse.beats > beats
            wait = FIRST_WAIT_S if alive else min(2 * wait, LONGEST_WAIT_S)
            await asyncio.sleep(wait)

    async def _follow(self, http: PlatformHttp, receive: Receive) -> None:
        since = await self._around.cursor.load()
        if not since:  # what was said before the bot was there is not its own
            since = str(self._around.clock.now() // SECOND)
            await self._around.cursor.save(since, durable=True)
        stream = http.download(f"{','.join(self._topics)}/json?since={since}", action="listen")
        async for line in _split_lines(stream):
            self._around.beat()
            message = wire.read_line(line, self._protected, self._url)
            if message is not None and message.inbound.address.partition(":")[2] in self._topics:
                await retry_until_done(partial(self._receive, http, receive, message))
                await self._around.cursor.save(message.inbound.platform_id)

    async def _receive(self, http: PlatformHttp, receive: Receive, message: wire.NtfyMessage) -> None:
        inbound, file = message.inbound, message.file
        if file is not None:
            attached = Attachment(name=file.name, mime=file.mime, size=file.size, open=partial(http.download, file.url))
            inbound = replace(inbound, attachments=(attached,))
        await receive(inbound)

    async def send(self, address: str, message: Outbound) -> str:
        topic = wire.parse_topic(address)
        if topic is None or topic not in self._topics:
            raise NotFound("room", address, f"the topics are: {', '.join(self._topics)}")
        if message.op not in (Op.SEND, Op.STATUS):
            raise Unsupported(message.op, "ntfy", "send a new message")
        http = await self._connect()
        answer = await http.call("POST", "", action="publish", json=wire.render_publication(topic, message))
        found = wire.read_id(answer)
        if found is None:
            raise Unavailable("ntfy", "it answered without an id", uncertain=True)
        return found

    async def check(self) -> BotIdentity:
        http = await self._connect()
        notes = () if self._protected else ("what comes is marked as untrusted: the setting protected changes that",)
        for topic in self._topics:
            try:
                await http.call("GET", f"{topic}/json?poll=1&since=1s", action=f"read {topic}")
            except PlatformRefusal as error:
                raise self._explain(error) from None
        return BotIdentity(name=f"topics {', '.join(self._topics)}", link=f"{self._url}/{self._topics[0]}", notes=notes)

    def _explain(self, error: PlatformRefusal) -> ChannelEnded:
        if error.status == 403:
            return ChannelEnded(EndReason.RIGHTS, f"ntfy does not let us read the topics ({error.detail})", WAY_OUT)
        return ChannelEnded(EndReason.SETTING, str(error), "mend channels.ntfy.api_url or channels.ntfy.topics")

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for each in clients.values():
            await each.close()

    async def _connect(self, timeout: float = 25.0) -> PlatformHttp:
        wrong = [each for each in self._topics if not wire.TOPIC.match(each)]
        if wrong or not self._topics:
            why = f"{wrong[0]!r} is no topic" if wrong else "there is no topic to listen on"
            raise ChannelEnded(EndReason.SETTING, why, "name them: letters, digits, - and _, at most 64")
        if timeout not in self._clients:
            token = await self._around.secret(TOKEN)
            headers = {"authorization": f"Bearer {token}"} if token else {}
            self._clients[timeout] = PlatformHttp("ntfy", self._url, headers=headers, timeout=timeout, way_out=WAY_OUT)
        return self._clients[timeout]


async def _split_lines(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise Unavailable("ntfy", "it sends a line without an end")
        for line in lines:
            yield line
