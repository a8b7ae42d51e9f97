"""A BlueBubbles server: asked for new rows of the Mac's database, and told what to say."""

import asyncio
import hashlib
from functools import partial
from typing import Any
from urllib.parse import quote

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.imessage import API_URL, CA_FILE, PASSWORD, POLL_S, wire
from gatepost.channels.kit.backoff import Backoff, stay_connected
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.core import log
from gatepost.core.errors import GatepostError, NotFound, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.messages.inbound import Attachment
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("channels")
WAY_OUT = "set the password of the BlueBubbles server with `gatepost channel set`"
WINDOW = 500  # rows at once, below the server's limit of a page
NEWEST = 50
ENDLESS = 1 << 53
QUEUED = "already queued"  # the same message, by an earlier try that is not done
UNDELIVERED = "iMessage Error"
SEND_S = 28.0  # the server answers once Messages has sent it


class BlueBubbles:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._url = deps, deps.config[API_URL]
        self._poll_s = max(deps.config[POLL_S], 0.01)
        self._client: PlatformHttp | None = None

    async def listen(self, receive: Receive) -> None:
        receive = skip_invalid(receive)

        async def poll(backoff: Backoff) -> None:
            more = await self._poll(receive)
            self._deps.beat()
            backoff.reset()
            if not more:
                await asyncio.sleep(self._poll_s)

        await stay_connected(poll, partial(LOG.debug, "BlueBubbles did not answer", instance=self._deps.instance))

    async def _poll(self, receive: Receive) -> bool:
        """Return True if there may be more right now."""
        cursor = await self._deps.cursor.load()
        if not cursor:  # what was said before the bot was there is not its own
            newest = wire.read_messages(await self._query({"limit": NEWEST, "sort": "DESC"}))
            await self._deps.cursor.save(str(newest[-1].row if newest else 0), durable=True)
            return True
        start = int(cursor)
        found = wire.read_messages(await self._query(wire.render_query(start, start + WINDOW)))
        async with RoomQueues(save=self._deps.cursor.save) as queues:
            for message in found:
                room = "" if message.inbound is None else message.inbound.address
                await queues.put(room, partial(self._receive, receive, message), mark=str(message.row))
            await queues.drain()
        return bool(found) or await self._skip_gap(start)

    async def _skip_gap(self, start: int) -> bool:
        """Rows of deleted messages are missing: go on behind them, if there is anything."""
        beyond = wire.read_messages(await self._query({**wire.render_query(start + WINDOW, ENDLESS), "limit": 1}))
        if beyond:
            await self._deps.cursor.save(str(start + WINDOW))
        return bool(beyond)

    async def _receive(self, receive: Receive, message: wire.AppleMessage) -> None:
        if message.inbound is None:
            return
        files = tuple(
            Attachment(name=each.name, mime=each.mime, size=each.size, open=partial(self._download, each.guid))
            for each in message.files
        )
        await receive(replace(message.inbound, attachments=files))

    async def _download(self, guid: str) -> Any:
        http, password = await self._connect()
        path = f"api/v1/attachment/{quote(guid, safe='')}/download?password={quote(password, safe='')}"
        async for chunk in http.download(path):
            yield chunk

    async def _query(self, body: dict[str, Any]) -> Any:
        http, password = await self._connect()
        return await http.call(
            "POST", "api/v1/message/query", action="read messages", reads=True, params={"password": password}, json=body
        )

    async def send(self, address: str, message: Outbound) -> str:
        chat = wire.parse_chat(address)
        if chat is None:
            raise NotFound("room", address, "a room is imessage:<the guid of a chat>")
        if message.op not in (Op.SEND, Op.STATUS):
            raise Unsupported(message.op, "iMessage", "send a new message")
        http, password = await self._connect()
        # The server refuses a second send under this id only while the first is under way: that is no deduplication.
        temporary = "gp-" + hashlib.sha256(message.key.encode()).hexdigest()[:32]
        body = {"chatGuid": chat, "tempGuid": temporary, "message": message.text, "method": "apple-script"}
        answer = await http.call(
            "POST",
            "api/v1/message/text",
            action="send a message",
            params={"password": password},
            json=body,
            timeout=SEND_S,
        )
        guid = wire.read_guid(answer)
        if guid is None:
            raise Unavailable("BlueBubbles", "it answered without an id", uncertain=True)
        return guid

    async def check(self) -> BotIdentity:
        http, password = await self._connect()
        answer = await http.call("GET", "api/v1/server/info", action="ask who we are", params={"password": password})
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict) or "server_version" not in data:
            raise ChannelEnded(EndReason.SETTING, f"{self._url} is no BlueBubbles server", "mend api_url")
        account = data.get("detected_imessage") or "an account that the server does not name"
        return BotIdentity(name=f"{account} (BlueBubbles {data['server_version']})")

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connect(self) -> tuple[PlatformHttp, str]:
        """The password is read each time: it stands in each address, and in no header."""
        password = await self._deps.secret(PASSWORD)
        if not password:
            raise ChannelEnded(EndReason.TOKEN, "the password of the BlueBubbles server is not set", WAY_OUT)
        if self._client is None:
            ca_file = self._deps.config[CA_FILE]
            self._client = PlatformHttp(
                "BlueBubbles", self._url, remedy=WAY_OUT, read_error=_read_error, ca_file=ca_file
            )
        return self._client, password


def _read_error(given: PlatformAnswer) -> GatepostError | None:
    """The words are below `error`; those above it are the same for every error of a status."""
    error = given.body.get("error") if isinstance(given.body, dict) else None
    if not isinstance(error, dict) or given.status == 401:
        return None
    words, data = str(error.get("message") or ""), given.body.get("data")
    if QUEUED in words:
        return Unavailable("BlueBubbles", "the message is under way already", uncertain=True)
    code = data.get("error") if isinstance(data, dict) else None
    if error.get("type") == UNDELIVERED and code:  # Messages has it, and shows that it was not delivered
        return PlatformRefusal("BlueBubbles", given.action, given.status, given.body, f"{words} {code}")
    if 400 <= given.status < 500:
        return PlatformRefusal("BlueBubbles", given.action, given.status, given.body, words)
    return None
