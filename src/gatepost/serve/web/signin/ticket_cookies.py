"""Tickets as browsers hold them: a cookie for each purpose, for as long as the ticket lasts."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from gatepost.core.clock import SECOND, Clock
from gatepost.serve.web.signin.browser_login import BrowserLogins, is_secure
from gatepost.serve.web.signin.tickets import LASTS, SignInTicket, TicketOffice, TicketPurpose


class TicketCookies:
    """`comes_back`: the second step is led to by another site. A browser sends the cookie along then, too."""

    def __init__(self, browsers: BrowserLogins, clock: Clock, comes_back: bool = False) -> None:
        self._browsers, self._clock, self._office = browsers, clock, TicketOffice()
        self._comes_back = comes_back

    def set(self, request: Request, answer: Response, purpose: TicketPurpose, values: Mapping[str, str]) -> None:
        secure = is_secure(request)
        answer.set_cookie(
            self._browsers.list_ticket_cookies(request, purpose)[0 if secure else 1],
            self._office.issue(purpose, values, self._clock.now()),
            max_age=LASTS // SECOND,
            httponly=True,
            samesite="lax" if self._comes_back else "strict",
            secure=secure,
        )

    def find(self, request: Request, purpose: TicketPurpose) -> SignInTicket | None:
        names = self._browsers.list_ticket_cookies(request, purpose)
        given = next((request.cookies[name] for name in names if name in request.cookies), "")
        return self._office.read(purpose, given, self._clock.now())

    def spend(self, ticket: SignInTicket) -> bool:
        """False: it was spent before."""
        return self._office.spend(ticket, self._clock.now())

    def clear(self, request: Request, answer: Response, purpose: TicketPurpose) -> None:
        for name in self._browsers.list_ticket_cookies(request, purpose):
            if name in request.cookies:
                answer.delete_cookie(name, httponly=True, samesite="lax", secure=name.startswith("__Host-"))
