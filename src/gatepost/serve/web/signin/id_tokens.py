"""Proofs in an ID token of an OpenID provider. Pure: keys, expectations and the time are given.

`core/json_web_tokens.py` checks what every signed token has. Here is checked that it is for the sign-in that we began,
and who it names.
"""

import hmac
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gatepost.core import json_web_tokens
from gatepost.core.json_web_tokens import FUTURE, NotProven, TokenTerms, list_audience, read_time

LONGEST_VALUE = 400  # characters of the claim that says who it is
SKEW_S = 60  # between two clocks


class OidcClaim(StrEnum):
    """The claim that says who somebody is. Other claims can be changed by people themselves at many providers."""

    SUB = "sub"
    EMAIL = "email"


class TokenExpectation(Struct, frozen=True, kw_only=True):
    """The values that the sign-in that we began must come back with."""

    issuer: str
    client_id: str
    nonce: str
    claim: OidcClaim

    @property
    def terms(self) -> TokenTerms:
        return TokenTerms(issuer=self.issuer, audience=self.client_id, skew_s=SKEW_S)


def check_token(token: str, key: Mapping[str, Any], expected: TokenExpectation, now_s: int) -> str:
    """Return who it is: the value of the claim. Raises NotProven."""
    claims = json_web_tokens.check_token(token, key, expected.terms, now_s)
    check_sign_in(claims, expected, now_s)
    return read_value(claims, expected.claim)


def check_sign_in(claims: Mapping[str, Any], expected: TokenExpectation, now_s: int) -> None:
    """Raises NotProven unless claims that meet the terms are for the sign-in that we began."""
    if len(list_audience(claims)) > 1 and "azp" not in claims:
        raise NotProven("it is for several programs, and does not say which of them asked")
    if claims.get("azp", expected.client_id) != expected.client_id:
        raise NotProven("another program asked for it")
    if read_time(claims, "iat") - SKEW_S > now_s:
        raise NotProven(FUTURE)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(errors="replace"), expected.nonce.encode()):
        raise NotProven("it is for another sign-in")


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
