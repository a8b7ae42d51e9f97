"""The process that reads pages: `python -m gatepost.egress.page_reader_process`. HTML and PDF of anybody in, words out.

`page_reader` starts it, and ends it when it takes too long. A page that breaks it ends this process and nothing else.
Its libraries are the extra `web`; without them HTML is read by the standard library, and PDF not at all."""

import encodings
import importlib
import io
import os
import pkgutil
from contextlib import suppress

import msgspec

from gatepost.core.process.worker_loop import limit_process, serve
from gatepost.core.records import replace
from gatepost.egress.page_text import (
    LARGEST_RICH,
    LONGEST_TEXT,
    PageText,
    UnreadPage,
    decode_text,
    is_hidden,
    read_plain_html,
)
from gatepost.messages.visible_text import show_hidden_signs

try:
    import trafilatura
    from trafilatura.utils import load_html
except ImportError:
    FINDS_ARTICLES = False
else:
    FINDS_ARTICLES = True

try:
    import pypdf
except ImportError:
    READS_PDF = False
else:
    READS_PDF = True

LARGEST_MEMORY = 1024 * 1024 * 1024
SHORT = 200  # characters; of a page with so few words all are told
MOST_PAGES = 500
NOBODY = 65534
NO_PDF = "PDF is not read on this gateway; the operator can: pip install 'gatepost[web]'"
HTML = frozenset(("text/html", "application/xhtml+xml"))
TEXT = frozenset(
    [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/x-javascript",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/x-ndjson",
        "application/sql",
        "application/x-sh",
        "image/svg+xml",
    ]
)

_decode = msgspec.msgpack.Decoder(UnreadPage).decode
_encode = msgspec.msgpack.Encoder().encode


def read_page(page: UnreadPage) -> PageText:
    head = page.body[:1024].lstrip().lower()
    if page.media_type == "application/pdf" or head.startswith(b"%pdf-"):
        found = _read_pdf(page.body)
    elif page.media_type in HTML or head.startswith((b"<!doctype html", b"<html")):
        found = _read_html(page)
    elif _is_text(page):
        found = PageText(text=decode_text(page.body, page.charset))
    else:
        found = PageText(problem=f"it is {page.media_type or 'a file'}, which has no text to be read")
    text = show_hidden_signs(found.text[:LONGEST_TEXT])  # a sign that hides is shown by eight others
    return replace(
        found,
        title=show_hidden_signs(found.title[:300])[:300],
        text=text[:LONGEST_TEXT],
        cut=found.cut or max(len(found.text), len(text)) > LONGEST_TEXT,
    )


def _is_text(page: UnreadPage) -> bool:
    named = (
        page.media_type.startswith("text/") or page.media_type in TEXT or page.media_type.endswith(("+json", "+xml"))
    )
    return named or (not page.media_type and b"\0" not in page.body[:8192])


def _read_html(page: UnreadPage) -> PageText:
    html = decode_text(page.body, page.charset)
    plain = read_plain_html(html, page.url)
    if page.plain or not FINDS_ARTICLES or len(page.body) > LARGEST_RICH or (tree := load_html(html)) is None:
        return plain
    for element in tree.xpath("//template | //*[@hidden or @style]"):
        if element.getparent() is not None and (element.tag == "template" or is_hidden(dict(element.attrib))):
            element.drop_tree()
    text = trafilatura.extract(tree, url=page.url, output_format="markdown", include_links=True, include_tables=True)
    return replace(plain, text=text) if text and len(text) > SHORT else plain


def _read_pdf(body: bytes) -> PageText:
    if not READS_PDF:
        return PageText(problem=NO_PDF)
    document = pypdf.PdfReader(io.BytesIO(body))
    if document.is_encrypted and not document.decrypt(""):
        return PageText(problem="it is a PDF with a password")
    pages: list[str] = []
    size = 0
    for number, each in enumerate(document.pages, start=1):
        if number > MOST_PAGES or size > LONGEST_TEXT:
            break
        pages.append(f"[page {number}]\n{each.extract_text().strip()}")
        size += len(pages[-1])
    if not any(len(each.partition("\n")[2]) for each in pages):
        return PageText(problem="it is a PDF of pictures, without text in it")
    title = document.metadata.title if document.metadata else ""
    return PageText(str(title or ""), "\n\n".join(pages), cut=len(document.pages) > len(pages))


def _answer(raw: bytes) -> bytes:
    return _encode(read_page(_decode(raw)))


def _load_late_imports() -> None:
    """Load what reading would load by and by: afterwards this process may see no file of the interpreter any more."""
    for each in pkgutil.iter_modules(encodings.__path__, "encodings."):
        with suppress(ImportError):  # those of other systems
            importlib.import_module(each.name)
    read_page(UnreadPage("http://localhost/", "text/html", "", b"<html><body><p>a page</p></body></html>"))
    if READS_PDF:
        page, file = pypdf.PdfWriter(), io.BytesIO()
        page.add_blank_page(100, 100)
        page.write(file)
        read_page(UnreadPage("http://localhost/", "application/pdf", "", file.getvalue()))


def drop_rights() -> None:
    """A gateway that is root reads the pages of strangers as nobody."""
    if os.geteuid() == 0:
        _load_late_imports()
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    os.chdir("/")


if __name__ == "__main__":
    limit_process(LARGEST_MEMORY)
    drop_rights()
    serve(_answer)
