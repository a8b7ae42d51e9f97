"""Slack's names of emoji: the short names of emoji-datasource 16, one emoji a line, in `emoji_names.txt`."""

import re
from pathlib import Path

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
