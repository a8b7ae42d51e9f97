"""Refusals of the Bot Framework for Microsoft Teams: the code of its error, or the words of the login."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

DOCS = "https://learn.microsoft.com/en-us/microsoftteams/platform/bots"
CODES = f"{DOCS}/build-conversational-capability#status-codes-from-bot-conversational-apis"
SIZES = f"{DOCS}/how-to/format-your-bot-messages"
LOGIN = "https://learn.microsoft.com/en-us/entra/identity-platform/reference-error-codes"
CONNECTOR = "https://learn.microsoft.com/en-us/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference"
WIRE, SESSION = "channels/teams/wire.py", "channels/teams/session.py"
SEND = "POST /emea/v3/conversations/$team/activities"
WORDS = {"type": "message", "text": "x"}


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **more)


READ = "2026-11-17"
RULES = (
    _rule(
        "token",
        "BotNotRegistered",
        f"{CODES}: no registration found for this bot",
        (SEND, {"json": WORDS, "headers": {"authorization": "Bearer wrong"}}),
        status=401,
        read_on=READ,
        adapter=f"{SESSION}: call, which renews it once",
    ),
    _rule(
        "client secret",
        "invalid_client AADSTS7000215: Invalid client secret provided.",
        f"{LOGIN}: AADSTS7000215",
        ("POST /$tenant/oauth2/v2.0/token", {"data": {"client_id": "$app", "client_secret": "wrong"}}),
        status=401,
        adapter=f"{SESSION}: _ask_for_token",
    ),
    _rule(
        "known application",
        "unauthorized_client AADSTS700016: Application with identifier '$app' was not found in the directory"
        " '$tenant'.",
        f"{LOGIN}: AADSTS700016",
        ("POST /$tenant/oauth2/v2.0/token", {"data": {"client_id": "$app"}, "$faults": ["no_rights"]}),
        adapter=f"{SESSION}: UNKNOWN_APP",
    ),
    _rule(
        "known conversation",
        "ConversationNotFound",
        f"{CODES}: it does not exist, or was deleted",
        ("POST /emea/v3/conversations/19:none@thread.tacv2/activities", {"json": WORDS}),
        status=404,
        read_on=READ,
        adapter=f"{WIRE}: parse_address",
    ),
    _rule(
        "message to edit",
        "ActivityNotFoundInConversation",
        f"{CODES}: the message id is not in the conversation",
        ("PUT /emea/v3/conversations/$team/activities/1", {"json": WORDS}),
        status=404,
        read_on=READ,
    ),
    _rule(
        "message to delete",
        "ActivityNotFoundInConversation",
        f"{CODES}: the message id is not in the conversation",
        ("DELETE /emea/v3/conversations/$team/activities/1", {}),
        status=404,
        read_on=READ,
        adapter="channels/teams/adapter.py: GONE",
    ),
    _rule(
        "edits of others",
        "NotEnoughPermissions",
        f"{CODES}: the bot may not do that",
        ("PUT /emea/v3/conversations/$team/activities/$theirs", {"json": WORDS}),
        status=403,
        read_on=READ,
    ),
    _rule(
        "deletions of others",
        "NotEnoughPermissions",
        f"{CODES}: the bot may not do that",
        ("DELETE /emea/v3/conversations/$team/activities/$theirs", {}),
        status=403,
        read_on=READ,
    ),
    _rule(
        "bot in the conversation",
        "BotNotInConversationRoster",
        f"{CODES}: the app must be installed again",
        (SEND, {"json": WORDS, "$faults": ["forbidden"]}),
        status=403,
        read_on=READ,
    ),
    _rule(
        "several calls at once",
        "PreconditionFailed",
        f"{CODES}: several operations on one conversation at once; again, with backoff",
        ("POST /emea/v3/conversations/$busy/activities", {"json": WORDS}),
        status=412,
        read_on=READ,
        adapter=f"{SESSION}: read_error",
    ),
    _rule(
        "rate limit",
        "Throttled",
        f"{CODES}: Retry-After has the seconds",
        (SEND, {"json": WORDS, "$faults": ["rate_limit"]}),
        status=429,
        read_on=READ,
        adapter="channels/kit/http.py: retry_after",
    ),
    _rule(
        "service away",
        "ServiceUnavailable",
        f"{CODES}: again, with backoff",
        (SEND, {"json": WORDS, "$faults": ["busy"]}),
        status=503,
        read_on=READ,
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "size of a message",
        "MessageSizeTooBig",
        f"{SIZES}: bytes of the whole message in UTF-16; {CODES}: 413",
        (SEND, {"json": {"type": "message", "text": "x" * 20_000}}),
        status=413,
        limit=40_000,
        read_on=READ,
        adapter=f"{WIRE}: LARGEST_MESSAGE",
    ),
    _rule(
        "size of an edit",
        "MessageSizeTooBig",
        f"{SIZES}: bytes of the whole message in UTF-16",
        ("PUT /emea/v3/conversations/$team/activities/$own", {"json": {"type": "message", "text": "😀" * 10_000}}),
        status=413,
        limit=40_000,
        read_on=READ,
        adapter=f"{WIRE}: LARGEST_MESSAGE",
    ),
    _rule(
        "kind of an activity",
        "BadSyntax",
        f"{CONNECTOR}#activity-object: type is required",
        (SEND, {"json": {"text": "x"}}),
    ),
    _rule(
        "empty message",
        "BadSyntax",
        f"{CONNECTOR}: a message has a text, an attachment or a layout",
        (SEND, {"json": {"type": "message", "text": ""}}),
    ),
    _rule(
        "body of an activity",
        "BadSyntax",
        f"{CONNECTOR}: the request is JSON",
        (SEND, {"content": b"{", "headers": "$json"}),
    ),
)
BY_NAME = index_rules(RULES)
