"""Cards on the page: how a browser gets one, and what a click on a button does."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.channels.local_channel import LocalChannel
from gatepost.core import ids
from gatepost.core.errors import GatepostError, NotFound
from gatepost.flow.requests.answering import UNKNOWN_BUTTON, is_decided
from gatepost.messages.card import Card
from gatepost.messages.inbound import CLICK, Inbound
from gatepost.serve.web.json_body import get_text, read_object
from gatepost.store import request_cards
from gatepost.store.port import Db, Store

LARGEST_CLICK = 32 * 1024  # bytes, with words of one's own
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


def find_room(db: Db, instance: str, button: str) -> str | None:
    """The room of this channel in which the button's card was shown. None: there is no such card."""
    token = button.partition(":")[0] if len(button) <= LONGEST_BUTTON else ""
    card = request_cards.get(db, token) if token else None
    return card.address if card is not None and card.instance == instance else None
