"""Messages of Mastodon, read into our words, and ours in its words. Pure."""

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from gatepost.channels.kit.receiving import make_edit
from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound, Unsupported
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb
from gatepost.messages.markdown.dialects import MASTODON
from gatepost.messages.markdown.markup import render

ID = re.compile(r"[A-Za-z0-9]{1,64}\Z")
FEED = "mastodon:feed"
STAR = "⭐"
LIKES = frozenset(
    {"⭐", "🌟", "👍", "❤", "🎉", "🔥", "💯", "🙏", "👏", "✅", "star", "heart", "+1", "like", "favourite"}
)
LONGEST_HTML = 100_000
MOST_FILES = 8
LONGEST_STATUS, LINK = 500, 23
NO_NAME = "\uff20"  # a wide at sign, which is no name and as long
_LINK, _SERVER = re.compile(r"https?://[^\s]+"), re.compile(r"(@\w+)@[\w.-]+")
LONGEST_LINE = 2 * 1024 * 1024
_TAG = re.compile(r"<(/?[a-zA-Z]{0,10})[^<>]{0,2000}>")
_BREAKS = {"br": "\n", "/p": "\n\n", "/li": "\n", "/blockquote": "\n\n", "/pre": "\n\n"}
_KINDS = {"image": AttachmentKind.IMAGE, "gifv": AttachmentKind.VIDEO, "video": AttachmentKind.VIDEO}
_ACCT = re.compile(r"[\w.-]{1,100}(@[\w.:-]{1,200})?\Z")


class NoteType(StrEnum):
    """Notifications that mean something here."""

    MENTION = "mention"
    FAVOURITE = "favourite"
    FOLLOW = "follow"


class StreamEvent(StrEnum):
    NOTIFICATION = "notification"
    EDITED = "status.update"
    DELETED = "delete"


class StatusVisibility(StrEnum):
    PUBLIC = "public"
    UNLISTED = "unlisted"
    PRIVATE = "private"
    DIRECT = "direct"


class MastodonAccount(Struct, frozen=True):
    id: str
    acct: str


def read_account(raw: Any) -> MastodonAccount | None:
    given = raw if isinstance(raw, Mapping) else {}
    account, acct = str(given.get("id", "")), str(given.get("acct", ""))
    return MastodonAccount(account, acct) if ID.match(account) and _ACCT.match(acct) else None


def get_account_id(address: str) -> str:
    """Return the id in `mastodon:direct/<id>` or `mastodon:account/<id>`, which may come from an agent."""
    kind, _, account = address.removeprefix("mastodon:").partition("/")
    if kind not in ("direct", "account") or not ID.match(account):
        raise NotFound("room", address, f"Mastodon's are {FEED} and mastodon:direct/<account>")
    return account


def check_status_id(text: str) -> str:
    if not ID.match(text):
        raise NotFound("message", text[:40])
    return text


def explain_reaction(address: str, reaction: str) -> str:
    """Return what to use in place of a reaction that Mastodon does not have, or ''."""
    known = reaction.replace("\ufe0f", "").strip(":").lower() in LIKES
    return "" if known else "there are only favourites here; use like with ⭐, or reply"


def check_like(address: str, reaction: str) -> None:
    if hint := explain_reaction(address, reaction):
        raise Unsupported(f"the reaction {reaction[:20]}", "mastodon", hint)


def render_plain(content: str) -> str:
    """The words of a post. Each sign is looked at a bounded number of times."""
    text = _TAG.sub(lambda found: _BREAKS.get(found[1].lower(), ""), content[:LONGEST_HTML])
    return html.unescape(text).strip()


def strip_name(text: str, own: MastodonAccount) -> str:
    """Without the bot's own name at the beginning: every post to it has it."""
    name = re.escape(own.acct.partition("@")[0])
    return re.sub(rf"\A(?:@{name}(?:@[\w.:-]{{1,200}})?(?:\s+|\Z))+", "", text, flags=re.IGNORECASE)


def read_time(raw: Any) -> int | None:
    try:
        return int(datetime.fromisoformat(str(raw)).timestamp() * SECOND)
    except ValueError:
        return None


def read_status(
    status: Mapping[str, Any], root: str, own: MastodonAccount, open_file: Callable[[str], OpenFile]
) -> Inbound | None:
    """`root`: the first post of the conversation."""
    account, number = read_account(status.get("account")), str(status.get("id", ""))
    if account is None or not ID.match(number):
        return None
    direct = status.get("visibility") == StatusVisibility.DIRECT
    answers, spoiler = str(status.get("in_reply_to_id") or ""), str(status.get("spoiler_text") or "")
    text = strip_name(render_plain(str(status.get("content") or "")), own)
    raw = status["account"]
    return Inbound(
        address=f"mastodon:direct/{account.id}" if direct else FEED,
        platform_id=number,
        sender=f"mastodon:account/{account.id}",
        sender_name=str(raw.get("display_name") or account.acct)[:200],
        text=f"[{spoiler[:500]}]\n{text}" if spoiler else text,
        verb=Verb.MENTION,
        thread="" if direct or root == number else root,
        reply_to=Quote(platform_id=answers) if ID.match(answers) else None,
        direct=direct,
        own=account.id == own.id,
        at=read_time(status.get("created_at")),
        attachments=_read_files(status.get("media_attachments"), open_file),
    )


def _read_files(listed: Any, open_file: Callable[[str], OpenFile]) -> tuple[Attachment, ...]:
    """By the server's own copy: the original's address was written by a stranger."""
    found = []
    for each in (listed if isinstance(listed, list) else [])[:MOST_FILES]:
        url = each.get("url") if isinstance(each, Mapping) else None
        if isinstance(url, str) and urlsplit(url).scheme in ("http", "https"):
            kind = (
                AttachmentKind.AUDIO if each.get("type") == AttachmentKind.AUDIO else _KINDS.get(str(each.get("type")))
            )
            name = urlsplit(url).path.rpartition("/")[2][-100:] or "file"
            found.append(Attachment(name=name, kind=kind or AttachmentKind.FILE, open=open_file(url)))
    return tuple(found)


def read_edit(read: Inbound, status: Mapping[str, Any]) -> Inbound:
    return make_edit(read, str(status.get("edited_at") or "")[:40])


def read_favourite(note: Mapping[str, Any], root: str) -> Inbound | None:
    account, status = read_account(note.get("account")), note.get("status")
    if account is None or not isinstance(status, Mapping) or not ID.match(str(status.get("id", ""))):
        return None
    direct = status.get("visibility") == StatusVisibility.DIRECT
    sender = f"mastodon:account/{account.id}"
    return Inbound(
        address=f"mastodon:direct/{account.id}" if direct else FEED,
        platform_id=str(status["id"]),
        sender=sender,
        sender_name=account.acct[:200],
        text=STAR,
        event=f"reaction:{STAR}:{sender}",
        thread="" if direct or root == str(status["id"]) else root,
        direct=direct,
        at=read_time(note.get("created_at")),
    )


def read_follow(note: Mapping[str, Any]) -> Inbound | None:
    account = read_account(note.get("account"))
    if account is None:
        return None
    return Inbound(
        address=FEED,
        platform_id=f"follow-{note.get('id')}",
        sender=f"mastodon:account/{account.id}",
        sender_name=account.acct[:200],
        text="",
        verb=Verb.JOIN,
        at=read_time(note.get("created_at")),
    )


class EventLines:
    """Server-sent events out of the bytes of a stream."""

    def __init__(self) -> None:
        self._rest, self._name = b"", ""

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """(event, data) of those that are now complete. Too long a line is an error, not a wait."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise ValueError("a line of the stream does not end")
        for line in lines:
            field, _, value = line.decode(errors="replace").rstrip("\r").partition(":")
            if field == "event":
                self._name = value.strip()
            elif field == "data" and self._name:
                yield self._name, value.strip()


def render_answer(text: str, names: list[str]) -> str:
    """An answer reaches those whom it names: the person answered, and nobody else whom an agent thinks of. A text that
    this would make too long goes as it was written, with another sign before names."""
    called = [f"@{each}" for each in names]
    made = fit_links(" ".join([*called, render(text, MASTODON)]).strip())
    if count_shown(made) <= LONGEST_STATUS:
        return made
    return fit_links(" ".join([*called, text.replace("@", NO_NAME)]).strip())


def count_shown(text: str) -> int:
    """At least what the server counts: it takes 23 for a link, and leaves the servers of names out."""
    return len(_SERVER.sub(r"\1", _LINK.sub("x" * LINK, text)))


def fit_links(text: str) -> str:
    """Return a text whose short links do not make it too long: without its scheme a link counts by its signs."""
    if count_shown(text) <= LONGEST_STATUS:
        return text
    return _LINK.sub(lambda found: found[0].partition("://")[2] if len(found[0]) < LINK else found[0], text)


def name_files(text: str, names: Sequence[str]) -> str:
    """The words of a post with a line for each file that it cannot show, as far as they fit."""
    named = "\n".join(part for part in (text, *(f"[file: {each}]" for each in names)) if part)
    if count_shown(named) <= LONGEST_STATUS or not names:
        return named
    return f"{text}\n[{len(names)} files that this post cannot show]"


def find_stream_url(base: str, given: Any) -> str:
    """Return where the stream is: as the server says, if that is a name of its own; the token goes there."""
    parts, own = urlsplit(str(given or "")), urlsplit(base)
    host, home = (parts.hostname or "").lower(), (own.hostname or "").lower()
    if parts.scheme not in ("wss", "https", "ws", "http") or not (host == home or host.endswith(f".{home}")):
        return base
    safe = "https" if own.scheme == "https" else parts.scheme.replace("ws", "http")
    return f"{safe}://{parts.netloc}/"
