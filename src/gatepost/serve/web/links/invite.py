"""Invitation links: the page says what an invitation gives, and the person who is signed in accepts it. To open a link
changes nothing. Somebody who is not signed in chooses a name, if it is for that (`signin/invitation.py`), or is told
how to accept it in a chat."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.errors import Refused
from gatepost.core.event_bus import EventBus
from gatepost.flow import invitations
from gatepost.flow.codes import INVITATION
from gatepost.flow.onboarding import Applicant, JoinResult
from gatepost.serve.web.json_api import read_text_field
from gatepost.serve.web.signin.visitors import WebVisitor, find_visitor
from gatepost.serve.web.static_pages import make_page_response
from gatepost.store.port import Db, Store
from gatepost.store.rights.tokens import render_invited

LARGEST_BODY = 1024  # bytes
PAGE = "invite.html"


class InviteLinks:
    """For browsers that are signed in. A code is in no address of a request but the page's own."""

    def __init__(self, store: Store, clock: Clock, events: EventBus, channel: LocalChannel) -> None:
        self._store, self._clock, self._events, self._channel = store, clock, events, channel

    def routes(self) -> list[Route]:
        return [
            Route("/invitation/read", self.read, methods=["POST"]),
            Route("/invitation/accept", self.accept, methods=["POST"]),
        ]

    async def read(self, request: Request) -> Response:
        code = await _read_code(request)
        visitor: WebVisitor = request.state.visitor
        offer = await self._store.read(invitations.read_offer, code, visitor.user, self._clock.now())
        return JSONResponse(
            {
                "group": offer.group,
                "ownGroup": offer.own_group,
                "obstacle": offer.obstacle,
                "accepted": offer.accepted,
                "person": visitor.called,
                "gives": render_invited(offer.rights, offer.group),
            }
        )

    async def accept(self, request: Request) -> Response:
        code, browser = await _read_code(request), request.state.browser
        done = await self._store.write(_accept, code, browser, self._clock.now(), self._channel.instance)
        if done.accepted:
            self._events.tools()
        if done.joined:
            self._events.newcomers()
        return JSONResponse({"ok": done.accepted, "text": done.said or invitations.LIMITED})


async def show_invitation(request: Request) -> Response:
    """The same page for every code, valid or not. To open it uses nothing up."""
    return make_page_response(request, PAGE)


async def _read_code(request: Request) -> str:
    return INVITATION.parse(await read_text_field(request, "token", LARGEST_BODY))


def _accept(db: Db, code: str, browser: str, now: int, instance: str) -> JoinResult:
    """Accept for whoever is signed in at this moment. An owner's rooms are not theirs alone."""
    visitor = find_visitor(db, browser, now)
    if visitor is None:
        raise Refused("nobody", "accept an invitation", why="this browser is not signed in any more")
    who = Applicant(
        sender=visitor.user,
        name=visitor.called,
        instance=instance,
        address=visitor.room,
        direct=bool(visitor.room),
    )
    return invitations.accept(db, code, who, now)
