"""Refusals of an ntfy server: the code of each error, then its words."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules, make_rule

SERVER = "https://github.com/binwiederhier/ntfy/blob/main/server"
ERRORS = f"{SERVER}/errors.go"
WIRE = "channels/ntfy/wire.py"
READ_ON = "2026-11-17"  # the day on which these were compared


def _rule(code: int, name: str, words: str, source: str, method: str, **more: Any) -> PlatformRule:
    return make_rule(name, code // 100, f"{code}: {words}", source, method, read_on=READ_ON, **more)


def _make_message(**fields: Any) -> dict[str, Any]:
    return {"topic": "team", "message": "x", **fields}


RULES = (
    _rule(
        40101,
        "token",
        "unauthorized",
        f"{ERRORS}: errHTTPUnauthorized",
        "GET v1/account",
        given={"$token": "wrong"},
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        40301,
        "rights in a topic",
        "forbidden",
        f"{ERRORS}: errHTTPForbidden",
        "GET team/auth",
        given={"$faults": ["no_rights"]},
        adapter="channels/ntfy/adapter.py: _no_right",
    ),
    _rule(
        40301,
        "right to publish",
        "forbidden",
        f"{ERRORS}: errHTTPForbidden",
        "POST ",
        given={"$faults": ["forbidden"], **_make_message()},
    ),
    _rule(
        42901,
        "pace",
        "limit reached: too many requests",
        f"{ERRORS}: errHTTPTooManyRequestsLimitRequests; no header says how long to wait",
        "POST ",
        given={"$faults": ["rate_limit"], **_make_message()},
        adapter="channels/ntfy/adapter.py: REPLENISHED_S",
    ),
    _rule(
        50001,
        "a server that is busy",
        "internal server error",
        f"{ERRORS}: errHTTPInternalError",
        "POST ",
        given={"$faults": ["busy"], **_make_message()},
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        40009,
        "name of a topic",
        "invalid request: topic invalid",
        f"{SERVER}/server.go: topicRegex, 1 to 64 letters, digits, - and _",
        "POST ",
        given=_make_message(topic="a/b"),
        limit=64,
        adapter=f"{WIRE}: is_topic",
    ),
    _rule(
        40009,
        "length of a topic",
        "invalid request: topic invalid",
        f"{SERVER}/server.go: topicRegex",
        "POST ",
        given=_make_message(topic="x" * 65),
        limit=64,
        adapter=f"{WIRE}: is_topic",
    ),
    _rule(
        40010,
        "names of the server's own",
        "invalid request: topic name is not allowed",
        f"{ERRORS}: errHTTPBadRequestTopicDisallowed; server/config.go: docs, static, file, app and others",
        "POST ",
        given=_make_message(topic="docs"),
    ),
    _rule(
        41303,
        "size of the request",
        "JSON body too large",
        f"{SERVER}/server.go: transformBodyJSON, twice MessageSizeLimit, so 8,192 bytes of JSON",
        "POST ",
        given=_make_message(message="\n" * 4096),
        limit=8192,
        adapter="channels/ntfy/adapter.py: LARGEST_MESSAGE",
    ),
    _rule(
        40014,
        "message size",
        "invalid request: attachments not allowed",
        f"{SERVER}/server.go: a body over MessageSizeLimit, 4,096 bytes, becomes a file, where the server takes files",
        "POST ",
        given=_make_message(message="é" * 2049),
        limit=4096,
        adapter="channels/ntfy/adapter.py: LARGEST_MESSAGE",
    ),
    _rule(
        40017,
        "message is JSON",
        "invalid request: request body must be message JSON",
        f"{ERRORS}: errHTTPBadRequestMessageJSONInvalid",
        "POST ",
        given={"$body": b"{nonsense"},
    ),
    _rule(
        40007,
        "priority",
        "invalid priority parameter",
        f"{ERRORS}: errHTTPBadRequestPriorityInvalid; 1 to 5",
        "POST ",
        given=_make_message(priority=6),
        limit=5,
    ),
    _rule(
        40008,
        "place in a topic",
        "invalid since parameter",
        f"{ERRORS}: errHTTPBadRequestSinceInvalid; a time, a duration, an id, all, latest or none",
        "GET team/json?poll=1&since=no.such.place",
        adapter="channels/ntfy/adapter.py: _read_stream",
    ),
    _rule(40401, "known file", "page not found", f"{ERRORS}: errHTTPNotFound", "GET file/none.bin"),
    _rule(40401, "known page", "page not found", f"{ERRORS}: errHTTPNotFound", "GET v1/none"),
)
BY_NAME = index_rules(RULES)
