"""Signal through signal-cli: events from its stream, calls by JSON-RPC.

Signal gives a message no key of ours and lets nobody list what was sent. So a send whose answer was lost ends as
uncertain.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from functools import partial

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.kit.uploads import open_upload
from gatepost.channels.signal import ACCOUNT, CA_FILE, CHECK_S, URL, wire
from gatepost.channels.signal.rpc import DaemonEvent, SignalRpc
from gatepost.core import log
from gatepost.core.errors import Invalid, NotFound, Unavailable
from gatepost.messages.inbound import Inbound, OpenFile
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost.messages.text import may_stop

CHUNK = 48 * 1024  # a multiple of three, so that base64 has no padding in the middle
UPLOAD_S = 120.0

_log = log.get("signal")


class SignalDaemon:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._account = deps.config[ACCOUNT]
        self._rpc: SignalRpc | None = None
        self._own: wire.OwnAccount | None = None

    async def listen(self, receive: Receive) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_account())
                await self._follow(receive)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _follow(self, receive: Receive) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._get_own()
                await self._read_stream(skip_invalid(receive), backoff)
            except Unavailable as error:
                _log.warning("the stream of events ended", instance=self._deps.instance, error=str(error))
            await backoff.wait()

    async def _read_stream(self, receive: Receive, backoff: Backoff) -> None:
        async with RoomQueues(save=self._deps.cursor.save) as queues:
            async for event in self._connect().list_events(await self._deps.cursor.load()):
                self._deps.beat()
                backoff.reset()
                if not event.data:
                    continue
                inbound = self._read(event)
                room = "" if inbound is None else inbound.address
                urgent = inbound is not None and inbound.event == "message" and may_stop(inbound.text)
                await queues.put(room, partial(self._receive, receive, inbound), mark=event.id, urgent=urgent)

    async def _receive(self, receive: Receive, inbound: Inbound | None) -> None:
        if inbound is not None:
            await receive(inbound)

    def _read(self, event: DaemonEvent) -> Inbound | None:
        try:
            params = json.loads(event.data)
        except (ValueError, RecursionError):
            return None
        assert self._own is not None
        return wire.read_event(params, self._own, self._open_attachment) if isinstance(params, dict) else None

    async def _watch_account(self) -> None:
        """A device that was unlinked gets no events and no error, so it is asked for."""
        while True:
            try:
                await self._connect().call("listDevices", {}, reads=True)
            except Unavailable as error:
                _log.warning("the account was not checked", instance=self._deps.instance, error=str(error))
            await asyncio.sleep(self._config[CHECK_S])

    async def send(self, address: str, message: Outbound) -> str:
        room = wire.render_room(address)
        if room is None:
            raise NotFound("room", address, "a Signal room is signal:user/<id> or signal:group/<id>")
        match message.op:
            case Op.DELETE:
                target = self._parse_target(message)
                await self._connect().call("remoteDelete", {**room, "targetTimestamp": target.timestamp})
                return message.target
            case Op.REACT:
                target = self._parse_target(message)
                params = {"targetAuthor": target.author, "targetTimestamp": target.timestamp, "emoji": message.reaction}
                await self._connect().call("sendReaction", {**room, **params})
                return message.target
            case Op.EDIT:
                self._parse_target(message)
        params = wire.render_send(message, room)
        if message.files:
            body = _render_with_files(self._connect().render_call("send", params), message.files)
            answer = await self._connect().call_raw("send", body, timeout=UPLOAD_S)
        else:
            answer = await self._connect().call("send", params)
        stamp = answer.get("timestamp") if isinstance(answer, dict) else None
        if not isinstance(stamp, int):
            raise Unavailable("signal-cli", "its answer names no message", uncertain=True)
        return message.target if message.op is Op.EDIT else wire.render_message_id(stamp, self._account)

    def _parse_target(self, message: Outbound) -> wire.SignalMessage:
        target = wire.parse_message_id(message.target)
        if target is None:
            raise NotFound("message", message.target)
        return target

    async def typing(self, address: str, thread: str, on: bool) -> None:
        room = wire.render_room(address)
        if room is not None:
            await self._connect().call("sendTyping", {**room, "stop": not on}, reads=True)

    async def mark_read(self, address: str, thread: str, messages: tuple[str, ...]) -> None:
        """Each author gets a receipt of their own, in groups, too."""
        stamps: dict[str, list[int]] = {}
        for message in messages:
            if (read := wire.parse_message_id(message)) is not None:
                stamps.setdefault(read.author, []).append(read.timestamp)
        for author, read_at in stamps.items():
            params = {"recipient": author, "targetTimestamp": read_at, "type": "read"}
            await self._connect().call("sendReceipt", params, reads=True)

    async def open_direct(self, sender: str) -> str:
        if wire.render_room(sender) is None or not sender.startswith("signal:user/"):
            raise NotFound("person", sender)
        return sender

    async def check(self) -> BotIdentity:
        rpc = self._connect()
        own = await self._get_own()
        await rpc.call("listDevices", {}, reads=True)
        version = await rpc.call("version", {}, reads=True)
        found = version.get("version") if isinstance(version, dict) else None
        others = sorted(own.names - {self._account})
        link = f"https://signal.me/#p/{self._account}" if self._account.startswith("+") else ""
        return BotIdentity(
            name=f"{self._account} ({others[0]})" if others else self._account,
            link=link,
            notes=(f"signal-cli {found}; one older than three months may stop working",) if found else (),
        )

    async def close(self) -> None:
        if self._rpc is not None:
            await self._rpc.close()
            self._rpc = None

    async def _get_own(self) -> wire.OwnAccount:
        """People mention the account by its id, which a number alone does not tell."""
        if self._own is None:
            names = {self._account}
            if self._account.startswith("+"):
                params = {"recipient": [self._account]}
                found = await self._connect().call("getUserStatus", params, reads=True)
                for each in found if isinstance(found, list) else []:
                    if isinstance(each, dict) and each.get("number") == self._account:
                        names |= {str(each["uuid"])} if each.get("uuid") else set()
            self._own = wire.OwnAccount(self._account, frozenset(names))
        return self._own

    def _open_attachment(self, attachment: str, room: str) -> OpenFile:
        async def stream() -> AsyncIterator[bytes]:
            params = {**(wire.render_room(room) or {}), "id": attachment}
            got = False
            try:
                async for chunk in wire.decode_attachment(self._connect().stream_call("getAttachment", params)):
                    got = True
                    yield chunk
            except ValueError:
                raise Invalid("file", "signal-cli gave no base64") from None
            if not got:
                raise NotFound("file", attachment, "signal-cli does not have it any more")

        return stream

    def _connect(self) -> SignalRpc:
        if not wire.is_person(self._account):
            why = f"channels.signal.account = {self._account!r} is no account"
            raise ChannelEnded(EndReason.SETTING, why, "write its number as +491234567, or its id")
        if self._rpc is None:
            self._rpc = SignalRpc(self._config[URL], self._account, self._config[CA_FILE])
        return self._rpc


async def _render_with_files(call: bytes, files: tuple[OutboundFile, ...]) -> AsyncIterator[bytes]:
    """The call with its files as data URIs, made while it is sent: a file is never whole in memory."""
    yield call.removesuffix(b"}}") + b', "attachments": ['
    for place, file in enumerate(files):
        name = json.dumps(_clean_name(file.name))[1:-1]
        yield f'{", " if place else ""}"data:{_clean_mime(file.mime)};filename={name};base64,'.encode()
        async with open_upload(file) as stream:
            while chunk := await asyncio.to_thread(stream.read, CHUNK):
                yield base64.b64encode(chunk)
        yield b'"'
    yield b"]}}"


def _clean_name(name: str) -> str:
    """Without the signs that end a part of a data URI."""
    return name.replace(";", "_").replace(",", "_")


def _clean_mime(mime: str) -> str:
    kind = mime.partition(";")[0]
    return kind if all(sign.isalnum() or sign in "/.+-" for sign in kind) else "application/octet-stream"
