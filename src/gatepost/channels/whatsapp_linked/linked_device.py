"""A linked device: events of neonize for the gateway, and requests of the gateway as calls of neonize.

Only the process of the device imports it, once its standard output is turned away: the library writes to that.
"""

import base64
import io
import threading
import time
from pathlib import Path
from typing import Any

import neonize
import segno
from neonize import events
from neonize.builder import build_edit, build_revoke
from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as e2e
from neonize.utils.enum import ChatPresence, ChatPresenceMedia, MediaType
from neonize.utils.jid import build_jid

from gatepost.channels.whatsapp_linked.device_events import OwnIds, judge_error, read_joins, read_message, render_id
from gatepost.channels.whatsapp_linked.device_lines import EventJournal, LineWriter, end
from gatepost.channels.whatsapp_linked.protocol import (
    Alive,
    Answer,
    AnswerState,
    Begin,
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
)

ALIVE_S = 15.0
SESSION = "session.db"


class RequestFailed(Exception):
    def __init__(self, state: AnswerState, detail: str) -> None:
        super().__init__(detail)
        self.state = state


class LinkedDevice:
    def __init__(self, begin: Begin, writer: LineWriter, make_client: Any = neonize.NewClient) -> None:
        self._begin, self._writer = begin, writer
        self._folder = Path(begin.folder)
        self._own = OwnIds()
        self._asked = False  # for a code
        self._code = ""
        self.journal = EventJournal(self._folder / "events", writer.write)
        self.client = make_client(str(self._folder / SESSION), uuid="gatepost")
        self._register()

    def _register(self) -> None:
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
                    message = build_edit(chat, request.edits, message)
                return self._send(chat, message)

    def _send(self, chat: Any, message: Any) -> str:
        return str(self.client.send_message(chat, message).ID)

    def _parse(self, name: str) -> Any:
        user, _, server = name.partition("@")
        return build_jid(user, server)

    def _find_author(self, key: MessageKey, chat: str) -> Any:
        return self.client.get_me().JID if key.own else self._parse(key.author or chat)

    def _build_revoke(self, chat: Any, key: MessageKey) -> Any:
        me = self.client.get_me().JID
        return build_revoke(chat, me if key.own else self._parse(key.author), key.id, me)

    def _build_context(self, request: SendText | SendFile) -> Any:
        quoted = request.quoted
        if quoted is None:
            return e2e.ContextInfo(isForwarded=True) if request.forwarded else e2e.ContextInfo()
        author = render_id(self._find_author(quoted, request.chat))
        return e2e.ContextInfo(stanzaID=quoted.id, participant=author, quotedMessage=e2e.Message(conversation=""))

    def _build_text(self, request: SendText) -> Any:
        if request.quoted is None and not request.forwarded:
            return e2e.Message(conversation=request.text)
        context = self._build_context(request)
        return e2e.Message(extendedTextMessage=e2e.ExtendedTextMessage(text=request.text, contextInfo=context))

    def _build_file(self, request: SendFile) -> Any:
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
        state = ChatPresence.CHAT_PRESENCE_COMPOSING if on else ChatPresence.CHAT_PRESENCE_PAUSED
        self.client.send_chat_presence(chat, state, ChatPresenceMedia.CHAT_PRESENCE_MEDIA_TEXT)

    def _fetch(self, request: FetchFile) -> str:
        if not request.name.isalnum():
            raise RequestFailed(AnswerState.REFUSED, "the name of the file is none of ours")
        data = self.client.download_any(e2e.Message.FromString(base64.b64decode(request.media)))
        if len(data) > self._begin.largest_file:
            raise RequestFailed(AnswerState.REFUSED, f"the file has more than {self._begin.largest_file} bytes")
        (self._folder / "files" / request.name).write_bytes(data)
        return ""


def find_state(folder: Path) -> LinkState:
    """From the disk alone."""
    path = folder / SESSION
    linked = path.exists() and neonize.client.ClientFactory.get_all_devices_from_db(str(path))
    return LinkState.LINKED if linked else LinkState.PAIRING
