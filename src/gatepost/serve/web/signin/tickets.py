"""Tickets that a browser holds between the two steps of a sign-in: in a cookie, for a few minutes, good for one.

A ticket is signed with a key from the key ring, so nothing is stored for browsers that never come back. Strangers can
ask for as many as they like. All gateways with that ring know it, after a restart too. Only a used ticket is
remembered, in the store, until it would have expired.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gatepost.core import ids, log
from gatepost.core.clock import MINUTE, Clock
from gatepost.core.errors import SetupError
from gatepost.core.keyring import KEY_BYTES, Keyring, KeySet
from gatepost.serve.web.signin.browser_login import BrowserLogins
from gatepost.store.people import logins
from gatepost.store.port import Db, Store
from gatepost.store.rights import secrets

LASTS = 5 * MINUTE
LONGEST = 3500  # characters: a cookie holds some 4000
PURPOSE = "sign-in tickets"
OWN = "own"  # the id of the process's own key
_log = log.get("login")


class TicketPurpose(StrEnum):
    ADD_PASSKEY = "add_passkey"
    PASSKEY_SIGN_IN = "passkey_sign_in"
    OIDC_SIGN_IN = "oidc_sign_in"


class SignInTicket(Struct, frozen=True):
    id: str
    key_id: str
    purpose: TicketPurpose
    expires_at: int
    values: Mapping[str, str]


class WebKeys:
    """The keys of what a browser brings back to any gateway, after a restart too: those of the key ring."""

    def __init__(self, keyring: Keyring, store: Store) -> None:
        self._keyring, self._store = keyring, store
        self._own = os.urandom(KEY_BYTES)  # for a home whose key ring is lost: people can sign in, and find that out

    async def read(self) -> KeySet:
        """The file is read anew each time, as for secrets. If it is lost or damaged, the process's own key alone."""
        try:
            ring = await asyncio.to_thread(self._keyring.read)
            ring = ring if ring is not None else await self._store.write(secrets.get_ring, self._keyring)
        except SetupError as error:
            _log.warning("the key ring cannot be used; sign-ins work with this process alone", error=str(error))
            return KeySet(OWN, {OWN: self._own})
        return KeySet(ring.current, {**ring.keys, OWN: self._own})


class SignInTickets:
    def __init__(self, keys: WebKeys, store: Store) -> None:
        self._keys, self._store = keys, store

    async def issue(self, purpose: TicketPurpose, values: Mapping[str, str], now: int) -> str:
        keys = await self._keys.read()
        ticket = SignInTicket(ids.token(16), keys.current, purpose, now + LASTS, values)
        body = encode_text(msgspec.json.encode(ticket))
        return f"{body}.{encode_text(_sign(keys, keys.current, body) or b'')}"

    async def read(self, purpose: TicketPurpose, given: str, now: int) -> SignInTicket | None:
        """None: it is not ours, for something else, too old or spent."""
        body, _, signature = given.partition(".")
        if not signature or len(given) > LONGEST or not given.isascii():
            return None
        try:
            ticket = msgspec.json.decode(decode_text(body), type=SignInTicket)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        expected = _sign(await self._keys.read(), ticket.key_id, body)
        if expected is None or not hmac.compare_digest(encode_text(expected), signature):
            return None
        if ticket.purpose is not purpose or ticket.expires_at <= now:
            return None
        return None if await self._store.read(logins.is_ticket_spent, ticket.id) else ticket


class TicketCookies:
    """Tickets as browsers hold them: a cookie for each purpose, for as long as the ticket lasts.

    `comes_back`: the second step is led to by another site. A browser sends the cookie along then, too."""

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


def _sign(keys: KeySet, key_id: str, body: str) -> bytes | None:
    """None: the key is not known here, or no more."""
    key = keys.derive(key_id, PURPOSE)
    return None if key is None else hmac.digest(key, body.encode(), hashlib.sha256)


def spend(db: Db, ticket: SignInTicket, now: int) -> bool:
    """For the transaction of what the ticket is good for. False if it was spent before, at any gateway."""
    return logins.add_spent_ticket(db, ticket.id, ticket.expires_at, now)


def encode_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_text(text: str) -> bytes:
    """b"" for what was not encoded so."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return b""
