"""Refusals of Reddit: the code of an error in an answer of 200 with its words, else the words beside the status."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

SOURCE = "https://github.com/reddit-archive/reddit/blob/master/r2/r2"  # of 2017; the API has kept its codes
WORDS = f"{SOURCE}/lib/errors.py"
API = f"{SOURCE}/controllers/api.py"
PARENTS = f"{SOURCE}/lib/validator/validator.py: VSubmitParent"
OAUTH = f"{SOURCE}/controllers/oauth2.py"
BASE = f"{SOURCE}/controllers/reddit_base.py"
# Answers of Reddit itself that its library was tested with, of 2016 and 2021.
ANSWERS = "https://github.com/praw-dev/prawcore/tree/main/tests/integration/cassettes"
TODAY = "2026-11-18"
POSTING, SESSION, WIRE = (f"channels/reddit/{each}.py" for each in ("posting", "session", "wire"))
COMMENT, COMPOSE, SUBMIT, EDIT = (f"POST /api/{each}" for each in ("comment", "compose", "submit", "editusertext"))
TOKEN = "POST /api/v1/access_token"
LONG = "TOO_LONG this is too long (max: 10000)"
EMPTY = "NO_TEXT we need something here"


def _form(**form: str) -> dict[str, Any]:
    return {"data": {"api_type": "json", **form}}


def _compose(**form: str) -> tuple[str, dict[str, Any]]:
    return COMPOSE, _form(**{"to": "ann", "subject": "hello", "text": "x", **form})


def _submit(**form: str) -> tuple[str, dict[str, Any]]:
    return SUBMIT, _form(**{"sr": "Testing", "kind": "self", "title": "news", "text": "x", **form})


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    given = {"read_on": "2026-11-17", "status": 200, **more}
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **given)


RULES = (
    _rule(
        "token",
        "Unauthorized",
        f"{ANSWERS}: with_invalid_access_token; {BASE}: authenticate_with_token",
        ("GET /api/v1/me", {"headers": {"authorization": "bearer old"}}),
        status=401,
        read_on=TODAY,
        adapter=f"{SESSION}: call, which renews it once",
    ),
    _rule(
        "scope of a token",
        "Forbidden",
        f"{ANSWERS}: with_insufficient_scope, which WWW-Authenticate says; {API}: edits and deletions need `edit`",
        (EDIT, {**_form(thing_id="$own", text="x"), "$set": {"scopes": "identity submit"}}),
        status=403,
        read_on=TODAY,
        adapter=f"{SESSION}: _read_error",
    ),
    _rule(
        "secret of the app",
        "Unauthorized",
        f"{OAUTH}: _get_client_auth",
        (TOKEN, {"data": {"grant_type": "password"}, "headers": {"authorization": "Basic wrong"}}),
        status=401,
        read_on=TODAY,
        adapter=f"{SESSION}: _renew",
    ),
    _rule(
        "password",
        "invalid_grant",
        f"{OAUTH}: _access_token_password, with the status 200",
        (TOKEN, {"data": {"grant_type": "password", "username": "porter", "password": "wrong"}, "headers": "$app"}),
        read_on=TODAY,
        adapter=f"{SESSION}: _no_grant",
    ),
    _rule(
        "refresh token",
        "Bad Request",
        f"{OAUTH}: _access_token_refresh; {ANSWERS}: refresh__with_invalid_token",
        (TOKEN, {"data": {"grant_type": "refresh_token", "refresh_token": "old"}, "headers": "$app"}),
        status=400,
        read_on=TODAY,
        adapter=f"{SESSION}: _no_grant",
    ),
    _rule(
        "kind of a grant",
        "unsupported_grant_type",
        f"{OAUTH}: POST_access_token, with the status 200",
        (TOKEN, {"data": {"grant_type": "wish"}, "headers": "$app"}),
        read_on=TODAY,
        adapter=f"{SESSION}: _no_grant",
    ),
    _rule(
        "right to comment",
        "Forbidden",
        f"{API}: POST_comment; {ANSWERS}: forbidden",
        (COMMENT, {**_form(thing_id="$theirs", text="x"), "$faults": ["forbidden"]}),
        status=403,
        read_on=TODAY,
    ),
    _rule(
        "words of a suspended account",
        "Forbidden",
        f"{SOURCE}/lib/validator/validator.py: VNotInTimeout of comments, posts and messages",
        (COMMENT, {**_form(thing_id="$theirs", text="x"), "$set": {"suspended": True}}),
        status=403,
        read_on=TODAY,
        adapter="channels/reddit/adapter.py: send",
    ),
    _rule(
        "suspended account",
        "Forbidden",
        "https://www.reddit.com/dev/api: 403",
        ("GET /message/unread", {"$set": {"suspended": True}}),
        status=403,
        read_on="",
    ),
    _rule(
        "rate limit",
        "Too Many Requests",
        f"{ANSWERS}: too__many_requests, with Retry-After or without; X-Ratelimit-Reset is in every answer",
        (COMMENT, {**_form(thing_id="$theirs", text="x"), "$faults": ["rate_limit"]}),
        status=429,
        read_on=TODAY,
        adapter=f"{SESSION}: the window",
    ),
    _rule(
        "service away",
        "Service Unavailable",
        f"{ANSWERS}: service_unavailable",
        (COMMENT, {**_form(thing_id="$theirs", text="x"), "$faults": ["busy"]}),
        status=503,
        read_on=TODAY,
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "rate of an account",
        "RATELIMIT you are doing that too much. try again in 9 minutes.",
        f"{WORDS}; {API}: VRatelimit of comments and posts",
        (COMMENT, {**_form(thing_id="$theirs", text="x"), "limited": "rate of an account"}),
        adapter=f"{WIRE}: check_answer",
    ),
    _rule(
        "rate in a subreddit",
        "SUBREDDIT_RATELIMIT you are doing that too much. try again later.",
        WORDS,
        (SUBMIT, {**_submit()[1], "limited": "rate in a subreddit"}),
        adapter=f"{WIRE}: check_answer",
    ),
    _rule(
        "comment length",
        LONG,
        f"{API}: POST_comment, VMarkdownLength of 10000",
        (COMMENT, _form(thing_id="$theirs", text="x" * 10_001)),
        limit=10_000,
        adapter="channels/reddit/__init__.py: max_text",
    ),
    _rule("empty comment", EMPTY, f"{API}: VMarkdownLength", (COMMENT, _form(thing_id="$theirs", text=" "))),
    _rule(
        "answered comment",
        "DELETED_COMMENT that comment has been deleted",
        PARENTS,
        (COMMENT, _form(thing_id="$deleted", text="x")),
    ),
    _rule(
        "id of an answered comment",
        "Forbidden",
        f"{PARENTS}: 403 where 404 was meant",
        (COMMENT, _form(thing_id="that", text="x")),
        status=403,
        adapter=f"{POSTING}: _find_parent",
        read_on=TODAY,
    ),
    _rule(
        "age of a thread",
        "TOO_OLD that's a piece of history now; it's too late to reply to it",
        PARENTS,
        (COMMENT, _form(thing_id="$old", text="x")),
        read_on=TODAY,
    ),
    _rule(
        "locked thread",
        "THREAD_LOCKED Comments are locked.",
        PARENTS,
        (COMMENT, _form(thing_id="$locked", text="x")),
    ),
    _rule(
        "person to write to",
        "USER_DOESNT_EXIST that user doesn't exist",
        f"{API}: VMessageRecipient",
        _compose(to="nobody"),
    ),
    _rule(
        "named person",
        "NO_USER please enter a username",
        f"{SOURCE}/lib/validator/validator.py: VMessageRecipient",
        _compose(to=""),
        adapter=f"{WIRE}: parse_address",
        read_on=TODAY,
    ),
    _rule(
        "subject of a message",
        "NO_SUBJECT please enter a subject",
        f"{API}: POST_compose, VLength",
        _compose(subject=""),
        adapter=f"{POSTING}: _compose",
    ),
    _rule(
        "length of a subject",
        "TOO_LONG this is too long (max: 100)",
        f"{API}: POST_compose, VLength of 100",
        _compose(subject="x" * 101),
        limit=100,
        adapter=f"{POSTING}: _compose",
    ),
    _rule("message length", LONG, f"{API}: POST_compose", _compose(text="x" * 10_001), limit=10_000),
    _rule("empty private message", EMPTY, f"{API}: POST_compose", _compose(text="")),
    _rule(
        "known subreddit",
        "SUBREDDIT_NOEXIST that subreddit doesn't exist",
        WORDS,
        _submit(sr="Nowhere"),
    ),
    _rule(
        "right to post",
        "SUBREDDIT_NOTALLOWED you aren't allowed to post there.",
        f"{WORDS}; {SOURCE}/lib/validator/validator.py: VSubmitSR",
        (SUBMIT, {**_submit()[1], "$set": {"may_post": False}}),
        read_on=TODAY,
    ),
    _rule("title of a post", EMPTY, f"{API}: POST_submit, VTitle", _submit(title=""), adapter=f"{WIRE}: split_title"),
    _rule(
        "length of a title",
        "TOO_LONG this is too long (max: 300)",
        f"{SOURCE}/lib/validator/validator.py: VTitle of 300",
        _submit(title="x" * 301),
        limit=300,
        read_on=TODAY,
        adapter=f"{WIRE}: LONGEST_TITLE",
    ),
    _rule(
        "post length",
        "TOO_LONG this is too long (max: 40000)",
        f"{SOURCE}/models/link.py: SELFTEXT_MAX_LENGTH",
        _submit(text="x" * 40_001),
        limit=40_000,
    ),
    _rule(
        "edits of others",
        "NOT_AUTHOR you can't do that",
        f"{API}: POST_editusertext, VByNameIfAuthor",
        (EDIT, _form(thing_id="$theirs", text="x")),
        adapter=f"{POSTING}: _check_own",
    ),
    _rule("length of an edit", LONG, f"{API}: POST_editusertext", (EDIT, _form(thing_id="$own", text="x" * 10_001))),
    _rule("empty edit", EMPTY, f"{API}: POST_editusertext", (EDIT, _form(thing_id="$own", text=""))),
    _rule(
        "number of messages to mark",
        "TOO_MANY_THING_IDS you provided too many ids",
        f"{API}: POST_read_message, VByName of up to 25",
        ("POST /api/read_message", _form(id=",".join(["t4_1"] * 26))),
        limit=25,
        adapter="channels/reddit/receiving.py",
    ),
    _rule(
        "known post",
        "Not Found",
        f"{ANSWERS}: not_found",
        ("GET /comments/zzz", {}),
        status=404,
        read_on=TODAY,
    ),
    _rule(
        "known person",
        "Not Found",
        f"{SOURCE}/controllers/listingcontroller.py: GET_about of a user",
        ("GET /user/nobody/about", {}),
        status=404,
        read_on=TODAY,
    ),
    _rule(
        "private subreddit",
        "Forbidden",
        f"{BASE}: is_allowed_to_view",
        ("GET /r/Secret/comments", {}),
        status=403,
        read_on=TODAY,
    ),
    _rule(
        "subreddit to watch",
        "302 Found",
        f"{BASE}: set_subreddit sends one to a search for a name that nobody has",
        ("GET /r/Nowhere/about", {}),
        adapter="channels/reddit/adapter.py: _check_subreddit",
        status=302,
        read_on=TODAY,
    ),
)
BY_NAME = index_rules(RULES)
