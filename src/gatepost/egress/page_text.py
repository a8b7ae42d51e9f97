"""The words of a page, with the standard library alone, and what is said to and by the process that reads pages.

Neither style sheets nor scripts are looked at. An element that says itself that it is hidden is left out, because
people who look at the page do not read it.
"""

import codecs
import re
from html.parser import HTMLParser
from urllib.parse import urljoin

from msgspec import Struct

from gatepost.core.late_pattern import late_pattern

LONGEST_TEXT = 1_000_000  # characters of a page
LARGEST_RICH = 3_000_000  # bytes of HTML; more is read by the standard library
_META = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([A-Za-z0-9._-]{2,30})""", re.IGNORECASE)
_HIDING = late_pattern(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.1-9])|opacity\s*:\s*0(?![.1-9]))",
    re.IGNORECASE,
)
_SKIPPED = frozenset(("script", "style", "noscript", "template", "svg", "iframe", "object", "select", "datalist"))
_VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
_BLOCK_NAMES = (
    "address article aside blockquote body dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header"
    " hr li main nav ol p pre section table tr ul"
)
_VOID, _BLOCKS = frozenset(_VOID_NAMES.split()), frozenset(_BLOCK_NAMES.split())
_ENDS_ITSELF = frozenset(("p", "li", "dd", "dt", "td", "th", "tr", "option"))
_CHARSETS = ("utf", "iso8859", "cp", "koi8", "shift", "euc", "gb", "big")  # and none that decodes something else
_BEFORE = {"li": "- ", "td": " | ", "th": " | ", **{f"h{level}": f"{'#' * level} " for level in range(1, 7)}}
_BLANKS = late_pattern(r"[ \t\r\f\v\xa0]+")
_GAPS = late_pattern(r"\n{3,}")


class UnreadPage(Struct, frozen=True):
    """`plain`: without the libraries."""

    url: str
    media_type: str  # its content type, without parameters
    charset: str
    body: bytes
    plain: bool = False


class PageText(Struct, frozen=True):
    """`problem`: why there is no text."""

    title: str = ""
    text: str = ""
    problem: str = ""
    cut: bool = False


def decode_text(body: bytes, charset: str) -> str:
    """By what the answer says, else by what the text says of itself, else as UTF-8, else as what browsers take."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if body.startswith(mark):
            return body.decode(name, "replace")
    said = _META.search(body[:2048])
    for name in (charset, said[1].decode() if said else "", "utf-8"):
        try:
            if name and codecs.lookup(name).name.startswith(_CHARSETS):
                return body.decode(name)
        except (LookupError, ValueError):
            continue
    return body.decode("cp1252", "replace")


def is_hidden(attributes: dict[str, str | None]) -> bool:
    return "hidden" in attributes or _HIDING.search(attributes.get("style") or "") is not None


def read_plain_html(html: str, url: str) -> PageText:
    """Headings, lists and links stay what they are."""
    reader = _TextReader(url)
    reader.feed(html)
    reader.close()
    lines = (_BLANKS.sub(" ", line).strip() for line in "".join(reader.words).split("\n"))
    return PageText(" ".join("".join(reader.title).split()), _GAPS.sub("\n\n", "\n".join(lines)).strip())


class _TextReader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.words: list[str] = []
        self._url = url
        self._in_title = False
        self._links: list[str] = []
        self._skipped, self._depth = "", 0  # an element that is left out, and how many of its name are open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped and not (tag == self._skipped and tag in _ENDS_ITSELF):
            self._depth += tag == self._skipped
            return
        self._skipped, given = "", dict(attrs)
        if tag in _SKIPPED or (tag not in _VOID and is_hidden(given)):
            self._skipped, self._depth = tag, 1
            return
        self._in_title = self._in_title or tag == "title"
        if tag in _BLOCKS or tag == "br":
            self.words.append("\n" if tag in ("br", "li", "tr", "dd", "dt") else "\n\n")
        self.words.append(_BEFORE.get(tag, ""))
        if tag == "a":
            href = given.get("href") or ""
            self._links.append(href if href and not href.startswith(("#", "javascript:", "data:")) else "")
            self.words.append("[" if self._links[-1] else "")
        if tag == "img" and given.get("alt"):
            self.words.append(f"[{given['alt']}]")

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            self._depth -= tag == self._skipped
            if not self._depth:
                self._skipped = ""
            return
        if tag == "title":
            self._in_title = False
        if tag == "a" and self._links and (href := self._links.pop()):
            self.words.append(f"]({_join(self._url, href)})")
        if tag in _BLOCKS:
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._skipped:
            self.words.append(data)


def _join(url: str, href: str) -> str:
    try:
        return urljoin(url, href.strip())
    except ValueError:
        return href
