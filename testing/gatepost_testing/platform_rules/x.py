"""Refusals of X: the detail of its problem, or the message of its first error."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

DOCS = "https://docs.x.com/x-api"
ERRORS = f"{DOCS}/fundamentals/response-codes-and-errors"
MANAGE = f"{DOCS}/posts/manage-tweets/integrate"
CHANGES = "https://docs.x.com/changelog"
COUNTING = "https://docs.x.com/fundamentals/counting-characters"
REPORTS = "words by reports of clients"
ADAPTER, WIRE = "channels/x/adapter.py", "channels/x/wire.py"
READ = "2026-11-17"
POST = "POST /2/tweets"
LIKE = "POST /2/users/$me/likes"
SPEC = "https://api.x.com/2/openapi.json"


def _post(text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return POST, {"json": {"text": text, **more}}


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **{"read_on": READ, **more})


RULES = (
    _rule(
        "keys",
        "Unauthorized",
        f"{ERRORS}: 401, invalid or missing credentials",
        ("GET /2/users/me", {"headers": {"authorization": "OAuth nothing"}}),
        status=401,
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "signature",
        "Unauthorized",
        "https://docs.x.com/fundamentals/authentication/oauth-1-0a/creating-a-signature: HMAC-SHA1 of what is asked",
        ("GET /2/users/me", {"headers": "$forged"}),
        status=401,
        adapter="channels/x/oauth.py: sign",
    ),
    _rule(
        "one use of a nonce",
        "Unauthorized",
        "https://docs.x.com/fundamentals/authentication/oauth-1-0a/authorizing-a-request: unique for each request",
        ("GET /2/users/me", {"headers": "$replayed"}),
        status=401,
        read_on="",
        adapter=f"{ADAPTER}: _exchange",
    ),
    _rule(
        "project of the app",
        "the App is attached to no Project",
        f"{ERRORS}: client-forbidden, app not enrolled",
        ("GET /2/users/me", {"enrolled": False}),
        status=403,
        adapter=f"{ADAPTER}: NO_TIER",
    ),
    _rule(
        "right to write",
        "You are not permitted to perform this action.",
        f"{ERRORS}: 403, no permission for this action; {REPORTS}",
        (POST, {"json": {"text": "x"}, "$faults": ["forbidden"]}),
        status=403,
    ),
    _rule(
        "rate limit",
        "Too Many Requests",
        f"{DOCS}/fundamentals/rate-limits: x-rate-limit-reset has the moment of the next window",
        (POST, {"json": {"text": "x"}, "$faults": ["rate_limit"]}),
        status=429,
        adapter=f"{ADAPTER}: _find_retry_after",
    ),
    _rule(
        "service away",
        "Service Unavailable",
        f"{ERRORS}: 503, wait and retry",
        (POST, {"json": {"text": "x"}, "$faults": ["busy"]}),
        status=503,
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "text length",
        "Your Tweet text is too long. For more information on how Twitter determines text length see"
        " https://github.com/twitter/twitter-text.",
        f"{COUNTING}: 280 weighted; a link is 23, an emoji 2; {REPORTS}",
        _post("漢" * 141),
        status=403,
        limit=280,
        adapter="channels/x/__init__.py: max_text",
    ),
    _rule(
        "empty post",
        "The Post must have text, media, poll, quote or card.",
        f"{SPEC}: TweetCreateRequest",
        _post(" "),
        read_on="",
    ),
    _rule(
        "duplicate post",
        "You are not allowed to create a Tweet with duplicate content.",
        f"https://developer.x.com/ja/docs/basics/response-codes: 187 of the older API; {REPORTS}",
        _post("own words"),
        status=403,
        read_on="",
    ),
    _rule(
        "number of cashtags",
        "Posts are limited to 1 cashtag.",
        f"{MANAGE}: at most 1 cashtag in a post; the words are ours",
        _post("$GOOD and $BAD"),
        status=403,
        limit=1,
        adapter=f"{WIRE}: break_names",
    ),
    _rule(
        "answers to who called",
        "Replies are limited to posts that mention this account.",
        f"{MANAGE}: only if its author mentions or quotes the account; the words are ours",
        _post("x", reply={"in_reply_to_tweet_id": "$foreign"}),
        status=403,
        adapter=f"{ADAPTER}: _find_newest",
    ),
    _rule(
        "id of an answered post",
        "$.reply.in_reply_to_tweet_id: does not match the regex pattern ^[0-9]{1,19}$",
        f"{SPEC}: TweetId",
        _post("x", reply={"in_reply_to_tweet_id": "that"}),
        adapter=f"{WIRE}: check_post_id",
    ),
    _rule(
        "answered post",
        "You attempted to reply to a Tweet that is deleted or not visible to you.",
        f"{ERRORS}: 403; {REPORTS}",
        _post("x", reply={"in_reply_to_tweet_id": "42"}),
        status=403,
    ),
    _rule(
        "quoted post",
        "The quoted post does not exist.",
        f"{SPEC}: quote_tweet_id",
        _post("x", quote_tweet_id="42"),
        read_on="",
    ),
    _rule(
        "quotes of self-serve apps",
        "Quoting is not available to this app.",
        f"{CHANGES}: quotes were removed from self-serve tiers on 20 April 2026; the words are ours",
        _post("x", quote_tweet_id="$theirs"),
        status=403,
    ),
    _rule(
        "likes of self-serve apps",
        "Likes are not available to this app.",
        f"{CHANGES}: likes were removed from self-serve tiers on 20 April 2026; the words are ours",
        (LIKE, {"json": {"tweet_id": "$theirs"}}),
        status=403,
    ),
    _rule(
        "post to like",
        "Could not find tweet with id: [42].",
        f"{ERRORS}: resource-not-found",
        (LIKE, {"json": {"tweet_id": "42"}}),
        status=404,
    ),
    _rule(
        "post to repost",
        "Could not find tweet with id: [42].",
        f"{ERRORS}: resource-not-found",
        ("POST /2/users/$me/retweets", {"json": {"tweet_id": "42"}}),
        status=404,
    ),
    _rule(
        "deletions of others",
        "You are not authorized to delete this Tweet.",
        f"{ERRORS}: 403; {REPORTS}",
        ("DELETE /2/tweets/$theirs", {}),
        status=403,
    ),
    _rule(
        "size of a page",
        "The `max_results` query parameter value [101] is not between 5 and 100",
        f"{SPEC}: max_results of mentions, 5 to 100",
        ("GET /2/users/$me/mentions", {"params": {"max_results": "101"}}),
        limit=100,
        adapter=f"{ADAPTER}: PAGE",
    ),
)
BY_NAME = index_rules(RULES)
