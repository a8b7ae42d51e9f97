"""Markdown as the page shows it. HTML in a text is text; a picture is a link, so that no text can load anything.

Links open elsewhere and learn nothing about where they were. The work is linear in a text, but a long one takes some
tens of milliseconds. So this module runs as a process of its own (`python -m`), which `markdown_renderer` starts.
"""

import os
import resource
import struct
import sys
from typing import BinaryIO

from gatepost.messages.markdown.dialects import HTML, vary
from gatepost.messages.markdown.markup import LONGEST, render_counted
from gatepost.serve.web.code_colours import colour_code
from gatepost.serve.web.plain_html import render_plain

LARGEST_MEMORY = 1024 * 1024 * 1024
NICENESS = 10

_SIZE = struct.Struct("!I")
_LINK = '<a href="{}" target="_blank" rel="noopener noreferrer nofollow">'
_BOX = '<input type="checkbox" disabled{} aria-label="{}"> '

PAGE = vary(
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
    return render_counted(text, PAGE)[0] if len(text) <= LONGEST else render_plain(text)


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
