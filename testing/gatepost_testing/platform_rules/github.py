"""Refusals of GitHub: its message, and the first of its errors where a request is not valid."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

DOCS = "https://docs.github.com/en/rest"
TROUBLE = f"{DOCS}/using-the-rest-api/troubleshooting-the-rest-api"
LIMITS = f"{DOCS}/using-the-rest-api/rate-limits-for-the-rest-api"
COMMENTS = f"{DOCS}/issues/comments"
REACTIONS = f"{DOCS}/reactions/reactions"
REPORTS = "https://github.com/easybuilders/easybuild-easyconfigs/pull/24647"
OCTOKIT = "https://github.com/octokit/plugin-rest-endpoint-methods.js/blob/main/docs"  # printed from the API's pages
ADAPTER, WIRE = "channels/github/adapter.py", "channels/github/wire.py"
ISSUES = "/repos/acme/site/issues"
POST = f"POST {ISSUES}/1/comments"
NOT_FOUND = "Not Found"
INVALID = "Validation Failed"
LONG = f"{INVALID}: IssueComment data unprocessable: Body is too long (maximum is 65536 characters)"


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **{"status": 422, **more})


READ = "2026-11-17"
NOW = "2026-11-18"
RULES = (
    _rule(
        "token",
        "Bad credentials",
        f"{DOCS}/authentication/authenticating-to-the-rest-api: 401; its words in"
        " https://github.com/anmol098/waka-readme-stats/issues/506",
        ("GET /user", {"headers": {"authorization": "Bearer wrong", "user-agent": "x"}}),
        status=401,
        read_on=NOW,
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "log-ins that failed",
        "Maximum number of login attempts exceeded. Please try again later.",
        f"{DOCS}/authentication/authenticating-to-the-rest-api: valid tokens are refused for a while, too; its words"
        " in https://github.com/PyGithub/PyGithub/issues/1248",
        ("GET /user", {"headers": {"authorization": "Bearer tried-often", "user-agent": "x"}}),
        status=403,
        read_on=NOW,
        adapter=f"{ADAPTER}: read_error",
    ),
    _rule(
        "name of the program",
        "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"
        " (http://developer.github.com/v3/#user-agent-required)."
        " Check https://developer.github.com for other possible causes.",
        f"{TROUBLE}: a request needs a User-Agent; its words, on a page and not in JSON, in"
        " https://github.com/gr2m/cloudflare-worker-github-oauth-login/issues/7",
        ("GET /user", {"headers": "$nameless"}),
        status=403,
        read_on=NOW,
        adapter=f"{ADAPTER}: _connect",
    ),
    _rule(
        "right to comment",
        "Resource not accessible by personal access token",
        f"{TROUBLE}: the token lacks the permission",
        (POST, {"json": {"body": "x"}, "$faults": ["forbidden"]}),
        status=403,
        read_on=NOW,
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
        "No server is currently available to service your request. Sorry about that. Please try resubmitting your"
        " request and contact us if the problem persists.",
        "https://github.com/taskcluster/taskcluster-github/issues/96: the answer of the API",
        (POST, {"json": {"body": "x"}, "$faults": ["busy"]}),
        status=503,
        read_on=NOW,
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
    _rule("known issue", NOT_FOUND, f"{OCTOKIT}/issues/get.md: 404", (f"GET {ISSUES}/99", {}), status=404, read_on=NOW),
    _rule(
        "issue that was deleted",
        "This issue was deleted",
        f"{OCTOKIT}/issues/get.md: 410 for those who may read the repository; the words are not there",
        (f"GET {ISSUES}/$deleted", {}),
        status=410,
        read_on=NOW,
        adapter=f"{ADAPTER}: GONE",
    ),
    _rule(
        "issue that was moved",
        "Moved Permanently",
        f"{OCTOKIT}/issues/get.md: 301 for one that was transferred to another repository",
        (f"GET {ISSUES}/$moved", {}),
        status=301,
        read_on=NOW,
        adapter=f"{ADAPTER}: GONE",
    ),
    _rule(
        "issue to comment on", NOT_FOUND, COMMENTS, (f"POST {ISSUES}/99/comments", {"json": {"body": "x"}}), status=404
    ),
    _rule(
        "locked issue",
        "Unable to create comment because issue is locked.",
        "https://github.com/renovatebot/renovate/issues/6215: the answer of the API",
        (f"POST {ISSUES}/$locked/comments", {"json": {"body": "x"}}),
        status=403,
        read_on=NOW,
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
        f"{INVALID}: IssueComment body custom: body cannot be blank",
        f"{COMMENTS}: body is required; nobody has read the words for a new one, they are those for an edit",
        (POST, {"json": {"body": " "}}),
    ),
    _rule(
        "empty edit",
        f"{INVALID}: IssueComment body custom: body cannot be blank",
        "https://github.com/marocchino/sticky-pull-request-comment/pull/197: the answer of the API",
        (f"PATCH {ISSUES}/comments/$own", {"json": {"body": " "}}),
        read_on=NOW,
    ),
    _rule(
        "body of a request",
        "Problems parsing JSON",
        f"{TROUBLE}: 400",
        (POST, {"content": b"{"}),
        status=400,
        read_on=NOW,
    ),
    _rule(
        "object of a request",
        "Body should be a JSON object",
        f"{TROUBLE}: 400",
        (POST, {"content": b"[]"}),
        status=400,
        read_on=NOW,
    ),
    _rule(
        "kind of a body",
        "Invalid request.\n\nFor 'properties/body', nil is not a string.",
        f"{TROUBLE}: 422; its words in https://github.com/release-it/release-it/pull/1303",
        (POST, {"json": {"body": None}}),
        read_on=NOW,
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
        "Invalid request.\n\ntada is not a member of"
        ' ["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"].',
        f"{REACTIONS}; https://github.com/runatlantis/atlantis/pull/5050: the answer of the API",
        (f"POST {ISSUES}/comments/$own/reactions", {"json": {"content": "tada"}}),
        read_on=NOW,
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
