"""Tokens that others sign: which keys count, and what must be right in every token."""

import base64
import json
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from gatepost.core.json_web_tokens import (
    NotProven,
    TokenHeader,
    TokenTerms,
    check_token,
    find_key,
    read_header,
    read_keys,
)

NOW_S = 1_800_000_000
TERMS = TokenTerms(issuer="https://id.example", audience="us", skew_s=60)
CLAIMS: dict[str, Any] = {"iss": "https://id.example", "aud": "us", "exp": NOW_S + 300}


def encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


HEAD = encode({"alg": "RS256", "kid": "a"})


@cache
def make_key(size: int = 2048) -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=size)


def describe(key: RSAPrivateKey, **more: Any) -> dict[str, Any]:
    return {**jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "a", **more}


def sign(claims: dict[str, Any], key: RSAPrivateKey, algorithm: str = "RS256") -> str:
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": "a"})


def test_the_claims_of_a_signed_token_are_read() -> None:
    token = sign({**CLAIMS, "more": 1}, make_key())
    assert check_token(token, describe(make_key()), TERMS, NOW_S) == {**CLAIMS, "more": 1}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"iss": "https://id.example/"}, "another issuer"),
        ({"aud": "them"}, "another program"),
        ({"aud": {"us": 1}}, "another program"),
        ({"exp": NOW_S - 60}, "expired"),
        ({"exp": float("nan")}, "no time exp"),
        ({"nbf": NOW_S + 61}, "future"),
        ({"nbf": None}, "no time nbf"),
    ],
)
def test_a_signed_token_that_does_not_meet_the_terms_is_refused(change: dict[str, Any], why: str) -> None:
    token = sign({**CLAIMS, **change}, make_key())
    with pytest.raises(NotProven, match=why):
        check_token(token, describe(make_key()), TERMS, NOW_S)


def test_a_token_is_refused_that_the_key_has_not_signed_or_that_was_changed() -> None:
    token, key = sign(CLAIMS, make_key()), describe(make_key())
    head, body, signature = token.split(".")
    forged = encode({**CLAIMS, "aud": "us", "sub": "admin"})
    for each in (
        f"{head}.{forged}.{signature}",
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        f"{head}.{body}.",
        token + "A",
    ):
        with pytest.raises(NotProven, match="signature"):
            check_token(each, key, TERMS, NOW_S)
    with pytest.raises(NotProven, match="signature"):
        check_token(token, describe(generate_private_key(public_exponent=65537, key_size=2048)), TERMS, NOW_S)


def test_an_algorithm_counts_only_if_it_is_expected_and_is_one_for_public_keys() -> None:
    key = describe(make_key())
    terms = TokenTerms(issuer=TERMS.issuer, audience=TERMS.audience, skew_s=60, algorithms=("RS256",))
    check_token(sign(CLAIMS, make_key(), "PS256"), key, TERMS, NOW_S)
    with pytest.raises(NotProven, match="algorithm"):
        check_token(sign(CLAIMS, make_key(), "PS256"), key, terms, NOW_S)
    for algorithm in ("none", "HS256", "", None, ["RS256"]):
        with pytest.raises(NotProven):
            check_token(f"{encode({'alg': algorithm})}.{encode(CLAIMS)}.AA", key, TERMS, NOW_S)


def test_a_key_that_is_small_or_that_cannot_be_read_proves_nothing() -> None:
    token = sign(CLAIMS, make_key())
    with pytest.raises(NotProven, match="too short"):
        check_token(token, describe(make_key(1024)), TERMS, NOW_S)
    for key in ({"kty": "RSA"}, {"kty": "RSA", "n": 5, "e": "AQAB"}, {"kty": "oct", "k": "AA"}):
        with pytest.raises(NotProven):
            check_token(token, key, TERMS, NOW_S)


RSA = {"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"}
EC = {"kty": "EC", "kid": "b", "crv": "P-256", "x": "AA", "y": "AA"}


def test_only_public_keys_for_signatures_are_read() -> None:
    secret, private = {"kty": "oct", "k": "AA", "kid": "a"}, {**RSA, "d": "AA"}
    assert read_keys({"keys": [secret, private, {**RSA, "use": "enc"}, "x", {"kty": ["RSA"]}, RSA, EC]}) == [RSA, EC]
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


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        "....",
        "x" * 40_000,
        "eyJhbGciOiJub25lIn0.e30.",
        "\u00e4.b.c",
        f"{HEAD}.e30",
        f"{HEAD}..AA",
        f"{HEAD}.e30.AA.AA",
        f"{HEAD}.e30.A A",
        f"{HEAD}.e30.AA\n",
        f"{HEAD}.e\u0663\u0660.AA",
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(NotProven):
        read_header(token)
