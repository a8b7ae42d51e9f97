"""Cards to read: a title, a text, fields and links. Nobody decides anything by them."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta, to_builtins

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid, Refused
from gatepost.messages.card import Card, CardField, render_text
from gatepost.messages.outbound import Op
from gatepost.messages.text import clean, one_line
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import BODY, Body, tool
from gatepost.tools.kit import outbox_effects
from gatepost.tools.kit.outbox_effects import Room, SendReceipt

MOST_FIELDS = 25
MOST_LINKS = 10
LONGEST_TITLE, LONGEST_NAME, LONGEST_VALUE = 200, 100, 1000  # characters
LONGEST_TEXT = 6000
LONGEST_URL = 1000
_URL = re.compile(r"https?://[^\s<>()\[\]\\\"'`]+\Z", re.IGNORECASE)
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\[]*_`<>"})


class NamedValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the card."""

    name: Annotated[str, Meta(description="At most 100 characters.")]
    value: Annotated[str, Meta(description="At most 1000 characters.")]


class LinkButton(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link below the text."""

    label: Annotated[str, Meta(description="What stands on it.")]
    url: Annotated[str, Meta(description="An http or https address.")]


@tool(tier=Tier.WORKER, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,))
async def send_card(
    call: ToolCall,
    title: Annotated[Body, Meta(description="One line, at most 200 characters.")],
    text: Annotated[Body | None, Meta(description="What stands below the title. Markdown.")] = None,
    fields: Annotated[
        list[NamedValue] | None, Meta(description="At most 25 names with their values.", extra={BODY: True})
    ] = None,
    buttons: Annotated[
        list[LinkButton] | None, Meta(description="At most 10 links that people can open.", extra={BODY: True})
    ] = None,
    chatJid: Room = None,
) -> SendReceipt:
    """Show something with a structure, such as a status, a summary or a result with its numbers, as a card.

    A card is for reading: nobody answers it. A room that has no cards gets the same as text. For plain words use send.
    """
    _check_place(call)
    card = make_card(title, text or "", fields or [], buttons or [])
    said = outbox_effects.check_short_text(call, "card", render_text(card))
    payload = {"text": said, "card": to_builtins(card)}
    return await outbox_effects.commit_effects(
        call, lambda db: [outbox_effects.add_effect(db, call, Op.CARD, payload, call.place.thread, said)]
    )


def _check_place(call: ToolCall) -> None:
    """A worker answers where it was asked: its cards go to the room of its turn alone."""
    turn, place = call.turn, call.place
    if call.caller.tier is not Tier.WORKER:
        return
    if turn is None or (turn.instance, turn.address) != (place.instance, place.address):
        why = "a worker shows cards in the room of its turn; leave chatJid out"
        raise Refused(call.caller.folder, call.tool, place.address, why)


def make_card(title: str, text: str, fields: list[NamedValue], links: list[LinkButton]) -> Card:
    if len(fields) > MOST_FIELDS:
        raise Invalid("fields", f"has {len(fields)} items; {MOST_FIELDS} are possible")
    if len(links) > MOST_LINKS:
        raise Invalid("buttons", f"has {len(links)} items; {MOST_LINKS} are possible")
    shown = tuple(
        CardField(
            _check_line(f"fields: item {place}: name", each.name, LONGEST_NAME),
            _check_line(f"fields: item {place}: value", each.value, LONGEST_VALUE),
        )
        for place, each in enumerate(fields, start=1)
    )
    words = clean(text).strip()
    if len(words) > LONGEST_TEXT:
        raise Invalid("text", f"has {len(words)} characters, more than {LONGEST_TEXT}; write a file and use send_file")
    listed = "\n".join(f"- {_render_link(place, each)}" for place, each in enumerate(links, start=1))
    return Card(
        title=_check_line("title", title, LONGEST_TITLE),
        text="\n\n".join(filter(None, [words, listed])),
        fields=shown,
    )


def _check_line(field: str, text: str, longest: int) -> str:
    line = one_line(text)
    if not line or len(line) > longest:
        raise Invalid(field, f"has {len(line)} characters; 1 to {longest} are possible")
    return line


def _render_link(place: int, link: LinkButton) -> str:
    """In markdown. The label is text, whatever marks it has; the address can end nothing but itself."""
    label = _check_line(f"buttons: item {place}: label", link.label, LONGEST_NAME)
    if len(link.url) > LONGEST_URL or not _URL.match(link.url):
        why = "an http or https address is expected, without spaces, quotes and brackets (percent-encode them)"
        raise Invalid(f"buttons: item {place}: url", why)
    return f"[{label.translate(_MARKS)}]({link.url})"
