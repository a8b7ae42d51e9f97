"""Proofs in an ID token of an OpenID provider. Pure: keys, expectations and the time are given.

The signature must be by a public key of the provider, with an algorithm for such keys. `none` is no algorithm here, nor
is any that signs with a shared secret: whoever has the public key could sign with it.
"""

import hmac
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

ALGORITHMS = {  # what each kind of key signs with
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
LONGEST_TOKEN = 32_768
LONGEST_VALUE = 400  # characters of the claim that says who it is
MOST_KEYS = 100
SMALLEST_RSA_KEY, LARGEST_RSA_KEY = 2048, 8192  # bits
SKEW_S = 60  # between two clocks


class OidcClaim(StrEnum):
    """The claim that says who somebody is. Other claims can be changed by people themselves at many providers."""

    SUB = "sub"
    EMAIL = "email"


class NotProven(Exception):
    """The token proves nothing; the words say what is wrong with it."""


class TokenExpectation(Struct, frozen=True, kw_only=True):
    """The values that the sign-in that we began must come back with."""

    issuer: str
    client_id: str
    nonce: str
    claim: OidcClaim


class TokenHeader(Struct, frozen=True):
    algorithm: str
    key_id: str  # '': it names none


def read_keys(document: Any) -> list[Mapping[str, Any]]:
    """The public keys for signatures of a JWKS document."""
    listed = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        return []
    return [each for each in listed[:MOST_KEYS] if isinstance(each, Mapping) and _is_usable(each)]


def _is_usable(key: Mapping[str, Any]) -> bool:
    return key.get("kty") in ALGORITHMS and "d" not in key and key.get("use", "sig") == "sig"


def read_header(token: str) -> TokenHeader:
    import jwt

    if len(token) > LONGEST_TOKEN:
        raise NotProven("it is too long")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise NotProven("it is no token") from None
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not any(algorithm in some for some in ALGORITHMS.values()):
        raise NotProven("it is signed with an algorithm that is not accepted")
    if not isinstance(key_id, str):
        raise NotProven("it names no key")
    return TokenHeader(str(algorithm), key_id)


def find_key(keys: list[Mapping[str, Any]], header: TokenHeader) -> Mapping[str, Any] | None:
    """The key that a token names; without a name, the only one that fits."""
    fitting = [each for each in keys if _fits(each, header.algorithm)]
    if header.key_id:
        return next((each for each in fitting if each.get("kid") == header.key_id), None)
    return fitting[0] if len(fitting) == 1 else None


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    if algorithm not in ALGORITHMS.get(str(key.get("kty")), ()) or key.get("alg", algorithm) != algorithm:
        return False
    return key.get("crv") == CURVES.get(algorithm)


def check_token(token: str, key: Mapping[str, Any], expected: TokenExpectation, now_s: int) -> str:
    """Return who it is: the value of the claim. Raises NotProven."""
    return read_value(check_claims(_check_signature(token, key), expected, now_s), expected.claim)


def _check_signature(token: str, key: Mapping[str, Any]) -> Mapping[str, Any]:
    """The claims, once the key has signed them."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    algorithm = read_header(token).algorithm
    try:
        made = jwt.PyJWK(dict(key), algorithm)
        if isinstance(made.key, RSAPublicKey) and not SMALLEST_RSA_KEY <= made.key.key_size <= LARGEST_RSA_KEY:
            raise NotProven("the provider's key is too short or too long")
        # `check_claims` judges the claims, by the clock of the gateway.
        claims = jwt.decode(
            token,
            made,
            algorithms=[algorithm],
            options={
                "verify_signature": True,
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_iss": False,
            },
        )
    except jwt.InvalidSignatureError:
        raise NotProven("its signature is wrong") from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise NotProven("it is no token, or its key is none") from None
    return dict(claims)


def check_claims(claims: Mapping[str, Any], expected: TokenExpectation, now_s: int) -> Mapping[str, Any]:
    """The claims, if they are for the sign-in that we began. Raises NotProven."""
    if claims.get("iss") != expected.issuer:
        raise NotProven("another issuer made it")
    _check_audience(claims, expected.client_id)
    expires, issued = _get_time(claims, "exp"), _get_time(claims, "iat")
    if expires + SKEW_S <= now_s:
        raise NotProven("it has expired; is the clock of this machine right?")
    if max(issued, _get_time(claims, "nbf") if "nbf" in claims else issued) - SKEW_S > now_s:
        raise NotProven("it is of the future; is the clock of this machine right?")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise NotProven("it is for another sign-in")
    return claims


def _check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    given = claims.get("aud")
    audience = given if isinstance(given, list) else [given]
    if client_id not in audience:
        raise NotProven("it is for another program")
    if len(audience) > 1 and "azp" not in claims:
        raise NotProven("it is for several programs, and does not say which of them asked")
    if claims.get("azp", client_id) != client_id:
        raise NotProven("another program asked for it")


def _get_time(claims: Mapping[str, Any], name: str) -> int | float:
    given = claims.get(name)
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:  # NaN is before nothing
        raise NotProven(f"it has no time {name}")
    return given


def read_value(claims: Mapping[str, Any], claim: OidcClaim) -> str:
    """Raises NotProven if the claim is not there, or if the provider has not checked that an e-mail address is the
    person's."""
    if claim is OidcClaim.EMAIL and claims.get("email_verified") is not True:
        raise NotProven("the provider has not verified the e-mail address")
    value = claims.get(claim)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_VALUE:
        raise NotProven(f"it has no usable {claim}")
    if any(not each.isprintable() or each.isspace() for each in value):
        raise NotProven(f"its {claim} has spaces or characters that cannot be shown")
    return value
