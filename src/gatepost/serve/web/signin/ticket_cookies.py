"""Tickets as browsers hold them: a cookie for each purpose, for as long as the ticket lasts."""

from collections.abc import Mapping
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from gatepost.core.clock import Clock
from gatepost.serve.web.signin.browser_login import BrowserLogins
from gatepost.serve.web.signin.tickets import LASTS, SignInTicket, SignInTickets, TicketPurpose


class TicketCookies:
    """`comes_back`: the second step is led to by another site. A browser sends the cookie along then, too."""

    def __init__(self, browsers: BrowserLogins, clock: Clock, tickets: SignInTickets, comes_back: bool = False) -> None:
        self._browsers, self._clock, self._tickets = browsers, clock, tickets
        self._comes_back = comes_back

    async def set(self, request: Request, answer: Response, purpose: TicketPurpose, values: Mapping[str, str]) -> None:
        ticket = await self._tickets.issue(purpose, values, self._clock.now())
        same_site: Literal["lax", "strict"] = "lax" if self._comes_back else "strict"
        self._browsers.set_cookie(request, answer, ticket, LASTS, suffix=purpose, same_site=same_site)

    async def find(self, request: Request, purpose: TicketPurpose) -> SignInTicket | None:
        return await self._tickets.read(purpose, self._browsers.get_cookie(request, purpose), self._clock.now())

    def clear(self, request: Request, answer: Response, purpose: TicketPurpose) -> None:
        self._browsers.clear_cookie(request, answer, purpose)
