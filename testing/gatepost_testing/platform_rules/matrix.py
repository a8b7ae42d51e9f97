"""Refusals of a Matrix homeserver: the code of each error, then the words of Synapse, which is the server of tests."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules, make_rule

SERVER = "https://github.com/element-hq/synapse/blob/develop/synapse"
SPEC = "https://spec.matrix.org/latest/client-server-api"
RENDER, ADAPTER = "channels/matrix/render.py", "channels/matrix/adapter.py"
UNKNOWN_EVENT = "$" + "x" * 43
UNKNOWN_ROOM = "!unknown:test.localhost"
SEND = "PUT v3/rooms/$team/send"
TEXT = {"msgtype": "m.text", "body": "x"}
READ_ON = "2026-11-17"  # the day on which these were compared


def _rule(name: str, status: int, refusal: str, source: str, method: str, **more: Any) -> PlatformRule:
    return make_rule(name, status, refusal, f"{SERVER}/{source}", method, read_on=READ_ON, **more)


def _relate(kind: str, event: str, **more: Any) -> dict[str, Any]:
    return {"m.relates_to": {"rel_type": kind, "event_id": event, **more}}


RULES = (
    _rule(
        "token",
        401,
        "M_UNKNOWN_TOKEN: Invalid access token passed.",
        "api/auth/internal.py",
        "GET v3/account/whoami",
        given={"$token": "wrong"},
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "some token",
        401,
        "M_MISSING_TOKEN: Missing access token",
        "api/errors.py: MissingClientTokenError",
        "GET v3/account/whoami",
        given={"$token": ""},
    ),
    _rule(
        "password",
        403,
        "M_FORBIDDEN: Invalid username or password",
        "handlers/auth.py: INVALID_USERNAME_OR_PASSWORD",
        "POST v3/login",
        given={
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": "nobody"},
            "password": "wrong",
            "$token": "",
        },
        adapter="channels/matrix/session.py: _log_in_by_password",
    ),
    _rule(
        "pace",
        429,
        "M_LIMIT_EXCEEDED: Too Many Requests",
        "api/errors.py: LimitExceededError, Retry-After in seconds and `retry_after_ms` in the answer",
        f"{SEND}/m.room.message/$new",
        given={"$faults": ["rate_limit"], **TEXT},
        adapter="channels/matrix/session.py: find_retry_after",
    ),
    _rule(
        "a server that is busy",
        500,
        "M_UNKNOWN: Internal server error",
        "http/server.py: return_json_error, of what the server did not foresee",
        f"{SEND}/m.room.message/$new",
        given={"$faults": ["busy"], **TEXT},
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "room of the bot",
        403,
        f"M_FORBIDDEN: User $bot not in room {UNKNOWN_ROOM}",
        "handlers/message.py",
        f"PUT v3/rooms/{UNKNOWN_ROOM}/send/m.room.message/$new",
        given=TEXT,
        adapter=f"{ADAPTER}: read_room",
    ),
    _rule(
        "room to read",
        403,
        f"M_FORBIDDEN: User $bot not in room {UNKNOWN_ROOM}, and room previews are disabled",
        "api/auth/base.py",
        f"GET v3/rooms/{UNKNOWN_ROOM}/messages?dir=b",
    ),
    _rule(
        "rights in a room",
        403,
        "M_FORBIDDEN: You don't have permission to post that to the room. user_level (50) < send_level (100)",
        "event_auth.py: the level of the user against that of the event",
        "PUT v3/rooms/$team/state/m.room.power_levels",
        given={"users": {}},
    ),
    _rule(
        "size of an event",
        413,
        "M_TOO_LARGE: event too large",
        f"event_auth.py; {SPEC}/#size-limits: 65,536 bytes of canonical JSON",
        f"{SEND}/m.room.message/$new",
        given={**TEXT, "body": "x" * 65_536},
        limit=65_536,
        adapter=f"{RENDER}: LARGEST_CONTENT",
    ),
    _rule(
        "text of a message",
        400,
        "M_UNKNOWN: 'body' not in content",
        "events/validator.py",
        f"{SEND}/m.room.message/$new",
        given={"msgtype": "m.text"},
        adapter=f"{RENDER}: render_text",
    ),
    _rule(
        "kind of a message",
        400,
        "M_UNKNOWN: 'msgtype' not in content",
        "events/validator.py",
        f"{SEND}/m.room.message/$new",
        given={"body": "x"},
        adapter=f"{RENDER}: render_text",
    ),
    _rule(
        "content is an object",
        400,
        "M_BAD_JSON: Content must be a JSON object.",
        "http/servlet.py",
        f"{SEND}/m.room.message/$new",
        given={"$body": b"[1]"},
    ),
    _rule(
        "content is JSON",
        400,
        "M_NOT_JSON: Content not JSON.",
        "http/servlet.py",
        f"{SEND}/m.room.message/$new",
        given={"$body": b"{nonsense"},
    ),
    _rule(
        "no fractions",
        400,
        "M_BAD_JSON: Bad JSON value: float",
        "events/utils.py: validate_canonicaljson",
        f"{SEND}/m.room.message/$new",
        given={**TEXT, "number": 1.5},
    ),
    _rule(
        "size of a number",
        400,
        "M_BAD_JSON: JSON integer out of range",
        "events/utils.py: validate_canonicaljson, below 2^53",
        f"{SEND}/m.room.message/$new",
        given={**TEXT, "number": 2**53},
    ),
    _rule(
        "known root",
        400,
        "M_UNKNOWN: Can't send relation to unknown event",
        "handlers/message.py",
        f"{SEND}/m.room.message/$new",
        given={**TEXT, **_relate("m.thread", UNKNOWN_EVENT)},
    ),
    _rule(
        "root of a thread",
        400,
        "M_UNKNOWN: Cannot start threads from an event with a relation",
        "handlers/message.py",
        f"{SEND}/m.room.message/$new",
        given={**TEXT, **_relate("m.thread", "$answer")},
        adapter="channels/matrix/wire.py: the thread of an event is its root",
    ),
    _rule(
        "event to react to",
        400,
        "M_UNKNOWN: Can't send relation to unknown event",
        "handlers/message.py",
        f"{SEND}/m.reaction/$new",
        given=_relate("m.annotation", UNKNOWN_EVENT, key="👍"),
    ),
    _rule(
        "one reaction of a kind",
        400,
        "M_DUPLICATE_ANNOTATION: Can't send same reaction twice",
        "handlers/message.py",
        f"{SEND}/m.reaction/$new",
        given=_relate("m.annotation", "$theirs", key="👍"),
        adapter=f"{ADAPTER}: _react",
    ),
    _rule(
        "length of a reaction",
        400,
        "M_UNKNOWN: Aggregation key is too long",
        "handlers/message.py: at most 500 characters",
        f"{SEND}/m.reaction/$new",
        given=_relate("m.annotation", "$theirs", key="x" * 501),
        limit=500,
    ),
    _rule(
        "event to read",
        404,
        "M_NOT_FOUND: Event not found.",
        "rest/client/room.py",
        f"GET v3/rooms/$team/event/{UNKNOWN_EVENT}",
    ),
    _rule(
        "state of a room",
        404,
        "M_NOT_FOUND: Event not found.",
        "rest/client/room.py",
        "GET v3/rooms/$team/state/m.room.nothing",
        adapter=f"{ADAPTER}: _is_encrypted, _pin",
    ),
    _rule(
        "direction of history",
        400,
        "M_INVALID_PARAM: Query parameter 'dir' must be one of ['b', 'f']",
        "http/servlet.py",
        "GET v3/rooms/$team/messages?dir=x",
    ),
    _rule(
        "place in history",
        400,
        "M_UNKNOWN: 'from' parameter is invalid",
        "streams/config.py",
        "GET v3/rooms/$team/messages?dir=b&from=nonsense",
    ),
    _rule(
        "moment of history",
        404,
        "M_NOT_FOUND: Unable to find event from 1 in direction Direction.BACKWARDS",
        "handlers/room.py",
        "GET v1/rooms/$team/timestamp_to_event?ts=1&dir=b",
        adapter=f"{ADAPTER}: _find_moment",
    ),
    _rule(
        "place of a sync",
        400,
        "M_UNKNOWN: Invalid stream token",
        "types/__init__.py: StreamToken.from_string",
        "GET v3/sync?since=nonsense",
    ),
    _rule(
        "signs of others",
        400,
        "M_FORBIDDEN: Cannot set another user's typing state",
        "handlers/typing.py",
        "PUT v3/rooms/$team/typing/@ann:test.localhost",
        given={"typing": True, "timeout": 1000},
        adapter=f"{ADAPTER}: typing",
    ),
    _rule(
        "known file",
        404,
        "M_NOT_FOUND: Not found '/_matrix/client/v1/media/download/test.localhost/nothing'",
        "media/_base.py",
        "GET v1/media/download/test.localhost/nothing",
        adapter="channels/matrix/session.py: _download",
    ),
    _rule(
        "people of a room",
        400,
        "M_UNKNOWN: Invalid user_id: nonsense",
        "handlers/room.py",
        "POST v3/createRoom",
        given={"invite": ["nonsense"]},
        adapter=f"{ADAPTER}: open_direct",
    ),
    _rule(
        "known request",
        404,
        "M_UNRECOGNIZED: Unrecognized request",
        "api/errors.py: UnrecognizedRequestError",
        "GET v3/nothing",
    ),
)
BY_NAME = index_rules(RULES)
