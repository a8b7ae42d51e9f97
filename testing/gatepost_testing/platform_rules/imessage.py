"""Refusals of a BlueBubbles server: the kind of each error, then its words."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules, make_rule

SERVER = "https://github.com/BlueBubblesApp/bluebubbles-server/blob/master/packages/server/src/server/api/http/api/v1"
VALIDATOR = f"{SERVER}/validators/messageValidator.ts"
WORDS = "; the words are those of https://github.com/mikeerickson/validatorjs"
ADAPTER, WIRE = "channels/imessage/adapter.py", "channels/imessage/wire.py"
WRONG = "Validation Error"
QUERY, TEXT = "POST message/query", "POST message/text"
READ_ON = "2026-11-17"  # the day on which these were compared


def _rule(name: str, refusal: str, source: str, method: str, status: int = 400, **more: Any) -> PlatformRule:
    return make_rule(name, status, refusal, source, method, read_on="" if source.endswith(WORDS) else READ_ON, **more)


def _make_message(**fields: Any) -> dict[str, Any]:
    return {"chatGuid": "$team", "tempGuid": "t", "message": "x", "method": "apple-script", **fields}


RULES = (
    _rule(
        "password",
        "Authentication Error: Unauthorized",
        f"{SERVER}/middleware/authMiddleware.ts: in the address, as password, guid or token",
        "GET server/info",
        401,
        given={"$password": "wrong"},
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "right to send",
        "Authentication Error: Forbidden",
        f"{SERVER}/responses/errors.ts: Forbidden, which no route of the server has used so far",
        TEXT,
        403,
        given={"$faults": ["forbidden"], **_make_message()},
        adapter=f"{ADAPTER}: _read_error",
    ),
    _rule(
        "a server that is busy",
        "Server Error: Server Error",
        f"{SERVER}/responses/errors.ts: ServerError; responses/types.ts has 500 and 504 alone",
        TEXT,
        500,
        given={"$faults": ["busy"], **_make_message()},
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "pace",
        "Too Many Requests",
        "https://www.rfc-editor.org/rfc/rfc6585#section-4: of a proxy before the server, which itself limits nothing",
        TEXT,
        429,
        given={"$faults": ["rate_limit"], **_make_message()},
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "name of a send",
        f"{WRONG}: A 'tempGuid' is required when sending via AppleScript",
        f"{VALIDATOR}: validateText",
        TEXT,
        given=_make_message(tempGuid=""),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "empty text",
        f"{WRONG}: A 'message' is required when sending via AppleScript",
        f"{VALIDATOR}: validateText",
        TEXT,
        given=_make_message(message=""),
    ),
    _rule(
        "a send that is under way",
        f"{WRONG}: Message is already queued to be sent! (Temp GUID: $queued)",
        f"{VALIDATOR}: validateText, while the first is under way",
        TEXT,
        given=_make_message(tempGuid="$queued"),
        adapter=f"{ADAPTER}: QUEUED",
    ),
    _rule(
        "message that Messages cannot deliver",
        "iMessage Error: Message failed to send!",
        f"{SERVER}/routers/messageRouter.ts: sendText, with the message and its error code in `data`",
        TEXT,
        500,
        given=_make_message(chatGuid="iMessage;-;nobody@example.org"),
        adapter=f"{ADAPTER}: _read_error",
    ),
    _rule(
        "chat of a message",
        f"{WRONG}: The chatGuid field is required.",
        f"{VALIDATOR}: sendTextRules{WORDS}",
        TEXT,
        given={"tempGuid": "t", "message": "x"},
        adapter=f"{WIRE}: parse_chat",
    ),
    _rule(
        "way of a send",
        f"{WRONG}: The selected method is invalid.",
        f"{VALIDATOR}: sendTextRules, apple-script or private-api{WORDS}",
        TEXT,
        given=_make_message(method="pigeon"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "size of a page",
        f"{WRONG}: The limit may not be greater than 1000.",
        f"{VALIDATOR}: queryBodyRules{WORDS}",
        QUERY,
        given={"limit": 1001},
        limit=1000,
        adapter=f"{ADAPTER}: WINDOW",
    ),
    _rule(
        "least size of a page",
        f"{WRONG}: The limit must be at least 1.",
        f"{VALIDATOR}: queryBodyRules{WORDS}",
        QUERY,
        given={"limit": 0},
    ),
    _rule(
        "place of a page",
        f"{WRONG}: The offset must be at least 0.",
        f"{VALIDATOR}: queryBodyRules{WORDS}",
        QUERY,
        given={"offset": -1},
    ),
    _rule(
        "order of a page",
        f"{WRONG}: The selected sort is invalid.",
        f"{VALIDATOR}: queryBodyRules, ASC or DESC{WORDS}",
        QUERY,
        given={"sort": "UP"},
        adapter=f"{WIRE}: render_query",
    ),
    _rule(
        "known file",
        "Database Error: Attachment does not exist!",
        f"{SERVER}/routers/attachmentRouter.ts",
        "GET attachment/none/download",
        404,
    ),
)
BY_NAME = index_rules(RULES)
