"""Refusals of Slack, and their errors. It answers 200 all the same."""

import re
from collections.abc import Sequence
from typing import Any

from gatepost.testing.platforms.rules import PlatformRule, index_rules

DOCS = "https://docs.slack.dev/reference"
POST = f"{DOCS}/methods/chat.postMessage"
BLOCKS = f"{DOCS}/block-kit/blocks"
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
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **{"status": 200, **more})


OPTION = {"text": _plain("a"), "value": "1"}
RULES = (
    _rule("known channel", "channel_not_found", POST, ("chat.postMessage", {"channel": "C404", "text": "x"})),
    _rule(
        "pace",
        "ratelimited",
        "https://docs.slack.dev/apis/web-api/rate-limits: 429, with Retry-After in seconds",
        ("chat.postMessage", {**TEAM, "text": "x", "$faults": ["rate_limit"]}),
        status=429,
        adapter="channels/slack/rest.py: LIMITED",
    ),
    _rule(
        "a server that is busy",
        "service_unavailable",
        f"{POST}: service_unavailable",
        ("chat.postMessage", {**TEAM, "text": "x", "$faults": ["busy"]}),
        status=503,
        adapter="channels/slack/rest.py: BUSY",
    ),
    _rule("empty text", "no_text", POST, ("chat.postMessage", {**TEAM, "text": ""})),
    _rule(
        "post length",
        "msg_too_long",
        f"{POST}: at most 40,000 characters; over 4,000 it is shown in parts (chainloop #272)",
        ("chat.postMessage", {**TEAM, "text": "x" * 40_001}),
        limit=40_000,
        adapter=f"{RENDER}: LONGEST_TEXT",
    ),
    _rule(
        "edit length",
        "msg_too_long",
        f"{DOCS}/methods/chat.update: 4,000 bytes after escaping (gitlab-org/gitlab !258898)",
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
        f"{DOCS}/block-kit/block-elements/checkboxes-element: at most 10 options",
        _act({"type": "checkboxes", "action_id": "a", "options": [OPTION] * 11}),
        limit=10,
        adapter=f"{RENDER}: render_card",
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
        "message to pin",
        "message_not_found",
        f"{DOCS}/methods/pins.add",
        ("pins.add", {**TEAM, "timestamp": "1.000001"}),
    ),
    _rule(
        "message that is pinned",
        "no_pin",
        f"{DOCS}/methods/pins.remove",
        ("pins.remove", {**TEAM, "timestamp": "$own"}),
        adapter="channels/slack/sending.py: Op.UNPIN",
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
        "number of prompts",
        "invalid_arguments",
        f"{DOCS}/methods/assistant.threads.setSuggestedPrompts: at most 4",
        (
            "assistant.threads.setSuggestedPrompts",
            {"channel_id": "$team", "thread_ts": "$own", "prompts": [{"title": "a", "message": "b"}] * 5},
        ),
        limit=4,
        adapter=f"{RENDER}: MOST_PROMPTS",
    ),
    _rule("known method", "unknown_method", f"{DOCS}/methods", ("chat.shout", TEAM)),
)
BY_NAME = index_rules(RULES)


def check_slash_commands(listed: Sequence[dict[str, Any]]) -> None:
    """`features.slash_commands` of a manifest, as docs.slack.dev/reference/app-manifest and the types of Slack's own
    @slack/web-api have it, read 2026-11-17: at most 50, with the slash at most 32 characters; a description of at most
    2,000 and a hint of at most 1,000."""
    assert len(listed) <= 50, "at most 50 slash commands"
    assert len({each["command"] for each in listed}) == len(listed), "a command is there twice"
    for each in listed:
        assert set(each) <= {"command", "description", "usage_hint", "should_escape", "url"}, each
        assert re.fullmatch(r"/[^\s/A-Z]{1,31}", each["command"]), each
        assert 1 <= len(each["description"]) <= 2000 and len(each.get("usage_hint") or "") <= 1000, each
