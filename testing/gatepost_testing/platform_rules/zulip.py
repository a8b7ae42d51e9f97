"""Refusals of a Zulip server: the code of each error, then its words in English. Long texts it cuts instead."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules, make_rule

SERVER = "https://github.com/zulip/zulip/blob/main/zerver"
POSTING = "channels/zulip/posting.py"
NO_MESSAGE = "BAD_REQUEST: Invalid message(s)"
READ_ON = "2026-11-17"  # the day on which these were compared


def _rule(name: str, refusal: str, source: str, method: str, status: int = 400, **more: Any) -> PlatformRule:
    return make_rule(name, status, refusal, f"{SERVER}/{source}", method, read_on=READ_ON, **more)


def _make_message(**fields: Any) -> dict[str, Any]:
    return {"type": "stream", "to": "$team", "topic": "plans", "content": "x", **fields}


RULES = (
    _rule(
        "key",
        "UNAUTHORIZED: Invalid API key",
        "decorator.py: authenticated_rest_api_view, with the words of InvalidAPIKeyError",
        "GET users/me",
        401,
        given={"$key": "wrong"},
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "kind of a bot",
        "UNAUTHORIZED: This API is not available to incoming webhook bots.",
        "decorator.py: validate_api_key",
        "GET users/me",
        401,
        given={"$faults": ["no_rights"]},
        adapter="channels/zulip/adapter.py: WEBHOOK_BOT",
    ),
    _rule(
        "pace",
        "RATE_LIMIT_HIT: API usage exceeded rate limit; see"
        " https://zulip.com/api/http-headers#rate-limiting-response-headers",
        "lib/exceptions.py: RateLimitedError, the seconds in Retry-After and in `retry-after` of the answer",
        "POST messages",
        429,
        given={"$faults": ["rate_limit"], **_make_message()},
        adapter="channels/zulip/adapter.py: _find_retry_after",
    ),
    _rule(
        "a server that is busy",
        "Internal server error",
        "middleware.py: JsonErrorHandler, without a code",
        "POST messages",
        500,
        given={"$faults": ["busy"], **_make_message()},
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "right to post",
        "BAD_REQUEST: You do not have permission to post in this channel.",
        "lib/streams.py: check_stream_access_based_on_can_send_message_group",
        "POST messages",
        given={"$faults": ["forbidden"], **_make_message()},
    ),
    _rule(
        "message length",
        "[message truncated]",
        "lib/message.py: normalize_body; MAX_MESSAGE_LENGTH, 10,000 code points. More is cut, and the answer is 200",
        "POST messages",
        200,
        given=_make_message(content="x" * 10_001),
        limit=10_000,
        adapter=f"{POSTING}: check_length",
    ),
    _rule(
        "edit length",
        "[message truncated]",
        "actions/message_edit.py: normalize_body as for new ones",
        "PATCH messages/$own",
        200,
        given={"content": "x" * 10_001},
        limit=10_000,
        adapter=f"{POSTING}: check_length",
    ),
    _rule(
        "topic length",
        "...",
        "models/constants.py: MAX_TOPIC_NAME_LENGTH, 60 code points. More is cut, and the answer is 200",
        "POST messages",
        200,
        given=_make_message(topic="x" * 61, **{"$shows": "topic"}),
        limit=60,
        adapter=f"{POSTING}: LONGEST_TOPIC",
    ),
    _rule(
        "empty text",
        "BAD_REQUEST: Message must not be empty",
        "lib/message.py: normalize_body",
        "POST messages",
        given=_make_message(content=" \n"),
    ),
    _rule(
        "no null bytes",
        "BAD_REQUEST: Message must not contain null bytes",
        "lib/message.py: normalize_body",
        "POST messages",
        given=_make_message(content="a\0b"),
        adapter="messages/markdown/blocks.py: clean_text",
    ),
    _rule(
        "text of a message",
        "REQUEST_VARIABLE_MISSING: Missing 'content' argument",
        "lib/request.py: RequestVariableMissingError",
        "POST messages",
        given={"type": "stream", "to": "$team", "topic": "plans"},
    ),
    _rule(
        "kind of a message",
        "BAD_REQUEST: Invalid type",
        "views/message_send.py: type is direct, private, stream or channel",
        "POST messages",
        given=_make_message(type="shout"),
    ),
    _rule(
        "known channel",
        "STREAM_DOES_NOT_EXIST: Channel with ID '4242' does not exist",
        "lib/exceptions.py: StreamWithIDDoesNotExistError",
        "POST messages",
        given=_make_message(to="4242"),
        adapter="channels/zulip/wire.py: parse_address",
    ),
    _rule(
        "signs of a topic",
        "BAD_REQUEST: Invalid character in topic, at position 2!",
        "lib/string_validation.py: no control signs, surrogates or non-characters",
        "POST messages",
        given=_make_message(topic="a\nb"),
        adapter=f"{POSTING}: render_topic",
    ),
    _rule(
        "person to write to",
        "BAD_REQUEST: Invalid user ID 4242",
        "lib/addressee.py: get_user_profiles_by_ids",
        "POST messages",
        given={"type": "direct", "to": "[4242]", "content": "x"},
    ),
    _rule(
        "somebody to write to",
        "BAD_REQUEST: Message must have recipients",
        "lib/addressee.py: for_private",
        "POST messages",
        given={"type": "direct", "to": "[]", "content": "x"},
        adapter="channels/zulip/wire.py: parse_address",
    ),
    _rule("message to read", NO_MESSAGE, "lib/message.py: access_message", "GET messages/4242"),
    _rule(
        "message to edit",
        NO_MESSAGE,
        "lib/message.py: access_message",
        "PATCH messages/4242",
        given={"content": "x"},
    ),
    _rule(
        "edits of others",
        "BAD_REQUEST: You don't have permission to edit this message",
        "actions/message_edit.py: validate_user_can_edit_message",
        "PATCH messages/$theirs",
        given={"content": "x"},
    ),
    _rule(
        "content of an edit",
        "BAD_REQUEST: Nothing to change",
        "actions/message_edit.py: validate_message_edit_payload",
        "PATCH messages/$own",
    ),
    _rule(
        "message to delete",
        NO_MESSAGE,
        "lib/message.py: access_message",
        "DELETE messages/4242",
        adapter=f"{POSTING}: GONE",
    ),
    _rule(
        "deletions of others",
        "BAD_REQUEST: You don't have permission to delete this message",
        "views/message_edit.py: validate_can_delete_message",
        "DELETE messages/$theirs",
    ),
    _rule(
        "message to react to",
        NO_MESSAGE,
        "lib/message.py: access_message",
        "POST messages/4242/reactions",
        given={"emoji_name": "tada"},
    ),
    _rule(
        "known emoji",
        "BAD_REQUEST: Emoji 'no_such_sign' does not exist",
        "lib/emoji.py: get_emoji_data",
        "POST messages/$theirs/reactions",
        given={"emoji_name": "no_such_sign"},
        adapter="channels/zulip/wire.py: find_emoji_name",
    ),
    _rule(
        "one reaction of a kind",
        "REACTION_ALREADY_EXISTS: Reaction already exists.",
        "lib/exceptions.py: ReactionExistsError",
        "POST messages/$liked/reactions",
        given={"emoji_name": "tada"},
        adapter=f"{POSTING}: _react",
    ),
    _rule(
        "known person",
        "BAD_REQUEST: No such user",
        "lib/users.py: access_user_by_id",
        "GET users/4242",
        adapter="channels/zulip/adapter.py: open_direct",
    ),
    _rule(
        "event queue",
        "BAD_EVENT_QUEUE_ID: Bad event queue ID: 4242",
        "tornado/exceptions.py: BadEventQueueIdError",
        "GET events?queue_id=4242&last_event_id=-1",
        adapter="channels/zulip/adapter.py: _is_lost_queue",
    ),
    _rule(
        "number of messages",
        "BAD_REQUEST: Too many messages requested (maximum 5000).",
        "views/message_fetch.py: MAX_MESSAGES_PER_FETCH",
        "GET messages?anchor=newest&num_before=5001&num_after=0",
        limit=5000,
        adapter="channels/zulip/adapter.py: PAGE",
    ),
    _rule(
        "channel of a typing sign",
        "BAD_REQUEST: Invalid channel ID",
        "lib/streams.py: access_stream_by_id",
        "POST typing",
        given={"type": "stream", "op": "start", "stream_id": "4242", "topic": "plans"},
        adapter=f"{POSTING}: send_typing",
    ),
    _rule(
        "person of a typing sign",
        "BAD_REQUEST: Invalid user ID 4242",
        "actions/typing.py: check_send_typing_notification",
        "POST typing",
        given={"type": "direct", "op": "start", "to": "[4242]"},
        adapter=f"{POSTING}: send_typing",
    ),
    _rule(
        "file of an upload",
        "BAD_REQUEST: You must specify a file to upload",
        "views/upload.py: upload_file_backend",
        "POST user_uploads",
    ),
    _rule(
        "file size",
        "BAD_REQUEST: File is larger than this server's configured maximum upload size (0 MiB).",
        "views/upload.py: MAX_FILE_UPLOAD_SIZE, 100 MiB unless set (here 0)",
        "POST user_uploads",
        given={"$file": b"x", "$largest": 0},
        limit=100,
        adapter="channels/zulip/__init__.py: largest_file",
    ),
    _rule(
        "known file",
        "<p>This file does not exist or has been deleted.</p>",
        "views/upload.py: serve_file, in HTML",
        "GET user_uploads/2/ab/cd/a.txt",
        404,
    ),
)
BY_NAME = index_rules(RULES)
