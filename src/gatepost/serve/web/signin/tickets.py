"""What a browser holds between the two steps of a sign-in: a ticket in a cookie, for a few minutes, good for one.

A ticket is signed with a key of this process, so nothing is kept for those who never come back: strangers can ask for
as many as they like. Only what signed somebody in is remembered, until it would have expired.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import MINUTE

LASTS = 5 * MINUTE
LONGEST = 3500  # characters: a cookie holds some 4000
MOST_SPENT = 10_000  # within the time that a ticket lasts


class TicketPurpose(StrEnum):
    ADD_PASSKEY = "add_passkey"
    PASSKEY_SIGN_IN = "passkey_sign_in"
    OIDC_SIGN_IN = "oidc_sign_in"


class SignInTicket(Struct, frozen=True):
    id: str
    purpose: TicketPurpose
    expires_at: int
    values: Mapping[str, str]


class TicketOffice:
    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._spent: dict[str, int] = {}  # by id: when it would have expired

    def issue(self, purpose: TicketPurpose, values: Mapping[str, str], now: int) -> str:
        body = _encode(msgspec.json.encode(SignInTicket(ids.token(16), purpose, now + LASTS, values)))
        return f"{body}.{_encode(self._sign(body))}"

    def read(self, purpose: TicketPurpose, given: str, now: int) -> SignInTicket | None:
        """None: it is not ours, for something else, too old or spent."""
        body, _, signature = given.partition(".")
        if len(given) > LONGEST or not given.isascii():
            return None
        if not hmac.compare_digest(_encode(self._sign(body)), signature):
            return None
        ticket = msgspec.json.decode(_decode(body), type=SignInTicket)
        if ticket.purpose is not purpose or ticket.expires_at <= now or ticket.id in self._spent:
            return None
        return ticket

    def spend(self, ticket: SignInTicket, now: int) -> bool:
        """False if somebody else spent it, or if too many were. There is no await between the look and the mark."""
        if len(self._spent) >= MOST_SPENT:
            self._spent = {name: until for name, until in self._spent.items() if until > now}
        if ticket.id in self._spent or len(self._spent) >= MOST_SPENT:
            return False
        self._spent[ticket.id] = ticket.expires_at
        return True

    def _sign(self, body: str) -> bytes:
        return hmac.digest(self._key, body.encode(), hashlib.sha256)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return b""
