"""Refusals of GitHub: its message, and the first of its errors where a request is not valid."""

from typing import Any

from gatepost.testing.platforms.rules import PlatformRule, index_rules

DOCS = "https://docs.github.com/en/rest"
TROUBLE = f"{DOCS}/using-the-rest-api/troubleshooting-the-rest-api"
LIMITS = f"{DOCS}/using-the-rest-api/rate-limits-for-the-rest-api"
COMMENTS = f"{DOCS}/issues/comments"
REACTIONS = f"{DOCS}/reactions/reactions"
REPORTS = "https://github.com/easybuilders/easybuild-easyconfigs/pull/24647"
ADAPTER, WIRE = "channels/github/adapter.py", "channels/github/wire.py"
ISSUES = "/repos/acme/site/issues"
POST = f"POST {ISSUES}/1/comments"
NOT_FOUND = "Not Found"
INVALID = "Validation Failed"
LONG = f"{INVALID}: IssueComment data unprocessable: Body is too long (maximum is 65536 characters)"


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **{"status": 422, **more})


READ = "2026-11-17"
RULES = (
    _rule(
        "token",
        "Bad credentials",
        f"{DOCS}/authentication/authenticating-to-the-rest-api: 401",
        ("GET /user", {"headers": {"authorization": "Bearer wrong", "user-agent": "x"}}),
        status=401,
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "name of the program",
        "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"
        " (https://docs.github.com/en/rest/overview/resources-in-the-rest-api#user-agent-required)."
        " Check https://developer.github.com for other possible causes.",
        f"{TROUBLE}: a request needs a User-Agent",
        ("GET /user", {"headers": "$nameless"}),
        status=403,
        adapter=f"{ADAPTER}: _connect",
    ),
    _rule(
        "right to comment",
        "Resource not accessible by personal access token",
        f"{TROUBLE}: the token lacks the permission",
        (POST, {"json": {"body": "x"}, "$faults": ["forbidden"]}),
        status=403,
    ),
    _rule(
        "secondary rate limit",
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        f"{TROUBLE}: 403 or 429; retry-after if it is there, else a minute",
        (POST, {"json": {"body": "x"}, "$faults": ["rate_limit"]}),
        status=403,
        read_on=READ,
        adapter=f"{ADAPTER}: read_error",
    ),
    _rule(
        "primary rate limit",
        "API rate limit exceeded for user ID 42.",
        f"{TROUBLE}: x-ratelimit-remaining is 0; x-ratelimit-reset has the moment, in seconds since 1970",
        ("GET /user", {"spent": True}),
        status=403,
        read_on=READ,
        adapter=f"{ADAPTER}: _find_reset",
    ),
    _rule(
        "service away",
        "Service unavailable",
        f"{DOCS}: 5xx",
        (POST, {"json": {"body": "x"}, "$faults": ["busy"]}),
        status=503,
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "repository that can be seen",
        NOT_FOUND,
        f"{TROUBLE}: 404 for what the token may not see",
        ("GET /repos/acme/site", {"$faults": ["no_rights"]}),
        status=404,
        read_on=READ,
        adapter=f"{ADAPTER}: _check_repository",
    ),
    _rule("known address", NOT_FOUND, TROUBLE, ("GET /repos/acme/other", {}), status=404, read_on=READ),
    _rule("known issue", NOT_FOUND, COMMENTS, (f"GET {ISSUES}/99", {}), status=404),
    _rule(
        "issue to comment on", NOT_FOUND, COMMENTS, (f"POST {ISSUES}/99/comments", {"json": {"body": "x"}}), status=404
    ),
    _rule(
        "locked issue",
        "Unable to create comment because issue is locked.",
        f"{DOCS}/issues/issues#lock-an-issue: only those with write access comment on it",
        (f"POST {ISSUES}/$locked/comments", {"json": {"body": "x"}}),
        status=403,
    ),
    _rule(
        "comment length",
        LONG,
        f"{COMMENTS}; {REPORTS}: the answer of the API",
        (POST, {"json": {"body": "x" * 65_537}}),
        limit=65_536,
        read_on=READ,
        adapter="channels/github/__init__.py: max_text",
    ),
    _rule(
        "empty comment",
        f"{INVALID}: IssueComment body missing_field: Body cannot be blank",
        f"{COMMENTS}: body is required",
        (POST, {"json": {"body": " "}}),
    ),
    _rule(
        "body of a request",
        "Problems parsing JSON",
        f"{TROUBLE}: 400",
        (POST, {"content": b"{"}),
        status=400,
    ),
    _rule(
        "kind of a body",
        "Invalid request. For 'properties/body', nil is not a string.",
        f"{COMMENTS}: body is a string",
        (POST, {"json": {"body": None}}),
    ),
    _rule(
        "comment to edit",
        NOT_FOUND,
        COMMENTS,
        (f"PATCH {ISSUES}/comments/42", {"json": {"body": "x"}}),
        status=404,
    ),
    _rule(
        "comment to delete",
        NOT_FOUND,
        COMMENTS,
        (f"DELETE {ISSUES}/comments/42", {}),
        status=404,
        adapter=f"{ADAPTER}: _delete",
    ),
    _rule(
        "edits of others",
        "Must have admin rights to Repository.",
        f"{COMMENTS}: without write access a person changes their own comments only",
        (f"PATCH {ISSUES}/comments/$theirs", {"json": {"body": "x"}}),
        status=403,
    ),
    _rule(
        "deletions of others",
        "Must have admin rights to Repository.",
        f"{COMMENTS}: without write access a person changes their own comments only",
        (f"DELETE {ISSUES}/comments/$theirs", {}),
        status=403,
    ),
    _rule(
        "length of an edit",
        LONG,
        f"{COMMENTS}; {REPORTS}",
        (f"PATCH {ISSUES}/comments/$own", {"json": {"body": "x" * 65_537}}),
        limit=65_536,
        read_on=READ,
        adapter="channels/github/__init__.py: max_text",
    ),
    _rule(
        "kind of a reaction",
        f"{INVALID}: Reaction content invalid: content is not one of the reactions",
        f"{REACTIONS}: +1, -1, laugh, confused, heart, hooray, rocket, eyes",
        (f"POST {ISSUES}/comments/$own/reactions", {"json": {"content": "tada"}}),
        adapter=f"{WIRE}: find_reaction",
    ),
    _rule(
        "comment to react to",
        NOT_FOUND,
        REACTIONS,
        (f"POST {ISSUES}/comments/42/reactions", {"json": {"content": "heart"}}),
        status=404,
    ),
)
BY_NAME = index_rules(RULES)
