"""The text of a skill: what it may be called, and how long it may be."""

import re

from gatepost.core.errors import Invalid
from gatepost.messages.text import clean

LARGEST_SKILL = 100_000
_SKILL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")


def check_skill(name: str, content: str) -> str:
    """Its text, if it can be one."""
    if not _SKILL.match(name):
        raise Invalid("name", f"{name[:80]!r}: lower-case letters, digits and single hyphens, at most 64")
    text = clean(content)
    if not text.strip() or len(text) > LARGEST_SKILL:
        raise Invalid("content", f"is empty or longer than {LARGEST_SKILL} characters")
    return text
