"""Signatures of services on what came by a webhook link. Pure.

    github  X-Hub-Signature-256: sha256=HEX of the body
    slack   X-Slack-Signature: v0=HEX of `v0:TIMESTAMP:body`, X-Slack-Request-Timestamp
    stripe  Stripe-Signature: t=TIMESTAMP,v1=HEX of `TIMESTAMP.body`; there may be several v1

A timestamp is signed, so what is too old, or of the future, is refused. GitHub signs none.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping

from gatepost.core.clock import SECOND
from gatepost.store.rights.tokens import SignatureScheme

WINDOW_S = 300
GITHUB, SLACK, SLACK_TIME, STRIPE = (
    "x-hub-signature-256",
    "x-slack-signature",
    "x-slack-request-timestamp",
    "stripe-signature",
)
MOST_V1 = 8  # of one header: services send two while a secret is changed
LONGEST_HEADER = 2000
_TIME = re.compile(r"[0-9]{1,12}\Z")

Headers = Mapping[str, str]


def find_proof(scheme: SignatureScheme, secret: str, headers: Headers, body: bytes, now: int) -> str:
    """The hash by which this proof is known from now on; '' if nothing is proved. `now`: microseconds."""
    if not secret:
        return ""
    signed = _READERS[scheme](secret, headers, body, now // SECOND) if scheme in _READERS else ""
    return hashlib.sha256(f"{scheme}:{signed}".encode()).hexdigest() if signed else ""


def _read_github(secret: str, headers: Headers, body: bytes, now_s: int) -> str:
    expected = "sha256=" + _sign(secret, body)
    return expected if _is_same(headers.get(GITHUB, ""), expected) else ""


def _read_slack(secret: str, headers: Headers, body: bytes, now_s: int) -> str:
    moment = headers.get(SLACK_TIME, "")
    if not _is_recent(moment, now_s):
        return ""
    expected = "v0=" + _sign(secret, f"v0:{moment}:".encode() + body)
    return expected if _is_same(headers.get(SLACK, ""), expected) else ""


def _read_stripe(secret: str, headers: Headers, body: bytes, now_s: int) -> str:
    header = headers.get(STRIPE, "")
    if len(header) > LONGEST_HEADER:
        return ""
    parts = [each.strip().partition("=") for each in header.split(",")]
    moments = [value for name, _, value in parts if name == "t"]
    if len(moments) != 1 or not _is_recent(moments[0], now_s):
        return ""
    expected = _sign(secret, f"{moments[0]}.".encode() + body)
    given = [value for name, _, value in parts if name == "v1"][:MOST_V1]
    return f"{moments[0]}:{expected}" if any(_is_same(each, expected) for each in given) else ""


_READERS: Mapping[SignatureScheme, Callable[[str, Headers, bytes, int], str]] = {
    SignatureScheme.GITHUB: _read_github,
    SignatureScheme.SLACK: _read_slack,
    SignatureScheme.STRIPE: _read_stripe,
}


def _sign(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _is_recent(moment: str, now_s: int) -> bool:
    return bool(_TIME.match(moment)) and abs(now_s - int(moment)) <= WINDOW_S
