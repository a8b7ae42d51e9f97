"""WhatsApp through a linked device, which is a process of its own. `listen` keeps that process running.

WhatsApp's library lets nobody choose a message's id, and nobody can ask for what was sent. So a send during which the
process died ends as uncertain.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.whatsapp_linked import ACCEPT_RISK, EMULATOR, LARGEST_FILE, PHONE, wire
from gatepost.channels.whatsapp_linked.device_process import CHILD, RELAY, WHAT, DeviceProcess, running
from gatepost.channels.whatsapp_linked.protocol import (
    Alive,
    Answer,
    AnswerState,
    Arrived,
    Begin,
    DeviceFile,
    FetchFile,
    LinkState,
    LinkStatus,
    MessageKey,
    React,
    Revoke,
    SendText,
    ShowTyping,
)
from gatepost.core import log
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.inbound import OpenFile
from gatepost.messages.outbound import Op, Outbound
from gatepost.messages.text import may_stop

CHUNK = 64 * 1024
STEADY_S = 60.0  # a connection that held for so long was no quarrel with another program
PICTURE = "qr.txt"
MOST_REPLACED = 3  # times in a row; once may be a process of ours that is left over
ENDS = {
    LinkState.NO_LIBRARY: (
        EndReason.SETTING,
        "neonize, the library of the linked device, is not installed",
        "pip install 'gatepost[whatsapp-linked]'",
    ),
    LinkState.LOGGED_OUT: (
        EndReason.TOKEN,
        "the phone has removed this linked device",
        "start the channel again and link it anew, with the code in `gatepost channel logs`",
    ),
    LinkState.REPLACED: (
        EndReason.SECOND_POLLER,
        "another program uses the session of this linked device",
        "end that program, then start the channel again",
    ),
    LinkState.BANNED: (
        EndReason.RIGHTS,
        "WhatsApp has banned this number for a while",
        "look at the phone for how long; use the Cloud API (`gatepost channel add whatsapp`)",
    ),
    LinkState.OUTDATED: (
        EndReason.SETTING,
        "WhatsApp does not accept this version of neonize any more",
        "update gatepost, which pins it",
    ),
}
NO_PERSON = "no lid found"  # as the library writes that a number has no account

_log = log.get("whatsapp_linked")


class WhatsAppLinked:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._device: DeviceProcess | None = None
        self._status: LinkStatus | None = None
        self._end: ChannelEnded | None = None
        self._replaced = 0
        self._shown = ""  # how to link it

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        command, begin = self._prepare(connect=True)
        await asyncio.to_thread(_clear_files, self._get_folder())
        self._end, self._replaced = None, 0
        backoff = Backoff()
        while True:
            began = time.monotonic()
            try:
                await self._run_device(command, begin, skip_invalid(receive), backoff)
            except Unavailable as error:
                _log.warning("the linked device ended", instance=self._deps.instance, error=str(error))
            if time.monotonic() - began > STEADY_S:
                self._replaced = 0
            await backoff.wait()

    async def _run_device(self, command: Sequence[str], begin: Begin, receive: Receive, backoff: Backoff) -> None:
        async with running(command, begin) as device, RoomQueues() as queues:
            self._device = device
            try:
                async for line in device.list_lines():
                    match line:
                        case Alive():
                            self._deps.beat()
                        case LinkStatus():
                            await self._follow(line, backoff)
                        case Arrived():
                            self._deps.beat()
                            job = partial(self._receive, receive, device, line)
                            await queues.put(line.chat, job, urgent=may_stop(line.text))
            finally:
                self._device = self._status = None
            raise Unavailable(WHAT, await device.read_last_words())

    async def _receive(self, receive: Receive, device: DeviceProcess, arrived: Arrived) -> None:
        inbound = wire.read_event(arrived, self._open_media)
        if inbound is not None:
            await receive(inbound)
        await device.acknowledge(arrived.number)

    async def _follow(self, status: LinkStatus, backoff: Backoff) -> None:
        self._status = status
        self._deps.beat()
        if status.state is LinkState.REPLACED:
            self._replaced += 1
            if self._replaced < MOST_REPLACED:
                raise Unavailable(WHAT, "another program uses its session")
        self._end = find_end(status)
        if self._end is not None:
            raise self._end
        if status.state is LinkState.CONNECTED:
            backoff.reset()
        await self._show_pairing(status)

    async def _show_pairing(self, status: LinkStatus) -> None:
        """The code in the log and in `gatepost status`; a picture in a file, which only its owner can read."""
        path = self._get_folder() / PICTURE
        if status.state is not LinkState.PAIRING:
            await asyncio.to_thread(path.unlink, missing_ok=True)
            note = ""
        else:
            if status.picture:
                await asyncio.to_thread(_write_private, path, status.picture)
            note = _render_pairing(status, path)
            if note != self._shown:
                _log.warning("the device waits to be linked", instance=self._deps.instance, way=note)
        self._shown = note
        if self._deps.pulse is not None:
            self._deps.pulse.note = note

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        chat = self._parse_chat(address)
        match message.op:
            case Op.DELETE:
                target = self._parse_target(message.target)
                await self._call(address, lambda number: Revoke(request=number, chat=chat, message=target))
                return message.target
            case Op.REACT:
                target, emoji = self._parse_target(message.target), message.reaction
                await self._call(address, lambda number: React(request=number, chat=chat, message=target, emoji=emoji))
                return message.target
            case Op.EDIT:
                return await self._edit(address, chat, message)
            case Op.FORWARD:
                return await self._send_parts(address, chat, wire.render_forward(message))
            case Op.SEND | Op.FILE | Op.VOICE:
                return await self._send_parts(address, chat, message)
        raise Unsupported(message.op, wire.KIND)

    async def _edit(self, address: str, chat: str, message: Outbound) -> str:
        target = self._parse_target(message.target)
        if not target.own:
            raise Refused("this account", "edit", message.target, "somebody else wrote it")
        text = wire.render_text(message)
        await self._call(address, lambda number: SendText(request=number, chat=chat, text=text, edits=target.id))
        return message.target

    async def _send_parts(self, address: str, chat: str, message: Outbound) -> str:
        quoted = self._parse_target(message.reply_to) if message.reply_to else None
        first = ""
        for make in wire.render_requests(chat, message, quoted):
            try:
                answer = await self._call(address, make)
            except (Unavailable, ChannelEnded) as error:
                if not first:
                    raise
                raise Unavailable(WHAT, f"only a part of it was sent: {error.why}", uncertain=True) from None
            sent = wire.render_message_id(MessageKey(answer.message, own=True), group=False)
            if sent is None:
                raise Unavailable(WHAT, "its answer names no message", uncertain=True)
            first = first or sent
        return first

    async def _call(self, address: str, make: wire.MakeRequest, *, reads: bool = False) -> Answer:
        if self._end is not None:
            raise self._end
        device, status = self._device, self._status
        if device is None or status is None or status.state is not LinkState.CONNECTED:
            raise Unavailable(WHAT, "it is not connected to WhatsApp")
        try:
            answer = await device.call(make, reads=reads)
        except Unavailable:
            if self._end is not None:
                raise self._end from None
            raise
        raise_for(answer, address)
        return answer

    async def typing(self, address: str, thread: str, on: bool) -> None:
        chat = self._parse_chat(address)
        await self._call(address, lambda number: ShowTyping(request=number, chat=chat, on=on), reads=True)

    async def open_direct(self, sender: str) -> str:
        chat = wire.parse_room(sender)
        if chat is None or chat.endswith(wire.GROUPS):
            raise NotFound("person", sender, f"a person is {wire.KIND}:user/<number>")
        return sender

    def _open_media(self, file: DeviceFile) -> OpenFile:
        async def stream() -> AsyncIterator[bytes]:
            if file.size > LARGEST_FILE:
                raise Refused("this channel", "fetch", file.name, f"it has more than {LARGEST_FILE} bytes")
            name = uuid.uuid4().hex
            path = _get_files(self._get_folder()) / name
            try:
                await self._call(
                    file.name, lambda number: FetchFile(request=number, name=name, media=file.media), reads=True
                )
                data = await asyncio.to_thread(path.open, "rb")
                try:
                    while chunk := await asyncio.to_thread(data.read, CHUNK):
                        yield chunk
                finally:
                    await asyncio.to_thread(data.close)
            finally:
                await asyncio.to_thread(path.unlink, missing_ok=True)

        return stream

    # Our own account.

    async def check(self) -> BotIdentity:
        """Asks a process of its own, unless one runs. That does not speak to WhatsApp: a code that it showed would end
        with it, and a session that runs elsewhere would be disturbed."""
        if self._status is not None:
            return _describe(self._status)
        command, begin = self._prepare(connect=False)
        async with running(command, begin) as device:
            async for line in device.list_lines():
                if not isinstance(line, LinkStatus) or line.state is LinkState.DISCONNECTED:
                    continue
                end = find_end(line)
                if end is not None:
                    raise end
                return _describe(line)
            raise Unavailable(WHAT, await device.read_last_words())

    @property
    def own_names(self) -> frozenset[str]:
        status = self._status
        return frozenset({status.account, status.name} - {""}) if status is not None else frozenset()

    # Its settings.

    def _prepare(self, *, connect: bool) -> tuple[Sequence[str], Begin]:
        phone = self._config[PHONE]
        if not self._config[ACCEPT_RISK]:
            why = "WhatsApp has banned numbers for programs on linked devices, and accept_risk is not set"
            raise ChannelEnded(
                EndReason.SETTING, why, "set accept_risk = true if the loss of this number is acceptable"
            )
        if phone and not (phone.isascii() and phone.isdecimal() and 5 <= len(phone) <= 20):
            why = f"channels.whatsapp_linked.phone = {phone!r} is no number"
            raise ChannelEnded(EndReason.SETTING, why, "write it with its country and without signs, as 491512345678")
        folder = self._get_folder()
        _get_files(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        begin = Begin(folder=str(folder), phone=phone, largest_file=LARGEST_FILE, connect=connect)
        emulator = self._config[EMULATOR]
        if not emulator:
            return CHILD, begin
        host, _, port = emulator.rpartition(":")
        if host != "127.0.0.1" or not (port.isascii() and port.isdecimal()):
            why = f"channels.whatsapp_linked.emulator = {emulator!r} is no port of this machine"
            raise ChannelEnded(EndReason.SETTING, why, "write it as 127.0.0.1:8080, or leave it empty")
        return (*RELAY, port), begin

    def _get_folder(self) -> Path:
        if self._deps.folder is None:
            why = "there is no folder for the session of the linked device"
            raise ChannelEnded(EndReason.SETTING, why, "run the channel in a gateway, which gives it one")
        return self._deps.folder

    def _parse_chat(self, address: str) -> str:
        chat = wire.parse_room(address)
        if chat is None:
            raise NotFound("room", address, f"a room is {wire.KIND}:user/<number> or {wire.KIND}:group/<id>")
        return chat

    def _parse_target(self, text: str) -> MessageKey:
        key = wire.parse_message_id(text)
        if key is None:
            raise NotFound("message", text)
        return key


def _describe(status: LinkStatus) -> BotIdentity:
    if status.state is LinkState.CONNECTED:
        name = f"+{status.account} ({status.name})" if status.name else f"+{status.account}"
        return BotIdentity(name=name, link=f"https://wa.me/{status.account}")
    if status.state is LinkState.LINKED:
        return BotIdentity(name="a linked device", notes=("WhatsApp was not asked whether it still accepts it",))
    return BotIdentity(
        name="a device that is not linked yet",
        notes=("once the channel runs, `gatepost channel logs` shows how to link it",),
    )


def _get_files(folder: Path) -> Path:
    return folder / "files"


def _clear_files(folder: Path) -> None:
    """Remove the files that a killed gateway left behind."""
    for each in _get_files(folder).iterdir():
        each.unlink(missing_ok=True)


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def find_end(status: LinkStatus) -> ChannelEnded | None:
    """None: it goes on."""
    found = ENDS.get(status.state)
    if found is None:
        return None
    reason, why, remedy = found
    detail = " ".join(status.detail.split())
    return ChannelEnded(reason, f"{why} ({detail})" if detail else why, remedy)


def _render_pairing(status: LinkStatus, picture: Path) -> str:
    """How to link the device now; one line."""
    where = "on the phone, open Settings > Linked devices > Link a device"
    if status.code:
        return f"{where} > Link with phone number, and enter {status.code}"
    return f"{where}, and scan what `cat {picture}` shows"


def raise_for(answer: Answer, address: str) -> None:
    """Raises what an answer stands for, unless it was done."""
    detail = " ".join(answer.detail.split())
    match answer.state:
        case AnswerState.UNAVAILABLE:
            wait = answer.retry_after or None
            raise Unavailable(WHAT, detail, retry_after=wait, everywhere=wait is not None)
        case AnswerState.UNCERTAIN:
            raise Unavailable(WHAT, detail, uncertain=True)
        case AnswerState.REFUSED:
            raise Refused("this account", "do this", address, detail)
        case AnswerState.NOT_FOUND:
            is_person = NO_PERSON in detail.lower()
            raise NotFound("room or file", address, "this number is not on WhatsApp" if is_person else detail)
