"""The HTML that Telegram reads: its words, its entities, and the complaint about what it cannot read."""

from html.parser import HTMLParser
from typing import Any

KINDS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "s": "strikethrough",
    "del": "strikethrough",
    "code": "code",
    "pre": "pre",
    "a": "text_link",
    "blockquote": "blockquote",
}


class UnreadableHtml(Exception):
    """As Telegram words it."""


def read_html(text: str) -> tuple[str, list[dict[str, Any]]]:
    """(words, entities), counted in UTF-16."""
    parser = _TelegramHtml()
    parser.feed(text)
    parser.close()
    if parser.open:
        raise UnreadableHtml(f'Can\'t find end tag corresponding to start tag "{parser.open[-1][0]}"')
    return "".join(parser.words), sorted(parser.entities, key=lambda each: int(each["offset"]))


def count_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class _TelegramHtml(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.entities: list[dict[str, Any]] = []
        self.open: list[tuple[str, int, dict[str, Any]]] = []
        self._at = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in KINDS:
            raise UnreadableHtml(f'Unsupported start tag "{tag}" at byte offset {self.getpos()[1]}')
        given = dict(attrs)
        entity: dict[str, Any] = {"type": KINDS[tag]}
        if tag == "a":
            entity["url"] = given.get("href") or ""
        if tag == "code" and self.open and self.open[-1][0] == "pre":
            self.open[-1][2]["language"] = (given.get("class") or "").removeprefix("language-")
            entity["type"] = ""
        if tag == "blockquote" and any(name == tag for name, _, _ in self.open):
            raise UnreadableHtml("blockquote entities can't be nested")
        self.open.append((tag, self._at, entity))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1][0] != tag:
            at = self.getpos()[1]
            if not self.open:
                raise UnreadableHtml(f"Unexpected end tag at byte offset {at}")
            wanted = self.open[-1][0]
            raise UnreadableHtml(f'Unmatched end tag at byte offset {at}, expected "</{wanted}>", found "</{tag}>"')
        _, start, entity = self.open.pop()
        if self._at > start and entity["type"]:
            self.entities.append({**entity, "offset": start, "length": self._at - start})

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        self._at += count_units(data)
