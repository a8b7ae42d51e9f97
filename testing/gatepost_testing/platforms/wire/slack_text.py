"""A message on the emulated Slack as people read it: its markup resolved to plain words."""

import html
import re
from typing import Any

_LINK = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
_MARKED = re.compile(r"(?<!\w)([*_~])(?=\S)(.+?)(?<=\S)\1(?!\w)")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def read_mrkdwn(text: str) -> str:
    """Bold, italic, struck, code, links and escapes."""
    parts = _CODE.split(text)
    plain = [part.strip("`") if at % 2 else _read_marks(part) for at, part in enumerate(parts)]
    return html.unescape("".join(plain))


def _read_marks(text: str) -> str:
    text = _LINK.sub(lambda found: found[2] or found[1], text)
    for _ in range(3):
        text = _MARKED.sub(r"\2", text)
    return text


def read_words(message: dict[str, Any]) -> str:
    """Blocks are shown in the place of the text where there are any."""
    blocks = message.get("blocks") or ()
    if not blocks:
        return read_mrkdwn(str(message.get("text") or ""))
    found = []
    for block in blocks:
        parts = [block.get("text"), *(block.get("fields") or ())]
        parts += (block.get("elements") or ()) if block["type"] == "context" else ()
        found += [_read_object(each) for each in parts if each]
    return "\n".join(found)


def _read_object(text: dict[str, Any]) -> str:
    return read_mrkdwn(text["text"]) if text["type"] == "mrkdwn" else str(text["text"])


def list_labels(message: dict[str, Any]) -> list[str]:
    """List the labels of the choices: the boxes if there are any, else the buttons."""
    parts = [part for block in message.get("blocks") or () for part in block.get("elements") or ()]
    boxes = [each["text"]["text"] for part in parts if part["type"] == "checkboxes" for each in part["options"]]
    return boxes or [part["text"]["text"] for part in parts if part["type"] == "button"]
