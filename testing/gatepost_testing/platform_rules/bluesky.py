"""Refusals of Bluesky: the name of the error, and its message."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

SOURCE = "https://github.com/bluesky-social/atproto/blob/main"
PDS = f"{SOURCE}/packages/pds/src"
AUTH = f"{PDS}/auth-verifier.ts"
PREPARE = f"{PDS}/repo/prepare.ts"
WORDS = f"{SOURCE}/packages/lexicon/src/validators/primitives.ts"
LEXICONS = f"{SOURCE}/lexicons"
POST_LEXICON = f"{LEXICONS}/app/bsky/feed/post.json"
CONVO = f"{LEXICONS}/chat/bsky/convo"
ADAPTER, WIRE, SESSION = (f"channels/bluesky/{each}.py" for each in ("posting", "wire", "session"))
CREATE = "POST /com.atproto.repo.createRecord"
POST = "app.bsky.feed.post"
NOW = "2026-11-17T12:00:00.000Z"
WRONG = f"InvalidRequest Invalid {POST} record"


def _create(record: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
    whole = {"$type": POST, "text": "x", "createdAt": NOW, **record}
    return CREATE, {"json": {"repo": "$me", "collection": POST, "record": whole, **more}}


def _chat(text: str = "x", convo: str = "$convo", **more: Any) -> tuple[str, dict[str, Any]]:
    return "POST /chat.bsky.convo.sendMessage", {"json": {"convoId": convo, "message": {"text": text, **more}}}


def _react(value: str, message: str = "$private") -> tuple[str, dict[str, Any]]:
    given = {"convoId": "$convo", "messageId": message, "value": value}
    return "POST /chat.bsky.convo.addReaction", {"json": given}


def _embed(*blobs: str) -> dict[str, Any]:
    return {"embed": {"$type": "app.bsky.embed.images", "images": [{"alt": "a", "image": each} for each in blobs]}}


NO_BLOB = {"$type": "blob", "ref": {"$link": "bafkreinone"}, "mimeType": "image/png", "size": 1}


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **{"read_on": "2026-11-17", **more})


RULES = (
    _rule(
        "password",
        "AuthenticationRequired Invalid identifier or password",
        f"{PDS}/account-manager/account-manager.ts",
        ("POST /com.atproto.server.createSession", {"json": {"identifier": "porter.test", "password": "wrong"}}),
        status=401,
        adapter=f"{SESSION}: _log_in",
    ),
    _rule(
        "token",
        "ExpiredToken Token has expired",
        AUTH,
        ("GET /app.bsky.notification.listNotifications", {"headers": {"authorization": "Bearer old"}}),
        adapter=f"{SESSION}: EXPIRED",
    ),
    _rule(
        "revoked token",
        "ExpiredToken Token has been revoked",
        f"{PDS}/api/com/atproto/server/refreshSession.ts",
        ("POST /com.atproto.server.refreshSession", {"$faults": ["unauthorized"]}),
        adapter=f"{SESSION}: _renew",
    ),
    _rule(
        "right to post",
        "Forbidden Forbidden",
        f"{SOURCE}/packages/xrpc-server/src/errors.ts: 403",
        (CREATE, {**_create({})[1], "$faults": ["forbidden"]}),
        status=403,
        read_on="",
    ),
    _rule(
        "rate limit",
        "RateLimitExceeded Rate Limit Exceeded",
        f"{SOURCE}/packages/xrpc-server/src/rate-limiter-http.ts: RateLimit-Reset, in seconds since 1970",
        (CREATE, {**_create({})[1], "$faults": ["rate_limit"]}),
        status=429,
        adapter=f"{SESSION}: _find_retry_after",
    ),
    _rule(
        "server away",
        "UpstreamFailure Upstream Failure",
        f"{SOURCE}/packages/xrpc-server/src/errors.ts: 502, 503",
        (CREATE, {**_create({})[1], "$faults": ["busy"]}),
        status=503,
        read_on="",
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "text length",
        f"{WRONG}: Record/text must not be longer than 300 graphemes",
        f"{POST_LEXICON}: maxGraphemes 300; {WORDS}",
        _create({"text": "x" * 301}),
        limit=300,
        adapter=f"{ADAPTER}: _name_files",
    ),
    _rule(
        "bytes of a text",
        f"{WRONG}: Record/text must not be longer than 3000 characters",
        f"{POST_LEXICON}: maxLength 3000, which is bytes of UTF-8; {WORDS}",
        _create({"text": "e" + "\u0301" * 1501}),
        limit=3000,
        adapter="channels/bluesky/__init__.py: max_text",
    ),
    _rule(
        "moment of a post",
        f"{WRONG}: Record must have the property createdAt",
        f"{POST_LEXICON}: text and createdAt are required",
        _create({"createdAt": None}),
        adapter=f"{ADAPTER}: _create",
    ),
    _rule(
        "kind of a record",
        f"InvalidRequest Invalid $type: expected {POST}, got app.bsky.feed.like",
        PREPARE,
        _create({"$type": "app.bsky.feed.like"}),
        adapter=f"{ADAPTER}: _create",
    ),
    _rule(
        "key of a record",
        "InvalidRequest Invalid record key: a b",
        f"{PREPARE}; https://atproto.com/specs/record-key",
        _create({}, rkey="a b"),
        adapter=f"{WIRE}: make_key",
    ),
    _rule(
        "key of a post",
        f"InvalidRequest Invalid record key for {POST}: Invalid TID",
        f"{POST_LEXICON}: key is a tid; {PREPARE}",
        _create({}, rkey="my-post"),
        adapter=f"{WIRE}: make_key",
    ),
    _rule(
        "one record for each key",
        "InternalServerError Internal Server Error",
        f"{PDS}/api/com/atproto/repo/createRecord.ts: other errors of the repository are not told apart",
        _create({}, rkey="$key"),
        status=500,
        adapter=f"{ADAPTER}: find_key",
    ),
    _rule(
        "own account",
        "AuthenticationRequired Authentication Required",
        f"{PDS}/api/com/atproto/repo/createRecord.ts",
        _create({}, repo="did:plc:somebodyelse"),
        status=401,
        adapter=f"{ADAPTER}: _delete",
    ),
    _rule(
        "number of pictures",
        f"{WRONG}: Record/embed/images must not have more than 4 elements",
        f"{LEXICONS}/app/bsky/embed/images.json: maxLength 4",
        _create(_embed(*["$picture"] * 5)),
        limit=4,
        adapter=f"{ADAPTER}: MOST_IMAGES",
    ),
    _rule(
        "size of a picture",
        f"{WRONG}: blob too big (maximum 2000000)",
        f"{LEXICONS}/app/bsky/embed/images.json: maxSize 2000000, formerly 1 MB; the words are ours",
        _create(_embed("$large")),
        limit=2_000_000,
        adapter="channels/bluesky/__init__.py: largest_file",
    ),
    _rule(
        "type of a picture",
        f"{WRONG}: blob is not of image/*",
        f"{LEXICONS}/app/bsky/embed/images.json: accept image/*; the words are ours",
        _create(_embed("$text")),
        adapter=f"{ADAPTER}: _post",
    ),
    _rule(
        "known blob",
        "BlobNotFound Could not find blob: bafkreinone",
        f"{PDS}/actor-store/blob/transactor.ts",
        _create({"embed": {**_embed()["embed"], "images": [{"alt": "a", "image": NO_BLOB}]}}),
    ),
    _rule(
        "size of an upload",
        "PayloadTooLarge request entity too large",
        f"{PDS}/config/config.ts: blobUploadLimit, 5 MiB unless set otherwise",
        ("POST /com.atproto.repo.uploadBlob", {"content": bytes(5 * 1024 * 1024 + 1)}),
        status=413,
        limit=5 * 1024 * 1024,
        adapter="channels/bluesky/__init__.py: largest_file",
    ),
    _rule(
        "known record",
        f"RecordNotFound Could not locate record: at://did:plc:x/{POST}/3k",
        f"{PDS}/api/com/atproto/repo/getRecord.ts",
        ("GET /com.atproto.repo.getRecord", {"params": {"repo": "did:plc:x", "collection": POST, "rkey": "3k"}}),
        adapter=f"{ADAPTER}: NOT_FOUND",
    ),
    _rule(
        "known profile",
        "InvalidRequest Profile not found",
        "https://docs.bsky.app/docs/api/app-bsky-actor-get-profile",
        ("GET /app.bsky.actor.getProfile", {"params": {"actor": "nobody.test"}}),
        read_on="",
    ),
    _rule(
        "number of posts to read",
        "InvalidRequest Error: uris must not have more than 25 elements",
        f"{LEXICONS}/app/bsky/feed/getPosts.json: maxLength 25",
        ("GET /app.bsky.feed.getPosts", {"params": {"uris": ["at://did:plc:x/a/b"] * 26}}),
        limit=25,
        read_on="",
        adapter=f"{ADAPTER}: get_view",
    ),
    _rule(
        "known conversation",
        "InvalidConvo Convo not found",
        f"{CONVO}/sendMessage.json: InvalidConvo",
        _chat(convo="3none"),
    ),
    _rule(
        "length of a private message",
        "InvalidRequest Input/message/text must not be longer than 1000 graphemes",
        f"{CONVO}/defs.json: maxGraphemes 1000",
        _chat("x" * 1001),
        limit=1000,
        adapter="channels/bluesky/__init__.py: max_text",
    ),
    _rule(
        "answered private message",
        "ReplyTargetNotFound Reply target not found",
        f"{CONVO}/sendMessage.json: ReplyTargetNotFound",
        _chat(replyTo={"messageId": "3none"}),
    ),
    _rule(
        "emoji of a reaction",
        "ReactionInvalidValue Reaction value must be an emoji",
        f"{CONVO}/addReaction.json: ReactionInvalidValue; one grapheme",
        _react("ok"),
    ),
    _rule(
        "message to react to",
        "ReactionMessageDeleted Message not found",
        f"{CONVO}/addReaction.json: ReactionMessageDeleted",
        _react("👍", "3none"),
    ),
    _rule(
        "person to write to",
        "InvalidRequest recipient not found",
        f"{CONVO}/getConvoForMembers.json",
        ("GET /chat.bsky.convo.getConvoForMembers", {"params": {"members": "did:plc:nobody"}}),
        read_on="",
    ),
)
BY_NAME = index_rules(RULES)
