"""A card: something to read, and to decide by a button, a number or a word. A channel with buttons shows them; another
gets the same as numbered text (`render_text`), and `parse_choice` reads both answers.

The text is markdown. Everything else is plain: a channel that has cards shows it as it is, whatever marks are in it,
and `render_text` escapes it. So what an agent or a stranger says becomes no link, no heading and no part of the card.

If several may be chosen (`many`), one click names all of them: `join_clicks` joins the ids of the buttons.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from gatepost.core.languages.catalogue import translate

MOST_BUTTONS = 10
LONGEST_LABEL = 60
MOST_FIELDS = 40  # of a card on a page of ours
LONGEST_NAME, LONGEST_VALUE, LONGEST_TEXT = 300, 4000, 20_000  # characters of what it shows of a card there
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>&~|#"})
_STARTS = re.compile(r"\A(\s*[0-9]*)([-+=.)])")  # of lists and underlined headings
SHORTEST_WORD = 3  # characters that stand for a longer label
DECIDING = "/approve or /deny"
OWN_WORDS = "words"  # in place of a number in the id of a click: its text is the answer
CHANGED = "changed"  # the same: its text is the arguments that are allowed in place of those that were asked for
_BETWEEN = re.compile(r"[,;\n]|(?<=\d)\s+(?=\d)")  # the answers where several are given


class CardButton(Struct, frozen=True):
    """`id` is opaque to the channel: it comes back with the click."""

    id: str
    label: str
    style: str = ""  # '', primary or danger, for channels that have colours
    about: str = ""  # what it means, where the label alone does not say it


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
    many: bool = False  # several of the buttons may be chosen
    command: str = DECIDING  # that answers it whatever was said meanwhile
    token: str = ""  # of a card that takes more than its buttons: the clicks `token:words` and `token:changed`
    language: str = "en"  # of our own words in it
    editable: bool = False  # it can be allowed with other arguments, where the channel has a form for them

    @property
    def size(self) -> int:
        """The characters of what it says, without its buttons."""
        fields = sum(len(each.name) + len(each.value) for each in self.fields)
        return len(self.title) + len(self.text) + len(self.done) + fields


def render_text(card: Card) -> str:
    """The whole card for a channel without buttons, as markdown."""
    lines = [f"**{escape_markdown(card.title)}**"]
    if card.text:
        lines += ["", card.text]
    if card.fields:
        lines += ["", *(f"- {escape_line(each.name)}: {escape_markdown(each.value)}" for each in card.fields)]
    if card.done:
        return "\n".join([*lines, "", escape_line(card.done)])
    if card.buttons:
        lines += ["", *(f"{number}. {_render_button(each)}" for number, each in enumerate(card.buttons, start=1))]
    if hint := render_hint(card):
        lines += ["", hint]
    return "\n".join(lines)


def fits_page(card: Card) -> bool:
    """Return True if a page of ours shows all of it."""
    return (
        len(card.text) <= LONGEST_TEXT
        and max(len(card.title), *(len(each.name) for each in card.fields), 0) <= LONGEST_NAME
        and max(len(card.done), *(len(each.value) for each in card.fields), 0) <= LONGEST_VALUE
        and len(card.fields) <= MOST_FIELDS
    )


def escape_markdown(text: str) -> str:
    """Plain words as markdown that shows them. Entities, too: `&#x202E;` would turn the rest of its line around.

    An address is words as well: as a link, some of its signs would be shown as others.
    """
    return text.translate(_MARKS).replace("\\](", "\\]\\(").replace("://", "\\://")


def escape_line(text: str) -> str:
    """The same where a line or an item begins with it."""
    return _STARTS.sub(lambda found: f"{found[1]}\\{found[2]}", escape_markdown(text))


def _render_button(button: CardButton) -> str:
    about = f": {escape_markdown(button.about)}" if button.about else ""
    return f"{escape_line(button.label)}{about}"


def render_hint(card: Card) -> str:
    """How to answer where there are no buttons to press; '' if there is nothing to answer."""
    late = f"Such words may go to the agent if it speaks meanwhile; {card.command} is sure to count."
    if not card.buttons:
        return translate(f"Answer with your own words. {late}", card.language) if card.free_text else ""
    more = ", or with your own words" if card.free_text else ""
    several = "one or several of these or their numbers, such as 1,2" if card.many else "one of these or its number"
    return translate(f"Answer with {several}{more}. {late}", card.language)


def join_clicks(ids: Sequence[str]) -> str:
    """One click for several buttons of a card."""
    token = ids[0].partition(":")[0]
    return f"{token}:{','.join(each.partition(':')[2] for each in ids)}"


def is_number(text: str) -> bool:
    """Return True if an answer is the number of a choice or of several, as `parse_choices` reads it."""
    words = [normalize_answer(each) for each in _BETWEEN.split(text[: 2 * LONGEST_LABEL]) if each.strip()]
    return bool(words) and all(word.isascii() and word.isdecimal() for word in words)


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()


def normalize_answer(text: str) -> str:
    """An answer without the signs and spaces that mean nothing."""
    return _fold(text).strip(".)#!")


def parse_choice(text: str, labels: Sequence[str]) -> int | None:
    """Which of the labels an answer means: the label, its number, or the only label that begins with it. None if that
    is not certain."""
    whole, said = _fold(text), normalize_answer(text)
    if not said or len(said) > LONGEST_LABEL:
        return None
    known = [_fold(label) for label in labels]
    for exact in (whole, said):
        if exact in known:
            return known.index(exact)
    if said.isascii() and said.isdecimal():
        number = int(said)
        return number - 1 if 1 <= number <= len(labels) else None
    beginning = [at for at, label in enumerate(known) if len(said) >= SHORTEST_WORD and label.startswith(said)]
    return beginning[0] if len(beginning) == 1 else None


def parse_choices(text: str, labels: Sequence[str]) -> tuple[int, ...] | None:
    """The same where several may be chosen, with a comma between them; each once, in the order of the labels."""
    if len(text) > LONGEST_LABEL * MOST_BUTTONS:
        return None
    whole = parse_choice(text, labels)  # a label may have a comma
    if whole is not None:
        return (whole,)
    found = [parse_choice(each, labels) for each in _BETWEEN.split(text) if each.strip()]
    chosen = sorted({each for each in found if each is not None})
    return tuple(chosen) if chosen and None not in found else None
