"""Text is cleaned at the edge: what the store and the mailbox hold is always encodable and free of NUL."""

import re

LONGEST_ORDER = 300  # characters of a text that may be an order to stop
_STOP = re.compile(r"(?:.{0,100}\s)?[/\\]stop(?:@\S*)?(?:\s|\Z)|.{1,100}\sstop[.!]?\s*\Z", re.IGNORECASE | re.DOTALL)


def one_line(text: str) -> str:
    """Return what can be seen of it, on one line: for titles and names, which others read in lists."""
    return " ".join("".join(char if char.isprintable() else " " for char in clean(text)).split())


def clean(text: str) -> str:
    """Without NUL and lone surrogates; everything else stays as it was written."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def may_stop(text: object) -> bool:
    """Return True if a text may be an order to stop, which waits for no earlier message of its room. Intake judges it;
    another text of that form only loses its place behind a message whose files are still on their way."""
    return isinstance(text, str) and len(text) <= LONGEST_ORDER and _STOP.match(text) is not None
