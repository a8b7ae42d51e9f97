"""The sender of an activity: a token in the form of JWT, signed with RS256 by a key of the Bot Framework. Pure.

Every claim that Microsoft's page on the Bot Connector's authentication names is checked. No other algorithm is read.
"""

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Struct

ISSUER = "https://api.botframework.com"
CHANNEL = "msteams"
ALGORITHM = "RS256"
SKEW_S = 300  # that Microsoft allows between two clocks
LONGEST_TOKEN = 16_384
SMALLEST_KEY = 2048
MOST_KEYS = 100


class SigningKey(Struct, frozen=True):
    key: RSAPublicKey
    endorsements: tuple[str, ...]  # the channels for which it may sign


class NotProved(Exception):
    """The token proves nothing; the words say what is wrong with it."""


def read_keys(answer: Any) -> dict[str, SigningKey]:
    """The keys of a JWKS document, by their ids; those of another kind are left out."""
    listed = answer.get("keys") if isinstance(answer, Mapping) else None
    found: dict[str, SigningKey] = {}
    for each in listed[:MOST_KEYS] if isinstance(listed, list) else ():
        if not isinstance(each, Mapping) or each.get("kty") != "RSA" or not isinstance(each.get("kid"), str):
            continue
        try:
            numbers = RSAPublicNumbers(_read_integer(each.get("e")), _read_integer(each.get("n")))
            key = numbers.public_key()
        except (ValueError, NotProved):
            continue
        endorsements = each.get("endorsements")
        endorsed = tuple(str(name) for name in endorsements) if isinstance(endorsements, list) else ()
        if key.key_size >= SMALLEST_KEY:
            found[each["kid"]] = SigningKey(key, endorsed)
    return found


def read_key_id(token: str) -> str:
    """By which key the token says that it is signed."""
    header = _read_object(_split(token)[0])
    if header.get("alg") != ALGORITHM:
        raise NotProved("it is not signed with RS256")
    kid = header.get("kid")
    if not isinstance(kid, str) or not kid:
        raise NotProved("it names no key")
    return kid


def check_token(token: str, keys: Mapping[str, SigningKey], *, app_id: str, service_url: str, now_s: int) -> None:
    """Raises NotProved unless the Bot Framework signed this for our bot, now, and for this service."""
    signing = keys.get(read_key_id(token))
    if signing is None:
        raise NotProved("its key is unknown")
    header, body, signature = _split(token)
    try:
        signing.key.verify(_decode(signature), f"{header}.{body}".encode(), PKCS1v15(), SHA256())
    except InvalidSignature:
        raise NotProved("its signature is wrong") from None
    if CHANNEL not in signing.endorsements:
        raise NotProved("its key is not for Teams")
    claims = _read_object(body)
    if claims.get("iss") != ISSUER:
        raise NotProved("its issuer is another")
    if not app_id or not hmac.compare_digest(str(claims.get("aud")).encode(), app_id.encode()):
        raise NotProved("it is for another bot")
    expires, begins = claims.get("exp"), claims.get("nbf", 0)
    if not isinstance(expires, int | float) or now_s >= expires + SKEW_S:
        raise NotProved("it has expired")
    if not isinstance(begins, int | float) or now_s < begins - SKEW_S:
        raise NotProved("it does not hold yet")
    if not service_url or claims.get("serviceurl", claims.get("serviceUrl")) != service_url:
        raise NotProved("it is for another service address")


def _split(token: str) -> tuple[str, str, str]:
    parts = token.split(".") if len(token) <= LONGEST_TOKEN else []
    if len(parts) != 3 or not all(parts):
        raise NotProved("it is no token")
    return parts[0], parts[1], parts[2]


def _decode(part: Any) -> bytes:
    if not isinstance(part, str) or not part.isascii() or len(part) > LONGEST_TOKEN:
        raise NotProved("it is no base64")
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise NotProved("it is no base64") from None


def _read_integer(part: Any) -> int:
    return int.from_bytes(_decode(part), "big")


def _read_object(part: str) -> dict[str, Any]:
    try:
        value = json.loads(_decode(part))
    except (ValueError, RecursionError):
        raise NotProved("it is no JSON") from None
    if not isinstance(value, dict):
        raise NotProved("it is no object")
    return value
