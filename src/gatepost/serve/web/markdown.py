"""Markdown as the page shows it. HTML in a text is text; a picture is a link, so that no text can load anything.

Links open elsewhere and learn nothing about where they were.

Agents write the input, so the work is bounded before and while it is done: a text beyond a bound is shown as it is
written. This module runs as a process of its own (`python -m`), which `rendering` starts, asks and ends.
"""

import os
import re
import resource
import struct
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from gatepost.serve.web.code_colours import is_known, render_code
from gatepost.serve.web.plain_html import render_plain

LONGEST = 20_000  # characters; beyond it a text is shown as it is
DEEPEST = 20
MOST_CELLS = 5_000  # of all tables of a text; missing cells of a row are made up, and count
MOST_STEPS = 12_000  # places at which the parser tries its rules, one by one
LARGEST_HTML = 1024 * 1024  # bytes
LARGEST_MEMORY = 1024 * 1024 * 1024
NICENESS = 10

_SIZE = struct.Struct("!I")

_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]")
_BOX = re.compile(r"\[([ xX])\](?: +|\Z)")
_ELSEWHERE = 'target="_blank" rel="noopener noreferrer nofollow"'


class TooMuchWork(Exception):
    """The parser was led in circles, or to a huge table."""


class _Renderer(RendererHTML):
    def renderInline(self, tokens: Sequence[Token], options: OptionsDict, env: EnvType) -> str:
        """Say which texts stand in a link: each looking back for itself would be quadratic."""
        depth = 0
        for token in tokens:
            if token.type in ("link_open", "link_close"):
                depth += int(token.nesting)
            token.meta["in_link"] = depth > 0
        return super().renderInline(tokens, options, env)

    def link_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        return f"{self.renderToken(tokens, place, options, env)[:-1]} {_ELSEWHERE}>"

    def th_open(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        """The page's policy lets no style through, so a column's side is told by a class."""
        style = str(tokens[place].attrGet("style") or "")
        side = next((side for side in ("right", "center") if style == f"text-align:{side}"), "")
        return f'<{tokens[place].tag} class="{side}">' if side else f"<{tokens[place].tag}>"

    td_open = th_open

    def fence(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        """Code in a language that we know has colours."""
        language = (tokens[place].info.split(maxsplit=1) or [""])[0].lower()
        if not is_known(language):
            return super().fence(tokens, place, options, env)
        return f'<pre><code class="language-{language}">{render_code(tokens[place].content, language)}</code></pre>\n'

    def task(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        done = tokens[place].content != " "
        return (
            f'<input type="checkbox" disabled{" checked" if done else ""} aria-label="{"done" if done else "to do"}"> '
        )

    def image(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        source = str(tokens[place].attrGet("src") or "")
        return _link(source, tokens[place].content or source)

    def text(self, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
        """A bare web address becomes a link, unless it stands in one."""
        content = tokens[place].content
        if "://" not in content or tokens[place].meta.get("in_link"):
            return escapeHtml(content)
        out, end = [], 0
        for found in _ADDRESS.finditer(content):
            out += [escapeHtml(content[end : found.start()]), _link(found.group(), found.group())]
            end = found.end()
        return "".join(out) + escapeHtml(content[end:])


def _link(address: str, text: str) -> str:
    return f'<a href="{escapeHtml(address)}" {_ELSEWHERE}>{escapeHtml(text)}</a>'


def _mark_tasks(state: StateCore) -> None:
    """A point of a list that begins with a box is a task."""
    for before, token in zip(state.tokens, state.tokens[2:], strict=False):
        first = token.children[0] if token.type == "inline" and token.children else None
        if before.type != "list_item_open" or first is None or first.type != "text":
            continue
        if box := _BOX.match(first.content):
            first.content = first.content[box.end() :]
            before.attrSet("class", "task")
            token.children = [Token("task", "", 0, content=box[1]), *(token.children or [])]


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Only what leads to a page or a mailbox: never into this page, never a script."""
        scheme, colon, _ = url.strip().partition(":")
        return bool(colon) and scheme.lower() in ("http", "https", "mailto")


def _count_block(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    return _count(state.env)


def _count_inline(state: StateInline, silent: bool) -> bool:
    return _count(state.env)


def _count(env: EnvType) -> bool:
    """The first rule that is tried everywhere, and matches nowhere."""
    env["steps"] = env.get("steps", 0) + 1
    if env["steps"] > MOST_STEPS:
        raise TooMuchWork
    return False


_OPTIONS: dict[str, Any] = {"html": False, "breaks": True, "linkify": False, "maxNesting": DEEPEST}
_MARKDOWN = _Markdown("commonmark", _OPTIONS, renderer_cls=_Renderer).enable(["table", "strikethrough"])
_MARKDOWN.block.ruler.before(
    "table", "steps", _count_block, {"alt": ["paragraph", "reference", "blockquote", "list", "table"]}
)
_MARKDOWN.inline.ruler.before("text", "steps", _count_inline)
_MARKDOWN.core.ruler.push("tasks", _mark_tasks)


def count_cells(text: str) -> int:
    """At least as many as the tables of a text have, by one look at each line. A table ends at a blank line; a line of
    its rule's signs may begin one wherever it stands."""
    cells = columns = 0
    for line in text.splitlines():
        if not line.strip():
            columns = 0
        elif "|" in line and "-" in line and not line.strip(_RULE_SIGNS):
            columns = max(columns, line.count("|") + 1)
        cells += columns
    return cells


_RULE_SIGNS = " \t|-:>*+.)0123456789"


def render(text: str) -> str:
    """Safe HTML of a text."""
    if len(text) > LONGEST or count_cells(text) > MOST_CELLS:
        return render_plain(text)
    try:
        rendered: str = _MARKDOWN.render(text)
    except TooMuchWork:
        return render_plain(text)
    return rendered if len(rendered) <= LARGEST_HTML else render_plain(text)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Texts in, HTML out, one after the other, each behind its size, until there are no more."""
    while head := requests.read(_SIZE.size):
        text = requests.read(_SIZE.unpack(head)[0]).decode("utf-8", "surrogatepass")
        html = render(text).encode("utf-8", "replace")
        answers.write(_SIZE.pack(len(html)) + html)
        answers.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (LARGEST_MEMORY, LARGEST_MEMORY))
    serve(sys.stdin.buffer, sys.stdout.buffer)
