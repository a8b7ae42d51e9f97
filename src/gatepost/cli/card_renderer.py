"""A card on a terminal: its title, its fields in columns, and the answers with their numbers."""

from collections.abc import Iterator

from gatepost.cli import output
from gatepost.messages.card import Card, render_hint

WIDEST = 20  # characters of the column of names


def render_card(card: Card) -> output.Line:
    """A card that waits, or what was decided about one: then its title and the decision are enough."""
    return tuple(_render_decided(card) if card.done else _render_open(card))


def _render_decided(card: Card) -> Iterator[output.Piece]:
    yield output.colored(card.title, "bold")
    yield f"\n  {card.done}"


def _render_open(card: Card) -> Iterator[output.Piece]:
    yield output.colored(card.title, "bold")
    if card.text:
        yield f"\n  {_indent(card.text)}"
    width = min(max((len(each.name) for each in card.fields), default=0), WIDEST)
    for each in card.fields:
        yield "\n  "
        yield output.colored(f"{each.name}: ".ljust(width + 2), "dim")
        yield _indent(each.value)
    for number, button in enumerate(card.buttons, start=1):
        yield "\n  "
        yield output.colored(f"{number}.", "bold")
        yield f" {button.label}"
        if button.about:
            yield output.colored(f"  {button.about}", "dim")
    if hint := render_hint(card):
        yield "\n  "
        yield output.colored(hint, "dim")


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")
