"""Our messages as content of Matrix events. Pure."""

import hashlib
import json
from typing import Any

from gatepost.channels.matrix.wire import VOICE
from gatepost.messages.markdown.blocks import clean_text
from gatepost.messages.markdown.markup import MATRIX_HTML, render
from gatepost.messages.outbound import OutboundFile

LARGEST_CONTENT = 44_000  # bytes; encrypted and as base64 it must fit into an event of 65,536
LONGEST_FALLBACK = 200  # characters of an edit for programs that know none


def render_text(text: str, *, thread: str = "", reply_to: str = "") -> dict[str, Any]:
    """`m.mentions` is empty on purpose: what an agent writes makes nobody's telephone ring."""
    text = clean_text(text).replace("\ufffd", "?")  # a control sign has six bytes in JSON
    content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    _add_html(content, text)
    if relation := render_relation(thread, reply_to):
        content["m.relates_to"] = relation
    return content


def render_edit(target: str, text: str) -> dict[str, Any]:
    new = render_text(text)
    return {
        "msgtype": "m.text",
        "body": f"* {text[:LONGEST_FALLBACK]}",
        "m.mentions": {},
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": target},
    }


def render_file(
    file: OutboundFile, where: dict[str, Any], caption: str, *, voice: bool, thread: str = "", reply_to: str = ""
) -> dict[str, Any]:
    """`where` is `{"url": …}`, or `{"file": {…}}` for one that is encrypted."""
    kind = file.mime.partition("/")[0]
    content: dict[str, Any] = {
        "msgtype": f"m.{kind}" if kind in ("image", "audio", "video") else "m.file",
        "body": clean_text(caption).replace("\ufffd", "?") or file.name,
        "filename": file.name,
        "info": {"mimetype": file.mime, "size": file.size},
        "m.mentions": {},
        **where,
    }
    if caption:
        _add_html(content, caption)
    if voice:
        content |= {"msgtype": "m.audio", VOICE: {}, "org.matrix.msc1767.audio": {}}
    if relation := render_relation(thread, reply_to):
        content["m.relates_to"] = relation
    return content


def render_relation(thread: str, reply_to: str) -> dict[str, Any]:
    """A message in a thread names one that programs without threads show it below."""
    if thread:
        return {
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": not reply_to,
            "m.in_reply_to": {"event_id": reply_to or thread},
        }
    return {"m.in_reply_to": {"event_id": reply_to}} if reply_to else {}


def render_reaction(target: str, emoji: str) -> dict[str, Any]:
    return {"m.relates_to": {"rel_type": "m.annotation", "event_id": target, "key": emoji}}


def render_transaction(key: str, part: int = 0) -> str:
    """The homeserver makes one event of two requests with the same transaction id from the same device."""
    return "gp" + hashlib.sha256(f"{part}\n{key}".encode()).hexdigest()[:40]


def _add_html(content: dict[str, Any], text: str) -> None:
    html = render(text, MATRIX_HTML)
    if html and len(json.dumps(content)) + len(json.dumps(html)) < LARGEST_CONTENT:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
