"""Listings of Reddit, read into our words, and our messages in its words. Pure."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound, Refused, Unavailable
from gatepost.messages.inbound import Inbound, Quote, Verb
from gatepost.messages.markdown.dialects import REDDIT, SPACER
from gatepost.messages.markdown.markup import render

LONGEST_TEXT = 10_000
LONGEST_WAIT_S = 3600.0
UNKNOWN_WAIT_S = 60.0  # where Reddit names no time
MENTION = "username_mention"
OTHER_SLASH = "\u2044"  # looks like one, and makes no name of a word: for a text that must not become longer
_ID = re.compile(r"(t[134])_([a-z0-9]{1,13})\Z")
_NAME = re.compile(r"[A-Za-z0-9_-]{2,30}\Z")
_SUBREDDIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{1,30}\Z")
_POST_ROOM = re.compile(r"reddit:([a-z0-9_][a-z0-9_-]{1,30})/post/([a-z0-9]{1,13})\Z")
_DIRECT_ROOM = re.compile(r"reddit:direct/([a-z0-9_-]{2,30})\Z")
_CONTEXT = re.compile(r"/r/[^/]{1,40}/comments/([a-z0-9]{1,13})/")
_WAIT = re.compile(r"(\d{1,6}) (millisecond|second|minute|hour)s?")
_UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}


LONGEST_TITLE = 300  # of a post: reddit.com/dev/api, POST /api/submit


class ThingKind(StrEnum):
    """Reddit's prefixes of ids."""

    COMMENT = "t1"
    POST = "t3"
    MESSAGE = "t4"


class RedditRoom(Struct, frozen=True):
    """A post of a subreddit, or the private messages with somebody (`person`)."""

    subreddit: str = ""
    post: str = ""
    person: str = ""

    @property
    def address(self) -> str:
        return f"reddit:direct/{self.person}" if self.person else f"reddit:{self.subreddit}/post/{self.post}"

    @property
    def post_id(self) -> str:
        return f"{ThingKind.POST}_{self.post}"


class Thing(Struct, frozen=True):
    """A comment, a post or a message, as far as it counts here."""

    kind: ThingKind
    name: str  # with the prefix of its kind
    author: str
    words: str
    room: RedditRoom
    subject: str = ""  # of a post, or of a message that begins a conversation
    room_name: str = ""
    parent: str = ""  # the comment or message that it answers
    created: float = 0.0
    mention: bool = False

    @property
    def number(self) -> int:
        return get_number(self.name)

    @property
    def text(self) -> str:
        return f"{self.subject}\n\n{self.words}".strip() if self.subject else self.words


def get_number(name: str) -> int:
    """Ids rise: a later thing of a kind has a larger number."""
    return int(name.partition("_")[2] or "0", 36)


def is_id(text: Any, *kinds: ThingKind) -> bool:
    found = _ID.match(text) if isinstance(text, str) else None
    return found is not None and (not kinds or found[1] in kinds)


def is_name(text: Any) -> bool:
    return isinstance(text, str) and bool(_NAME.match(text))


def is_subreddit(name: str) -> bool:
    return bool(_SUBREDDIT.match(name))


def parse_address(address: str) -> RedditRoom:
    """Addresses may come from an agent, so they are checked."""
    if found := _DIRECT_ROOM.match(address):
        return RedditRoom(person=found[1])
    if found := _POST_ROOM.match(address):
        return RedditRoom(subreddit=found[1], post=found[2])
    raise NotFound("room", address, "rooms are reddit:<subreddit>/post/<id> and reddit:direct/<name>")


def parse_person(sender: str) -> str:
    found = sender.removeprefix("reddit:user/")
    if found == sender or not _NAME.match(found):
        raise NotFound("person", sender, "people are reddit:user/<name>")
    return found.lower()


# Listings of Reddit.


def list_children(answer: Any) -> list[Mapping[str, Any]]:
    """The things of a listing, as Reddit writes them: `kind` and `data`."""
    data = answer.get("data") if isinstance(answer, Mapping) else None
    found = data.get("children") if isinstance(data, Mapping) else None
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def read_after(answer: Any) -> str:
    """Return where the next page begins, '' after the last one."""
    data = answer.get("data") if isinstance(answer, Mapping) else None
    after = data.get("after") if isinstance(data, Mapping) else None
    return str(after) if is_id(after) else ""


def read_thing(child: Mapping[str, Any], me: str) -> Thing | None:
    """None: nobody said it (the account is deleted), or it is of no use."""
    raw, kind = child.get("data"), child.get("kind")
    if not isinstance(raw, Mapping) or kind not in frozenset(ThingKind):
        return None
    name, author = raw.get("name"), raw.get("author")
    if not is_id(name, ThingKind(kind)) or not is_name(author):
        return None
    room = _read_room(ThingKind(kind), raw, str(author), me)
    if room is None:
        return None
    parent = raw.get("parent_id")
    return Thing(
        kind=ThingKind(kind),
        name=str(name),
        author=str(author),
        words=_read_words(ThingKind(kind), raw),
        room=room,
        subject=_read_subject(ThingKind(kind), raw),
        room_name=_read_room_name(room, raw),
        parent=str(parent) if is_id(parent, ThingKind.COMMENT, ThingKind.MESSAGE) else "",
        created=_read_number(raw.get("created_utc")),
        mention=raw.get("type") == MENTION,
    )


def _read_room(kind: ThingKind, raw: Mapping[str, Any], author: str, me: str) -> RedditRoom | None:
    if kind is ThingKind.MESSAGE:
        if raw.get("subreddit"):  # mail of moderators, which has no person to answer
            return None
        other = _read_string(raw.get("dest")) if author.lower() == me.lower() else author
        return RedditRoom(person=other.lower()) if _NAME.match(other) else None
    subreddit = _read_string(raw.get("subreddit"))
    post = _read_string(raw.get("id")) if kind is ThingKind.POST else _read_post(raw)
    if not is_subreddit(subreddit) or not is_id(f"{ThingKind.POST}_{post}"):
        return None
    return RedditRoom(subreddit=subreddit.lower(), post=post)  # Reddit finds it in any case; for us it is one room


def _read_post(raw: Mapping[str, Any]) -> str:
    """A comment names its post; in the inbox that is only in the path that leads to it."""
    link = raw.get("link_id")
    if is_id(link, ThingKind.POST):
        return str(link).partition("_")[2]
    found = _CONTEXT.match(_read_string(raw.get("context")))
    return found[1] if found else ""


def _read_words(kind: ThingKind, raw: Mapping[str, Any]) -> str:
    if kind is not ThingKind.POST:
        return _read_string(raw.get("body"))
    return _read_string(raw.get("selftext")) or ("" if raw.get("is_self") else _read_string(raw.get("url")))


def _read_subject(kind: ThingKind, raw: Mapping[str, Any]) -> str:
    """Read the title of a post, or the subject of the first message. A message of the chat has a subject in
    brackets."""
    if kind is ThingKind.POST:
        return _read_string(raw.get("title"))
    subject = _read_string(raw.get("subject")) if kind is ThingKind.MESSAGE else ""
    return "" if raw.get("parent_id") or subject.startswith("[") else subject


def _read_room_name(room: RedditRoom, raw: Mapping[str, Any]) -> str:
    if room.person:
        return ""
    title = _read_string(raw.get("link_title") or raw.get("title"))[:200]
    return f"r/{room.subreddit}: {title}" if title else f"r/{room.subreddit}"


def _read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _read_number(value: Any) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good and 0 <= value < 1e11 else 0.0


def sort_things(things: Iterable[Thing]) -> list[Thing]:
    """Oldest first, each once. Times have whole seconds; a post is older than its comments."""
    once = {each.name: each for each in things}
    return sorted(once.values(), key=lambda each: (each.created, each.kind is not ThingKind.POST, each.number))


def read_event(thing: Thing, root: str, me: str) -> Inbound:
    """`root`: the comment at the top of its thread."""
    named = thing.mention or is_mentioned(thing.text, me)
    direct = bool(thing.room.person)
    verb = Verb.MENTION if named and not direct else Verb.REPLY if thing.parent else Verb.MESSAGE
    return Inbound(
        address=thing.room.address,
        platform_id=thing.name,
        sender=f"reddit:user/{thing.author.lower()}",
        sender_name=thing.author,
        text=strip_name(thing.text, me),
        verb=verb,
        thread="" if direct else root,
        direct=direct,
        own=thing.author.lower() == me.lower(),
        room_name=thing.room_name,
        at=int(thing.created * SECOND) or None,
        reply_to=Quote(platform_id=thing.parent) if thing.parent else None,
    )


def is_mentioned(text: str, name: str) -> bool:
    return bool(name) and re.search(rf"(?<![\w/])/?u/{re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def strip_name(text: str, name: str) -> str:
    """Without the bot's own name at the beginning, so that a command behind it is one."""
    return re.sub(rf"\A(?:/?u/{re.escape(name)}(?![\w-])[,:]?\s*)+", "", text, flags=re.IGNORECASE)


def walk_comments(children: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Every comment of a tree, each before its replies."""
    waiting = list(children)[::-1]
    while waiting:
        child = waiting.pop()
        yield child
        raw = child.get("data")
        waiting += list_children(raw.get("replies") if isinstance(raw, Mapping) else None)[::-1]


# Outgoing.


def render_text(text: str) -> str:
    """Render a text. If escapes make it too long it goes as it is: Reddit reads markdown itself. A name calls nobody
    either way."""
    rendered = _keep_breaks(render(text, REDDIT))
    if len(rendered) <= LONGEST_TEXT:
        return rendered
    assert REDDIT.pings is not None
    return REDDIT.pings.sub(lambda found: found[0][:-1] + OTHER_SLASH, text)


def _keep_breaks(text: str) -> str:
    """Reddit joins lines, unless two spaces stand before the break."""
    lines, fence, kept = text.split("\n"), "", []
    for at, line in enumerate(lines):
        opens = re.match(r"[> ]*(`{3,}|~{3,})", line)
        if opens is not None:
            fence = "" if fence and opens[1].startswith(fence) else fence or opens[1]
        follows = at + 1 < len(lines) and lines[at + 1].strip() != ""
        plain = not fence and opens is None and line.strip() != "" and not line.endswith("|")
        kept.append(f"{line}  " if plain and follows else line)
    return "\n".join(kept)


def digest_text(text: str) -> str:
    """Hash the words alone: Reddit may change spaces and line breaks."""
    return hashlib.sha256("".join(text.replace(SPACER, "").split()).encode()).hexdigest()[:24]


class SendNote(Struct, frozen=True):
    """By what a comment or message can be found again."""

    kind: ThingKind
    address: str
    parent: str  # the comment that is answered; a message is known by its room
    digest: str
    after: int  # our newest one before it; -1: that could not be known
    at: int  # when this try began, microseconds UTC

    def matches(self, thing: Thing) -> bool:
        if thing.number <= self.after or thing.kind is not self.kind:
            return False
        if self.kind is ThingKind.POST:  # a room of its own, in the subreddit of the room that it was asked for in
            return thing.room.subreddit == parse_address(self.address).subreddit and self._has_words(thing.text)
        if thing.room.address != self.address:
            return False
        placed = self.kind is ThingKind.MESSAGE or thing.parent == self.parent
        return placed and self._has_words(thing.words)

    def _has_words(self, text: str) -> bool:
        return digest_text(text) == self.digest


def split_title(text: str) -> tuple[str, str]:
    """The first line as the title of a post, and the rest. A longer line is the title's beginning, and stays whole."""
    first, _, rest = text.strip().partition("\n")
    title = " ".join(first.lstrip("#").split())
    if len(title) <= LONGEST_TITLE:
        return title, rest.strip()
    return f"{title[: LONGEST_TITLE - 1]}…", text.strip()


def render_note(note: SendNote) -> str:
    return json.dumps([note.kind, note.address, note.parent, note.digest, note.after, note.at], separators=(",", ":"))


def parse_note(text: str) -> SendNote:
    kind, address, parent, digest, after, at = json.loads(text)
    return SendNote(ThingKind(kind), address, parent, digest, after, at)


LIMITS = frozenset({"RATELIMIT", "SUBREDDIT_RATELIMIT"})  # of the account, or in one subreddit: "try again later"


def check_answer(answer: Any, action: str) -> Mapping[str, Any]:
    """The data of an answer. Reddit says no with the status 200, too."""
    inner = answer.get("json") if isinstance(answer, Mapping) else None
    errors = inner.get("errors") if isinstance(inner, Mapping) else None
    for each in errors if isinstance(errors, list) else ():
        code, words = ([str(part) for part in each] + ["", ""])[:2] if isinstance(each, list) else (str(each), "")
        if code in LIMITS:
            raise Unavailable("Reddit", f"it asks us to wait ({words[:100]})", retry_after=_find_wait(inner, words))
        raise Refused("this bot", action, "Reddit", f"{code} {' '.join(words.split())}"[:300].strip())
    data = inner.get("data") if isinstance(inner, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def _find_wait(inner: Any, words: str) -> float:
    wait_s = _read_number(inner.get("ratelimit"))
    found = _WAIT.search(words)
    if not wait_s and found:
        wait_s = int(found[1]) * _UNITS[found[2]] + 1
    return min(wait_s or UNKNOWN_WAIT_S, LONGEST_WAIT_S)
