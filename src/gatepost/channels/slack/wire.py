"""Slack's messages in our words. Pure: an event and the names in it in, an `Inbound` out.

A room is `slack:<team>/channel/<id>`, also a direct one (its id begins with D). A person is `slack:<team>/user/<id>`,
another program `slack:<team>/bot/<id>`. A message is named by its `ts`, which is unique in its channel.
"""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from msgspec import Struct

from gatepost.channels.kit.native_commands import ShownCommand, render_given
from gatepost.channels.kit.receiving import make_edit
from gatepost.messages.card import join_clicks
from gatepost.messages.inbound import CLICK, Attachment, AttachmentKind, Inbound, OpenFile, Verb

# Names of emoji: the short names of emoji-datasource 16, one emoji a line, in `emoji_names.txt`.

_NAME = re.compile(r"[a-z0-9_+'-]{1,80}\Z")
_SHADES = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f]")  # of skin, and the sign that asks for a picture


def _read_names() -> dict[str, str]:
    lines = (Path(__file__).parent / "emoji_names.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" ") for line in lines]
    return {name: emoji for emoji, *names in rows for name in names}


NAMES = _read_names()
_BY_EMOJI = {_SHADES.sub("", emoji) or emoji: name for name, emoji in reversed(NAMES.items())}


def read_emoji(name: str) -> str:
    """Return the emoji of a name, or the name between colons: it may be one of the workspace's own."""
    plain = name.partition("::")[0]
    return NAMES.get(plain) or f":{plain[:80]}:"


def render_emoji(emoji: str) -> str:
    """Return the name of an emoji, or of a name between colons; '' if there is none."""
    given = emoji.strip().strip(":").lower()
    if _NAME.match(given):
        return given
    plain = emoji.strip()
    return _BY_EMOJI.get(_SHADES.sub("", plain) or plain, "")


def explain_reaction(address: str, reaction: str) -> str:
    """Return what to use in place of a sign that has no name on Slack, or ''."""
    return "" if render_emoji(reaction) else "use an emoji, or a name of the workspace's own such as :tada:"


Payload = Mapping[str, Any]
OpenUrl = Callable[[str], OpenFile]

_ID = re.compile(r"[A-Z][A-Z0-9]{1,30}\Z")
_TS = re.compile(r"[0-9]{1,12}\.[0-9]{6}\Z")
_ROOM = re.compile(r"slack:([A-Z][A-Z0-9]{1,30})/channel/([CDG][A-Z0-9]{1,30})\Z")
_PERSON = re.compile(r"slack:[A-Z][A-Z0-9]{1,30}/user/([UW][A-Z0-9]{1,30})\Z")
_COMMAND = re.compile(r"/([a-z0-9_-]{1,31})\Z")
_TRIGGER = re.compile(r"[A-Za-z0-9.]{1,100}\Z")
_LINK = re.compile(r"<([^<>|]{1,3000})(?:\|([^<>]{0,3000}))?>")
_CALLED = re.compile(r"<@([UW][A-Z0-9]{1,30})(?:\|[^<>]*)?>")
WRITTEN = frozenset({None, "bot_message", "file_share", "me_message", "thread_broadcast"})
JOINED = frozenset({"channel_join", "group_join"})
MOST_FILES = 10
MOST_CHOSEN = 25


class SlackSelf(Struct, frozen=True):
    """Our own account there."""

    team: str = ""
    user: str = ""
    bot: str = ""
    name: str = ""
    shown: tuple[str, ...] = ()  # what people see in its place


class SlackNames(Struct, frozen=True):
    """Names of the ids in an event, as far as we were told."""

    room: str = ""
    people: Mapping[str, str] = {}


def is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.match(value) is not None


def is_ts(value: object) -> bool:
    return isinstance(value, str) and _TS.match(value) is not None


def parse_room(address: str) -> str:
    """The channel of an address; '' if it is none of ours."""
    found = _ROOM.match(address)
    return found[2] if found else ""


def parse_person(sender: str) -> str:
    found = _PERSON.match(sender)
    return found[1] if found else ""


def read_ts(value: object) -> int | None:
    """A `ts` as microseconds UTC."""
    try:
        return int(Decimal(str(value)) * 1_000_000) if is_ts(value) else None
    except InvalidOperation:
        return None


def render_ts(at: int) -> str:
    return f"{at // 1_000_000}.{at % 1_000_000:06d}"


def list_people(event: Payload) -> list[str]:
    """Return whose names an event needs, at most a few."""
    inner = event.get("message") or event.get("previous_message") or event
    called = _CALLED.findall(str(inner.get("text") or ""))[:10]
    return list(dict.fromkeys(each for each in (inner.get("user"), event.get("user"), *called) if is_id(each)))


def read_text(text: str, names: SlackNames) -> str:
    """Without the escapes. A link keeps its address."""

    def replace_link(found: re.Match[str]) -> str:
        target, label = found[1], found[2]
        if target[0] == "@":
            return f"@{names.people.get(target[1:]) or label or target[1:]}"
        if target[0] in "#!":
            return f"{'@' if target[0] == '!' else '#'}{label or target[1:]}"
        return f"[{label}]({target})" if label and label != target else target

    return html.unescape(_LINK.sub(replace_link, text))


def _read_sender(message: Payload, me: SlackSelf, names: SlackNames) -> tuple[str, str, bool]:
    """(address, name, whether it is ourselves)."""
    user, bot = message.get("user"), message.get("bot_id")
    own = (bool(me.user) and user == me.user) or (bool(me.bot) and bot == me.bot)
    if bot and not own:
        name = str(message.get("username") or (message.get("bot_profile") or {}).get("name") or "")
        return f"slack:{me.team}/bot/{bot if is_id(bot) else 'unknown'}", name[:100], False
    known = str(user) if is_id(user) else "unknown"
    return f"slack:{me.team}/user/{known}", names.people.get(known, "")[:100], own


def read_message(event: Payload, channel: str, me: SlackSelf, names: SlackNames, open_url: OpenUrl) -> Inbound | None:
    """A new message, or somebody's joining; None for a notice of the platform."""
    ts, subtype = event.get("ts"), event.get("subtype")
    if not is_ts(ts) or not is_id(channel) or (subtype not in WRITTEN and subtype not in JOINED):
        return None
    sender, name, own = _read_sender(event, me, names)
    thread = event.get("thread_ts")
    joined = subtype in JOINED
    shared = _find_shared(event) if not event.get("text") else {}
    return Inbound(
        address=f"slack:{me.team}/channel/{channel}",
        platform_id=str(ts),
        sender=sender,
        sender_name=name,
        text="" if joined else read_text(str(event.get("text") or shared.get("text") or ""), names),
        forwarded=bool(shared),
        forward_from=str(shared.get("author_name") or "")[:100],
        verb=Verb.JOIN if joined else _read_verb(event, me),
        thread=str(thread) if is_ts(thread) and thread != ts else "",
        direct=channel.startswith("D"),
        own=own,
        room_name=names.room,
        at=read_ts(ts),
        attachments=tuple(
            _read_file(each, open_url) for each in (event.get("files") or ())[:MOST_FILES] if each.get("url_private")
        ),
    )


def _find_shared(event: Payload) -> Payload:
    """The message that somebody passed on without words of their own."""
    listed = event.get("attachments")
    found = (each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, dict))
    return next((each for each in found if each.get("is_share")), {})


def _read_verb(event: Payload, me: SlackSelf) -> Verb:
    if me.user and me.user in _CALLED.findall(str(event.get("text") or "")):
        return Verb.MENTION
    return Verb.REPLY if me.user and event.get("parent_user_id") == me.user else Verb.MESSAGE


def _read_file(file: Payload, open_url: OpenUrl) -> Attachment:
    mime = str(file.get("mimetype") or "application/octet-stream")
    family = mime.partition("/")[0]
    kind = AttachmentKind(family) if family in ("image", "audio", "video") else AttachmentKind.FILE
    size, url = file.get("size"), str(file.get("url_private_download") or file["url_private"])
    return Attachment(
        name=str(file.get("name") or file.get("title") or "file")[:200],
        mime=mime,
        kind=kind,
        size=size if isinstance(size, int) else None,
        open=open_url(url),
    )


def read_edit(event: Payload, channel: str, me: SlackSelf, names: SlackNames, open_url: OpenUrl) -> Inbound | None:
    """None where nobody changed anything: a preview of a link was added, or a thread began."""
    message = event.get("message") or {}
    revision = (message.get("edited") or {}).get("ts")
    made = read_message(message, channel, me, names, open_url) if is_ts(revision) else None
    if made is None or made.verb is Verb.JOIN:
        return None
    return make_edit(made, revision, read_ts(revision))


def read_delete(event: Payload, channel: str, me: SlackSelf, names: SlackNames) -> Inbound | None:
    """The platform does not say who did it, only who had written it."""
    ts, before = event.get("deleted_ts"), event.get("previous_message") or {}
    if not is_ts(ts) or not is_id(channel):
        return None
    sender, name, own = _read_sender(before, me, names)
    thread = before.get("thread_ts")
    return Inbound(
        address=f"slack:{me.team}/channel/{channel}",
        platform_id=str(ts),
        sender=sender,
        sender_name=name,
        text="",
        event="delete",
        verb=Verb.DELETE,
        thread=str(thread) if is_ts(thread) and thread != ts else "",
        direct=channel.startswith("D"),
        own=own,
        room_name=names.room,
        at=read_ts(event.get("ts")),
    )


def read_reaction(event: Payload, me: SlackSelf, names: SlackNames) -> Inbound | None:
    item, user = event.get("item") or {}, event.get("user")
    channel, ts = item.get("channel"), item.get("ts")
    if item.get("type") != "message" or not is_id(channel) or not is_ts(ts) or not is_id(user):
        return None
    sender, name, own = _read_sender({"user": user}, me, names)
    return Inbound(
        address=f"slack:{me.team}/channel/{channel}",
        platform_id=str(ts),
        sender=sender,
        sender_name=name,
        text="",
        event=f"reaction:{read_emoji(str(event.get('reaction') or ''))}:{sender}",
        verb=Verb.LIKE,
        direct=str(channel).startswith("D"),
        own=own,
        room_name=names.room,
        at=read_ts(event.get("event_ts")),
    )


def read_click(payload: Payload, me: SlackSelf) -> Inbound | None:
    """A pressed button. Boxes that are ticked wait for the button below them."""
    action: Payload = next(iter(payload.get("actions") or ()), {})
    where, user = payload.get("container") or {}, payload.get("user") or {}
    channel, ident = where.get("channel_id"), user.get("id")
    if payload.get("type") != "block_actions" or action.get("type") != "button":
        return None
    if not is_id(channel) or not is_id(ident) or not is_ts(action.get("action_ts")):
        return None
    click = str(action.get("value") or "")[:200]
    if action.get("action_id") == "many":
        chosen = _list_chosen(payload)
        if not chosen:
            return None
        click = join_clicks(chosen)
    thread = where.get("thread_ts")
    return Inbound(
        address=f"slack:{me.team}/channel/{channel}",
        platform_id=f"{action['action_ts']}:{ident}",
        sender=f"slack:{me.team}/user/{ident}",
        sender_name=str(user.get("name") or user.get("username") or "")[:100],
        text="",
        event=CLICK,
        click=click,
        thread=str(thread) if is_ts(thread) and thread != where.get("message_ts") else "",
        direct=str(channel).startswith("D"),
        at=read_ts(action["action_ts"]),
    )


def read_command(payload: Payload, me: SlackSelf, commands: Sequence[ShownCommand]) -> Inbound | None:
    """A slash command, as its person would have typed it; None for one of another workspace. Slack has no message of
    it, so it is known by the id of its trigger, which each has for itself."""
    channel, user, trigger = payload.get("channel_id"), payload.get("user_id"), str(payload.get("trigger_id") or "")
    found = _COMMAND.match(str(payload.get("command") or ""))
    if found is None or not is_id(channel) or not is_id(user) or not _TRIGGER.match(trigger):
        return None
    if payload.get("team_id") != me.team:
        return None
    return Inbound(
        address=f"slack:{me.team}/channel/{channel}",
        platform_id=f"command:{trigger}",
        sender=f"slack:{me.team}/user/{user}",
        sender_name=str(payload.get("user_name") or "")[:100],
        text=render_given(commands, found[1], html.unescape(str(payload.get("text") or "")).strip()),
        verb=Verb.MENTION,  # it names this app
        direct=str(channel).startswith("D"),
    )


def _list_chosen(payload: Payload) -> list[str]:
    values = (payload.get("state") or {}).get("values") or {}
    boxes = [box for block in values.values() for box in block.values() if box.get("type") == "checkboxes"]
    chosen = [str(each.get("value"))[:200] for box in boxes for each in box.get("selected_options") or ()]
    return chosen[:MOST_CHOSEN]
