"""Reports and errors of the library, in our own terms. Its objects are protobuf messages; nothing of it is imported.

A chat or a person may be named by a number or by an id that hides it (`…@lid`). If the library knows the number behind
a hidden id, the number counts, so that one person has one address. Inside of keys of messages the names stay as they
came: WhatsApp finds a message by them.
"""

import base64
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from gatepost.channels.whatsapp_linked.protocol import (
    UNREADABLE,
    AnswerState,
    Arrived,
    DeviceEvent,
    DeviceFile,
    DeviceMedia,
    MessageKey,
)

PEOPLE, HIDDEN = "s.whatsapp.net", "lid"
REVOKE, EDIT = 0, 14  # types of a protocol message
LATEST_SECOND = 10**11  # a larger time is in milliseconds: versions of the library differ
LONGEST_TEXT, LONGEST_NAME, LONGEST_TOKEN = 100_000, 250, 60_000
MOST_JOINS = 50  # of one event
RATE_PAUSE_S = 60.0  # WhatsApp does not say for how long
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
WRAPPERS = (
    "editedMessage",
    "ephemeralMessage",
    "viewOnceMessage",
    "viewOnceMessageV2",
    "documentWithCaptionMessage",
    "deviceSentMessage",
)
FILES = {
    "imageMessage": DeviceMedia.IMAGE,
    "videoMessage": DeviceMedia.VIDEO,
    "audioMessage": DeviceMedia.AUDIO,
    "documentMessage": DeviceMedia.DOCUMENT,
    "stickerMessage": DeviceMedia.STICKER,
}


class OwnIds(Struct, frozen=True):
    """Names of this account, by its number and by its hidden id."""

    names: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        return name in self.names


def render_id(jid: Any) -> str:
    """Without the device that was used."""
    return f"{jid.User}@{jid.Server}" if jid.User else ""


def read_message(event: Any, own: OwnIds) -> Arrived | None:
    """None for what nobody said to us: a status, keys, a kind of message that is not read here."""
    info, source = event.Info, event.Info.MessageSource
    content = _unwrap(event.Message)
    common: dict[str, Any] = {
        "number": 0,
        "chat": _find_chat(source),
        "sender": _prefer_number(source.Sender, source.SenderAlt),
        "sender_name": info.Pushname[:LONGEST_NAME],
        "group": source.IsGroup,
        "own": source.IsFromMe,
        "at": _read_seconds(info.Timestamp),
        "id": info.ID,
    }
    key = MessageKey(info.ID, render_id(source.Sender) if source.IsGroup else "", own=source.IsFromMe)
    if content.HasField("protocolMessage"):
        return _read_change(content.protocolMessage, source, own, common)
    if content.HasField("reactionMessage"):
        reaction = content.reactionMessage
        target = _read_key(reaction.key, source, own)
        return Arrived(kind=DeviceEvent.REACTION, message=target, text=reaction.text[:LONGEST_NAME], **common)
    text, files, context = _read_content(content)
    if not text and not files:
        return None
    quoted = _read_quoted(context, source, own)
    return Arrived(
        kind=DeviceEvent.MESSAGE,
        message=key,
        text=text,
        files=files,
        mentioned=context is not None and any(own.has(each) for each in context.mentionedJID),
        forwarded=context is not None and bool(context.isForwarded),
        quoted=quoted,
        quoted_text=_read_content(_unwrap(context.quotedMessage))[0] if quoted and context is not None else "",
        **common,
    )


def _read_change(change: Any, source: Any, own: OwnIds, common: dict[str, Any]) -> Arrived | None:
    if not change.HasField("key") or change.type not in (REVOKE, EDIT):
        return None
    target = _read_key(change.key, source, own)
    if change.type == REVOKE:
        return Arrived(kind=DeviceEvent.REVOKE, message=target, **common)
    text, _, _ = _read_content(_unwrap(change.editedMessage))
    return Arrived(kind=DeviceEvent.EDIT, message=target, text=text, **common)


def _read_key(key: Any, source: Any, own: OwnIds) -> MessageKey:
    """A key is written from the view of whoever sent the event: `fromMe` is their own message."""
    author = strip_device(key.participant)
    if key.fromMe:
        ours, author = source.IsFromMe, render_id(source.Sender)
    elif author:
        ours = own.has(author)
    else:
        ours = not source.IsFromMe  # in a private chat: the other side's, seen from them
    return MessageKey(key.ID, author if source.IsGroup and not ours else "", own=ours)


def _read_quoted(context: Any, source: Any, own: OwnIds) -> MessageKey | None:
    if context is None or not context.stanzaID:
        return None
    author = strip_device(context.participant)
    ours = own.has(author)
    return MessageKey(context.stanzaID, author if source.IsGroup and not ours else "", own=ours)


def read_joins(event: Any) -> list[Arrived]:
    """One for each person who came into a group."""
    found = []
    for person in list(event.Join)[:MOST_JOINS]:
        at = _read_seconds(event.Timestamp)
        name = render_id(person)
        key = MessageKey(f"join-{at}-{person.User}", name)
        group = render_id(event.JID)
        found.append(Arrived(number=0, kind=DeviceEvent.JOIN, chat=group, message=key, sender=name, group=True, at=at))
    return found


def strip_device(name: str) -> str:
    """`49151:7@s.whatsapp.net` is device 7 of somebody."""
    user, at, server = name.partition("@")
    return f"{user.partition(':')[0].partition('.')[0]}{at}{server}"


def _find_chat(source: Any) -> str:
    if source.IsGroup or source.Chat.Server != HIDDEN:
        return render_id(source.Chat)
    return _prefer_number(source.Chat, source.RecipientAlt if source.IsFromMe else source.SenderAlt)


def _prefer_number(jid: Any, other: Any) -> str:
    return render_id(other if jid.Server == HIDDEN and other.User and other.Server == PEOPLE else jid)


def _read_seconds(stamp: int) -> int:
    return max(0, stamp // 1000 if stamp > LATEST_SECOND else stamp)


def _unwrap(content: Any) -> Any:
    for _ in range(len(WRAPPERS)):  # somebody may have wrapped it without an end
        found = next((each for each in WRAPPERS if content.HasField(each)), None)
        if found is None:
            break
        content = getattr(content, found).message
    return content


def _read_content(content: Any) -> tuple[str, tuple[DeviceFile, ...], Any]:
    """The words, the files, and the context with what was quoted and who was mentioned."""
    if content.HasField("extendedTextMessage"):
        said = content.extendedTextMessage
        return said.text[:LONGEST_TEXT], (), said.contextInfo
    for field, kind in FILES.items():
        if content.HasField(field):
            media = getattr(content, field)
            file = _read_file(content, field, media, kind)
            return getattr(media, "caption", "")[:LONGEST_TEXT], (file,) if file else (), media.contextInfo
    if content.conversation:
        return content.conversation[:LONGEST_TEXT], (), None
    return _describe(content)


def _describe(content: Any) -> tuple[str, tuple[DeviceFile, ...], Any]:
    """A line for what is neither words nor a file; '' for what the devices tell each other."""
    there = {field.name: value for field, value in content.ListFields()}
    for name, found in there.items():
        if render := KINDS.get(name):
            return render(found)[:LONGEST_TEXT], (), getattr(found, "contextInfo", None)
    kinds = [name for name in there if name not in UNSAID]
    return f"{UNREADABLE}{kinds[0]}]" if kinds else "", (), None


def _render_poll(poll: Any) -> str:
    return f"[poll: {poll.name} — {' / '.join(each.optionName for each in poll.options[:12])}]"


KINDS: dict[str, Callable[[Any], str]] = {
    "locationMessage": lambda at: (
        f"[location: {at.degreesLatitude}, {at.degreesLongitude}] {at.name} {at.address}".strip()
    ),
    "liveLocationMessage": lambda at: f"[live location, which moves on: {at.degreesLatitude}, {at.degreesLongitude}]",
    "contactMessage": lambda contact: f"[contact: {contact.displayName}]",
    "contactsArrayMessage": lambda some: f"[contacts: {', '.join(each.displayName for each in some.contacts[:20])}]",
    "pollCreationMessage": _render_poll,
    "pollCreationMessageV2": _render_poll,
    "pollCreationMessageV3": _render_poll,
}
# Messages between devices, and parts of another message.
UNSAID = frozenset(
    (
        *WRAPPERS,
        "conversation",
        "messageContextInfo",
        "senderKeyDistributionMessage",
        "fastRatchetKeySenderKeyDistributionMessage",
        "protocolMessage",
        "reactionMessage",
        "encReactionMessage",
        "pollUpdateMessage",
        "keepInChatMessage",
        "pinInChatMessage",
        "botInvokeMessage",
        "call",
        "chat",
        "placeholderMessage",
        "secretEncryptedMessage",
    )
)


def _read_file(content: Any, field: str, media: Any, kind: DeviceMedia) -> DeviceFile | None:
    """The token is the message itself, without its preview and without what it quotes."""
    bare = type(content)()
    copy = getattr(bare, field)
    copy.CopyFrom(media)
    for each in ("contextInfo", "JPEGThumbnail", "caption", "waveform", "streamingSidecar", "scansSidecar"):
        if each in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(each)
    token = base64.b64encode(bare.SerializeToString()).decode()
    if len(token) > LONGEST_TOKEN:
        return None
    is_voice = kind is DeviceMedia.AUDIO and media.PTT
    return DeviceFile(
        kind=DeviceMedia.VOICE if is_voice else kind,
        media=token,
        name=getattr(media, "fileName", "")[:LONGEST_NAME],
        mime=media.mimetype[:LONGEST_NAME],
        size=media.fileLength,
    )


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
