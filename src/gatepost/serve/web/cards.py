"""Cards on the page: how a browser gets one, and what a click on a button does."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.channels.local_channel import LocalChannel
from gatepost.core import ids
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.flow.requests.card_delivery import find_name
from gatepost.flow.requests.chat_replies import UNKNOWN_BUTTON, is_decided
from gatepost.flow.requests.choices import render_decision
from gatepost.flow.requests.decide import NOT_YOURS, may_see_arguments
from gatepost.flow.requests.edited_input import check_edited, is_editable, parse_edited
from gatepost.messages.card import CHANGED, Card
from gatepost.messages.inbound import CLICK, Inbound
from gatepost.messages.visible_text import shorten_visibly
from gatepost.serve.web.json_api import get_text, read_object, read_text_field
from gatepost.store.port import Db, Store
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.request_cards import RequestCard
from gatepost.store.rights.requests import AnswerLasts, RequestState
from gatepost.store.rights.requests import Request as AskedRequest

LARGEST_CLICK = 48 * 1024  # bytes, with words of one's own or other arguments, quoted once more
LARGEST_TOKEN = 1024
LONGEST_PARAMETER = 100  # characters
LONGEST_BUTTON = 200  # characters


def render_card(card: Card, html: str) -> dict[str, Any]:
    """`html`: its text, rendered. Everything else is shown as text."""
    return {
        "title": card.title,
        "html": html,
        "fields": [{"name": each.name, "value": each.value} for each in card.fields],
        "buttons": [
            {"id": each.id, "label": each.label, "style": each.style, "about": each.about} for each in card.buttons
        ],
        "freeText": card.free_text,
        "done": card.done,
        "many": card.many,
        "token": card.token,
        "editable": card.editable,
    }


class UnknownButton(NotFound):
    """No card of this page has the button: it was made up, or its card is gone."""

    def __init__(self) -> None:
        GatepostError.__init__(self, UNKNOWN_BUTTON)


class CardClicks:
    def __init__(self, store: Store, hub: LocalChannel) -> None:
        self._store, self._hub = store, hub

    async def click(self, request: Request) -> Response:
        """A click as what the signed-in person does in the room of the card. The decision is judged there."""
        given = await read_object(request, LARGEST_CLICK)
        button, words = get_text(given, "button"), get_text({"text": "", **given}, "text")
        room = await self._store.read(find_room, self._hub.instance, button)
        if room is None:
            raise UnknownButton
        if button.endswith(f":{CHANGED}"):
            await self._check_changed(button, words)
        receipt = await self._hub.submit(
            Inbound(
                address=room,
                platform_id=ids.new("k"),
                sender=request.state.user,
                sender_name=request.state.user.rpartition("/")[2],
                text=words,
                event=CLICK,
                click=button,
                direct=request.state.visitor.is_direct(room, self._hub.main_room),
            )
        )
        return JSONResponse({"ok": True, "decided": is_decided(receipt.reason)})

    async def _check_changed(self, button: str, words: str) -> None:
        """Refuse an invalid edit at once, so that the form shows why. The decision checks it again."""
        asked = await self._store.read(find_request, self._hub.instance, button)
        if asked is not None:
            check_edited(asked, parse_edited(words), AnswerLasts.ONCE)

    async def list_arguments(self, request: Request) -> Response:
        """Return what a card's form has to change, whole, for who may decide about it."""
        token = await read_text_field(request, "token", LARGEST_TOKEN)
        arguments = await self._store.read(read_arguments, self._hub.instance, request.state.user, token)
        return JSONResponse({"ok": True, "arguments": arguments})


def read_arguments(db: Db, instance: str, by: str, token: str) -> list[dict[str, Any]]:
    asked = find_request(db, instance, token)
    if asked is None:
        raise UnknownButton
    if not may_see_arguments(db, asked, by):
        raise Refused(by, "change what is asked", asked.id, NOT_YOURS)
    if asked.state is not RequestState.PENDING:
        decided = render_decision(asked, asked.answered_by, name=find_name(db, asked.answered_by))
        raise Invalid("token", f"it was decided before. {decided}")
    if not is_editable(asked):
        raise Invalid("token", f"what {asked.id} asks cannot be edited; allow it as it is, or deny it")
    return [render_argument(name, value) for name, value in asked.input.items()]


def render_argument(name: str, value: object) -> dict[str, Any]:
    """A text as it is, everything else as JSON: a browser's own numbers would lose digits."""
    is_text = isinstance(value, str)
    shown = value if is_text else msgspec.json.format(msgspec.json.encode(value)).decode()
    return {"name": name, "label": shorten_visibly(name, LONGEST_PARAMETER), "value": shown, "text": is_text}


def find_request(db: Db, instance: str, button: str) -> AskedRequest | None:
    """The request of a card that was shown on this channel."""
    card = find_card(db, instance, button)
    return requests.get(db, card.request_id) if card is not None else None


def find_room(db: Db, instance: str, button: str) -> str | None:
    """The room of this channel in which the button's card was shown. None: there is no such card."""
    card = find_card(db, instance, button)
    return card.address if card is not None else None


def find_card(db: Db, instance: str, button: str) -> RequestCard | None:
    token = button.partition(":")[0] if len(button) <= LONGEST_BUTTON else ""
    card = request_cards.get(db, token) if token else None
    return card if card is not None and card.instance == instance else None
