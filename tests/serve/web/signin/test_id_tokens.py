"""What an ID token must have to prove who somebody is: judged on data."""

from typing import Any

import pytest

from gatepost.core import json_web_tokens
from gatepost.core.json_web_tokens import NotProven
from gatepost.serve.web.signin.id_tokens import OidcClaim, TokenExpectation, check_sign_in, read_value

NOW_S = 1_800_000_000
EXPECTED = TokenExpectation(issuer="https://id.example", client_id="us", nonce="n-1", claim=OidcClaim.SUB)
CLAIMS: dict[str, Any] = {
    "iss": "https://id.example",
    "aud": "us",
    "sub": "ann-1",
    "nonce": "n-1",
    "iat": NOW_S - 5,
    "exp": NOW_S + 300,
}


def check_claims(claims: dict[str, Any]) -> None:
    json_web_tokens.check_claims(claims, EXPECTED.terms, NOW_S)
    check_sign_in(claims, EXPECTED, NOW_S)


def test_claims_for_the_sign_in_that_we_began_are_taken() -> None:
    check_claims(CLAIMS)
    assert read_value(CLAIMS, OidcClaim.SUB) == "ann-1"
    check_claims({**CLAIMS, "aud": ["us"], "azp": "us"})
    check_claims({**CLAIMS, "aud": ["us", "them"], "azp": "us"})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"iss": "https://id.example/"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "them"}, "another program"),
        ({"aud": []}, "another program"),
        ({"aud": None}, "another program"),
        ({"aud": ["us", "them"]}, "several programs"),
        ({"azp": "them"}, "another program asked"),
        ({"azp": None}, "another program asked"),
        ({"exp": NOW_S - 60}, "expired"),
        ({"exp": float("nan")}, "no time exp"),
        ({"exp": "soon"}, "no time exp"),
        ({"exp": True}, "no time exp"),
        ({"exp": None}, "no time exp"),
        ({"iat": None}, "no time iat"),
        ({"iat": NOW_S + 61}, "future"),
        ({"nbf": NOW_S + 61}, "future"),
        ({"nonce": "n-2"}, "another sign-in"),
        ({"nonce": None}, "another sign-in"),
        ({"nonce": ["n-1"]}, "another sign-in"),
    ],
)
def test_claims_of_another_sign_in_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(NotProven, match=why):
        check_claims({**CLAIMS, **change})


def test_clocks_may_differ_by_a_minute() -> None:
    check_claims({**CLAIMS, "exp": NOW_S - 59, "iat": NOW_S + 60})
    check_claims({**CLAIMS, "exp": 10**400})  # larger than a float


@pytest.mark.parametrize("verified", [None, False, "true", 1])
def test_an_email_address_counts_only_if_the_provider_has_verified_it(verified: object) -> None:
    claims = {**CLAIMS, "email": "ann@example.com"}
    with pytest.raises(NotProven, match="not verified"):
        read_value({**claims, "email_verified": verified}, OidcClaim.EMAIL)
    assert read_value({**claims, "email_verified": True}, OidcClaim.EMAIL) == "ann@example.com"


@pytest.mark.parametrize("value", ["", None, 5, "a b", "a\nb", "a\u202eb", "x" * 401, ["ann"]])
def test_a_claim_that_cannot_be_an_identity_is_refused(value: object) -> None:
    with pytest.raises(NotProven):
        read_value({**CLAIMS, "sub": value}, OidcClaim.SUB)


def test_half_a_character_as_nonce_is_another_sign_in_and_no_break() -> None:
    with pytest.raises(NotProven, match="another sign-in"):
        check_claims({**CLAIMS, "nonce": "\ud800"})
