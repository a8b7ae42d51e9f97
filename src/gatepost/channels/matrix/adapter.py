"""The Matrix channel: what the gateway asks of it, as requests to the homeserver."""

import asyncio
from typing import Any
from urllib.parse import quote

from gatepost.channels.contract import MYSELF, BotIdentity, ChannelDeps, Receive
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.matrix import DEVICES, INVITERS, INVITES, TRUSTED_DEVICES, DevicePolicy, InvitePolicy
from gatepost.channels.matrix.encryption import RoomKeys
from gatepost.channels.matrix.invitations import RoomInvitations
from gatepost.channels.matrix.receiving import MatrixReceiver
from gatepost.channels.matrix.render import (
    render_edit,
    render_file,
    render_reaction,
    render_text,
    render_transaction,
)
from gatepost.channels.matrix.session import PLATFORM, DeviceKeysLost, MatrixSession
from gatepost.channels.matrix.wire import ROOM_ID, USER_ID, get_room_address, is_id
from gatepost.core.errors import NotFound, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Op, Outbound

READY_S = 10.0  # that a send waits for the first sync
TYPING_MS = 30_000
MOST_HISTORY = 200
PINS = "state/m.room.pinned_events"


class Matrix:
    def __init__(self, deps: ChannelDeps) -> None:
        config = deps.config
        self._session = MatrixSession(deps)
        self._keys = RoomKeys(self._session, deps.instance, DevicePolicy(config[DEVICES]), config[TRUSTED_DEVICES])
        self._invitations = RoomInvitations(
            self._session, deps.instance, InvitePolicy(config[INVITES]), config[INVITERS]
        )
        self._receiver = MatrixReceiver(deps, self._session, self._keys, self._invitations, deps.clock.now())
        self._listening = False

    async def listen(self, receive: Receive) -> None:
        self._listening = True
        try:
            try:
                await self._session.start()
                await self._receiver.run(skip_invalid(receive))
            except DeviceKeysLost:
                if not await self._session.drop_device():
                    raise
                await self._session.start()
                await self._receiver.run(skip_invalid(receive))
        finally:
            self._listening = False

    async def close(self) -> None:
        await self._session.close()

    @property
    def own_names(self) -> frozenset[str]:
        own = self._session.own_id
        return frozenset({own, own[1:].partition(":")[0]} - {""})

    async def send(self, address: str, message: Outbound) -> str:
        room_id = read_room(address)
        await self._wait_until_synced()
        match message.op:
            case Op.SEND | Op.FILE | Op.VOICE:
                return await self._send_message(room_id, message)
            case Op.EDIT:
                return await self._edit(room_id, message)
            case Op.DELETE:
                path = f"redact/{quote(message.target, safe='')}/{render_transaction(message.key)}"
                await self._session.put(_get_path(room_id, path), {}, "delete a message")
                return message.target
            case Op.REACT:
                return await self._react(room_id, message)
            case Op.PIN | Op.UNPIN | Op.UNPIN_ALL:
                return await self._pin(room_id, message)
        raise Unsupported(message.op.value, "matrix")

    async def typing(self, address: str, thread: str, on: bool) -> None:
        await self._session.start()
        path = _get_path(read_room(address), f"typing/{quote(self._session.own_id, safe='')}")
        await self._session.put(path, {"typing": on} | ({"timeout": TYPING_MS} if on else {}), "show that it types")

    async def mark_read(self, address: str, thread: str, messages: tuple[str, ...]) -> None:
        """The mark of the newest stands for those before it in its thread, too."""
        path = _get_path(read_room(address), f"receipt/m.read/{quote(messages[-1], safe='')}")
        await self._session.start()
        await self._session.post(path, {"thread_id": thread or "main"}, "mark a message as read")

    async def open_direct(self, sender: str) -> str:
        user = sender.removeprefix("matrix:user/")
        if not is_id(user, USER_ID):
            raise NotFound("person", sender, "a person of Matrix is matrix:user/@name:server")
        await self._wait_until_synced()
        return get_room_address(await self._invitations.open_direct(user))

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        room_id, wanted = read_room(address), max(1, min(limit, MOST_HISTORY))
        await self._wait_until_synced()
        query: dict[str, Any] = {"dir": "b", "limit": 100}
        if before is not None:
            start = await self._find_moment(room_id, before)
            if start is None:
                return []
            query["from"] = start
        found: list[Inbound] = []
        for _ in range(10):
            answer = await self._session.get(_get_path(room_id, "messages"), **query)
            for event in self._receiver.open_events(room_id, answer.get("chunk") or []):
                inbound = await self._receiver.read(room_id, event)
                if inbound and inbound.event == "message" and (before is None or (inbound.at or 0) < before):
                    found.append(replace(inbound, sender=MYSELF) if inbound.own else inbound)
            if len(found) >= wanted or not answer.get("end") or not answer.get("chunk"):
                break
            query["from"] = answer["end"]
        return found[:wanted][::-1]

    async def check(self) -> BotIdentity:
        await self._session.start()
        who = await self._session.identify()
        own, device = str(who.get("user_id", "")), str(who.get("device_id", ""))
        profile: dict[str, Any] = {}
        try:
            profile = await self._session.get(f"profile/{quote(own, safe='')}")
        except PlatformRefusal:  # a homeserver may keep profiles to itself
            profile = {}
        shown = profile.get("displayname")
        lost = self._receiver.undecryptable
        return BotIdentity(
            name=f"{own} ({shown})" if shown else own,
            link=f"https://matrix.to/#/{own}",
            notes=(
                f"it reads encrypted rooms as the device {device}",
                *([f"messages that came without their key: {lost}"] if lost else []),
            ),
        )

    async def _wait_until_synced(self) -> None:
        """Before the first sync it is not known which rooms are encrypted."""
        try:
            async with asyncio.timeout(READY_S):
                if not self._listening and not self._receiver.synced.is_set():
                    await self._session.start()
                    await self._receiver.learn_rooms()
                await self._receiver.synced.wait()
        except TimeoutError:
            raise Unavailable(PLATFORM, "the rooms are not known yet", retry_after=2.0) from None

    async def _send_message(self, room_id: str, message: Outbound) -> str:
        """Several files are several events, each under a transaction of its own: done again, each is there once."""
        sent: list[str] = []
        thread, reply_to, caption = message.thread, message.reply_to, message.text
        if caption and len(message.files) != 1:
            content = render_text(caption, thread=thread, reply_to=reply_to)
            sent.append(await self._put_event(room_id, "m.room.message", content, render_transaction(message.key)))
            caption = ""
        encrypted = await self._is_encrypted(room_id) if message.files else False
        for number, file in enumerate(message.files, start=1):
            where = await self._session.upload(file, encrypted)
            voice = message.op is Op.VOICE
            content = render_file(file, where, caption, voice=voice, thread=thread, reply_to=reply_to)
            key = render_transaction(message.key, number)
            sent.append(await self._put_event(room_id, "m.room.message", content, key))
        if not sent:
            raise Unsupported("an empty message", "matrix", "write something")
        return sent[0]

    async def _edit(self, room_id: str, message: Outbound) -> str:
        """Homeservers take an edit of what was deleted, and nobody sees it: the words would be lost."""
        event = await self._session.get(_get_path(room_id, f"event/{quote(message.target, safe='')}"))
        if (event.get("unsigned") or {}).get("redacted_because"):
            raise NotFound("message", message.target, "it was deleted")
        key = render_transaction(message.key)
        await self._put_event(room_id, "m.room.message", render_edit(message.target, message.text), key)
        return message.target

    async def _put_event(self, room_id: str, kind: str, content: dict[str, Any], transaction: str) -> str:
        if await self._is_encrypted(room_id) and kind != "m.reaction":
            kind, content = await self._keys.encrypt(room_id, kind, content)
        answer = await self._session.put(_get_path(room_id, f"send/{kind}/{transaction}"), content, "send a message")
        return str(answer["event_id"])

    async def _is_encrypted(self, room_id: str) -> bool:
        room = self._session.client.rooms.get(room_id)
        if room is not None:
            return bool(room.encrypted)
        try:
            await self._session.get(_get_path(room_id, "state/m.room.encryption"))
        except PlatformRefusal as error:
            if error.status == 404:
                return False
            raise NotFound("room", room_id, "the bot is not in it; invite it") from None
        raise Unavailable(PLATFORM, "the room was joined just now", retry_after=1.0)

    async def _react(self, room_id: str, message: Outbound) -> str:
        content = render_reaction(message.target, message.reaction)
        try:
            return await self._put_event(room_id, "m.reaction", content, render_transaction(message.key))
        except PlatformRefusal as error:
            if isinstance(error.answer, dict) and error.answer.get("errcode") == "M_DUPLICATE_ANNOTATION":
                return message.target  # it is there
            raise

    async def _pin(self, room_id: str, message: Outbound) -> str:
        """The pins of a room are one list, which is written anew."""
        pinned: list[str] = []
        if message.op is not Op.UNPIN_ALL:
            try:
                read = (await self._session.get(_get_path(room_id, PINS))).get("pinned")
                pinned = [each for each in read if each != message.target] if isinstance(read, list) else []
            except PlatformRefusal as error:
                if error.status != 404:
                    raise
        if message.op is Op.PIN:
            pinned.append(message.target)
        answer = await self._session.put(_get_path(room_id, PINS), {"pinned": pinned}, "pin messages")
        return message.target or str(answer.get("event_id", "unpinned"))

    async def _find_moment(self, room_id: str, before: int) -> str | None:
        """The place in a room's history before a moment; None if nothing is older."""
        path = f"_matrix/client/v1/rooms/{quote(room_id, safe='')}/timestamp_to_event"
        try:
            found = await self._session.http.call("GET", path, params={"ts": before // 1000, "dir": "b"})
        except PlatformRefusal as error:
            if error.status == 404:
                return None
            raise
        context = f"context/{quote(str(found['event_id']), safe='')}"
        return str((await self._session.get(_get_path(room_id, context), limit=0))["end"])


def read_room(address: str) -> str:
    platform, _, room_id = address.partition(":")
    if platform != "matrix" or not is_id(room_id, ROOM_ID):
        raise NotFound("room", address, "a room of Matrix is matrix:!id:server")
    return room_id


def _get_path(room_id: str, rest: str) -> str:
    return f"rooms/{quote(room_id, safe='')}/{rest}"
