"""Requests signed as OAuth 1.0a says (RFC 5849), with HMAC-SHA1. Pure.

These keys hold until they are revoked. Those of OAuth 2.0 would be replaced at each use, and be lost with a crash.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct


class AccountKeys(Struct, frozen=True):
    key: str
    secret: str
    token: str
    token_secret: str


def _encode(text: str) -> str:
    return quote(text, safe="-._~")


def sign(method: str, url: str, params: Mapping[str, str], keys: AccountKeys, nonce: str, at_s: int) -> str:
    """The Authorization header. `params`: those of the query, and of a form; a JSON body is not signed."""
    own = {
        "oauth_consumer_key": keys.key,
        "oauth_nonce": nonce,
        "oauth_signature_method": "HMAC-SHA1",
        "oauth_timestamp": str(at_s),
        "oauth_token": keys.token,
        "oauth_version": "1.0",
    }
    listed = sorted((_encode(name), _encode(value)) for name, value in {**params, **own}.items())
    joined = "&".join(f"{name}={value}" for name, value in listed)
    base = "&".join((method.upper(), _encode(url), _encode(joined)))
    secret = f"{_encode(keys.secret)}&{_encode(keys.token_secret)}"
    signature = base64.b64encode(hmac.new(secret.encode(), base.encode(), hashlib.sha1).digest()).decode()
    fields = sorted({**own, "oauth_signature": signature}.items())
    return "OAuth " + ", ".join(f'{name}="{_encode(value)}"' for name, value in fields)
