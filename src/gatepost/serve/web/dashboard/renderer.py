"""Templates: data in, safe HTML out. Everything is escaped; a template has no way to the store.

Times are shown as people say them: how long ago, how long still.
"""

import asyncio
import re
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.core.languages.catalogue import current_language, localize, translate, translate_phrase
from gatepost.core.money import render_about_usd
from gatepost.serve.web.dashboard.view import has_content, list_shown
from gatepost.serve.web.static_pages import make_script_texts

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context

TEMPLATES = Path(__file__).parent / "templates"
_CODE = re.compile(r"`([^`\n]+)(?:`|(?<=…)\Z)")  # a text that was cut may end before the second mark
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_NOW_S = 5


class ProsePart(Struct, frozen=True):
    """A part of one of our own texts. A template shows backticks as code; nothing here makes HTML."""

    text: str
    is_code: bool = False


@lru_cache(maxsize=1)
def get_environment() -> "Environment":
    """Made when a page is first looked at, beside the event loop: no start waits for the library."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["usd"] = render_money
    made.filters["tr"] = pass_context(_translate)
    made.filters["phrase"] = pass_context(_translate_phrase)
    made.filters["age"] = render_age
    made.globals["get_language"] = current_language.get
    made.globals["get_script_texts"] = lambda: make_script_texts(current_language.get())
    made.globals["tag_of"] = _get_tag
    made.globals["list_shown"] = list_shown
    made.globals["split_code"] = split_code
    made.tests["content"] = has_content
    return made


def _translate(context: "Context", text: str) -> str:
    """With the context, for a text of the template itself would be translated once: when it is first compiled."""
    return translate(text)


def _translate_phrase(context: "Context", value: object) -> object:
    return translate_phrase(value)


def render(template: str, **values: Any) -> str:
    return get_environment().get_template(template).render(**values)


async def render_apart(template: str, **values: Any) -> str:
    """Beside the event loop: a page may have hundreds of rows, and the first one compiles its templates."""
    return await asyncio.to_thread(render, template, **values)


def _get_tag(value: object) -> str:
    """The kind of a part of a page; '' for plain text and numbers."""
    return str(value.__struct_config__.tag) if isinstance(value, Struct) else ""


def split_code(text: str) -> list[ProsePart]:
    """Split one of our texts, in the reader's language, at its backticks, in order, without them. A mark without a
    second one stays."""
    parts, at, text = [], 0, translate(text)
    for found in _CODE.finditer(text):
        parts += [ProsePart(text[at : found.start()]), ProsePart(found[1], is_code=True)]
        at = found.end()
    parts.append(ProsePart(text[at:]))
    return [each for each in parts if each.text]


def render_money(micro: int) -> str:
    return localize(render_about_usd(micro))


def render_age(at: str, now: int) -> str:
    """Render the age of a moment. `at` is RFC 3339, `now` is in microseconds. An `at` that is no time is shown as it
    is."""
    try:
        seconds = round(now / SECOND - datetime.fromisoformat(at).timestamp())
    except ValueError:
        return at
    return translate(_render_seconds(seconds))


def render_span(since: int, now: int) -> str:
    """How long it is since then, without `ago`. Both are in microseconds."""
    return _render_seconds(round((now - since) / SECOND)).removesuffix(" ago")


def _render_seconds(seconds: int) -> str:
    if abs(seconds) < _NOW_S:
        return "now"
    size, unit = next(each for each in _UNITS if abs(seconds) >= each[0])
    shown = f"{abs(seconds) // size} {unit}"
    return f"{shown} ago" if seconds > 0 else f"in {shown}"
