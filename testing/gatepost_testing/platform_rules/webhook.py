"""Refusals of a program behind the webhook channel: by the statuses of HTTP, and by keys as their draft has them.

No platform has these rules: each stands on a specification, or on our own page where it says so. The words are ours.
"""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

RFC = "https://www.rfc-editor.org/rfc"
DRAFT = "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header"
STANDARD = "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"
READ = "2026-11-18"
ADAPTER = "channels/webhook/adapter.py"
WIRE = "channels/webhook/wire.py"


def _rule(name: str, status: int, refusal: str, source: str, **more: Any) -> PlatformRule:
    given = {"room": "team", "key": "new", "text": "x", **more.pop("given", {})}
    return PlatformRule(
        name=name, status=status, refusal=refusal, source=source, call=("POST", given), read_on=READ, **more
    )


RULES = (
    _rule(
        "signature",
        401,
        "the signature is wrong",
        f"{RFC}/rfc9110#section-15.5.2: 401; {STANDARD}: HMAC-SHA-256 of the metadata and the body; which metadata"
        " and the header are our own choice, docs/channels/webhook.md",
        given={"$signature": "sha256=" + "0" * 64},
        adapter=f"{WIRE}: sign_post",
    ),
    _rule(
        "some signature",
        401,
        "the signature is wrong",
        f"{RFC}/rfc9110#section-15.5.2: a request that lacks credentials",
        given={"$signature": ""},
        adapter=f"{WIRE}: sign_post",
    ),
    _rule(
        "signature of this room",
        401,
        "the signature is wrong",
        f"{STANDARD}: metadata is signed, too; that the room is part of it is our own choice, docs/channels/webhook.md:"
        " who copies a post cannot send it elsewhere",
        given={"$signed_room": "other"},
        adapter=f"{WIRE}: sign_post",
    ),
    _rule(
        "some key",
        400,
        "the Idempotency-Key is missing",
        f"{DRAFT}, section 2.7: 400; section 2.1 wants it in quotes, and docs/channels/webhook.md has none",
        given={"$key": ""},
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "key of another post",
        422,
        "the Idempotency-Key was used for another post",
        f"{DRAFT}, section 2.7: 422",
        given={"$key": "$used", "text": "other words"},
        adapter="channels/kit/http.py: PlatformRefusal",
    ),
    _rule(
        "a post that is under way",
        409,
        "a post with this Idempotency-Key is under way",
        f"{DRAFT}, section 2.7: 409, which alone may be repeated as it is",
        given={"$key": "$running"},
        adapter=f"{ADAPTER}: _read_error",
    ),
    _rule(
        "post is JSON",
        400,
        "the body is no JSON",
        f"{RFC}/rfc9110#section-15.5.1: malformed; that it is JSON is our own choice, docs/channels/webhook.md",
        given={"$body": b"{nonsense"},
    ),
    _rule(
        "another place",
        302,
        "the program is elsewhere",
        f"{STANDARD}: 3xx is a failure, and no redirect is followed",
        given={"room": "moved"},
        adapter="channels/kit/http.py: PlatformRefusal",
    ),
    _rule(
        "rights in a room",
        403,
        "the program says forbidden",
        f"{RFC}/rfc9110#section-15.5.4: understood, and refused",
        given={"$faults": ["forbidden"]},
        adapter="channels/kit/http.py: PlatformRefusal",
    ),
    _rule(
        "pace",
        429,
        "the program says rate_limit",
        f"{RFC}/rfc6585#section-4; {RFC}/rfc9110#section-10.2.3: Retry-After, in seconds or as a date",
        given={"$faults": ["rate_limit"]},
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "a program that is busy",
        503,
        "the program says busy",
        f"{RFC}/rfc9110#section-15.6.4: it may have Retry-After, which {STANDARD} asks senders to keep",
        given={"$faults": ["busy"]},
        adapter="channels/kit/http.py: Unavailable",
    ),
)
BY_NAME = index_rules(RULES)
