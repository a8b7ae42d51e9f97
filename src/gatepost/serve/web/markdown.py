"""Markdown as the page shows it. HTML in a text is text; a picture is a link, so that no text can load anything.

Links open elsewhere and learn nothing about where they were. The work is linear in a text, but a long one takes some
tens of milliseconds. So this module runs as a process of its own (`python -m`), which `markdown_renderer` starts.
"""

from gatepost.core.process.worker_loop import limit_process, serve
from gatepost.core.records import replace
from gatepost.messages.markdown.dialects import HTML
from gatepost.messages.markdown.markup import LONGEST, render_counted, render_plain_html
from gatepost.serve.web.code_colours import colour_code

LARGEST_MEMORY = 1024 * 1024 * 1024

_LINK = '<a href="{}" target="_blank" rel="noopener noreferrer nofollow">'
_BOX = '<input type="checkbox" disabled{} aria-label="{}"> '

PAGE = replace(
    HTML,
    name="page",
    strike=("<s>", "</s>"),
    link=(_LINK, "</a>"),
    bare=f"{_LINK}{{}}</a>",
    fence=("<pre><code>", "\n</code></pre>"),  # what is copied ends its last line
    language=('<pre><code class="language-{}">', "\n</code></pre>"),
    sides=True,
    boxes=(_BOX.format("", "to do"), _BOX.format(" checked", "done")),
    colour=colour_code,
)


def render(text: str) -> str:
    """Safe HTML of a text."""
    return render_counted(text, PAGE)[0] if len(text) <= LONGEST else render_plain_html(text)


def _render_raw(raw: bytes) -> bytes:
    return render(raw.decode("utf-8", "surrogatepass")).encode("utf-8", "replace")


if __name__ == "__main__":
    limit_process(LARGEST_MEMORY)
    serve(_render_raw)
