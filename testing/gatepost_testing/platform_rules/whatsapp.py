"""Refusals of WhatsApp's Cloud API: Meta's code and title. `error_data.details` says more, in words that change.

Meta's pages have limits and codes, and seldom the words. A code that its list of errors has was compared with that
list in github.com/david-lev/pywa (errors.py of 2026-08), the statuses with the copy that developers.aivo.co keeps.
"""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

DOCS = "https://developers.facebook.com/documentation/business-messaging/whatsapp"
CODES = f"{DOCS}/support/error-codes"
MESSAGES = f"{DOCS}/messages"
REPORTS = "https://github.com/fbsamples/whatsapp-api-examples/issues/10"
SDK = "https://github.com/WhatsApp/WhatsApp-Nodejs-SDK/tree/main/website/docs/api-reference/types"
LIST = f"{MESSAGES}/interactive-list-messages"
NOT_THERE = "does not exist, cannot be loaded due to missing permissions, or does not support this operation"
TODAY = "2026-11-18"
WIRE = "channels/whatsapp/wire.py"
SEND, UPLOAD = "POST /$number/messages", "POST /$number/media"
TAKEN = (
    "audio/aac",
    "audio/mp4",
    "audio/mpeg",
    "audio/amr",
    "audio/ogg",
    "audio/opus",
    "application/vnd.ms-powerpoint",
    "application/msword",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/pdf",
    "text/plain",
    "application/vnd.ms-excel",
    "image/jpeg",
    "image/png",
    "image/webp",
    "video/mp4",
    "video/3gpp",
)
INVALID = "131009 (#131009) Parameter value is not valid"
MEBIBYTE = 1024 * 1024


def _send(kind: str, content: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
    return SEND, {"json": {"messaging_product": "whatsapp", "to": "$ann", "type": kind, kind: content, **more}}


def _length(limit: int) -> str:
    return f"100 (#100) Length must be between 1 and {limit}"


def _buttons(count: int = 1, body: str = "x", **more: Any) -> tuple[str, dict[str, Any]]:
    made = [{"type": "reply", "reply": {"id": str(at), "title": f"b{at}", **more}} for at in range(count)]
    return _send("interactive", {"type": "button", "body": {"text": body}, "action": {"buttons": made}})


def _rows(count: int = 1, body: str = "x", **more: Any) -> tuple[str, dict[str, Any]]:
    made = [{"id": str(at), "title": "row", **more} for at in range(count)]
    action = {"button": "Choose", "sections": [{"title": "Choose", "rows": made}]}
    return _send("interactive", {"type": "list", "body": {"text": body}, "action": action})


def _template(words: str) -> tuple[str, dict[str, Any]]:
    body = {"type": "body", "parameters": [{"type": "text", "text": words}]}
    return _send("template", {"name": "news", "language": {"code": "en"}, "components": [body]})


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **{"read_on": TODAY, **more})


RULES = (
    _rule(
        "token",
        "190 Error validating access token: the session has been invalidated.",
        f"{CODES}#authorization-errors",
        ("GET /$number", {"headers": {"authorization": "Bearer wrong"}}),
        status=401,
        adapter="channels/whatsapp/adapter.py: BAD_TOKEN",
    ),
    _rule(
        "right to the number",
        f"100 Unsupported get request. Object with ID '$number' {NOT_THERE}",
        "https://github.com/voiceflow-community/example-integration-whatsapp/issues/5: the answer of the API",
        ("GET /$number", {"$faults": ["no_rights"]}),
        adapter="channels/whatsapp/number_state.py: explain_refusal",
        read_on="",
    ),
    _rule(
        "number that is there",
        "33 (#33) Parameter value is not valid",
        f"{CODES}#other-errors: the number was deleted",
        ("GET /$number", {"$set": {"deleted": True}}),
        adapter="channels/whatsapp/number_state.py: explain_refusal",
        read_on="",
    ),
    _rule(
        "capability of the app",
        "3 (#3) Application does not have the capability to make this API call",
        f"{CODES}#authorization-errors: 500, though it is no outage",
        (SEND, {**_send("text", {"body": "x"})[1], "$set": {"capable": False}}),
        status=500,
        adapter="channels/whatsapp/number_state.py: NO_RIGHT",
    ),
    _rule(
        "right to send",
        "10 (#10) Application does not have permission for this action",
        f"{CODES}#authorization-errors",
        (SEND, {**_send("text", {"body": "x"})[1], "$faults": ["forbidden"]}),
        status=403,
        adapter="channels/whatsapp/number_state.py: NO_RIGHT",
    ),
    _rule(
        "rate of one chat",
        "131056 (#131056) (Business Account, Consumer Account) pair rate limit hit",
        f"{CODES}#throttling-errors: too many to the same person; docs.ycloud.com has the words and the status",
        (SEND, {**_send("text", {"body": "x"})[1], "$faults": ["rate_limit"]}),
        status=429,
        adapter="channels/whatsapp/adapter.py: ONE_ROOM",
    ),
    _rule(
        "service away",
        "131016 (#131016) Service unavailable",
        f"{CODES}#other-errors: for a while; the status was not found",
        (SEND, {**_send("text", {"body": "x"})[1], "$faults": ["busy"]}),
        status=503,
        adapter="channels/whatsapp/adapter.py: BUSY",
    ),
    _rule(
        "name of the product",
        "100 (#100) The parameter messaging_product is required.",
        f"{MESSAGES}/text-messages: messaging_product, always whatsapp",
        _send("text", {"body": "x"}, messaging_product=""),
        adapter=f"{WIRE}: render_message",
        read_on="",
    ),
    _rule(
        "known person",
        "131026 (#131026) Message undeliverable",
        f"{CODES}: the recipient is no number of WhatsApp, among other reasons",
        _send("text", {"body": "x"}, to="123456789"),
        adapter=f"{WIRE}: parse_recipient",
    ),
    _rule(
        "text length",
        _length(4096),
        f"{MESSAGES}/text-messages: body, 4096 characters; without the words of a refusal",
        _send("text", {"body": "x" * 4097}),
        limit=4096,
        adapter="channels/whatsapp/__init__.py: max_text",
    ),
    _rule(
        "empty text",
        _length(4096),
        f"{MESSAGES}/text-messages: body is required",
        _send("text", {"body": ""}),
    ),
    _rule(
        "kind of a message",
        "100 (#100) Param type must be one of the known types, got poll",
        f"{MESSAGES}: type",
        _send("poll", {"body": "x"}),
        read_on="",
    ),
    _rule(
        "24 hours",
        "131047 (#131047) Re-engagement message",
        f"{CODES}: more than 24 hours since the person's last message",
        _send("text", {"body": "x"}, to="$bea"),
        adapter="channels/whatsapp/adapter.py: _post_template",
    ),
    _rule(
        "24 hours later",
        "131047 Re-engagement message",
        f"{CODES}: errors come in the answer, or later in a status",
        _send("text", {"body": "x"}, to="$cid"),
        status=200,
        adapter="channels/whatsapp/adapter.py: _record_statuses",
    ),
    _rule(
        "words of a group",
        f"{INVALID}: groups take text and media",
        f"{DOCS}/groups/groups-messaging: text, media and templates; without the words of a refusal",
        _send("reaction", {"message_id": "$theirs", "emoji": "👍"}, to="$group", recipient_type="group"),
        adapter=f"{WIRE}: explain_reaction",
    ),
    _rule(
        "answered message",
        f"{INVALID}: context",
        f"{MESSAGES}/contextual-replies says only that one that was deleted is not quoted",
        _send("text", {"body": "x"}, context={"message_id": "wamid.none"}),
        read_on="",
    ),
    _rule(
        "message to react to",
        "131009 Parameter value is not valid",
        f"{MESSAGES}/reaction-messages: it is taken, not delivered, and reported with the code 131009",
        _send("reaction", {"message_id": "wamid.none", "emoji": "👍"}),
        status=200,
        adapter="channels/whatsapp/adapter.py: _record_statuses",
    ),
    _rule(
        "reaction as an answer",
        f"{INVALID}: context of a reaction",
        f"{MESSAGES}/contextual-replies: a reaction cannot be one; without the words of a refusal",
        _send("reaction", {"message_id": "$theirs", "emoji": "👍"}, context={"message_id": "$theirs"}),
        adapter=f"{WIRE}: render_message",
    ),
    _rule(
        "message that was read",
        INVALID,
        f"{MESSAGES}/mark-message-as-read: an invalid id gets 131009",
        (SEND, {"json": {"messaging_product": "whatsapp", "status": "read", "message_id": "wamid.none"}}),
        adapter="channels/whatsapp/adapter.py: mark_read",
    ),
    _rule(
        "length of own data",
        f"{INVALID}: biz_opaque_callback_data",
        "https://developers.facebook.com/docs/whatsapp/business-platform/changelog: from 256 to 512 characters",
        _send("text", {"body": "x"}, biz_opaque_callback_data="x" * 513),
        limit=512,
        adapter=f"{WIRE}: LONGEST_CALLBACK",
    ),
    _rule(
        "known file of a message",
        "131053 (#131053) Media upload error",
        f"{CODES}: unable to upload the media used in the message",
        _send("image", {"id": "1"}),
    ),
    _rule(
        "size of a picture",
        "131053 (#131053) Media upload error: size",
        f"{MESSAGES}/image-messages: at most 5 MB, in the copy of support.chatarchitect.com",
        _send("image", {"id": "$picture"}),
        limit=5 * MEBIBYTE,
        adapter=f"{WIRE}: LARGEST_IMAGE",
        read_on="",
    ),
    _rule(
        "words below a sound",
        "100 (#100) Unexpected key caption",
        f"{SDK}/AudioMediaObject.md: an id or a link only; without the words of a refusal",
        _send("audio", {"id": "1", "caption": "x"}),
        adapter=f"{WIRE}: has_caption",
    ),
    _rule(
        "caption length",
        _length(1024),
        f"{MESSAGES}/image-messages: caption, 1024 characters",
        _send("image", {"id": "$picture", "caption": "x" * 1025}),
        limit=1024,
        adapter=f"{WIRE}: LONGEST_CAPTION",
    ),
    _rule(
        "parts of an upload",
        "100 (#100) The parameters messaging_product, type and file are required.",
        f"{DOCS}/business-phone-numbers/media#upload-media: all three are required; without the words",
        (UPLOAD, {"data": {"type": "text/plain"}, "large": 1}),
        adapter="channels/whatsapp/adapter.py: _upload",
    ),
    _rule(
        "type of a file",
        f"100 (#100) Param file must be a file with one of the following types: {', '.join(TAKEN)}.",
        f"{REPORTS}: the answer of the API, which lists them",
        (UPLOAD, {"data": {"messaging_product": "whatsapp", "type": "application/zip"}, "large": 1}),
        read_on="2026-11-17",
        adapter=f"{WIRE}: find_media_kind",
    ),
    _rule(
        "known file",
        f"100 Unsupported get request. Object with ID '4242' {NOT_THERE}",
        "https://github.com/netflie/whatsapp-cloud-api/issues/42: the answer of the API on an unknown object",
        ("GET /4242", {}),
        adapter="channels/whatsapp/adapter.py: _open_media",
        read_on="",
    ),
    _rule(
        "number of buttons",
        f"{INVALID}: buttons",
        f"{MESSAGES}/interactive-reply-buttons-messages: at most 3",
        _buttons(4),
        limit=3,
        adapter=f"{WIRE}: MOST_BUTTONS",
    ),
    _rule(
        "button length",
        f"{INVALID}: title",
        f"{SDK}/ButtonObject.md: title, 20 characters",
        _buttons(title="x" * 21),
        limit=20,
        adapter=f"{WIRE}: LONGEST_BUTTON",
    ),
    _rule(
        "id of a button",
        f"{INVALID}: id of a button",
        f"{SDK}/ButtonObject.md: id, 256 characters",
        _buttons(id="x" * 257),
        limit=256,
        adapter=f"{WIRE}: render_card, by ids of cards",
    ),
    _rule(
        "one title for each button",
        f"{INVALID}: not unique",
        f"{SDK}/ButtonObject.md: titles are unique in a message",
        _buttons(2, title="same"),
        adapter=f"{WIRE}: render_card",
    ),
    _rule(
        "words of buttons",
        _length(1024),
        f"{SDK}/InteractiveObject.md: body, 1024 characters",
        _buttons(body="x" * 1025),
        limit=1024,
        adapter=f"{WIRE}: LONGEST_BUTTONS_BODY",
    ),
    _rule(
        "number of rows",
        f"{INVALID}: rows",
        f"{LIST}: at most 10 in all sections",
        _rows(11),
        limit=10,
        adapter=f"{WIRE}: MOST_ROWS",
    ),
    _rule(
        "row length",
        f"{INVALID}: title of a row",
        f"{LIST}: title, 24 characters",
        _rows(title="x" * 25),
        limit=24,
        adapter=f"{WIRE}: LONGEST_ROW",
    ),
    _rule(
        "description of a row",
        f"{INVALID}: description of a row",
        f"{LIST}: description, 72 characters",
        _rows(description="x" * 73),
        limit=72,
        adapter=f"{WIRE}: LONGEST_ABOUT",
    ),
    _rule(
        "id of a row",
        f"{INVALID}: id of a row",
        f"{LIST}: id, 200 characters",
        _rows(id="x" * 201),
        limit=200,
    ),
    _rule(
        "one id for each row",
        f"{INVALID}: not unique",
        f"{SDK}/RowObject.md: ids are unique",
        _rows(2, id="same"),
    ),
    _rule(
        "words of a list",
        _length(4096),
        f"{LIST}: body, 4096 characters",
        _rows(body="x" * 4097),
        limit=4096,
        adapter=f"{WIRE}: LONGEST_LIST_BODY",
    ),
    _rule(
        "line breaks in a template",
        "132018 (#132018) There is an issue with the parameters in your template",
        "https://github.com/netflie/whatsapp-cloud-api/issues/201: no new lines, tabs, over four spaces; not its code",
        _template("one\ntwo"),
        adapter=f"{WIRE}: render_template",
        read_on="",
    ),
    _rule(
        "words of a template",
        _length(1024),
        f"{DOCS}/templates: body, 1024 characters",
        _template("x" * 1025),
        limit=1024,
        adapter=f"{WIRE}: render_template",
        read_on="",
    ),
)
BY_NAME = index_rules(RULES)
