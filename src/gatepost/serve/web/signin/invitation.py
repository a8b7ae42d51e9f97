"""An invitation to the web page signs in somebody who is new here, under a name that they choose. It works once.

Its link shows the same page as every invitation. Somebody who is signed in already accepts it there as who they are. A
code that is unknown, used up, too old, revoked, or that its maker could no longer give, looks the same.
"""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.flow import invitations
from gatepost.flow.codes import INVITATION
from gatepost.flow.people.page_logins import LONGEST_NAME
from gatepost.messages.text import clean
from gatepost.serve.web.json_api import error_response, get_text, read_object, read_text_field
from gatepost.serve.web.signin.contract import PREFIX, SignInDeps, sign_in_method
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import TokenKind, render_invited

NAME = "invitation"
LARGEST_BODY = 4096  # bytes
TOO_MANY = "Too many invitations were tried from here; wait a while."


@sign_in_method(NAME, "", wanted=lambda config: True, order=5)
class InvitationSignIn:
    def __init__(self, deps: SignInDeps) -> None:
        self._deps = deps

    def routes(self) -> list[Route]:
        return [
            Route(f"{PREFIX}/{NAME}/read", self.read, methods=["POST"]),
            Route(f"{PREFIX}/{NAME}", self.sign_in, methods=["POST"]),
        ]

    async def read(self, request: Request) -> Response:
        """Say what it gives. It is not used up, and who has no valid one learns nothing."""
        code, now = INVITATION.parse(await read_text_field(request, "token", LARGEST_BODY)), self._deps.clock.now()
        offer = await self._deps.store.read(invitations.read_page_offer, code, now)
        if offer is None and await self._deps.store.read(tokens.find_valid, TokenKind.INVITE, code, now) is not None:
            return error_response("refused", invitations.NOT_VALID, 403)  # it is for a chat: nobody has guessed
        if offer is None:
            return await self._refuse(request)
        return JSONResponse({"gives": render_invited(offer.rights, offer.group), "longestName": LONGEST_NAME})

    async def sign_in(self, request: Request) -> Response:
        given = await read_object(request, LARGEST_BODY)
        code = INVITATION.parse(get_text(given, "token"))
        name = " ".join(clean(get_text(given, "name")[: LONGEST_NAME + 1]).split())
        if await self._deps.store.read(invitations.read_page_offer, code, self._deps.clock.now()) is None:
            return await self._refuse(request)
        instance = self._deps.channel.instance
        answer = await self._deps.browsers.sign_in(
            request, NAME, lambda db, now: invitations.join_page(db, code, name, instance, now)
        )
        return answer if answer is not None else await self._refuse(request)

    async def _refuse(self, request: Request) -> Response:
        if not await self._deps.throttle.strike(self._deps.browsers.get_peer(request)):
            return error_response("refused", TOO_MANY, 429)
        return error_response("refused", invitations.NOT_VALID, 403)
