"""Lines of IRC, read and written. Pure. No word of anybody becomes a command: control characters are replaced."""

import base64
import re
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from string import ascii_lowercase, ascii_uppercase

from msgspec import Struct, field

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound, Verb, mark_untrusted

LONGEST_TEXT = 340
MOST_LINES = 8  # of one message; more are joined, or the server takes them for a flood
WANTED = ("message-tags", "server-time", "account-tag", "echo-message", "sasl")
_CHANNEL = re.compile(r"[#&+!][^\x00-\x20,:\x7f]{1,49}\Z")
_NICK = re.compile(r"[A-Za-z\[\]\\`_^{|}][\w\[\]\\`^{|}-]{0,49}\Z", re.ASCII)
_ACCOUNT = re.compile(r"[^\x00-\x20*,:/@\x7f]{1,64}\Z")
_FORMATS = re.compile(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04[0-9A-Fa-f]{0,6}|[\x00-\x08\x0b-\x1f\x7f]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_UNESCAPED = {":": ";", "s": " ", "\\": "\\", "r": "", "n": ""}
_ACTION = "\x01ACTION "


class CaseMapping(StrEnum):
    """Which names a network takes for one."""

    ASCII = "ascii"
    RFC1459 = "rfc1459"
    RFC1459_STRICT = "rfc1459-strict"


_KNOWN_MAPPINGS = frozenset(CaseMapping)
_FOLDS = {
    CaseMapping.ASCII: str.maketrans(ascii_uppercase, ascii_lowercase),
    CaseMapping.RFC1459: str.maketrans(f"{ascii_uppercase}[]\\^", f"{ascii_lowercase}{{}}|~"),
    CaseMapping.RFC1459_STRICT: str.maketrans(f"{ascii_uppercase}[]\\", f"{ascii_lowercase}{{}}|"),
}


class IrcLine(Struct, frozen=True, kw_only=True):
    command: str
    params: tuple[str, ...] = ()
    nick: str = ""  # of whoever it is from
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def last(self) -> str:
        return self.params[-1] if self.params else ""


def parse_line(raw: bytes) -> IrcLine:
    text = raw.decode(errors="replace").rstrip("\r\n")
    tags: dict[str, str] = {}
    if text.startswith("@"):
        listed, _, text = text[1:].partition(" ")
        for each in listed.split(";"):
            name, _, value = each.partition("=")
            tags[name] = re.sub(r"\\(.?)", lambda found: _UNESCAPED.get(found[1], found[1]), value)
    source = ""
    text = text.lstrip(" ")
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    middle, colon, last = f" {text}".partition(" :")
    words = middle.split()
    params = (*words[1:], last) if colon else tuple(words[1:])
    return IrcLine(command=words[0].upper() if words else "", params=params, nick=source.partition("!")[0], tags=tags)


def fold(name: str, mapping: CaseMapping = CaseMapping.ASCII) -> str:
    """One spelling for what the network takes for one name. Letters other than ASCII's are different names everywhere:
    `str.lower` would make a k of the Kelvin sign."""
    return name.translate(_FOLDS[mapping])


def read_mapping(line: IrcLine) -> CaseMapping | None:
    """Return what the network says of it in its list of features (005); None if this line does not. One that we do not
    know counts as ASCII's: it may tell one person's spellings apart, and never takes two people for one."""
    for word in line.params[1:]:
        name, _, value = word.partition("=")
        if name.upper() == "CASEMAPPING":
            return CaseMapping(value.lower()) if value.lower() in _KNOWN_MAPPINGS else CaseMapping.ASCII
    return None


def clean(text: str) -> str:
    """One line, without anything that a server or a terminal obeys."""
    return _CONTROLS.sub(" ", text)


def parse_target(address: str) -> str:
    """The channel or nick of an address, which may come from an agent."""
    kind, _, name = address.removeprefix("irc:").partition("/")
    if (kind == "channel" and _CHANNEL.match(name)) or (kind == "direct" and _NICK.match(name)):
        return name
    raise NotFound("room", address, "IRC's are irc:channel/<#name> and irc:direct/<nick>")


def check_nick(nick: str) -> str:
    if not _NICK.match(nick):
        raise Invalid("nick", f"{nick[:40]!r} is no nick; use letters, digits and _ - [ ] {{ }}")
    return nick


def is_channel(name: str) -> bool:
    return bool(_CHANNEL.match(name))


def get_account(line: IrcLine) -> str:
    """The account that the network says this person has; '' if it says none."""
    account = line.tags.get("account", "")
    return account if _ACCOUNT.match(account) else ""


def read_message(
    line: IrcLine, own: str, number: str, trust_nicks: bool, mapping: CaseMapping = CaseMapping.ASCII
) -> Inbound | None:
    """`number`: an id for a line that has none of its own."""
    if len(line.params) < 2 or not _NICK.match(line.nick):
        return None
    target, text = line.params[0], line.last
    if text.startswith("\x01") and not text.startswith(_ACTION):
        return None  # a question of one program to another
    if text.startswith(_ACTION):
        text = f"* {line.nick} {text[len(_ACTION) :].rstrip(chr(1))}"
    direct = fold(target, mapping) == fold(own, mapping)
    if not direct and not _CHANNEL.match(target):
        return None
    text, named = read_mention(_FORMATS.sub("", text), own)
    sender, proven = find_sender(line, trust_nicks, mapping)
    verb = Verb.MENTION if named else Verb.MESSAGE
    return Inbound(
        address=f"irc:direct/{fold(line.nick, mapping)}" if direct else f"irc:channel/{fold(target, mapping)}",
        platform_id=line.tags.get("msgid", "")[:200] or number,
        sender=sender,
        sender_name=line.nick,
        text=text,
        verb=verb if proven else Verb.UNTRUSTED,
        direct=direct,
        room_name="" if direct else target,
        at=read_time(line.tags.get("time", "")),
    )


def read_mention(text: str, own: str) -> tuple[str, bool]:
    """The text without `nick:` at its beginning, and whether the bot is named in it."""
    name = re.escape(own)
    called = re.match(rf"@?{name}\s*[:,]\s+", text, re.IGNORECASE)
    if called:
        return text[called.end() :], True
    return text, re.search(rf"(?<![\w-]){name}(?![\w-])", text, re.IGNORECASE) is not None


def find_sender(line: IrcLine, trust_nicks: bool, mapping: CaseMapping) -> tuple[str, bool]:
    """Return who it is from, and whether that is proven."""
    if account := get_account(line):
        return f"irc:account/{fold(account, mapping)}", True
    return f"irc:nick/{fold(line.nick, mapping)}", trust_nicks


def read_join(
    line: IrcLine, own: str, number: str, trust_nicks: bool = False, mapping: CaseMapping = CaseMapping.ASCII
) -> Inbound | None:
    channel = line.params[0] if line.params else ""
    if not _CHANNEL.match(channel) or not _NICK.match(line.nick) or fold(line.nick, mapping) == fold(own, mapping):
        return None
    sender, proven = find_sender(line, trust_nicks, mapping)
    joined = Inbound(
        address=f"irc:channel/{fold(channel, mapping)}",
        platform_id=line.tags.get("msgid", "")[:200] or number,
        sender=sender,
        sender_name=line.nick,
        text="",
        verb=Verb.JOIN if proven else Verb.UNTRUSTED,
        room_name=channel,
        at=read_time(line.tags.get("time", "")),
    )
    return replace(mark_untrusted(joined), verb=Verb.JOIN)


def read_time(raw: str) -> int | None:
    try:
        return int(datetime.fromisoformat(raw).timestamp() * SECOND)
    except ValueError:
        return None


def render_lines(text: str) -> list[str]:
    """A message as lines of the network, none empty, none too long, and not too many."""
    lines = [clean(line).rstrip() for line in text.split("\n")]
    lines = [line for line in lines if line]
    if len(lines) > MOST_LINES:
        lines = [" ⏎ ".join(lines)]
    return [part for line in lines for part in cut_bytes(line)]


def cut_bytes(line: str) -> Iterator[str]:
    raw = line.encode()
    while len(raw) > LONGEST_TEXT:
        at = LONGEST_TEXT
        while raw[at] & 0xC0 == 0x80:  # inside of a character
            at -= 1
        space = raw.rfind(b" ", at // 2, at)
        at = space if space > 0 else at
        yield raw[:at].decode()
        raw = raw[at:].lstrip(b" ")
    if raw:
        yield raw.decode()


def render_plain_login(account: str, password: str) -> list[str]:
    """SASL PLAIN in pieces of 400 characters."""
    secret = base64.b64encode(f"{account}\0{account}\0{password}".encode()).decode()
    pieces = [secret[at : at + 400] for at in range(0, len(secret), 400)]
    return [*pieces, "+"] if len(pieces[-1]) == 400 else pieces
