"""A BlueBubbles server: new messages by asking for the rows after the last one, woken by its webhook.

The webhook carries no signature and is not repeated, so nothing that it says is believed: it only makes us ask. The
server recognizes a repeated message only while it is sending it, so one whose answer got lost is uncertain.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from gatepost.channels.contract import (
    BotIdentity,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    HookRequest,
    HookResponse,
    Receive,
)
from gatepost.channels.imessage import API_URL, PASSWORD, POLL_S, WEBHOOK_SECRET, wire
from gatepost.channels.kit.batches import Backoff, receive_batch, unwrap_group
from gatepost.channels.kit.hooks import is_same
from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal
from gatepost.core import log
from gatepost.core.errors import Unavailable, Unsupported
from gatepost.messages.inbound import OpenFile
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("channels")
PAGE = 500
SEND_S = 28.0  # Messages takes its time; below delivery.timeout_s
WAY_OUT = "copy the password from BlueBubbles Server, and set it with `gatepost channel set`"
QUEUED = "already queued"  # what the server says of a message that it is just sending


class BlueBubblesMac:
    def __init__(self, around: ChannelDeps) -> None:
        self._around, self._config = around, around.config
        self._http: PlatformHttp | None = None
        self._woken = asyncio.Event()

    async def listen(self, receive: Receive) -> None:
        backoff = Backoff()
        while True:
            self._woken.clear()
            try:
                await unwrap_group(lambda: self._receive_new(receive))
            except Unavailable as error:
                LOG.info("BlueBubbles did not answer", instance=self._around.instance, error=str(error))
                await backoff.wait(error.retry_after)
                continue
            self._around.beat()
            backoff.reset()
            await self._wait()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._config[POLL_S]):
                await self._woken.wait()
        except TimeoutError:
            return

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        if not is_same(request.query.get("token", ""), await self._around.secret(WEBHOOK_SECRET)):
            return HookResponse(status=403)
        self._woken.set()
        return HookResponse()

    async def _receive_new(self, receive: Receive) -> None:
        last = await self._around.cursor.load()
        if not last:  # what was said before the bot came is not for it
            newest = await self._list(sort="DESC", limit=1)
            await self._around.cursor.save(str(max(map(wire.read_row, newest), default=0)))
            return
        rows, offset = int(last), 0
        while True:
            where = [{"statement": "message.ROWID > :row", "args": {"row": int(last)}}]
            page = await self._list(sort="ASC", limit=PAGE, offset=offset, where=where)
            read = [wire.read_message(each, self._open) for each in page]
            await receive_batch([each for each in read if each is not None], receive)
            rows, offset = max([rows, *map(wire.read_row, page)]), offset + PAGE
            if len(page) < PAGE:  # they come by their dates, so only now is none of them left out
                break
        if rows > int(last):
            await self._around.cursor.save(str(rows))

    async def _list(self, **asked: Any) -> list[Mapping[str, Any]]:
        body = {"with": ["chat", "attachment"], **asked}
        answer = await self._call("POST", "api/v1/message/query", action="read messages", json=body, reads=True)
        listed = answer.get("data") if isinstance(answer, Mapping) else None
        return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []

    def _open(self, number: str) -> OpenFile:
        async def read() -> AsyncIterator[bytes]:
            http, params = await self._connect(), urlencode(await self._get_params())
            async for chunk in http.download(f"api/v1/attachment/{quote(number, safe='')}/download?{params}"):
                yield chunk

        return read

    async def send(self, address: str, message: Outbound) -> str:
        chat = wire.parse_address(address)
        if message.op not in (Op.SEND, Op.FILE, Op.CARD, Op.VOICE):
            raise Unsupported(message.op.value, "imessage", "use send with the same text")
        body = {
            "chatGuid": chat,
            "tempGuid": wire.get_temporary_id(message.key),
            "message": message.text,
            "method": "apple-script",
        }
        try:
            answer = await self._call("POST", "api/v1/message/text", action="send a message", json=body, timeout=SEND_S)
        except PlatformRefusal as refusal:
            if QUEUED not in refusal.detail:
                raise
            raise Unavailable("BlueBubbles", "it is still sending the message", uncertain=True) from None
        made = answer.get("data") if isinstance(answer, Mapping) else None
        sent = made.get("guid") if isinstance(made, Mapping) else None
        if not isinstance(sent, str) or not sent:
            raise Unavailable("BlueBubbles", "its answer names no message", uncertain=True)
        return sent

    async def check(self) -> BotIdentity:
        answer = await self._call("GET", "api/v1/server/info", action="read what it is")
        info = answer.get("data") if isinstance(answer, Mapping) else None
        facts = info if isinstance(info, Mapping) else {}
        account = str(facts.get("detected_imessage") or facts.get("detected_icloud") or "an unknown account")
        secret = await self._around.secret(WEBHOOK_SECRET)
        asking = f"no webhook secret is set: messages come by asking, every {self._config[POLL_S]:g} s"
        return BotIdentity(
            name=f"{account} (BlueBubbles {facts.get('server_version', '?')}, macOS {facts.get('os_version', '?')})",
            notes=() if secret else (asking,),
        )

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _call(self, method: str, path: str, **more: Any) -> Any:
        http = await self._connect()
        return await http.call(method, path, params=await self._get_params(), **more)

    async def _get_params(self) -> dict[str, str]:
        """The server reads its password there alone."""
        password = await self._around.secret(PASSWORD)
        if not password:
            raise ChannelEnded(EndReason.TOKEN, "channels.imessage.password is not set", WAY_OUT)
        return {"password": password}

    async def _connect(self) -> PlatformHttp:
        if self._http is None:
            if not self._config[API_URL]:
                raise ChannelEnded(EndReason.SETTING, "channels.imessage.api_url is not set", "set it")
            self._http = PlatformHttp("BlueBubbles", self._config[API_URL], way_out=WAY_OUT)
        return self._http
