"""A linked device of WhatsApp, emulated at the seam of the channel: it speaks the lines of its `protocol`.

The adapter starts a small program (`relay.py`) in place of the device, which passes the lines on to a socket of the
emulation.

Covered: text with marks, quotes, edits, revokes, reactions, files both ways, voice notes, typing and joins. It has own
messages from the phone, linking by a code or a picture, and events that come again until they are acknowledged. Not
covered: WhatsApp itself. Neither neonize nor its protocol is here, so what `child.py` makes of them is not tested by
this.
"""

import asyncio
import base64
import hashlib
import itertools
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec import structs

from gatepost.channels.whatsapp_linked.protocol import (
    LONGEST_LINE,
    Acknowledge,
    Alive,
    Answer,
    AnswerState,
    Arrived,
    Begin,
    DeviceEvent,
    DeviceFile,
    DeviceLine,
    DeviceMedia,
    FetchFile,
    LinkState,
    LinkStatus,
    MessageKey,
    React,
    Request,
    Revoke,
    SendFile,
    SendText,
    ShowTyping,
    parse_gateway_line,
    render_line,
)
from gatepost_testing.platform_rules.whatsapp_linked import BY_NAME, UNKNOWN
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile, GivenMessage, PlatformFault, ShownMessage

ACCOUNT, NAME = "4915112345678", "Gate"
ALIVE_S = 0.1
FAULTS = (PlatformFault.RATE_LIMIT, PlatformFault.FORBIDDEN, PlatformFault.BUSY, PlatformFault.NO_ANSWER)
SHOWN_AS = {"image": DeviceMedia.IMAGE, "video": DeviceMedia.VIDEO, "audio": DeviceMedia.AUDIO}
_MARKS = re.compile(r"(?<!\w)([*_~`])(\S(?:.*?\S)?)\1(?!\w)")


class WhatsAppLinkedDevice(EmulatedPlatform):
    kind = "whatsapp_linked"
    cannot = frozenset({"click"})

    def __init__(self) -> None:
        super().__init__()
        self._ids = itertools.count(1)
        self._numbers = itertools.count(1)
        self._events: dict[int, Arrived] = {}  # that nobody has acknowledged, oldest first
        self._held: Arrived | None = None
        self._files: dict[str, GivenFile] = {}
        self._names: dict[str, str] = {}  # of rooms and people, by what WhatsApp calls them
        self._typing: list[str] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._listening: asyncio.Server | None = None
        self.begins: list[Begin] = []  # of each connection
        self.linked = True
        self.stalled = False  # requests get no answer and have no effect, as in a process that hangs
        self.busy_with: type | None = None  # requests of this kind are not done now

    # How it is run.

    def start(self, port: int = 0) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gatepost-whatsapp-linked-"))
        super().start(port)

    def stop(self) -> None:
        super().stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def _open(self, port: int) -> None:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=LONGEST_LINE)
        self.port = int(self._listening.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        await self.drop_connections()
        await self._cancel_others()

    async def drop_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    # How a channel is pointed at it.

    def get_settings(self) -> dict[str, Any]:
        return {"accept_risk": True, "emulator": f"127.0.0.1:{self.port}"}

    def get_secrets(self) -> dict[str, str]:
        return {}

    def get_person(self, person: str) -> str:
        if person == "bot":
            return f"{ACCOUNT}@s.whatsapp.net"
        found = f"49{_number(person)}@s.whatsapp.net"
        self._names[found] = f"direct:{person}"
        return found

    def get_chat(self, room: str) -> str:
        if room.startswith("direct:"):
            return self.get_person(room.removeprefix("direct:"))
        found = f"12036{_number(room)}@g.us"
        self._names[found] = room
        return found

    def get_address(self, room: str) -> str:
        number, _, server = self.get_chat(room).partition("@")
        return f"whatsapp_linked:{'group' if server == 'g.us' else 'user'}/{number}"

    def get_sender(self, person: str) -> str:
        return f"whatsapp_linked:user/{self.get_person(person).partition('@')[0]}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        """A sender `bot` is somebody who writes with the account's own phone. A message has one file at most."""
        words = given.render_named(f"@{ACCOUNT}")
        key = self._make_key(given.room, given.sender)
        shown = ShownMessage(
            id=self._name(key, given.room),
            room=given.room,
            sender=given.sender,
            text=words,
            reply_to=given.reply_to,
            files=list(given.files),
        )
        with self.changed:
            self.record.append(shown)
            quoted = self.find(given.reply_to) if given.reply_to else None
        self._emit(
            DeviceEvent.MESSAGE,
            given.room,
            given.sender,
            key,
            text=words,
            mentioned=given.mention,
            quoted=self._parse(given.reply_to, given.room) if given.reply_to else None,
            quoted_text=quoted.text if quoted else "",
            files=tuple(self._keep(each) for each in given.files),
        )
        return shown.id

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            shown = self.find(message)
            shown.text, shown.edits = text, shown.edits + 1
        self._emit(DeviceEvent.EDIT, room, sender, self._parse(message, room), text=text, id=self._make_id())
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.find(message).deleted = True
        self._emit(DeviceEvent.REVOKE, room, sender, self._parse(message, room), id=self._make_id())
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.find(message).reactions.append((emoji, sender))
        self._emit(DeviceEvent.REACTION, room, sender, self._parse(message, room), text=emoji, id=self._make_id())
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        key = MessageKey(f"join-{self._make_id()}", self.get_person(sender))
        self._emit(DeviceEvent.JOIN, room, sender, key)
        return self._name(key, room)

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self._typing)

    def link(self) -> None:
        """Somebody enters the code on the phone."""
        self.linked = True
        self.call_soon(self._write_all, LinkStatus(state=LinkState.CONNECTED, account=ACCOUNT, name=NAME))

    def _make_id(self) -> str:
        return f"3EB0{next(self._ids):016X}"

    def _make_key(self, room: str, sender: str) -> MessageKey:
        author = "" if room.startswith("direct:") else self.get_person(sender)
        return MessageKey(self._make_id(), author, own=sender == "bot")

    def _name(self, key: MessageKey, room: str) -> str:
        if key.own:
            return f"{key.id}.me"
        return key.id if room.startswith("direct:") else f"{key.id}.{key.author}"

    def _parse(self, message: str, room: str) -> MessageKey:
        number, _, author = message.partition(".")
        return MessageKey(number, "" if author == "me" else author, own=author == "me")

    def _keep(self, file: GivenFile) -> DeviceFile:
        media = base64.b64encode(f"{len(self._files)}/{file.name}".encode()).decode()
        self._files[media] = file
        kind = SHOWN_AS.get(file.mime.partition("/")[0], DeviceMedia.DOCUMENT)
        return DeviceFile(kind=kind, media=media, name=file.name, mime=file.mime, size=len(file.data))

    def _emit(self, kind: DeviceEvent, room: str, sender: str, key: MessageKey, **more: Any) -> None:
        arrived = Arrived(
            number=next(self._numbers),
            kind=kind,
            chat=self.get_chat(room),
            message=key,
            sender=self.get_person(sender),
            sender_name=sender.capitalize(),
            group=not room.startswith("direct:"),
            own=sender == "bot",
            at=int(time.time()),
            **more,
        )
        with self.changed:
            held, self._held = self._held, None
            if self.claim_fault(PlatformFault.REORDER):
                self._held = arrived
                return
            twice = self.claim_fault(PlatformFault.DUPLICATE)
            again = structs.replace(arrived, number=next(self._numbers))
            for each in (arrived, *((again,) if twice else ()), *((held,) if held else ())):
                self._events[each.number] = each
                self.call_soon(self._deliver, each)
            self.changed.notify_all()

    def _deliver(self, arrived: Arrived) -> None:
        if not self.is_faulty(PlatformFault.HELD_POLL):
            self._write_all(arrived)

    def _write_all(self, line: DeviceLine) -> None:
        for writer in self._writers[-1:]:  # one process of a device is the one that receives
            writer.write(render_line(line))

    # The device.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        alive: asyncio.Task[None] | None = None
        try:
            while raw := await reader.readline():
                line = parse_gateway_line(raw)
                if isinstance(line, Begin):
                    self._begin(line, writer)
                    alive = asyncio.create_task(self._show_life(writer))
                elif isinstance(line, Acknowledge):
                    if not self.claim_fault(PlatformFault.FORGOTTEN):
                        self._events.pop(line.number, None)
                else:
                    await self._answer(line, writer)
                self.notify()
        except (OSError, asyncio.CancelledError):  # cancelled by `_close` alone
            pass
        finally:
            if alive is not None:
                alive.cancel()
            if writer in self._writers:
                self._writers.remove(writer)
            writer.close()

    def _begin(self, begin: Begin, writer: asyncio.StreamWriter) -> None:
        with self.changed:
            self.begins.append(begin)
        if not begin.connect:  # it then looks at its disk alone
            writer.write(render_line(LinkStatus(state=LinkState.LINKED if self.linked else LinkState.PAIRING)))
            return
        if self.is_faulty(PlatformFault.UNAUTHORIZED):
            status = LinkStatus(state=LinkState.LOGGED_OUT)
        elif self.is_faulty(PlatformFault.CONFLICT):
            status = LinkStatus(state=LinkState.REPLACED)
        elif not self.linked:
            code, picture = ("ABCD-EFGH", "") if begin.phone else ("", "█▀▀█")
            status = LinkStatus(state=LinkState.PAIRING, code=code, picture=picture)
        else:
            status = LinkStatus(state=LinkState.CONNECTED, account=ACCOUNT, name=NAME)
        writer.write(render_line(status))
        self._writers.append(writer)
        for each in list(self._events.values()):
            self._deliver(each)

    async def _show_life(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(ALIVE_S)
            if self.linked and not self.is_faulty(PlatformFault.HELD_POLL):
                writer.write(render_line(Alive()))

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        with self.changed:
            self.requests.append(("LINE", type(request).__name__))
        if self.stalled:
            return
        if self.is_faulty(PlatformFault.UNAUTHORIZED):
            writer.write(render_line(LinkStatus(state=LinkState.LOGGED_OUT)))
            return
        answer = self._run(request)
        if answer is None:
            writer.transport.abort()  # it happened, and nobody is told
        else:
            writer.write(render_line(answer))

    def _run(self, request: Request) -> Answer | None:
        number = request.request
        if isinstance(request, FetchFile):
            return self._fetch(request)
        room = self._names.get(request.chat)
        if room is None:
            return self._refuse_chat(number, request.chat)
        if isinstance(request, ShowTyping):
            with self.changed:
                self._typing += [room] if request.on else []
            return Answer(request=number)
        fault = self.claim_fault(*FAULTS)
        if fault is PlatformFault.RATE_LIMIT:
            return self.refuse("pace", number)
        if fault is PlatformFault.BUSY or type(request) is self.busy_with:
            return self.refuse("link to WhatsApp", number)
        if fault is PlatformFault.FORBIDDEN:
            return self.refuse("member of a group", number)
        with self.changed:
            answer = self._act(request, room)
            self.changed.notify_all()
        return None if fault is PlatformFault.NO_ANSWER else answer

    def refuse(self, name: str, number: int, **values: str) -> Answer:
        """Return the refusal of a rule. `values` stand in place of those of its own call."""
        state, _, words = BY_NAME[name].refusal.partition(": ")
        for old, new in values.items():
            words = words.replace(old, new)
        wait = self.retry_after if name == "pace" else 0.0
        return Answer(request=number, state=AnswerState(state), detail=words, retry_after=wait)

    def _refuse_chat(self, number: int, chat: str) -> Answer:
        user, _, server = chat.partition("@")
        if server not in ("g.us", "s.whatsapp.net"):
            return self.refuse("known server", number, **{"nowhere.test": server})
        if ":" in user:
            return self.refuse("a person, not a device", number)
        if server == "g.us":
            return self.refuse("known group", number)
        return self.refuse("somebody on WhatsApp", number, **{UNKNOWN: chat})

    def _act(self, request: SendText | SendFile | Revoke | React, room: str) -> Answer:
        number = request.request
        if isinstance(request, Revoke | React):
            shown = next((each for each in self.record if each.id == self._name(request.message, room)), None)
            if shown is None:
                return Answer(request=number)  # WhatsApp does not check it
            if isinstance(request, Revoke):
                shown.deleted = True
            else:
                shown.reactions = [each for each in shown.reactions if each[1] != "bot"] + [(request.emoji, "bot")]
            return Answer(request=number, message=self._make_id())
        if isinstance(request, SendText) and request.edits:
            shown = next((each for each in self.record if each.id == f"{request.edits}.me"), None)
            if shown is not None:
                shown.text, shown.raw, shown.edits = _resolve(request.text), request, shown.edits + 1
            return Answer(request=number, message=self._make_id())
        key = self._make_key(room, "bot")
        self.record.append(self._show(request, key, room))
        return Answer(request=number, message=key.id)

    def _show(self, request: SendText | SendFile, key: MessageKey, room: str) -> ShownMessage:
        files = []
        if isinstance(request, SendFile):
            files = [GivenFile(request.name, Path(request.path).read_bytes(), request.mime)]
        return ShownMessage(
            id=self._name(key, room),
            room=room,
            sender="bot",
            text=_resolve(request.text if isinstance(request, SendText) else request.caption),
            raw=request,
            reply_to=self._name(request.quoted, room) if request.quoted else "",
            files=files,
            voice=isinstance(request, SendFile) and request.kind is DeviceMedia.VOICE,
        )

    def _fetch(self, request: FetchFile) -> Answer:
        file = self._files.get(request.media)
        if file is None or self.folder is None:
            return self.refuse("known file", request.request)
        (Path(self.begins[-1].folder) / "files" / request.name).write_bytes(file.data)
        return Answer(request=request.request)


def _number(name: str) -> str:
    return str(10**12 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:5], "big"))


def _resolve(text: str) -> str:
    """As people read it: WhatsApp's marks are gone."""
    return _MARKS.sub(lambda found: found[2], text.replace("```", ""))
