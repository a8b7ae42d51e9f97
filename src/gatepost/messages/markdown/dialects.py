"""Markup of each platform: a table per dialect, with its escapes and with what degrades to what.

A mark that a platform does not have is empty there. A word that would call many people (`@everyone`) is broken with a
zero-width space. So is a name on platforms where a name alone calls somebody, and a sign that a platform has no escape
for.
"""

import html
import re
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from gatepost.core.late_pattern import late_pattern
from gatepost.core.records import replace

SPACER = "\u200b"  # of no width

Edges = tuple[str, str]
Escape = Callable[[str], str]


class TableStyle(StrEnum):
    """The form that a table is given."""

    PIPES = "pipes"  # it stays one
    CODE = "code"  # aligned columns in a block of code
    LINES = "lines"  # `name: value`


class Dialect(Struct, frozen=True, kw_only=True):
    name: str
    bold: Edges = ("", "")
    italic: Edges = ("", "")
    strike: Edges = ("", "")
    code: Edges = ("", "")
    link: Edges = ("", " ({})")  # {}: the address
    bare: str = "{}"
    fence: Edges = ("", "")  # {}: the language
    language: Edges | None = None  # in place of `fence`, where the language is known
    growing_code: bool = False  # a mark of code may be longer than what stands in it
    headings: int = 0  # levels that it has; 0: a heading is bold
    bullet: str = "• "
    indent: str = "  "
    quote: str = "> "  # before each line
    quote_tags: Edges | None = None  # in its place
    rule: str = "────────"
    table: TableStyle = TableStyle.LINES
    html: bool = False  # blocks are elements, too
    sides: bool = False  # … and the side of a column is a class
    boxes: Edges | None = None  # … and an item with a box is a task: one that is open, one that is done
    colour: Callable[[str, str], str | None] | None = None  # HTML of code in a language; None: it is not known
    markdown: bool = False  # what it prints is markdown again
    words_apart: bool = False  # a mark counts only at the edge of a word
    marks_in_links: bool = True
    marks_cross_lines: bool = False
    escape: Escape = str
    escape_start: Escape = str  # of the text that a line begins with
    escape_code: Escape = str
    pings: re.Pattern[str] | None = None  # behind what it finds in the whole text, a spacer is put


def escape_html(text: str) -> str:
    return html.escape(text, quote=True)


def escape_entities(text: str) -> str:
    return html.escape(text, quote=False)


_NAME = late_pattern(r"(?<![\w/])@(?=\w)")
_ZULIP_NAME = late_pattern(r"(?<!\w)@|(?<!\w)#(?=\*|\Z)")
_START = late_pattern(  # what makes a line an item, a heading, a quote, a row, a rule; `#5` and `3.14` do not
    r"\A([0-9]*)(>|\||[-+.)](?=\s|\Z)|-(?=#|[- ]*\Z)|#(?=#*(?:\s|\Z))|=(?==*\s*\Z))"
)


def break_names(text: str) -> str:
    """`@ann` calls nobody; an address of mail stays as it is."""
    return _NAME.sub("@" + SPACER, text)


def _make_backslashes(signs: str, first: Escape = str) -> Escape:
    table = str.maketrans({sign: f"\\{sign}" for sign in signs})
    return lambda text: first(text).translate(table)


def _make_spacers(signs: str, first: Escape = str) -> Escape:
    """A sign that could begin a mark is kept off the word behind it."""
    opening = re.compile(rf"(?<!\w)([{re.escape(signs)}])(?=\S)")
    return lambda text: opening.sub(rf"\1{SPACER}", first(text))


def _backslash_start(text: str) -> str:
    return _START.sub(r"\1\\\2", text.lstrip(" \t"))


def _space_start(text: str) -> str:
    return SPACER + text if _START.match(text) else text


def _break_zulip(text: str) -> str:
    return _ZULIP_NAME.sub(lambda found: found[0] + SPACER, text)


_EVERYBODY = late_pattern(r"@(?=(?:everyone|here|channel|all|room)\b)", re.IGNORECASE)
_REDDIT_NAME = late_pattern(r"(?<![\w/])/*u/(?=[\w\\-])", re.IGNORECASE)  # `u/ann`; a path of a link is none
_DISCORD_PINGS = late_pattern(r"@(?=everyone|here)|<(?=[@#:/]|a:|t:|id:)", re.IGNORECASE)

HTML = Dialect(
    name="html",
    bold=("<strong>", "</strong>"),
    italic=("<em>", "</em>"),
    strike=("<del>", "</del>"),
    code=("<code>", "</code>"),
    link=('<a href="{}">', "</a>"),
    bare='<a href="{}">{}</a>',
    fence=("<pre><code>", "</code></pre>"),
    language=('<pre><code class="language-{}">', "</code></pre>"),
    headings=6,
    table=TableStyle.PIPES,
    html=True,
    marks_cross_lines=True,
    escape=escape_html,
    escape_code=escape_html,
)
_MARKDOWN = Dialect(
    name="markdown",
    bold=("**", "**"),
    italic=("*", "*"),
    strike=("~~", "~~"),
    code=("`", "`"),
    link=("[", "]({})"),
    fence=("```{}\n", "\n```"),
    growing_code=True,
    headings=6,
    bullet="- ",
    indent="   ",
    rule="***",
    table=TableStyle.PIPES,
    markdown=True,
)


WORDS = Dialect(name="words", bullet="- ", rule="---")  # a channel without marks, that calls nobody by itself
PLAIN = Dialect(name="plain", pings=_EVERYBODY)  # IRC, XMPP, Bluesky
MASTODON = Dialect(name="mastodon", pings=_NAME)  # plain, and no name written by an agent is addressed
SIGNAL = Dialect(name="signal")  # its marks are ranges: `markup.render_styles`
TELEGRAM_HTML = Dialect(
    name="telegram",
    bold=("<b>", "</b>"),
    italic=("<i>", "</i>"),
    strike=("<s>", "</s>"),
    code=("<code>", "</code>"),
    link=('<a href="{}">', "</a>"),
    fence=("<pre>", "</pre>"),
    language=('<pre><code class="language-{}">', "</code></pre>"),
    quote="",
    quote_tags=("<blockquote>", "</blockquote>"),
    table=TableStyle.CODE,
    marks_cross_lines=True,
    escape=lambda text: escape_html(break_names(text)),
    escape_code=escape_html,
)
DISCORD = replace(
    _MARKDOWN,
    name="discord",
    growing_code=False,
    headings=3,
    rule="────────",
    table=TableStyle.CODE,
    escape=_make_backslashes("\\`*_~|<[]"),
    escape_start=_backslash_start,
    pings=_DISCORD_PINGS,
)
SLACK = Dialect(
    name="slack",
    bold=("*", "*"),
    italic=("_", "_"),
    strike=("~", "~"),
    code=("`", "`"),
    link=("<{}|", ">"),
    bare="<{}>",
    fence=("```\n", "\n```"),
    table=TableStyle.CODE,
    words_apart=True,
    marks_in_links=False,
    escape=_make_spacers("*_~`", escape_entities),
    escape_start=lambda text: SPACER + text if text.startswith("&gt;") else text,
    escape_code=escape_entities,
    pings=_EVERYBODY,
)
WHATSAPP = Dialect(
    name="whatsapp",
    bold=("*", "*"),
    italic=("_", "_"),
    strike=("~", "~"),
    code=("`", "`"),
    fence=("```", "```"),
    bullet="- ",
    table=TableStyle.CODE,
    words_apart=True,
    escape=_make_spacers("*_~`"),
    escape_start=_space_start,
    pings=_EVERYBODY,
)
MATRIX_HTML = replace(HTML, name="matrix", pings=_EVERYBODY)
MAIL_HTML = replace(HTML, name="mail")
MATTERMOST = replace(
    _MARKDOWN,
    name="mattermost",
    escape=_make_backslashes("\\`*_~|[]#", break_names),
    escape_start=_backslash_start,
    pings=_EVERYBODY,
)
ZULIP = replace(  # its markdown has no backslash
    _MARKDOWN,
    name="zulip",
    indent="  ",
    escape=_make_spacers("*~`[", _break_zulip),
    escape_start=_space_start,
)
GITHUB = replace(
    _MARKDOWN,
    name="github",
    escape=_make_backslashes("\\`*_~|[]<&", break_names),
    escape_start=_backslash_start,
)
REDDIT = replace(
    _MARKDOWN,
    name="reddit",
    escape=_make_backslashes("\\`*_~|[]<&^"),
    escape_start=_backslash_start,
    pings=_REDDIT_NAME,
)
