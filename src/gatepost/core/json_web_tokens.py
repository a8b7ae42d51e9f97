"""JSON Web Tokens that somebody else signs: the key, the signature, and the claims that every token has.

Pure: keys, expectations and the time are given. The signature must be by a public key of the issuer, with an algorithm
for such keys. `none` is no algorithm here, nor is any that signs with a shared secret: whoever has the public key could
sign with it. Claims that only one kind of token has are checked by those who expect it.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

ALGORITHMS = {  # what each kind of key signs with
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
ALL_ALGORITHMS = tuple(each for some in ALGORITHMS.values() for each in some)
CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
LONGEST_TOKEN = 32_768
MOST_KEYS = 100
SMALLEST_RSA_KEY, LARGEST_RSA_KEY = 2048, 8192  # bits
FUTURE = "it is of the future; is the clock of this machine right?"

_TOKEN = re.compile(r"[\w=-]+\.[\w=-]+\.[\w=-]*", re.ASCII)  # the library decodes other characters away


class NotProven(Exception):
    """The token proves nothing; the words say what is wrong with it."""


class TokenHeader(Struct, frozen=True):
    algorithm: str
    key_id: str  # '': it names none


class TokenTerms(Struct, frozen=True, kw_only=True):
    """The values that a token must have. `skew_s`: that two clocks may differ by."""

    issuer: str
    audience: str
    skew_s: int
    algorithms: tuple[str, ...] = ALL_ALGORITHMS


def read_keys(document: Any) -> list[Mapping[str, Any]]:
    """Return the public keys for signatures of a JWKS document."""
    listed = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        return []
    return [each for each in listed[:MOST_KEYS] if isinstance(each, Mapping) and _is_usable(each)]


def _is_usable(key: Mapping[str, Any]) -> bool:
    return str(key.get("kty")) in ALGORITHMS and "d" not in key and key.get("use", "sig") == "sig"


def read_header(token: str, algorithms: tuple[str, ...] = ALL_ALGORITHMS) -> TokenHeader:
    import jwt

    if len(token) > LONGEST_TOKEN:
        raise NotProven("it is too long")
    if not _TOKEN.fullmatch(token):
        raise NotProven("it is no token")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise NotProven("it is no token") from None
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if algorithm not in algorithms:
        raise NotProven("it is signed with an algorithm that is not accepted")
    if not isinstance(key_id, str):
        raise NotProven("it names no key")
    return TokenHeader(str(algorithm), key_id)


def find_key(keys: list[Mapping[str, Any]], header: TokenHeader) -> Mapping[str, Any] | None:
    """Return the key that a token names; without a name, the only one that fits."""
    fitting = [each for each in keys if _fits(each, header.algorithm)]
    if header.key_id:
        return next((each for each in fitting if each.get("kid") == header.key_id), None)
    return fitting[0] if len(fitting) == 1 else None


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    if algorithm not in ALGORITHMS.get(str(key.get("kty")), ()) or key.get("alg", algorithm) != algorithm:
        return False
    return key.get("crv") == CURVES.get(algorithm)


def check_token(token: str, key: Mapping[str, Any], terms: TokenTerms, now_s: int) -> Mapping[str, Any]:
    """Return the claims, once the key has signed them and they meet the terms. Raises NotProven."""
    claims = _check_signature(token, key, terms.algorithms)
    check_claims(claims, terms, now_s)
    return claims


def _check_signature(token: str, key: Mapping[str, Any], algorithms: tuple[str, ...]) -> Mapping[str, Any]:
    import jwt

    algorithm = read_header(token, algorithms).algorithm
    try:
        made = jwt.PyJWK(dict(key), algorithm)
        if made.key_type == "RSA" and not SMALLEST_RSA_KEY <= made.key.key_size <= LARGEST_RSA_KEY:
            raise NotProven("the issuer's key is too short or too long")
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


def check_claims(claims: Mapping[str, Any], terms: TokenTerms, now_s: int) -> None:
    """Raises NotProven unless issuer, audience and time are right."""
    if claims.get("iss") != terms.issuer:
        raise NotProven("another issuer made it")
    if terms.audience not in list_audience(claims):
        raise NotProven("it is for another program")
    if read_time(claims, "exp") + terms.skew_s <= now_s:
        raise NotProven("it has expired; is the clock of this machine right?")
    if "nbf" in claims and read_time(claims, "nbf") - terms.skew_s > now_s:
        raise NotProven(FUTURE)


def list_audience(claims: Mapping[str, Any]) -> list[Any]:
    given = claims.get("aud")
    return given if isinstance(given, list) else [given]


def read_time(claims: Mapping[str, Any], name: str) -> int | float:
    given = claims.get(name)
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:  # NaN is before nothing
        raise NotProven(f"it has no time {name}")
    return given
