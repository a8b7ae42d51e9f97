"""How a text itself says whom it is for: `@group` and `#topic` at its start. Alone they are kept for what follows;
before other words they hold for that message. Pure: whether there is such a group is not known here."""

import re

from msgspec import Struct

from gatepost.flow.intake.slash_commands import skip_own_mention

_START = re.compile(r"\s*[@#<\[]")
_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?"
_GROUP = re.compile(rf"@((?:{_NAME})(?:/{_NAME}){{0,8}})?(?:\s+|\Z)")
_TOPIC = re.compile(r"#([A-Za-z][A-Za-z0-9_-]{0,63})?(?:\s+|\Z)")  # `#1` is a number


class TextAddress(Struct, frozen=True):
    """`group`, `topic`: None if it names none, '' for the sign alone. `rest`: what follows them."""

    group: str | None = None
    topic: str | None = None
    rest: str = ""


def may_be_addressed(text: str) -> bool:
    """Return True if it is worth a look: most texts begin with a letter."""
    return _START.match(text) is not None


def parse_address(text: str, own_names: frozenset[str] = frozenset()) -> TextAddress | None:
    """None: it names nobody. `own_names`: what we are called on the platform, in lower case; such a mention may stand
    before the rest."""
    start = skip_own_mention(text, own_names)
    if text[start : start + 1] not in ("@", "#"):
        return None
    group = _GROUP.match(text, start)
    if group is not None:
        if (group[1] or "").lower() in own_names:
            return None  # we are called, and nothing else
        start = group.end()
    topic = _TOPIC.match(text, start)
    found = TextAddress(
        group=group and (group[1] or ""), topic=topic and (topic[1] or ""), rest=text[topic.end() if topic else start :]
    )
    return found if _is_meant(found) else None


def _is_meant(found: TextAddress) -> bool:
    """A sign without a name, and a group with its whole path, mean something alone only."""
    if found.group is None and found.topic is None:
        return False
    if not found.rest:
        return found.group is None or found.topic is None or bool(found.group and found.topic)
    return found.group != "" and found.topic != "" and "/" not in (found.group or "")
