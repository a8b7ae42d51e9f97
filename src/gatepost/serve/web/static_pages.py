"""Our own pages that are files, in the reader's language: what stands between tags, and the attributes that people read
or hear. The texts that their scripts say are brought along."""

import html
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from gatepost.core.languages.catalogue import ENGLISH, choose_language, load_catalogue

STATIC = Path(__file__).parent / "static"
_BETWEEN_TAGS = re.compile(r">([^<>]*[A-Za-z][^<>]*)<")
_ATTRIBUTE = re.compile(r'\b(aria-label|title|placeholder|alt)="([^"]*[A-Za-z][^"]*)"')
_IN_SCRIPT = re.compile(r'\bt\("((?:[^"\\]|\\.)+)"')


def make_page_response(
    request: Request, name: str, chosen: str = "", *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """`name`: of the file. `chosen`: the language of who is signed in; else the browser's counts."""
    language = chosen or choose_language(request.headers.get("accept-language", ""))
    given = {**(headers or {}), "vary": "accept-language, cookie"}
    if language == ENGLISH:
        return FileResponse(STATIC / name, status, headers=given)
    return HTMLResponse(translate_page(name, language), status, headers={**given, "cache-control": "no-cache"})


@cache
def translate_page(name: str, language: str) -> str:
    catalogue = load_catalogue(language)

    def find(text: str) -> str:
        found = catalogue.find(html.unescape(text.strip()))
        return html.escape(found) if found is not None else text

    page = (STATIC / name).read_text(encoding="utf-8")
    page = _BETWEEN_TAGS.sub(lambda part: f">{_keep_space(part[1], find(part[1]))}<", page)
    page = _ATTRIBUTE.sub(lambda part: f'{part[1]}="{find(part[2])}"', page)
    return page.replace('<html lang="en">', f'<html lang="{language}">').replace(
        "</head>", f"{make_script_texts(language)}\n</head>"
    )


@cache
def make_script_texts(language: str) -> str:
    """Return the element that brings the texts of our scripts; '' for English."""
    if language == ENGLISH:
        return ""
    catalogue = load_catalogue(language)
    texts = {text: found for text in list_script_texts() if (found := catalogue.find_exact(text)) is not None}
    brought = json.dumps(texts, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="texts">{brought}</script>'


def _keep_space(before: str, after: str) -> str:
    """The space around a text is a part of the page."""
    if after == before:
        return before
    start, end = len(before) - len(before.lstrip()), len(before.rstrip())
    return before[:start] + after + before[end:]


@cache
def list_script_texts() -> tuple[str, ...]:
    """Return the texts that our scripts say."""
    found = dict[str, None]()
    for path in sorted(STATIC.glob("*.js")):
        found |= dict.fromkeys(_IN_SCRIPT.findall(path.read_text(encoding="utf-8")))
    return tuple(text.replace('\\"', '"') for text in found)
