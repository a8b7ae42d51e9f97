"""A card: something to read, and to decide by a button, a number or a word. A channel with buttons shows them; another
gets the same as numbered text (`render_text`), and `parse_choice` reads both answers.

The text is markdown. Everything else is plain: a channel that has cards shows it as it is, whatever marks are in it,
and `render_text` escapes it. So what an agent or a stranger says becomes no link, no heading and no part of the card.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

MOST_BUTTONS = 10
LONGEST_LABEL = 60
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>&~|#"})
_STARTS = re.compile(r"\A(\s*[0-9]*)([-+=.)])")  # of lists and underlined headings
SHORTEST_WORD = 3  # characters that stand for a longer label


class CardButton(Struct, frozen=True):
    """`id` is opaque to the channel: it comes back with the click."""

    id: str
    label: str
    style: str = ""  # '', primary or danger, for channels that have colours


class CardField(Struct, frozen=True):
    name: str
    value: str


class Card(Struct, frozen=True, kw_only=True):
    """`done`: what was decided, by whom; a card that has it has no buttons any more."""

    title: str
    text: str = ""
    fields: tuple[CardField, ...] = ()
    buttons: tuple[CardButton, ...] = ()
    free_text: bool = False  # words of one's own are an answer, too
    done: str = ""


def render_text(card: Card) -> str:
    """The whole card for a channel without buttons, as markdown."""
    lines = [f"**{escape_markdown(card.title)}**"]
    if card.text:
        lines += ["", card.text]
    if card.fields:
        lines += ["", *(f"- {_escape_start(each.name)}: {escape_markdown(each.value)}" for each in card.fields)]
    if card.done:
        return "\n".join([*lines, "", _escape_start(card.done)])
    if card.buttons:
        lines += ["", *(f"{number}. {_escape_start(each.label)}" for number, each in enumerate(card.buttons, start=1))]
    if hint := render_hint(card):
        lines += ["", hint]
    return "\n".join(lines)


def escape_markdown(text: str) -> str:
    """Plain words as markdown that shows them. Entities, too: `&#x202E;` would turn the rest of its line around."""
    return text.translate(_MARKS).replace("\\](", "\\]\\(")


def _escape_start(text: str) -> str:
    """The same where a line or an item begins with it."""
    return _STARTS.sub(lambda found: f"{found[1]}\\{found[2]}", escape_markdown(text))


def render_hint(card: Card) -> str:
    """How to answer where there are no buttons to press; '' if there is nothing to answer."""
    if not card.buttons:
        return "Answer with your own words." if card.free_text else ""
    more = ", or with your own words" if card.free_text else ""
    return f"Answer with one of these or its number{more}. Once something was said after this: /approve or /deny."


def is_number(text: str) -> bool:
    """Whether an answer is the number of a choice, as `parse_choice` reads it."""
    word = _normalize(text)
    return word.isascii() and word.isdecimal()


def _normalize(text: str) -> str:
    return " ".join(text.split()).strip(".)#!").casefold()


def parse_choice(text: str, labels: Sequence[str]) -> int | None:
    """Which of the labels an answer means: by its number, the label, or the only label that begins with it. None if
    that is not certain."""
    said = _normalize(text)
    if not said or len(said) > LONGEST_LABEL:
        return None
    if said.isascii() and said.isdecimal():
        number = int(said)
        return number - 1 if 1 <= number <= len(labels) else None
    known = [" ".join(label.split()).casefold() for label in labels]
    if said in known:
        return known.index(said)
    beginning = [at for at, label in enumerate(known) if len(said) >= SHORTEST_WORD and label.startswith(said)]
    return beginning[0] if len(beginning) == 1 else None
