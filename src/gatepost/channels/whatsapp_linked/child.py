"""The process of a linked device: `python -m gatepost.channels.whatsapp_linked.child`. It alone imports neonize.

It speaks `protocol` over its standard input and output, and ends when its input closes. The library writes to the
standard output, too; that goes to the errors instead.
"""

import base64
import fcntl
import io
import logging
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec import structs

from gatepost.channels.whatsapp_linked.device_events import OwnIds, read_joins, read_message, render_id
from gatepost.channels.whatsapp_linked.protocol import (
    LONGEST_LINE,
    Acknowledge,
    Alive,
    Answer,
    AnswerState,
    Arrived,
    Begin,
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
    parse_device_line,
    parse_gateway_line,
    render_line,
)

ALIVE_S = 15.0
AT_ONCE = 4
RATE_PAUSE_S = 60.0  # WhatsApp does not say for how long
SESSION = "session.db"
# As whatsmeow writes its errors. A code of 4xx for a message is WhatsApp's no to it; of 5xx, nobody knows.
UNDONE = re.compile(
    r"client is nil|failed to get user devices|failed to get group members|doesn't contain a device jid"
)  # before anything is sent
FORBIDDEN = re.compile(
    r"server returned error 4\d\d\b|error 40[136]\b|error 4(?:20|79)\b|bad-request|not-authorized|forbidden|not-allowed"
    r"|not-acceptable|not participating in that group|unknown server|must be a user jid"
)
MISSING = re.compile(
    r"error 404\b|item-not-found|no lid found|not on whatsapp|that group does not exist|status 410\b"
    r"|download failed with status code (?:403|404|410)\b"
)
WINDOW = 200  # handed over and not acknowledged; fewer than the gateway takes without making its other lines wait
MOST = 10_000  # beyond it the library has to wait


class EventJournal:
    """Events of the device that the gateway has not acknowledged, on the disk: they outlive either process.

    The library tells WhatsApp that a message arrived before the gateway has stored it. So it is written down here
    first. Used from several threads.
    """

    def __init__(self, folder: Path, write: Callable[[Arrived], None]) -> None:
        self._folder, self._write = folder, write
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = sorted(int(each.stem) for each in folder.glob("*.json") if each.stem.isdecimal())
        self._waiting, self._handed = deque(known), set[int]()
        self._next = known[-1] + 1 if known else 1
        self._changed = threading.Condition()

    def add(self, arrived: Arrived) -> None:
        """Durable when it returns."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) + len(self._handed) < MOST)
            number, self._next = self._next, self._next + 1
            part = self._folder / f"{number}.part"
            with part.open("wb") as file:
                file.write(render_line(structs.replace(arrived, number=number)))
                file.flush()
                os.fsync(file.fileno())
            part.rename(self._get_path(number))
            self._waiting.append(number)
            self._hand_over()

    def acknowledge(self, number: int) -> None:
        with self._changed:
            if number not in self._handed:
                return
            self._handed.remove(number)
            self._get_path(number).unlink(missing_ok=True)
            self._hand_over()
            self._changed.notify_all()

    def start(self) -> None:
        """Hands over what an earlier process left."""
        with self._changed:
            self._hand_over()

    def _hand_over(self) -> None:
        while self._waiting and len(self._handed) < WINDOW:
            number = self._waiting.popleft()
            try:
                line = parse_device_line(self._get_path(number).read_bytes())
            except (OSError, msgspec.DecodeError):
                self._get_path(number).unlink(missing_ok=True)  # cut short by a full disk; nobody could read it
                continue
            if isinstance(line, Arrived):
                self._handed.add(number)
                self._write(line)

    def _get_path(self, number: int) -> Path:
        return self._folder / f"{number}.json"


class LineWriter:
    """The gateway's end of the standard output, for several threads."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def write(self, line: DeviceLine) -> None:
        with self._lock:
            try:
                self._file.write(render_line(line))
                self._file.flush()
            except OSError:
                os._exit(0)  # the gateway is gone


class RequestFailed(Exception):
    def __init__(self, state: AnswerState, detail: str) -> None:
        super().__init__(detail)
        self.state = state


class LinkedDevice:
    def __init__(self, begin: Begin, writer: LineWriter, library: Any) -> None:
        self._begin, self._writer, self._neonize = begin, writer, library
        self._folder = Path(begin.folder)
        self._own = OwnIds()
        self._asked = False  # for a code
        self._code = ""
        self.journal = EventJournal(self._folder / "events", writer.write)
        self.client = library.NewClient(str(self._folder / SESSION), uuid="gatepost")
        self._register()

    def _register(self) -> None:
        from neonize import events

        on = self.client.event
        on(events.ConnectedEv)(lambda _, event: self._connected())
        on(events.DisconnectedEv)(lambda _, event: self._report(LinkState.DISCONNECTED))
        on(events.LoggedOutEv)(lambda _, event: self._report(LinkState.LOGGED_OUT))
        on(events.StreamReplacedEv)(lambda _, event: self._report(LinkState.REPLACED))
        on(events.ClientOutdatedEv)(lambda _, event: self._report(LinkState.OUTDATED))
        on(events.TemporaryBanEv)(lambda _, event: self._report(LinkState.BANNED, f"code {event.Code}"))
        on(events.MessageEv)(lambda _, event: self._receive(event))
        on(events.GroupInfoEv)(lambda _, event: self._receive_joins(event))
        on.qr(lambda _, code: self._pair(code))

    def run(self) -> None:
        threading.Thread(target=self._show_life, daemon=True).start()
        self.client.connect()

    def _report(self, state: LinkState, detail: str = "") -> None:
        self._writer.write(LinkStatus(state=state, detail=detail))

    def _connected(self) -> None:
        me = self.client.get_me()
        self._own = OwnIds(frozenset({render_id(me.JID), render_id(me.LID)} - {""}))
        self._writer.write(LinkStatus(state=LinkState.CONNECTED, account=me.JID.User, name=me.PushName[:250]))
        self.journal.start()

    def _pair(self, code: bytes) -> None:
        """Called anew for each QR code, twice a minute or so. A code to enter is asked for once and reported each time:
        the gateway sees that we wait."""
        if not self._begin.phone:
            import segno

            drawn = io.StringIO()
            segno.make_qr(code).terminal(out=drawn, compact=True)
            self._writer.write(LinkStatus(state=LinkState.PAIRING, picture=drawn.getvalue()))
        elif self._code:
            self._writer.write(LinkStatus(state=LinkState.PAIRING, code=self._code))
        elif not self._asked:
            self._asked = True
            threading.Thread(target=self._ask_code, daemon=True).start()

    def _ask_code(self) -> None:
        try:
            code = self.client.PairPhone(self._begin.phone, True)
        except Exception as error:  # noqa: BLE001  a library's own; the gateway starts us again
            end(f"WhatsApp gives no code for {self._begin.phone}: {error}")
        self._code = code[:20]
        self._writer.write(LinkStatus(state=LinkState.PAIRING, code=self._code))

    def _show_life(self) -> None:
        while True:
            time.sleep(ALIVE_S)
            if self.client.connected and self.client.is_connected() and self.client.is_logged_in():
                self._writer.write(Alive())

    def _receive(self, event: Any) -> None:
        arrived = read_message(event, self._own)
        if arrived is not None:
            self.journal.add(arrived)

    def _receive_joins(self, event: Any) -> None:
        for each in read_joins(event):
            self.journal.add(each)

    # Requests.

    def answer(self, request: Request) -> None:
        try:
            sent = self._run(request)
            answer = Answer(request=request.request, message=sent)
        except RequestFailed as error:
            answer = Answer(request=request.request, state=error.state, detail=str(error)[:500])
        except Exception as error:  # noqa: BLE001  what the library raises is judged by its words
            state, wait = judge_error(str(error))
            answer = Answer(request=request.request, state=state, detail=str(error)[:500], retry_after=wait)
        self._writer.write(answer)

    def _run(self, request: Request) -> str:
        if not self.client.is_connected():
            raise RequestFailed(AnswerState.UNAVAILABLE, "it is not connected to WhatsApp")
        if isinstance(request, FetchFile):
            return self._fetch(request)
        chat = self._parse(request.chat)
        match request:
            case ShowTyping():
                self._show_typing(chat, request.on)
                return ""
            case Revoke():
                return self._send(chat, self._build_revoke(chat, request.message))
            case React():
                author = self._find_author(request.message, request.chat)
                return self._send(chat, self.client.build_reaction(chat, author, request.message.id, request.emoji))
            case SendFile():
                return self._send(chat, self._build_file(request))
            case SendText():
                message = self._build_text(request)
                if request.edits:
                    from neonize.builder import build_edit

                    message = build_edit(chat, request.edits, message)
                return self._send(chat, message)

    def _send(self, chat: Any, message: Any) -> str:
        return str(self.client.send_message(chat, message).ID)

    def _parse(self, name: str) -> Any:
        from neonize.utils.jid import build_jid

        user, _, server = name.partition("@")
        return build_jid(user, server)

    def _find_author(self, key: MessageKey, chat: str) -> Any:
        return self.client.get_me().JID if key.own else self._parse(key.author or chat)

    def _build_revoke(self, chat: Any, key: MessageKey) -> Any:
        from neonize.builder import build_revoke

        me = self.client.get_me().JID
        return build_revoke(chat, me if key.own else self._parse(key.author), key.id, me)

    def _build_context(self, request: SendText | SendFile) -> Any:
        from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as e2e

        quoted = request.quoted
        if quoted is None:
            return e2e.ContextInfo(isForwarded=True) if request.forwarded else e2e.ContextInfo()
        author = render_id(self._find_author(quoted, request.chat))
        return e2e.ContextInfo(stanzaID=quoted.id, participant=author, quotedMessage=e2e.Message(conversation=""))

    def _build_text(self, request: SendText) -> Any:
        from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as e2e

        if request.quoted is None and not request.forwarded:
            return e2e.Message(conversation=request.text)
        context = self._build_context(request)
        return e2e.Message(extendedTextMessage=e2e.ExtendedTextMessage(text=request.text, contextInfo=context))

    def _build_file(self, request: SendFile) -> Any:
        from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as e2e
        from neonize.utils.enum import MediaType

        path = Path(request.path)
        if path.stat().st_size > self._begin.largest_file:
            raise RequestFailed(AnswerState.REFUSED, f"{request.name} has more than {self._begin.largest_file} bytes")
        types = {
            DeviceMedia.IMAGE: MediaType.MediaImage,
            DeviceMedia.VIDEO: MediaType.MediaVideo,
            DeviceMedia.AUDIO: MediaType.MediaAudio,
            DeviceMedia.VOICE: MediaType.MediaAudio,
        }
        try:
            upload = self.client.upload(path.read_bytes(), types.get(request.kind, MediaType.MediaDocument))
        except Exception as error:  # noqa: BLE001  nothing was sent yet
            raise RequestFailed(AnswerState.UNAVAILABLE, f"the file was not uploaded: {error}") from None
        fields: dict[str, Any] = {
            "URL": upload.url,
            "directPath": upload.DirectPath,
            "mediaKey": upload.MediaKey,
            "fileEncSHA256": upload.FileEncSHA256,
            "fileSHA256": upload.FileSHA256,
            "fileLength": upload.FileLength,
            "mimetype": "audio/ogg; codecs=opus" if request.kind is DeviceMedia.VOICE else request.mime,
        }
        if request.quoted is not None or request.forwarded:
            fields["contextInfo"] = self._build_context(request)
        match request.kind:
            case DeviceMedia.IMAGE:
                return e2e.Message(imageMessage=e2e.ImageMessage(caption=request.caption, **fields))
            case DeviceMedia.VIDEO:
                return e2e.Message(videoMessage=e2e.VideoMessage(caption=request.caption, **fields))
            case DeviceMedia.AUDIO | DeviceMedia.VOICE:
                return e2e.Message(audioMessage=e2e.AudioMessage(PTT=request.kind is DeviceMedia.VOICE, **fields))
        named = {"fileName": request.name, "title": request.name, "caption": request.caption}
        return e2e.Message(documentMessage=e2e.DocumentMessage(**named, **fields))

    def _show_typing(self, chat: Any, on: bool) -> None:
        from neonize.utils.enum import ChatPresence, ChatPresenceMedia

        state = ChatPresence.CHAT_PRESENCE_COMPOSING if on else ChatPresence.CHAT_PRESENCE_PAUSED
        self.client.send_chat_presence(chat, state, ChatPresenceMedia.CHAT_PRESENCE_MEDIA_TEXT)

    def _fetch(self, request: FetchFile) -> str:
        from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as e2e

        if not request.name.isalnum():
            raise RequestFailed(AnswerState.REFUSED, "the name of the file is none of ours")
        data = self.client.download_any(e2e.Message.FromString(base64.b64decode(request.media)))
        if len(data) > self._begin.largest_file:
            raise RequestFailed(AnswerState.REFUSED, f"the file has more than {self._begin.largest_file} bytes")
        (self._folder / "files" / request.name).write_bytes(data)
        return ""


def judge_error(text: str) -> tuple[AnswerState, float]:
    """Return what an error of the library means, and how long to wait. One that is not known may have happened."""
    words = text.lower()
    if "rate-overlimit" in words or "error 429" in words:
        return AnswerState.UNAVAILABLE, RATE_PAUSE_S
    for state, signs in (
        (AnswerState.NOT_FOUND, MISSING),
        (AnswerState.REFUSED, FORBIDDEN),
        (AnswerState.UNAVAILABLE, UNDONE),
    ):
        if signs.search(words):
            return state, 0.0
    return AnswerState.UNCERTAIN, 0.0


def end(why: str) -> NoReturn:
    """At once, whatever the library's threads do."""
    os.write(2, " ".join(why.split()).encode() + b"\n")
    os._exit(1)


def read_line() -> bytes:
    raw = sys.stdin.buffer.readline(LONGEST_LINE)
    if not raw.endswith(b"\n"):
        os._exit(0)  # the gateway is gone
    return raw


def read_requests(device: LinkedDevice) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while True:
            try:
                line = parse_gateway_line(read_line())
            except msgspec.DecodeError as error:
                end(f"a line of the gateway cannot be read: {error}")
            if isinstance(line, Acknowledge):
                device.journal.acknowledge(line.number)
            elif not isinstance(line, Begin):
                pool.submit(device.answer, line)


def claim_folder(folder: Path) -> int:
    """One process for one session. The lock ends with the process."""
    held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        end("another process uses this session")
    return held


def find_state(folder: Path, library: Any) -> LinkState:
    """From the disk alone."""
    path = folder / SESSION
    linked = path.exists() and library.client.ClientFactory.get_all_devices_from_db(str(path))
    return LinkState.LINKED if linked else LinkState.PAIRING


def main() -> None:
    os.umask(0o077)
    writer = LineWriter()
    begin = parse_gateway_line(read_line())
    if not isinstance(begin, Begin):
        end("the first line is not the one that begins")
    try:
        import neonize
    except ImportError:
        writer.write(LinkStatus(state=LinkState.NO_LIBRARY))
        return
    logging.getLogger().setLevel(logging.ERROR)
    claim_folder(Path(begin.folder))
    if not begin.connect:
        writer.write(LinkStatus(state=find_state(Path(begin.folder), neonize)))
        while read_line():  # until the gateway closes it
            pass
    device = LinkedDevice(begin, writer, neonize)
    threading.Thread(target=read_requests, args=(device,), daemon=True).start()
    try:
        device.run()
    except Exception as error:  # noqa: BLE001  a library's own; the gateway starts us again
        end(f"the library ended: {error}")
    end("the library ended without a word")


if __name__ == "__main__":
    main()
