"""Tickets that a browser holds between the two steps of a sign-in: in a cookie, for a few minutes, good for one.

A ticket is signed with a key from the key ring, so nothing is stored for browsers that never come back. Strangers can
ask for as many as they like. All gateways with that ring know it, after a restart too. Only a used ticket is
remembered, in the store, until it would have expired.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import MINUTE
from gatepost.core.keyring import KeySet
from gatepost.serve.web.signin.web_keys import WebKeys
from gatepost.store.people import logins
from gatepost.store.port import Db, Store

LASTS = 5 * MINUTE
LONGEST = 3500  # characters: a cookie holds some 4000
PURPOSE = "sign-in tickets"


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
