"""Activities of the Bot Framework, read into our words, and our words as activities. Pure."""

import html
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct, structs

from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound, Unsupported
from gatepost.messages.card import Card, render_hint
from gatepost.messages.inbound import CLICK, Inbound, Verb
from gatepost.messages.markdown.markup import DISCORD, PLAIN, render
from gatepost.messages.outbound import Outbound

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9:@._=!+-]{0,299}")
_MESSAGE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._=-]{0,199}")
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AT = re.compile(r"<at(?: id=\"\d{1,4}\")?>([^<]{0,200})</at>")
MOST_LISTED = 50
# Bytes of a message as JSON in UTF-16: learn.microsoft.com, "Format your bot messages", read 2026-11-17. The newest
# text says 100 KB, others 40 KB; what is around the card has its share.
LARGEST_MESSAGE, LARGEST_CARD = 40_000, 38_000
SUBMITTED = "gatepost"  # the field of a card's answer that names the button
SIGNS = {"like": "👍", "heart": "❤️", "laugh": "😆", "surprised": "😮", "sad": "😢", "angry": "😡"}


class RoomKind(StrEnum):
    CHANNEL = "channel"
    CHAT = "chat"
    DIRECT = "direct"


KINDS = {"channel": RoomKind.CHANNEL, "groupChat": RoomKind.CHAT, "personal": RoomKind.DIRECT}


class ActivityType(StrEnum):
    MESSAGE = "message"
    EDITED = "messageUpdate"
    DELETED = "messageDelete"
    REACTED = "messageReaction"
    CHANGED = "conversationUpdate"


class TeamsRoom(Struct, frozen=True):
    kind: RoomKind
    conversation: str
    thread: str = ""  # the post of a channel that the conversation is about

    @property
    def address(self) -> str:
        return f"teams:{self.kind}/{self.conversation}"

    def get_path(self, thread: str = "") -> str:
        """Below the service address. In a channel the post is a part of the conversation's id."""
        full = f"{self.conversation};messageid={thread}" if thread and self.kind is RoomKind.CHANNEL else ""
        return f"v3/conversations/{quote(full or self.conversation, safe='')}/activities"


def parse_address(address: str) -> TeamsRoom:
    """Addresses may come from an agent, so they are checked."""
    kind, _, conversation = address.removeprefix("teams:").partition("/")
    if kind not in list(RoomKind) or not _ID.fullmatch(conversation):
        raise NotFound("room", address, "Teams has teams:channel/<id>, teams:chat/<id> and teams:direct/<id>")
    return TeamsRoom(RoomKind(kind), conversation)


def check_message_id(text: str) -> str:
    if not _MESSAGE_ID.fullmatch(text):
        raise NotFound("message", text[:40])
    return text


def is_below(url: str, origins: tuple[str, ...]) -> bool:
    """Return True if answers may be sent there: the token goes along."""
    given = urlsplit(url)
    known = [(each.scheme, each.netloc) for each in map(urlsplit, origins)]
    return (given.scheme, given.netloc) in known and not (given.query or given.fragment)


def read_room(activity: Mapping[str, Any]) -> TeamsRoom | None:
    where = activity.get("conversation")
    if not isinstance(where, Mapping):
        return None
    conversation, _, rest = str(where.get("id") or "").partition(";")
    kind = KINDS.get(str(where.get("conversationType") or "personal"))
    thread = rest.removeprefix("messageid=") if rest.startswith("messageid=") else ""
    if kind is None or not _ID.fullmatch(conversation) or (thread and not _MESSAGE_ID.fullmatch(thread)):
        return None
    return TeamsRoom(kind, conversation, thread if kind is RoomKind.CHANNEL else "")


def read_tenant(activity: Mapping[str, Any]) -> str:
    """Return whose people speak there."""
    conversation = activity.get("conversation")
    data = activity.get("channelData")
    tenant = data.get("tenant") if isinstance(data, Mapping) else None
    found = tenant.get("id") if isinstance(tenant, Mapping) else None
    return str(found or (conversation.get("tenantId") if isinstance(conversation, Mapping) else "") or "")


def read_person(person: Any) -> str:
    """The directory's id of somebody, else that which this bot alone knows; '' for neither."""
    if not isinstance(person, Mapping):
        return ""
    known, own = str(person.get("aadObjectId") or "").lower(), str(person.get("id") or "")
    found = known if _GUID.fullmatch(known) else own if _ID.fullmatch(own) else ""
    return f"teams:user/{found}" if found else ""


def read_activity(activity: Mapping[str, Any]) -> list[Inbound]:
    room, sender = read_room(activity), read_person(activity.get("from"))
    if room is None or not sender:
        return []
    base: dict[str, Any] = {
        "address": room.address,
        "sender": sender,
        "sender_name": _read_name(activity.get("from")),
        "thread": room.thread,
        "direct": room.kind is RoomKind.DIRECT,
        "room_name": _read_name(activity.get("conversation")),
        "at": read_time(activity.get("timestamp")),
    }
    match activity.get("type"):
        case ActivityType.REACTED:
            return list(_read_reactions(activity, base))
        case ActivityType.CHANGED:
            return list(_read_joins(activity, base))
    number = str(activity.get("id") or "")
    if not _MESSAGE_ID.fullmatch(number):
        return []
    match activity.get("type"):
        case ActivityType.MESSAGE:
            return [_read_message(activity, number, base)]
        case ActivityType.EDITED if _read_event(activity) == "editMessage":
            revision = re.sub(r"\D", "", str(activity.get("timestamp") or ""))[:20]
            text = _read_text(activity)
            return [Inbound(platform_id=number, text=text, event=f"edit:{revision}", verb=Verb.EDIT, **base)]
        case ActivityType.DELETED if _read_event(activity) == "softDeleteMessage":
            return [Inbound(platform_id=number, text="", event="delete", verb=Verb.DELETE, **base)]
    return []


def _read_message(activity: Mapping[str, Any], number: str, base: dict[str, Any]) -> Inbound:
    value = activity.get("value")
    pressed = value.get(SUBMITTED) if isinstance(value, Mapping) else None
    if isinstance(pressed, str) and pressed:
        return Inbound(platform_id=number, text="", event=CLICK, click=pressed[:200], **base)
    verb = Verb.MENTION if _is_mentioned(activity) else Verb.MESSAGE
    return Inbound(platform_id=number, text=_read_text(activity), verb=verb, **base)


def _is_mentioned(activity: Mapping[str, Any]) -> bool:
    return any(True for _ in _list_own_mentions(activity))


def _list_own_mentions(activity: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    bot, listed = activity.get("recipient"), activity.get("entities")
    own = bot.get("id") if isinstance(bot, Mapping) else None
    for each in listed[:MOST_LISTED] if isinstance(listed, list) else ():
        who = each.get("mentioned") if isinstance(each, Mapping) and each.get("type") == "mention" else None
        if isinstance(who, Mapping) and own and who.get("id") == own:
            yield each


def read_own_name(activity: Mapping[str, Any]) -> str:
    """Return the name of the bot as its mention has it, else as the activity names it; '' if neither does."""
    for each in _list_own_mentions(activity):
        found = _AT.fullmatch(str(each.get("text") or "").strip())
        if found is not None:
            return " ".join(found[1].split())[:200]
    return _read_name(activity.get("recipient"))


def _read_text(activity: Mapping[str, Any]) -> str:
    """Names stay as words. A file is named: it lies elsewhere, for people with an account there."""
    text, listed = str(activity.get("text") or ""), activity.get("attachments")
    text = text.replace("&nbsp;", " ")  # Teams puts it behind a mention
    words = _AT.sub(lambda match: f"@{html.unescape(match[1])}", text).strip() if len(text) < 100_000 else text
    names = [
        f"[file: {str(each['name'])[:200]}]"
        for each in (listed[:MOST_LISTED] if isinstance(listed, list) else ())
        if isinstance(each, Mapping) and each.get("name")
    ]
    return "\n".join([words, *names]).strip()


def _read_reactions(activity: Mapping[str, Any], base: dict[str, Any]) -> Iterator[Inbound]:
    about, listed = str(activity.get("replyToId") or ""), activity.get("reactionsAdded")
    if not _MESSAGE_ID.fullmatch(about):
        return
    for each in listed[:MOST_LISTED] if isinstance(listed, list) else ():
        name = str(each.get("type") or "") if isinstance(each, Mapping) else ""
        if re.fullmatch(r"[\w-]{1,64}", name):
            sign = SIGNS.get(name, name)
            event = f"reaction:{sign}:{base['sender']}"
            yield Inbound(platform_id=about, text=sign, event=event, **base)


def _read_joins(activity: Mapping[str, Any], base: dict[str, Any]) -> Iterator[Inbound]:
    number, listed = str(activity.get("id") or ""), activity.get("membersAdded")
    bot = activity.get("recipient")
    if not _MESSAGE_ID.fullmatch(number):
        return
    for each in listed[:MOST_LISTED] if isinstance(listed, list) else ():
        sender = read_person(each)
        if sender and not (isinstance(bot, Mapping) and each.get("id") == bot.get("id")):
            who = {**base, "sender": sender, "sender_name": _read_name(each)}
            yield Inbound(platform_id=number, text="", event=f"join:{sender}", verb=Verb.JOIN, **who)


def _read_event(activity: Mapping[str, Any]) -> str:
    data = activity.get("channelData")
    return str(data.get("eventType") or "") if isinstance(data, Mapping) else ""


def _read_name(named: Any) -> str:
    return str(named.get("name") or "")[:200] if isinstance(named, Mapping) else ""


def read_time(text: Any) -> int | None:
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * SECOND)
    except (ValueError, OverflowError):
        return None


# Messages of the bot.


def render_activity(message: Outbound) -> dict[str, Any]:
    """Teams has no tables in markdown, so they are code; Discord's dialect has the same marks."""
    if message.card is None:
        made = {"type": "message", "text": render(message.text, DISCORD), "textFormat": "markdown"}
        if measure_payload(made) <= LARGEST_MESSAGE:
            return made
        return {"type": "message", "text": message.text, "textFormat": "plain"}  # its escapes make it too large
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": render_card(message.card)}
    return {"type": "message", "attachments": [attachment], "summary": message.card.title[:200]}


def measure_payload(made: Mapping[str, Any]) -> int:
    return len(msgspec.json.encode(made).decode().encode("utf-16-le"))


def fits_card(card: Card) -> bool:
    return measure_payload(_compose_card(card)) <= LARGEST_CARD


def render_card(card: Card) -> dict[str, Any]:
    """One with buttons is never cut: nobody decides about what they do not see."""
    if fits_card(card):
        return _compose_card(card)
    if card.buttons and not card.done:
        raise Unsupported("card", "teams", f"a card has at most {LARGEST_CARD} bytes; send the rest before it")
    return _compose_card(structs.replace(card, text="", fields=()))


def _compose_card(card: Card) -> dict[str, Any]:
    body: list[dict[str, Any]] = [_render_block(card.title, weight="Bolder", size="Medium")]
    if card.text:
        body.append(_render_block(render(card.text, PLAIN)))
    if card.fields:
        facts = [{"title": escape(each.name), "value": escape(each.value)} for each in card.fields]
        body.append({"type": "FactSet", "facts": facts})
    about = [f"{each.label}: {each.about}" for each in card.buttons if each.about]
    if about and not card.done:
        body.append(_render_block("\n\n".join(about)))
    if card.done:
        body.append(_render_block(card.done, weight="Bolder"))
    elif card.free_text or card.many:
        body.append(_render_block(render_hint(card), isSubtle=True))
    made = {"type": "AdaptiveCard", "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "version": "1.4"}
    styles = {"primary": "positive", "danger": "destructive"}
    buttons = () if card.done else card.buttons
    actions = [
        {
            "type": "Action.Submit",
            "title": each.label,
            "style": styles.get(each.style, "default"),
            "data": {SUBMITTED: each.id},
        }
        for each in buttons
    ]
    return {**made, "body": body, **({"actions": actions} if actions else {})}


def _render_block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "TextBlock", "text": escape(text), "wrap": True, **more}


def escape(text: str) -> str:
    """A card reads some markdown everywhere; what somebody said makes no link there."""
    return re.sub(r"([\\*_\[\]()`])", r"\\\1", text)
