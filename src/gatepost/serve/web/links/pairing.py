"""Pairing links: the page says who would be bound to whom, and the person who is signed in confirms it. To open a link
changes nothing."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.core.clock import Clock
from gatepost.core.errors import Refused
from gatepost.core.event_bus import EventBus
from gatepost.flow import pairing
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.pairing import PairingResult
from gatepost.flow.requests import unknown_senders
from gatepost.serve.web.json_api import read_text_field
from gatepost.serve.web.signin.visitors import find_visitor
from gatepost.store.port import Db, Store
from gatepost.store.rights.tokens import Token

LARGEST_BODY = 1024  # bytes
LONGEST_TOKEN = 200  # characters


class PairingLinks:
    """For browsers that are signed in. A token is in no address of a request but the page's own."""

    def __init__(self, store: Store, clock: Clock, events: EventBus, channels: ChannelInstances | None) -> None:
        self._store, self._clock, self._events, self._channels = store, clock, events, channels

    def routes(self) -> list[Route]:
        return [
            Route("/pairing/read", self.read, methods=["POST"]),
            Route("/pairing/confirm", self.confirm, methods=["POST"]),
        ]

    async def read(self, request: Request) -> Response:
        token = await _read_token(request)
        offer = await self._store.read(pairing.read_link, token, request.state.user, self._clock.now())
        return JSONResponse(
            {
                "identity": offer.identity,
                "name": offer.name,
                "person": offer.person,
                "personName": offer.person_name,
                "obstacle": offer.obstacle,
            }
        )

    async def confirm(self, request: Request) -> Response:
        token, browser = await _read_token(request), request.state.browser
        result, link = await self._store.write(_confirm, token, browser, self._clock.now(), self._channels)
        if result.paired:
            self._events.tools()
            self._events.requests()
            if link.address:
                self._events.room(link.instance, link.address)
        return JSONResponse({"ok": result.paired, "text": result.said})


async def _read_token(request: Request) -> str:
    token = await read_text_field(request, "token", LARGEST_BODY)
    return token if len(token) <= LONGEST_TOKEN else ""


def _confirm(
    db: Db, token: str, browser: str, now: int, channels: ChannelInstances | None
) -> tuple[PairingResult, Token]:
    """By whoever is signed in at this moment."""
    visitor = find_visitor(db, browser, now)
    if visitor is None:
        raise Refused("nobody", "confirm a pairing link", why="this browser is not signed in any more")
    result, link = pairing.confirm_link(db, token, visitor.user, now, channels)
    if result.paired:
        unknown_senders.hurry(db, link.identity, now)
    return result, link
