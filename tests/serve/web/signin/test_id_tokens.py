"""What an ID token must have to prove who somebody is: judged on data."""

from typing import Any

import pytest

from gatepost.serve.web.signin.id_tokens import (
    NotProven,
    OidcClaim,
    TokenExpectation,
    TokenHeader,
    check_claims,
    find_key,
    read_header,
    read_keys,
    read_value,
)

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


def test_claims_for_the_sign_in_that_we_began_are_taken() -> None:
    assert read_value(check_claims(CLAIMS, EXPECTED, NOW_S), OidcClaim.SUB) == "ann-1"
    check_claims({**CLAIMS, "aud": ["us"], "azp": "us"}, EXPECTED, NOW_S)
    check_claims({**CLAIMS, "aud": ["us", "them"], "azp": "us"}, EXPECTED, NOW_S)


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
        check_claims({**CLAIMS, **change}, EXPECTED, NOW_S)


def test_clocks_may_differ_by_a_minute() -> None:
    check_claims({**CLAIMS, "exp": NOW_S - 59, "iat": NOW_S + 60}, EXPECTED, NOW_S)
    check_claims({**CLAIMS, "exp": 10**400}, EXPECTED, NOW_S)  # larger than a float


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


RSA = {"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"}
EC = {"kty": "EC", "kid": "b", "crv": "P-256", "x": "AA", "y": "AA"}


def test_only_public_keys_for_signatures_are_read() -> None:
    secret, private = {"kty": "oct", "k": "AA", "kid": "a"}, {**RSA, "d": "AA"}
    assert read_keys({"keys": [secret, private, {**RSA, "use": "enc"}, "x", RSA, EC]}) == [RSA, EC]
    assert read_keys(None) == read_keys({"keys": 5}) == read_keys([]) == []
    assert len(read_keys({"keys": [RSA] * 1000})) == 100


def test_a_key_signs_only_with_the_algorithms_of_its_kind() -> None:
    keys = [RSA, EC]
    assert find_key(keys, TokenHeader("RS256", "a")) is RSA
    assert find_key(keys, TokenHeader("ES256", "a")) is None
    assert find_key(keys, TokenHeader("ES384", "b")) is None  # another curve
    assert find_key([{**RSA, "alg": "PS256"}], TokenHeader("RS256", "a")) is None


def test_a_token_without_the_name_of_a_key_needs_the_only_one_that_fits() -> None:
    assert find_key([RSA, EC], TokenHeader("RS256", "")) is RSA
    assert find_key([RSA, {**RSA, "kid": "c"}], TokenHeader("RS256", "")) is None


@pytest.mark.parametrize("token", ["", "a.b.c", "....", "x" * 40_000, "eyJhbGciOiJub25lIn0.e30.", "\u00e4.b.c"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(NotProven):
        read_header(token)
