"""Refusals of Slack, and their errors. It answers 200 all the same.

The pages of its methods were read in the copy of 2026-08-20 that github.com/slack-ruby/slack-api-ref keeps of them.
"""

import re
from collections.abc import Sequence
from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

DOCS = "https://docs.slack.dev/reference"
POST = f"{DOCS}/methods/chat.postMessage"
PANE = f"{DOCS}/methods/assistant.threads"
BLOCKS = f"{DOCS}/block-kit/blocks"
BOXES = f"{DOCS}/block-kit/block-elements/checkboxes-element"
OPTIONS = f"{DOCS}/block-kit/composition-objects/option-object, as slack_sdk checks it (models/blocks)"
RENDER = "channels/slack/render.py"
TEAM = {"channel": "$team"}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def _button(**more: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": "a", "text": _plain("ok"), "value": "1", **more}


def _post(*blocks: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "chat.postMessage", {**TEAM, "text": "x", "blocks": list(blocks)}


def _act(*elements: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return _post({"type": "actions", "elements": list(elements)})


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    given = {"status": 200, "read_on": "2026-11-18", **more}
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **given)


def _boxes(*options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return _act({"type": "checkboxes", "action_id": "a", "options": list(options)})


OPTION = {"text": _plain("a"), "value": "1"}
RULES = (
    _rule(
        "a token",
        "not_authed",
        f"{DOCS}/methods/auth.test: no token was given",
        ("auth.test", {"$token": ""}),
        adapter="channels/slack/rest.py: BAD_TOKEN",
    ),
    _rule(
        "a known token",
        "invalid_auth",
        f"{DOCS}/methods/auth.test",
        ("auth.test", {"$token": "xoxb-unknown"}),
        adapter="channels/slack/rest.py: BAD_TOKEN",
    ),
    _rule(
        "a token in force",
        "token_revoked",
        f"{POST}: the app was removed",
        ("auth.test", {"$faults": ["unauthorized"]}),
        adapter="channels/slack/rest.py: BAD_TOKEN",
    ),
    _rule(
        "kind of a token",
        "not_allowed_token_type",
        f"{POST}; one of the app opens sockets, one of the bot does the rest",
        ("chat.postMessage", {**TEAM, "text": "x", "$token": "$app"}),
        adapter="channels/slack/rest.py: BAD_TOKEN",
    ),
    _rule(
        "scope of the bot",
        "missing_scope",
        f"{POST}; `needed` and `provided` name them",
        ("users.info", {"user": "$ann", "$set": {"granted": "chat:write"}}),
        adapter="channels/slack/rest.py: missing_scope",
    ),
    _rule(
        "scope of the app",
        "missing_scope",
        "https://docs.slack.dev/reference/methods/apps.connections.open: connections:write",
        ("apps.connections.open", {"$token": "$app", "$set": {"app_granted": ""}}),
        adapter="channels/slack/rest.py: missing_scope",
        read_on="",
    ),
    _rule(
        "workspace in its place",
        "org_login_required",
        f"{POST}: the workspace moves into an organization, and is away until then",
        ("chat.postMessage", {**TEAM, "text": "x", "$set": {"moving": True}}),
        adapter="channels/slack/rest.py: BUSY",
    ),
    _rule("known channel", "channel_not_found", POST, ("chat.postMessage", {"channel": "C404", "text": "x"})),
    _rule(
        "member of the channel",
        "not_in_channel",
        POST,
        ("chat.postMessage", {**TEAM, "text": "x", "$faults": ["forbidden"]}),
    ),
    _rule(
        "pace",
        "ratelimited",
        "https://docs.slack.dev/apis/web-api/rate-limits: 429, with Retry-After in seconds; slack_sdk.http_retry",
        ("chat.postMessage", {**TEAM, "text": "x", "$faults": ["rate_limit"]}),
        status=429,
        adapter="channels/slack/rest.py: LIMITED",
    ),
    _rule(
        "a server that is busy",
        "service_unavailable",
        f"{POST}: service_unavailable, without its status; slack_sdk.http_retry tries 500 and 503 again",
        ("chat.postMessage", {**TEAM, "text": "x", "$faults": ["busy"]}),
        status=503,
        adapter="channels/slack/rest.py: BUSY",
    ),
    _rule("empty text", "no_text", POST, ("chat.postMessage", {**TEAM, "text": ""})),
    _rule(
        "shape of metadata",
        "invalid_metadata_format",
        f"{POST}: metadata has event_type and event_payload",
        ("chat.postMessage", {**TEAM, "text": "x", "metadata": {"event_type": "made"}}),
        adapter=f"{RENDER}: render_message",
    ),
    _rule(
        "edit length",
        "msg_too_long",
        f"{DOCS}/methods/chat.update: 4,000 characters; they are bytes after escaping (gitlab-org/gitlab !258898)",
        ("chat.update", {**TEAM, "ts": "$own", "text": "é" * 2001}),
        limit=4000,
        adapter=f"{RENDER}: LONGEST_TEXT",
    ),
    _rule("edit text", "no_text", f"{DOCS}/methods/chat.update", ("chat.update", {**TEAM, "ts": "$own", "text": ""})),
    _rule(
        "message to edit",
        "message_not_found",
        f"{DOCS}/methods/chat.update",
        ("chat.update", {**TEAM, "ts": "1.000001", "text": "x"}),
    ),
    _rule(
        "edits of others",
        "cant_update_message",
        f"{DOCS}/methods/chat.update",
        ("chat.update", {**TEAM, "ts": "$theirs", "text": "x"}),
    ),
    _rule(
        "message to delete",
        "message_not_found",
        f"{DOCS}/methods/chat.delete",
        ("chat.delete", {**TEAM, "ts": "1.000001"}),
        adapter="channels/slack/sending.py: Op.DELETE",
    ),
    _rule(
        "deletions of others",
        "cant_delete_message",
        f"{DOCS}/methods/chat.delete",
        ("chat.delete", {**TEAM, "ts": "$theirs"}),
    ),
    _rule(
        "number of blocks",
        "invalid_blocks",
        f"{BLOCKS}: at most 50 in a message",
        _post(*[{"type": "divider"}] * 51),
        limit=50,
    ),
    _rule(
        "length of all blocks",
        "msg_blocks_too_long",
        f"{POST}; slackapi/bolt-js #2509 and #2867 have the limit: some 13,200 characters, with what is around them",
        _post(*[{"type": "section", "text": _plain("x" * 2900)}] * 5),
        limit=13_200,
        adapter=f"{RENDER}: LARGEST_BLOCKS",
    ),
    _rule(
        "header length",
        "invalid_blocks",
        f"{BLOCKS}/header-block: at most 150 characters",
        _post({"type": "header", "text": _plain("x" * 151)}),
        limit=150,
        adapter=f"{RENDER}: LONGEST_TITLE",
    ),
    _rule(
        "section length",
        "invalid_blocks",
        f"{BLOCKS}/section-block: text of 1 to 3,000 characters",
        _post({"type": "section", "text": _plain("x" * 3001)}),
        limit=3000,
        adapter=f"{RENDER}: LONGEST_SECTION",
    ),
    _rule(
        "number of fields",
        "invalid_blocks",
        f"{BLOCKS}/section-block: at most 10 fields",
        _post({"type": "section", "fields": [_plain("x")] * 11}),
        limit=10,
        adapter=f"{RENDER}: render_card",
    ),
    _rule(
        "field length",
        "invalid_blocks",
        f"{BLOCKS}/section-block: a field of at most 2,000 characters",
        _post({"type": "section", "fields": [_plain("x" * 2001)]}),
        limit=2000,
        adapter=f"{RENDER}: LONGEST_FIELD",
    ),
    _rule(
        "number of elements",
        "invalid_blocks",
        f"{BLOCKS}/actions-block: at most 25 elements",
        _act(*(_button(action_id=f"a{each}") for each in range(26))),
        limit=25,
        adapter=f"{RENDER}: render_card",
    ),
    _rule(
        "one id for each action",
        "invalid_blocks",
        f"{BLOCKS}/actions-block: action_id is unique in its block",
        _act(_button(), _button()),
    ),
    _rule(
        "button length",
        "invalid_blocks",
        f"{DOCS}/block-kit/block-elements/button-element: text of at most 75 characters",
        _act(_button(text=_plain("x" * 76))),
        limit=75,
        adapter=f"{RENDER}: _button",
    ),
    _rule(
        "value of a button",
        "invalid_blocks",
        f"{DOCS}/block-kit/block-elements/button-element: value of at most 2,000 characters",
        _act(_button(value="x" * 2001)),
        limit=2000,
    ),
    _rule(
        "number of boxes",
        "invalid_blocks",
        f"{BOXES}: at most 10 options",
        _boxes(*[OPTION] * 11),
        limit=10,
        adapter=f"{RENDER}: render_card",
    ),
    _rule(
        "label of a box",
        "invalid_blocks",
        f"{OPTIONS}: text of at most 75 characters",
        _boxes({**OPTION, "text": _plain("x" * 76)}),
        limit=75,
        adapter=f"{RENDER}: _option",
    ),
    _rule(
        "value of a box",
        "invalid_blocks",
        f"{OPTIONS}: value of at most 150 characters; @slack/types has 75",
        _boxes({**OPTION, "value": "x" * 151}),
        limit=150,
        adapter=f"{RENDER}: _option, by ids of cards",
    ),
    _rule(
        "words about a box",
        "invalid_blocks",
        "https://docs.slack.dev/tools/node-slack-sdk/reference/types/interfaces/PlainTextOption: description",
        _boxes({**OPTION, "description": _plain("x" * 76)}),
        limit=75,
        adapter=f"{RENDER}: _option",
    ),
    _rule(
        "known emoji",
        "invalid_name",
        f"{DOCS}/methods/reactions.add; the names are those of emoji-datasource",
        ("reactions.add", {**TEAM, "timestamp": "$own", "name": "no_such_sign"}),
        adapter="channels/slack/emoji_names.txt",
    ),
    _rule(
        "message to react to",
        "message_not_found",
        f"{DOCS}/methods/reactions.add",
        ("reactions.add", {**TEAM, "timestamp": "1.000001", "name": "tada"}),
    ),
    _rule(
        "form of a timestamp",
        "bad_timestamp",
        f"{DOCS}/methods/reactions.add; {DOCS}/methods/pins.add",
        ("reactions.add", {**TEAM, "timestamp": "soon", "name": "tada"}),
        adapter="channels/slack/wire.py: is_ts",
    ),
    _rule(
        "reaction that is there",
        "already_reacted",
        f"{DOCS}/methods/reactions.add",
        ("reactions.add", {**TEAM, "timestamp": "$marked", "name": "tada"}),
        adapter="channels/slack/sending.py: Op.REACT",
    ),
    _rule(
        "message to pin",
        "message_not_found",
        f"{DOCS}/methods/pins.add",
        ("pins.add", {**TEAM, "timestamp": "1.000001"}),
    ),
    _rule(
        "pin that is there",
        "already_pinned",
        f"{DOCS}/methods/pins.add",
        ("pins.add", {**TEAM, "timestamp": "$marked"}),
        adapter="channels/slack/sending.py: Op.PIN",
    ),
    _rule(
        "message that is pinned",
        "no_pin",
        f"{DOCS}/methods/pins.remove",
        ("pins.remove", {**TEAM, "timestamp": "$own"}),
        adapter="channels/slack/sending.py: NOT_PINNED",
    ),
    _rule(
        "pin that was taken off",
        "not_pinned",
        f"{DOCS}/methods/pins.remove has both words, and does not say when it is which",
        ("pins.remove", {**TEAM, "timestamp": "$unpinned"}),
        adapter="channels/slack/sending.py: NOT_PINNED",
    ),
    _rule(
        "channel of pins",
        "channel_not_found",
        f"{DOCS}/methods/pins.list",
        ("pins.list", {"channel": "C404"}),
    ),
    _rule(
        "channel with a name",
        "channel_not_found",
        f"{DOCS}/methods/conversations.info",
        ("conversations.info", {"channel": "C404"}),
        adapter="channels/slack/names.py",
    ),
    _rule("known person", "user_not_found", f"{DOCS}/methods/users.info", ("users.info", {"user": "U404"})),
    _rule(
        "person to write to",
        "user_not_found",
        f"{DOCS}/methods/conversations.open",
        ("conversations.open", {"users": "U404"}),
    ),
    _rule("known file", "file_not_found", f"{DOCS}/methods/files.info", ("files.info", {"file": "F404"})),
    _rule(
        "content of a file",
        "missing_argument",
        f"{DOCS}/methods/files.getUploadURLExternal: no filename, or a length under 1",
        ("files.getUploadURLExternal", {"filename": "a.txt", "length": 0}),
        adapter="channels/slack/sending.py: _upload",
    ),
    _rule(
        "token of a file",
        "<html>Sign in</html>",
        f"{DOCS}/objects/file-object: url_private asks for the token; else one is sent to sign in",
        ("GET $file", {"$token": ""}),
        status=302,
        read_on="",
        adapter="channels/slack/adapter.py: _open_url",
    ),
    _rule(
        "channel to share in",
        "channel_not_found",
        f"{DOCS}/methods/files.completeUploadExternal",
        ("files.completeUploadExternal", {"channel_id": "C404", "files": [{"id": "F404"}]}),
    ),
    _rule(
        "file to share",
        "file_not_found",
        f"{DOCS}/methods/files.completeUploadExternal",
        ("files.completeUploadExternal", {"channel_id": "$team", "files": [{"id": "F404"}]}),
    ),
    _rule(
        "thread to read",
        "thread_not_found",
        f"{DOCS}/methods/conversations.replies",
        ("conversations.replies", {**TEAM, "ts": "1.000001"}),
    ),
    _rule(
        "channel to read",
        "channel_not_found",
        f"{DOCS}/methods/conversations.history",
        ("conversations.history", {"channel": "C404"}),
    ),
    _rule(
        "channel of a pane",
        "channel_not_found",
        f"{PANE}.setStatus, .setTitle and .setSuggestedPrompts",
        ("assistant.threads.setTitle", {"channel_id": "C404", "thread_ts": "$own", "title": "x"}),
    ),
    _rule(
        "thread of a pane",
        "invalid_thread_ts",
        f"{PANE}.setStatus, .setTitle and .setSuggestedPrompts",
        ("assistant.threads.setStatus", {"channel_id": "$team", "thread_ts": "1.000001", "status": "x"}),
        adapter="channels/slack/sending.py: set_status",
    ),
    _rule(
        "number of prompts",
        "invalid_arguments",
        f"{PANE}.setSuggestedPrompts: up to four; it does not say how more are refused",
        (
            "assistant.threads.setSuggestedPrompts",
            {"channel_id": "$team", "thread_ts": "$own", "prompts": [{"title": "a", "message": "b"}] * 5},
        ),
        limit=4,
        adapter=f"{RENDER}: MOST_PROMPTS",
    ),
    _rule("known method", "unknown_method", POST, ("chat.shout", TEAM)),
)
BY_NAME = index_rules(RULES)


def check_slash_commands(listed: Sequence[dict[str, Any]]) -> None:
    """Check `features.slash_commands` of a manifest: at most 50, with the slash at most 32 characters.

    A description has at most 2,000 characters and a hint at most 1,000. The sources are
    docs.slack.dev/reference/app-manifest and the types of Slack's own @slack/web-api, read 2026-11-17.
    """
    assert len(listed) <= 50, "at most 50 slash commands"
    assert len({each["command"] for each in listed}) == len(listed), "a command is there twice"
    for each in listed:
        assert set(each) <= {"command", "description", "usage_hint", "should_escape", "url"}, each
        assert re.fullmatch(r"/[^\s/A-Z]{1,31}", each["command"]), each
        assert 1 <= len(each["description"]) <= 2000 and len(each.get("usage_hint") or "") <= 1000, each
