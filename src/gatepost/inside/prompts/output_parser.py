"""From what a model wrote to what people get: thoughts are dropped, statuses and named blocks taken out. Pure.

The order is fixed: `<think>` and `<internal>` first, because whatever stands in them must never leave, be it a status
or a block with a name.
"""

import re

import msgspec

from gatepost.mailbox import runner_frames

_STATUS = re.compile(r"<status>(.*?)</status>", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(r"<message\s+to=(?:\"([^\"]*)\"|'([^']*)')\s*>(.*?)</message>", re.DOTALL | re.IGNORECASE)
SILENT = "<silent/>"  # the one word by which an agent says nothing; phrases are words like any others
_SILENT = re.compile(r"[`*\s]*<silent\s*/?>\s*(?:</silent>)?[`*\s]*", re.IGNORECASE)
_HIDDEN = ("think", "internal", "status", "message", "silent")
_OPENED = re.compile(r"<status>|<message\s+to=(?:\"[^\"]*\"|'[^']*')\s*>", re.IGNORECASE)
_CUT_TAG = re.compile(r"</?([a-z]*)([^<>]*)\Z", re.IGNORECASE)


class AddressedText(msgspec.Struct, frozen=True):
    """One text for one place; `to` "" is the room of the turn."""

    text: str
    to: str = ""


class ParsedOutput(msgspec.Struct, frozen=True):
    pieces: tuple[AddressedText, ...] = ()
    statuses: tuple[str, ...] = ()
    withheld: str = ""  # why nothing is left of it, for whoever looks for an answer


def parse_output(text: str) -> ParsedOutput:
    """Return what of this text goes where. Bare text goes to the room of the turn, before the blocks that name a
    place."""
    whole = text
    text = strip_tag(strip_tag(text, "think"), "internal")
    statuses = tuple(status for found in _STATUS.findall(text) if (status := found.strip()))
    text = _STATUS.sub("", text)
    blocks = [AddressedText(block[2].strip(), (block[0] or block[1]).strip()) for block in _BLOCK.findall(text)]
    pieces = [AddressedText(_BLOCK.sub("", text).strip()), *blocks]
    found = tuple(piece for piece in pieces if not is_silent(piece.text))
    return ParsedOutput(found, statuses, "" if found else _render_withheld(whole))


def parse_draft(text: str) -> str:
    """Return the part of an unfinished text that the room of the turn may see. Text that can still become a thought, a
    status, a block with a name or a silence is held back."""
    text = strip_tag(strip_tag(text, "think"), "internal")
    text = _BLOCK.sub("", _STATUS.sub("", text))
    if (opened := _OPENED.search(text)) is not None:
        text = text[: opened.start()]
    if (cut := _CUT_TAG.search(text)) is not None and _may_hide(cut[1].lower(), cut[2]):
        text = text[: cut.start()]
    text = text.strip()
    return "" if is_silent(text) else text


def _may_hide(name: str, rest: str) -> bool:
    return name in _HIDDEN if rest else any(tag.startswith(name) for tag in _HIDDEN)


def _render_withheld(text: str) -> str:
    """Thoughts are told by their length alone: they must not leave."""
    if not text.strip():
        return "its answer was empty"
    if _SILENT.search(text) is not None:
        return f"it answered {SILENT}"
    return f"all {len(text)} characters of its answer were thoughts or statuses"


def strip_tag(text: str, tag: str) -> str:
    """Without `<tag>…</tag>`, nested ones as well. Unclosed: the rest is dropped. A closer without an opener stays."""
    kept, depth, start = [], 0, 0
    for mark in re.finditer(rf"<(/?){tag}(?:\s[^<>]*)?>", text, re.IGNORECASE):
        if not mark.group(1):
            if depth == 0:
                kept.append(text[start : mark.start()])
            depth += 1
        elif depth:
            depth -= 1
            start = mark.end()
    if depth == 0:
        kept.append(text[start:])
    return "".join(kept)


def is_silent(text: str) -> bool:
    """Return True if it is nothing, or says so by the one word for it."""
    return not text.strip() or _SILENT.fullmatch(text.strip()) is not None


def split_text(text: str, largest: int = runner_frames.LONGEST_RESULT) -> list[str]:
    """Parts that fit a frame, cut at the last line end or blank of each if there is one in its second half."""
    parts = []
    while len(text) > largest:
        cut = max(text.rfind("\n", largest // 2, largest), text.rfind(" ", largest // 2, largest)) + 1 or largest
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]
