"""Refusals of a program behind the webhook channel: by the statuses of HTTP, and by keys as their draft has them."""

from typing import Any

from gatepost.testing.platforms.rules import PlatformRule, index_rules

RFC = "https://www.rfc-editor.org/rfc"
DRAFT = "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header"
ADAPTER = "channels/webhook/adapter.py"
WIRE = "channels/webhook/wire.py"


def _rule(name: str, status: int, refusal: str, source: str, **more: Any) -> PlatformRule:
    given = {"room": "team", "key": "new", "text": "x", **more.pop("given", {})}
    return PlatformRule(name=name, status=status, refusal=refusal, source=source, call=("POST", given), **more)


RULES = (
    _rule(
        "signature",
        401,
        "the signature is wrong",
        f"{RFC}/rfc9110#section-15.5.2; docs/channels/webhook.md: HMAC-SHA-256 of the room, the key and the body",
        given={"$signature": "sha256=" + "0" * 64},
        adapter=f"{WIRE}: sign_post",
    ),
    _rule(
        "some signature",
        401,
        "the signature is wrong",
        f"{RFC}/rfc9110#section-15.5.2",
        given={"$signature": ""},
        adapter=f"{WIRE}: sign_post",
    ),
    _rule(
        "signature of this room",
        401,
        "the signature is wrong",
        "https://www.rfc-editor.org/rfc/rfc2104; docs/channels/webhook.md: who copies a post cannot send it elsewhere",
        given={"$signed_room": "other"},
        adapter=f"{WIRE}: sign_post",
    ),
    _rule(
        "some key",
        400,
        "the Idempotency-Key is missing",
        f"{DRAFT}, section 2.7: 400",
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
        f"{DRAFT}, section 2.7: 409",
        given={"$key": "$running"},
        adapter=f"{ADAPTER}: _read_error",
    ),
    _rule("post is JSON", 400, "the body is no JSON", f"{RFC}/rfc9110#section-15.5.1", given={"$body": b"{nonsense"}),
    _rule(
        "rights in a room",
        403,
        "the program says forbidden",
        f"{RFC}/rfc9110#section-15.5.4",
        given={"$faults": ["forbidden"]},
        adapter="channels/kit/http.py: PlatformRefusal",
    ),
    _rule(
        "pace",
        429,
        "the program says rate_limit",
        f"{RFC}/rfc6585#section-4: Retry-After in seconds",
        given={"$faults": ["rate_limit"]},
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "a program that is busy",
        503,
        "the program says busy",
        f"{RFC}/rfc9110#section-15.6.4",
        given={"$faults": ["busy"]},
        adapter="channels/kit/http.py: Unavailable",
    ),
)
BY_NAME = index_rules(RULES)
