"""Route targets: where a route leads. Read in one place, refused when written if they lead nowhere.

folder            a turn of that group              folder#observe   context for it, no turn
folder#topic      a turn in that pinned thread      folder:x         x (also when x is called `drop`)
acme/{sender}     the sender as one path segment    drop             nobody gets it; that is recorded
builtin:NAME      a named internal receiver (root's alone; there is none yet)
"""

import re
from collections.abc import Collection
from functools import lru_cache

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.messages.address import safe_segment

BUILTINS: tuple[str, ...] = ()
LONGEST_TOPIC = 128
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
_SENDER = "{sender}"


class RouteTarget(Struct, frozen=True):
    """`folder` may hold `{sender}`; '' means that nobody gets it."""

    folder: str
    observe: bool = False
    topic: str | None = None

    @property
    def drops(self) -> bool:
        return not self.folder

    @property
    def template(self) -> bool:
        return _SENDER in self.folder


@lru_cache(maxsize=4096)
def parse(text: str) -> RouteTarget:
    """Read a target; a bad one is refused with what is wrong about it."""
    if text == "drop":
        return RouteTarget("")
    prefix, colon, rest = text.partition(":")
    if colon and prefix == "folder":
        text = rest
    elif colon and prefix == "builtin":
        raise Invalid("target", f"there is no builtin {rest!r}; built in: {', '.join(BUILTINS) or 'none yet'}")
    elif colon and prefix == "daemon":
        raise Invalid("target", "'daemon:' does not exist; an internal receiver is builtin:NAME, a group its folder")
    folder, hash_sign, pinned = text.partition("#")
    _check_folder(folder)
    if not hash_sign:
        return RouteTarget(folder)
    if pinned == "observe":
        return RouteTarget(folder, observe=True)
    if not pinned.strip() or len(pinned) > LONGEST_TOPIC or any(ord(char) < 32 for char in pinned):
        raise Invalid("target", f"after '#' stands observe or a topic of at most {LONGEST_TOPIC} printable characters")
    return RouteTarget(folder, topic=pinned)


def _check_folder(folder: str) -> None:
    for segment in folder.split("/"):
        filled = segment.replace(_SENDER, "x", 1)
        if "{" in filled or "}" in filled:
            raise Invalid("target", f"{segment!r}: only {{sender}} can be filled in, and once in a segment")
        if not _SEGMENT.match(filled):
            raise Invalid("target", f"{folder!r} is not a group's folder; it should look like acme/eng")
    if folder.count(_SENDER) > 1:
        raise Invalid("target", "{sender} can stand in one segment only")


def expand(target: RouteTarget, sender: str) -> str | None:
    """The folder, with the sender filled in; None if there is nobody to fill in."""
    if not target.template:
        return target.folder
    return target.folder.replace(_SENDER, safe_segment(sender)) if sender else None


def parent_of(target: RouteTarget) -> str:
    """The folder, or the one above what {sender} is filled into; '' for any world."""
    return target.folder.partition(_SENDER)[0].rpartition("/")[0] if target.template else target.folder


def check(text: str, folders: Collection[str]) -> str | None:
    """Refuse a target that leads nowhere. Returns the folder that its row refers to; None if it names no one group."""
    target = parse(text)
    if target.drops:
        return None
    if target.template:
        parent = parent_of(target)
        if parent and parent not in folders:
            raise Invalid("target", f"there is no group {parent!r} for {target.folder!r} to be under; add it first")
        return None
    if target.folder not in folders:
        known = ", ".join(sorted(folders)[:20]) or "none"
        raise Invalid("target", f"there is no group {target.folder!r}; add it first (groups: {known})")
    return target.folder
