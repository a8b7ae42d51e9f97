"""Tickets for pages that are not public. Such a page has no origin, so browsers send no cookie with what it loads. A
ticket stands in its address instead: for one browser at one place of the network, for one group, and as long as that
browser is signed in.

The page itself can read its ticket, but not what is sealed in it. It opens nothing but the pages of the same group,
which the same agent wrote. Nothing is kept of a ticket, so every gateway with the same key ring knows it.
"""

import hashlib

import msgspec
from msgspec import Struct

from gatepost.core.clock import HOUR
from gatepost.core.keyring import NONCE_BYTES, SealedValue, UnsealError
from gatepost.serve.web.signin.tickets import decode_text, encode_text
from gatepost.serve.web.signin.web_keys import WebKeys

LASTS = 2 * HOUR
LONGEST = 600  # characters
MARK = "~"  # no folder begins with it
PURPOSE = "site ticket"


class SiteTicket(Struct, frozen=True):
    """`browser`: the token of its cookie, by which the person is judged anew with each request. `client`: where that
    browser is, and what it calls itself, as a digest: an address that was passed on is of no use elsewhere."""

    browser: str
    until: int
    client: str = ""


def digest_client(address: str, agent: str) -> str:
    return hashlib.sha256(f"{address}\0{agent}".encode("utf-8", "replace")).hexdigest()[:16]


class SiteTickets:
    def __init__(self, keys: WebKeys) -> None:
        self._keys = keys

    async def issue(self, browser: str, folder: str, client: str, now: int) -> str:
        value = msgspec.json.encode(SiteTicket(browser, now + LASTS, client))
        sealed = (await self._keys.read()).seal(value, (PURPOSE, folder))
        return f"{encode_text(sealed.key_id.encode())}.{encode_text(sealed.nonce + sealed.data)}"

    async def find(self, text: str, folder: str, client: str, now: int) -> SiteTicket | None:
        """None: it is not ours, for another group or browser, or too old."""
        key_id, _, data = text.partition(".")
        if not data or len(text) > LONGEST or not text.isascii():
            return None
        raw = decode_text(data)
        sealed = SealedValue(decode_text(key_id).decode("ascii", "replace"), raw[:NONCE_BYTES], raw[NONCE_BYTES:])
        try:
            value = (await self._keys.read()).open(sealed, (PURPOSE, folder))
        except UnsealError:
            return None
        ticket = msgspec.json.decode(value, type=SiteTicket)
        return ticket if ticket.until > now and ticket.client == client else None
