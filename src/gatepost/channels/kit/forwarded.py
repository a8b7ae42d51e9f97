"""A message that is passed on as one of the bot's own, for platforms whose API has no forward: it says whose words they
are. Pure."""

import re
from collections.abc import Callable

from gatepost.core.errors import Unsupported
from gatepost.core.records import replace
from gatepost.flow.delivery.content_fallback import name_files
from gatepost.messages.card import escape_line, escape_markdown
from gatepost.messages.markdown.markup import Dialect, render
from gatepost.messages.outbound import Outbound, OutboundFile

USE_SEND = "use send with its text, and say whose it is"
# The part of an address that no dialect changes: escapes in it would lead elsewhere.
_ADDRESS = re.compile(r"(https?://[A-Za-z0-9%/:?#@!$&'+,;=~._-]+)")


def render_forwarded(
    message: Outbound, platform: str, dialect: Dialect, longest: int, takes: Callable[[OutboundFile], bool]
) -> Outbound:
    """Return a forward as a message with a text and files: the comment, the author, and the words as a quotation.

    Nothing in the quotation is a mark, a call or a command. Raise Unsupported if nothing could be passed on, or not all
    of it. `takes`: False for files that the platform refuses; a line names these.
    """
    passed = message.passed
    if passed is None or not (passed.text.strip() or any(takes(each) for each in passed.files) or passed.lost):
        raise Unsupported(
            "forward", platform, "that message has no words or files to pass on; use send to say what it was"
        )
    if passed.lost:
        names = ", ".join(passed.lost)
        raise Unsupported("forward", platform, f"not all of its files are kept any more ({names}); {USE_SEND}")
    untaken = [each for each in passed.files if not takes(each)]
    lines = passed.text.splitlines() if passed.own else [_escape(each) for each in passed.text.splitlines()]
    lines += [_escape(each) for each in name_files("", untaken).splitlines()]
    head = f"Forwarded message from {escape_markdown(passed.author)}:"
    quotation = "\n".join((head, *(f"> {each}" for each in lines)))
    text = "\n\n".join(filter(None, (message.text, quotation)))
    if len(render(text, dialect)) > longest:
        why = f"with its author it is longer than the {longest} characters of a message"
        raise Unsupported("forward", platform, f"{why}; {USE_SEND}")
    return replace(message, text=text, files=tuple(each for each in passed.files if each not in untaken))


def _escape(line: str) -> str:
    """Return a line of somebody's plain words as markdown that shows them."""
    first, *rest = _ADDRESS.split(line)
    shown = [escape_line(first)]
    shown += [escape_markdown(each) if place % 2 else f"<{each}>" for place, each in enumerate(rest)]
    return "".join(shown)
