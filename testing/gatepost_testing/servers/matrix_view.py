"""Events of Matrix as people's programs show them."""

from html.parser import HTMLParser
from typing import Any

from nio import Event, MegolmEvent

from gatepost_testing.platforms.base import GivenFile, ShownMessage

UNREADABLE = "[cannot be decrypted]"


def read_shown(event: Event, room: str, sender: str, content: dict[str, Any], files: list[GivenFile]) -> ShownMessage:
    relation = content.get("m.relates_to") or {}
    falling_back = relation.get("is_falling_back") is True
    return ShownMessage(
        id=event.event_id,
        room=room,
        sender=sender,
        text=UNREADABLE if isinstance(event, MegolmEvent) else read_shown_text(content),
        raw=content,
        thread=relation.get("event_id", "") if relation.get("rel_type") == "m.thread" else "",
        reply_to="" if falling_back else (relation.get("m.in_reply_to") or {}).get("event_id", ""),
        files=files,
        voice="org.matrix.msc3245.voice" in content,
    )


class _PlainText(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._lists: list[int] = []  # the next number of each open list, 0 where there are none

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self.parts.append("\n")
        elif tag in ("ol", "ul"):
            self._lists.append(int(dict(attrs).get("start") or 1) if tag == "ol" else 0)
        elif tag == "li" and self._lists and self._lists[-1]:
            self.parts.append(f"{self._lists[-1]}. ")
            self._lists[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in ("ol", "ul") and self._lists:
            self._lists.pop()
        if tag in ("p", "div", "pre", "blockquote", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6"):
            self.parts.append("\n")


def read_shown_text(content: dict[str, Any]) -> str:
    """Read the text as a program shows it: from the HTML, if there is any, or the caption of a file."""
    if content.get("filename") == content.get("body") and ("url" in content or "file" in content):
        return ""
    if "formatted_body" not in content:
        return str(content.get("body", ""))
    reader = _PlainText()
    reader.feed(content["formatted_body"])
    reader.close()
    return "".join(reader.parts).strip("\n")
