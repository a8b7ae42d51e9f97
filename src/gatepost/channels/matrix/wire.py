"""Events of Matrix as our own words. Pure: an event is a dict as the homeserver gives it, already decrypted.

The input is untrusted. An id is checked before it becomes an address, and no field is trusted to have its type.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb

PLATFORM = "matrix"
ROOM_ID = re.compile(r"![!-.0-~]{1,250}\Z")  # printable and without a slash, which would divide an address
USER_ID = re.compile(r"@[!-~]{1,250}:[!-.0-~]{1,250}\Z")
EVENT_ID = re.compile(r"\$[!-~]{1,250}\Z")
LONGEST_EMOJI = 64
LONGEST_NAME = 200
_FALLBACK = re.compile(r"> (?:\* )?<(@[^>\s]{1,500})> ?")
_KINDS = {
    "m.image": AttachmentKind.IMAGE,
    "m.sticker": AttachmentKind.IMAGE,
    "m.audio": AttachmentKind.AUDIO,
    "m.video": AttachmentKind.VIDEO,
    "m.file": AttachmentKind.FILE,
}
_ENDINGS = {AttachmentKind.IMAGE: "image", AttachmentKind.AUDIO: "audio", AttachmentKind.VIDEO: "video"}
VOICE = "org.matrix.msc3245.voice"


class RoomFacts(Struct, frozen=True, kw_only=True):
    """Facts of a room that are known when one of its events is read."""

    room_id: str
    own_id: str
    direct: bool = False
    name: str = ""
    proved: bool = True  # that the sender wrote it: in an encrypted room, by a device of theirs


class MatrixFile(Struct, frozen=True, kw_only=True):
    """The address of a file, and the key that decrypts it. `key` is '' for one that is not encrypted."""

    server: str
    media_id: str
    key: str = ""
    iv: str = ""
    sha256: str = ""


OpenMatrixFile = Callable[[MatrixFile], OpenFile]
GetName = Callable[[str], str]


def get_room_address(room_id: str) -> str:
    return f"{PLATFORM}:{room_id}"


def get_sender_address(user_id: str) -> str:
    return f"{PLATFORM}:user/{user_id}"


def read_event(
    event: Mapping[str, Any], room: RoomFacts, get_name: GetName, open_file: OpenMatrixFile
) -> Inbound | None:
    """Return what somebody did; None for what is not for us to know."""
    sender, event_id = event.get("sender"), event.get("event_id")
    if not (is_id(sender, USER_ID) and is_id(event_id, EVENT_ID) and is_id(room.room_id, ROOM_ID)):
        return None
    content = event.get("content")
    content = content if isinstance(content, Mapping) else {}
    facts: dict[str, Any] = {
        "address": get_room_address(room.room_id),
        "sender": get_sender_address(str(sender)),
        "sender_name": get_name(str(sender))[:LONGEST_NAME],
        "direct": room.direct,
        "own": sender == room.own_id,
        "room_name": room.name[:LONGEST_NAME],
        "at": _read_moment(event),
    }
    match event.get("type"):
        case "m.room.message" | "m.sticker":
            return _read_message(event, content, room, facts, open_file)
        case "m.reaction":
            return _read_reaction(content, facts)
        case "m.room.redaction":
            target = content.get("redacts") or event.get("redacts")
            if not is_id(target, EVENT_ID):
                return None
            return Inbound(platform_id=str(target), text="", event="delete", verb=Verb.DELETE, **facts)
        case "m.room.member":
            return _read_join(event, content, facts, get_name)
    return None


def is_id(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.match(value) is not None


def _read_moment(event: Mapping[str, Any]) -> int | None:
    at = event.get("origin_server_ts")
    return at * 1000 if isinstance(at, int) and 0 < at < 1 << 43 else None


def _read_message(
    event: Mapping[str, Any],
    content: Mapping[str, Any],
    room: RoomFacts,
    facts: dict[str, Any],
    open_file: OpenMatrixFile,
) -> Inbound | None:
    relation = _get_mapping(content, "m.relates_to")
    event_id = str(event["event_id"])
    if relation.get("rel_type") == "m.replace":
        target, new = relation.get("event_id"), _get_mapping(content, "m.new_content")
        if not is_id(target, EVENT_ID) or not isinstance(new.get("body"), str):
            return None
        text = _read_text(new)
        verb = Verb.EDIT if room.proved else Verb.UNTRUSTED  # new words in somebody's name need a proof, too
        return Inbound(platform_id=str(target), text=text, event=f"edit:{event_id}", verb=verb, **facts)
    if content.get("msgtype") == "m.notice" or not isinstance(content.get("body"), str):
        return None  # a notice is for people: the specification forbids bots to answer it
    quote = _read_quote(content, relation)
    thread = relation.get("event_id") if relation.get("rel_type") == "m.thread" else ""
    return Inbound(
        platform_id=event_id,
        text=_read_text(content),
        verb=_find_verb(content, room, quote),
        thread=str(thread) if is_id(thread, EVENT_ID) else "",
        reply_to=quote,
        attachments=_read_attachments(content, event.get("type") == "m.sticker", open_file),
        **facts,
    )


def _find_verb(content: Mapping[str, Any], room: RoomFacts, quote: Quote | None) -> Verb:
    if not room.proved:
        return Verb.UNTRUSTED
    if is_mentioned(content, room.own_id):
        return Verb.MENTION
    return Verb.REPLY if quote else Verb.MESSAGE


def is_mentioned(content: Mapping[str, Any], own_id: str) -> bool:
    """By `m.mentions`; where an older program left it out, by the full name or a link to it."""
    mentions = content.get("m.mentions")
    if isinstance(mentions, Mapping):
        named = mentions.get("user_ids")
        return isinstance(named, list) and own_id in named
    written = [content.get(name) for name in ("body", "formatted_body")]
    return any(isinstance(each, str) and own_id in each for each in written)


def _read_text(content: Mapping[str, Any]) -> str:
    """Read the text of a message, or the caption of a file: a body that only repeats the file's name is none."""
    body, kind = str(content["body"]), content.get("msgtype")
    if kind in _KINDS or "url" in content or "file" in content:
        name = content.get("filename")
        return body if isinstance(name, str) and name != body else ""
    text = strip_fallback(body)[0]
    return f"* {text}" if kind == "m.emote" else text


def strip_fallback(body: str) -> tuple[str, str, str]:
    """The words without the quotation that older programs put before an answer; whom and what it quotes."""
    found = _FALLBACK.match(body)
    if not found:
        return body, "", ""
    lines = body.split("\n")
    end = next((at for at, line in enumerate(lines) if not line.startswith(">")), len(lines))
    quoted = [lines[0][found.end() :], *(line[1:].removeprefix(" ") for line in lines[1:end])]
    rest = lines[end + 1 :] if end < len(lines) and not lines[end] else lines[end:]
    return "\n".join(rest), found[1], "\n".join(quoted).strip()


def _read_quote(content: Mapping[str, Any], relation: Mapping[str, Any]) -> Quote | None:
    target = _get_mapping(relation, "m.in_reply_to").get("event_id")
    if not is_id(target, EVENT_ID):
        return None
    if relation.get("rel_type") == "m.thread" and relation.get("is_falling_back") is True:
        return None  # for programs without threads: nobody answered that message
    _, sender, text = strip_fallback(str(content.get("body", "")))
    address = get_sender_address(sender) if is_id(sender, USER_ID) else ""
    return Quote(platform_id=str(target), sender=address, text=text)


def _read_reaction(content: Mapping[str, Any], facts: dict[str, Any]) -> Inbound | None:
    relation = _get_mapping(content, "m.relates_to")
    target, key = relation.get("event_id"), relation.get("key")
    if relation.get("rel_type") != "m.annotation" or not is_id(target, EVENT_ID) or not isinstance(key, str):
        return None
    emoji = "".join(key.replace(":", " ").split())[:LONGEST_EMOJI]
    if not emoji:
        return None
    return Inbound(
        platform_id=str(target), text=emoji, event=f"reaction:{emoji}:{facts['sender']}", verb=Verb.LIKE, **facts
    )


def _read_join(
    event: Mapping[str, Any], content: Mapping[str, Any], facts: dict[str, Any], get_name: GetName
) -> Inbound | None:
    """Somebody came. A change of a name or picture is a membership of the same kind as before."""
    before = _get_mapping(_get_mapping(event, "unsigned"), "prev_content").get("membership")
    user = event.get("state_key")
    if content.get("membership") != "join" or before == "join" or user != event.get("sender"):
        return None
    return Inbound(platform_id=str(event["event_id"]), text="", event="join", verb=Verb.JOIN, **facts)


def _read_attachments(content: Mapping[str, Any], sticker: bool, open_file: OpenMatrixFile) -> tuple[Attachment, ...]:
    kind = AttachmentKind.IMAGE if sticker else _KINDS.get(str(content.get("msgtype")))
    where = read_file(content) if kind else None
    if kind is None or where is None:
        return ()
    info = _get_mapping(content, "info")
    size, mime = info.get("size"), info.get("mimetype")
    name = content.get("filename") or content.get("body")
    voice = VOICE in content
    return (
        Attachment(
            name=str(name)[:LONGEST_NAME] if name else "voice.ogg" if voice else _ENDINGS.get(kind, "file"),
            mime=mime[:100] if isinstance(mime, str) else "application/octet-stream",
            kind=kind,
            open=open_file(where),
            size=size if isinstance(size, int) and size >= 0 else None,
        ),
    )


def read_file(content: Mapping[str, Any]) -> MatrixFile | None:
    """Return where the file of a message lies; None if it names none that we could fetch."""
    encrypted = _get_mapping(content, "file")
    url = encrypted.get("url") or content.get("url")
    found = (
        re.match(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_=-]{1,255})\Z", url) if isinstance(url, str) else None
    )
    if not found:
        return None
    if not encrypted:
        return MatrixFile(server=found[1], media_id=found[2])
    key, hashes = _get_mapping(encrypted, "key").get("k"), _get_mapping(encrypted, "hashes")
    iv, sha256 = encrypted.get("iv"), hashes.get("sha256")
    if not (isinstance(key, str) and isinstance(iv, str) and isinstance(sha256, str)):
        return None
    return MatrixFile(server=found[1], media_id=found[2], key=key, iv=iv, sha256=sha256)


def _get_mapping(within: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = within.get(name)
    return found if isinstance(found, Mapping) else {}
