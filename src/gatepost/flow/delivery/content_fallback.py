"""Replacements for what a channel cannot do. Content degrades to what the channel has: markdown to plain text, files to
a line that names them, a reply to a short quote, length to parts. Verbs do not: they are `Unsupported`, with a call
that works.

Pure: values in, values out. A channel is never given `status`, nor a card or file that it did not declare.
"""

from collections.abc import Mapping, Sequence

from gatepost.core.errors import Unsupported
from gatepost.core.records import replace
from gatepost.messages.card import Card, render_text
from gatepost.messages.markdown.blocks import read_fence
from gatepost.messages.markdown.markup import strip_markdown
from gatepost.messages.outbound import NEEDS, Feature, Op, Outbound, OutboundFile
from gatepost.messages.text_size import TextUnit, find_boundary, find_end, fits, is_boundary, measure, shorten

SMALLEST_FENCED = 64  # below that there is no room to close and open code blocks
LONGEST_MARK = 8
LONGEST_QUOTE = 80
SPOKEN = "audio/ogg"  # every platform takes a voice message as Opus in Ogg; another sound is a file there
LONGEST_QUOTED = 10 * LONGEST_QUOTE  # of a stranger's text, what is looked at

_HINTS: Mapping[Op, str] = {
    Op.EDIT: "use reply with the corrected text",
    Op.DELETE: "use send to say that the message no longer holds",
    Op.REACT: "use reply with a word or an emoji",
    Op.PIN: "use send to repeat what matters",
    Op.UNPIN: "nothing can be pinned here; use send to say what no longer holds",
    Op.UNPIN_ALL: "nothing can be pinned here; use send to say what no longer holds",
    Op.POST: "use send with the same text, or send_file for a file",
    Op.VOICE: "use send with the same text",
    Op.FORWARD: "use send with its text, and say whose it is",
    Op.QUOTE: "use reply to comment on it where it stands, or send with its text and yours",
    Op.REPOST: "use send with its text, and say whose it is",
    Op.PROMPTS: "use send with the suggestions as a list",
    Op.TITLE: "use send to say what this is about",
}


def check_supported(op: Op, features: frozenset[Feature], platform: str, verb: str = "") -> None:
    """Raise Unsupported, with what to do instead, if the channel cannot do it. `verb`: what the caller calls it."""
    if op is Op.VOICE:
        able = bool(features & {Feature.VOICE, Feature.FILES})  # a sound can also be given as a file
    else:
        able = op not in NEEDS or NEEDS[op] in features
    if able:
        return
    hint = _HINTS[op]
    if op is Op.UNPIN_ALL and Feature.PIN in features:
        hint = "use unpin_message for each message"
    raise Unsupported(verb or op.value, platform, hint)


def degrade(
    message: Outbound,
    features: frozenset[Feature],
    platform: str,
    quote: str = "",
    limit: int = 0,
    *,
    unit: TextUnit = TextUnit.CHARACTERS,
    largest_file: int = 0,
) -> Outbound | None:
    """The message as this channel can show it; None if it is better not shown at all.

    `quote`: the text answered. `limit`: the longest text; what is said anew was split before, an edit is cut.
    """
    if message.op is Op.VOICE or message.op in NEEDS:
        check_supported(message.op, features, platform)
    op, text, files, reply_to = message.op, message.text, message.files, message.reply_to
    spoken = Feature.VOICE in features and all(file.mime == SPOKEN for file in files)
    if op is Op.STATUS:
        if Feature.EDIT not in features:
            return None  # a line that cannot be taken back would stay as noise
        op = Op.EDIT if message.target else Op.SEND
    elif (op is Op.CARD and Feature.CARDS not in features) or (op is Op.VOICE and not spoken):
        op = Op.SEND
    files, unsent = sort_files(files, op, features, largest_file) if files else ((), ())
    if message.op is Op.VOICE and (unsent or op is Op.SEND):
        # The words go along if they fit whole: cut, they would only seem to be what is said.
        op, text = Op.SEND, text if fits(text, limit, unit) else ""
    if unsent:
        text = name_files(text, unsent)
    if op is Op.FILE and not files:
        op = Op.SEND
    if text and Feature.MARKDOWN not in features:
        text = strip_markdown(text)
    if reply_to and Feature.REPLY not in features:
        with_quote = add_quote(quote, text)
        reply_to, text = "", with_quote if fits(with_quote, limit, unit) else text
    if message.card is not None and message.card.buttons and op is Op.SEND and not fits(text, limit, unit):
        # Nobody decides about what they do not see.
        raise Unsupported("card", platform, f"a message has at most {limit} {unit} there; send the rest before it")
    text = shorten(text, limit, unit) if limit else text
    thread = message.thread if Feature.THREADS in features else ""
    card = message.card if Feature.CARDS in features else None  # its text says the same, with numbers
    if (op, text, files, reply_to, thread, card) == (
        message.op,
        message.text,
        message.files,
        message.reply_to,
        message.thread,
        message.card,
    ):
        return message
    return replace(message, op=op, text=text, files=files, reply_to=reply_to, thread=thread, card=card)


def render_card_text(card: Card, features: frozenset[Feature]) -> str:
    """A card as `degrade` makes it a text."""
    text = render_text(card)
    return text if Feature.MARKDOWN in features else strip_markdown(text)


def sort_files(
    files: tuple[OutboundFile, ...], op: Op, features: frozenset[Feature], largest: int
) -> tuple[tuple[OutboundFile, ...], tuple[OutboundFile, ...]]:
    """Those that the channel takes, and those that a line can only name. `largest`: in bytes; 0: no limit."""
    able = Feature.FILES in features or (op is Op.VOICE and Feature.VOICE in features)
    taken = tuple(file for file in files if able and not 0 < largest < file.size)
    return taken, tuple(file for file in files if file not in taken) if len(taken) < len(files) else ()


def name_files(text: str, files: Sequence[OutboundFile]) -> str:
    """The text with a line for each file that cannot be shown."""
    return "\n".join(filter(None, [text, *(f"[file: {file.name}, {render_size(file.size)}]" for file in files)]))


def render_size(size: int) -> str:
    for unit, name in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def add_quote(quote: str, text: str) -> str:
    """The text below one short line of what it answers."""
    line = " ".join(strip_markdown(quote[:LONGEST_QUOTED]).split())
    if not line:
        return text
    if len(line) > LONGEST_QUOTE:
        line = line[: LONGEST_QUOTE - 1].rstrip() + "…"
    return f"> {line}\n{text}"


def split_text(text: str, limit: int, unit: TextUnit = TextUnit.CHARACTERS) -> list[str]:
    """Parts of at most `limit` units (0: no limit), cut at a blank line, a line, a space, or between two graphemes.

    A code block that is cut is closed in its part and opened again in the next, so that each part reads by itself.
    The text is walked by an index: cutting the rest off anew for every part would be quadratic.
    """
    if not text.strip():
        return []
    if fits(text, limit, unit):
        return [text]
    fences = limit >= SMALLEST_FENCED and ("```" in text or "~~~" in text)
    parts, opening, start = [], "", 0
    while find_end(text, start, limit - measure(opening, unit), unit) < len(text):
        room = limit - measure(opening, unit) - (LONGEST_MARK + 1 if fences else 0)
        at = _cut(text, start, room, unit)
        body = text[start:at].rstrip()
        start = _skip(text, at)
        if not body.strip():
            continue
        head = opening + body
        mark, opening = _open_fence(head) if fences else ("", "")
        if measure(opening, unit) > limit // 4:
            opening = f"{mark}\n"
        parts.append(f"{head}\n{mark}" if mark else head)
    if text[start:].strip():
        parts.append(opening + text[start:])
    return parts


def _cut(text: str, start: int, room: int, unit: TextUnit) -> int:
    """Return where to end a part. A break in the first quarter would waste most of it."""
    end = find_end(text, start, room, unit)
    least = start + (end - start) // 4
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark, start, end + 1)
        while at > least and not is_boundary(text, at + 1, at):  # a space that carries an accent
            at = text.rfind(mark, start, at)
        if at > least:
            return at
    return max(find_boundary(text, end, start), start + 1)


def _skip(text: str, at: int) -> int:
    """Return where the next part begins: behind the line breaks, or behind the space, at which the last one ended."""
    spaced = text[at : at + 1] == " " and is_boundary(text, at + 1, at)
    while text[at : at + 1] == "\n":
        at += 1
    return at + 1 if spaced else at


def _open_fence(text: str) -> tuple[str, str]:
    """The mark of the code block that is open at the end, and the line that opened it; '' if none is."""
    mark = line = ""
    for candidate in text.split("\n"):
        edge = read_fence(candidate)
        if edge is None:
            continue
        if not mark:
            mark, line = edge.mark, f"{candidate.strip()}\n"
        elif edge.closes(mark):
            mark = line = ""
    return mark, line
