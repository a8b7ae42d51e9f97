"""Markdown as the page shows it. HTML in a text is text; a picture is a link, so that no text can load anything.

Links open elsewhere and learn nothing about where they were.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

LONGEST = 20_000  # characters; beyond it a text is shown as it is
DEEPEST = 20


_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]")
_ELSEWHERE = 'target="_blank" rel="noopener noreferrer nofollow"'


class _Renderer(RendererHTML):
    def link_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return f"{self.renderToken(tokens, place, options, env)[:-1]} {_ELSEWHERE}>"

    def image(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        source = str(tokens[place].attrGet("src") or "")
        return _link(source, tokens[place].content or source)

    def text(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        """A bare web address becomes a link, unless it stands in one."""
        content = tokens[place].content
        if "://" not in content or _in_link(tokens, place):
            return escapeHtml(content)
        out, end = [], 0
        for found in _ADDRESS.finditer(content):
            out += [escapeHtml(content[end : found.start()]), _link(found.group(), found.group())]
            end = found.end()
        return "".join(out) + escapeHtml(content[end:])


def _in_link(tokens: Sequence[Token], place: int) -> bool:
    return sum(int(token.nesting) for token in tokens[:place] if token.type.startswith("link_")) > 0


def _link(address: str, text: str) -> str:
    return f'<a href="{escapeHtml(address)}" {_ELSEWHERE}>{escapeHtml(text)}</a>'


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Only what leads to a page or a mailbox: never into this page, never a script."""
        scheme, colon, _ = url.strip().partition(":")
        return bool(colon) and scheme.lower() in ("http", "https", "mailto")


_OPTIONS: dict[str, Any] = {"html": False, "breaks": True, "linkify": False, "maxNesting": DEEPEST}
_MARKDOWN = _Markdown("commonmark", _OPTIONS, renderer_cls=_Renderer).enable(["table", "strikethrough"])


@lru_cache(maxsize=512)
def render(text: str) -> str:
    """Safe HTML of a text."""
    if len(text) > LONGEST:
        return f"<pre>{escapeHtml(text)}</pre>"
    rendered: str = _MARKDOWN.render(text)
    return rendered
