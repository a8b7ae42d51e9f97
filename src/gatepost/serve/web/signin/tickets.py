"""What a browser holds between the two steps of a sign-in: a ticket in a cookie, for a few minutes, good for one.

A ticket is signed with a key that comes from the key ring, so nothing is kept for those who never come back: strangers
can ask for as many as they like. All gateways with that ring know it, after a restart too. Only what signed somebody in
is remembered, in the store, until it would have expired.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from gatepost.core import ids, log
from gatepost.core.clock import MINUTE
from gatepost.core.errors import SetupError
from gatepost.core.keyring import Keyring, KeySet
from gatepost.store import secrets, spent_tickets
from gatepost.store.port import Db, Store

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


class TicketOffice:
    def __init__(self, keyring: Keyring, store: Store) -> None:
        self._keyring, self._store = keyring, store
        self._own = os.urandom(32)  # for a home whose key ring is lost: people can sign in, and find that out

    async def issue(self, purpose: TicketPurpose, values: Mapping[str, str], now: int) -> str:
        ring = await self._read_ring()
        key_id = ring.current if ring is not None else OWN
        body = _encode(msgspec.json.encode(SignInTicket(ids.token(16), key_id, purpose, now + LASTS, values)))
        return f"{body}.{_encode(self._sign(ring, key_id, body) or b'')}"

    async def read(self, purpose: TicketPurpose, given: str, now: int) -> SignInTicket | None:
        """None: it is not ours, for something else, too old or spent."""
        body, _, signature = given.partition(".")
        if not signature or len(given) > LONGEST or not given.isascii():
            return None
        try:
            ticket = msgspec.json.decode(_decode(body), type=SignInTicket)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        expected = self._sign(await self._read_ring(), ticket.key_id, body)
        if expected is None or not hmac.compare_digest(_encode(expected), signature):
            return None
        if ticket.purpose is not purpose or ticket.expires_at <= now:
            return None
        return None if await self._store.read(spent_tickets.is_there, ticket.id) else ticket

    async def _read_ring(self) -> KeySet | None:
        """The file is read anew each time, as for secrets. None: it is lost or damaged."""
        try:
            ring = await asyncio.to_thread(self._keyring.read)
            return ring if ring is not None else await self._store.write(secrets.get_ring, self._keyring)
        except SetupError as error:
            _log.warning("the key ring cannot be used; sign-ins work with this process alone", error=str(error))
            return None

    def _sign(self, ring: KeySet | None, key_id: str, body: str) -> bytes | None:
        """None: the key is not known here, or no more."""
        key = self._own if key_id == OWN else ring.derive(key_id, PURPOSE) if ring is not None else None
        return None if key is None else hmac.digest(key, body.encode(), hashlib.sha256)


def spend(db: Db, ticket: SignInTicket, now: int) -> bool:
    """For the transaction of what the ticket is good for. False if it was spent before, at any gateway."""
    return spent_tickets.add(db, ticket.id, ticket.expires_at, now)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return b""
