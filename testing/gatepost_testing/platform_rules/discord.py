"""Refusals of Discord: its code and words. For a form it names the field and what is wrong."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

DOCS = "https://docs.discord.com/developers"
CODES = f"{DOCS}/topics/opcodes-and-status-codes"
MESSAGE = f"{DOCS}/resources/message"
COMPONENTS = f"{DOCS}/components/reference"
COMMANDS = f"{DOCS}/interactions/application-commands"
FORM = "50035 Invalid Form Body"
RENDER = "channels/discord/render.py"
SEND = "POST /channels/$team/messages"
SET = "PUT /applications/$bot/commands"
COMMAND = {"name": "stop", "description": "Stop it."}


def _form(field: str, code: str, words: str) -> str:
    return f"{FORM}: {field}: {code}: {words}"


def _longer(field: str, limit: int) -> str:
    return _form(field, "BASE_TYPE_MAX_LENGTH", f"Must be {limit} or fewer in length.")


def _send(**body: Any) -> tuple[str, dict[str, Any]]:
    return SEND, {"json": {"content": "x", **body}}


def _embed(**embed: Any) -> tuple[str, dict[str, Any]]:
    return _send(embeds=[embed])


def _buttons(*buttons: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return _send(components=[{"type": 1, "components": list(buttons)}])


def _button(**more: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "label": "ok", "custom_id": "a", **more}


def _menu(**more: Any) -> dict[str, Any]:
    return {"type": 3, "custom_id": "a", "options": [{"label": "a", "value": "1"}], **more}


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    given = {"read_on": "2026-11-17", **more}
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **given)


RULES = (
    _rule(
        "token",
        "0 401: Unauthorized",
        f"{DOCS}/reference: Authorization is `Bot` and the token; a revoked one gets 401",
        ("GET /users/@me", {"headers": {"authorization": "Bot wrong"}}),
        status=401,
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "known channel",
        "10003 Unknown Channel",
        f"{CODES}#json",
        ("POST /channels/4242/messages", {"json": {"content": "x"}}),
        status=404,
    ),
    _rule(
        "known message",
        "10008 Unknown Message",
        f"{CODES}#json",
        ("PATCH /channels/$team/messages/4242", {"json": {"content": "x"}}),
        status=404,
        adapter="channels/discord/adapter.py: _remove",
    ),
    _rule(
        "id in a path",
        _form("channel_id", "NUMBER_TYPE_COERCE", 'Value "general" is not snowflake.'),
        f"{DOCS}/reference#snowflakes; the words by reports to discord.js",
        ("POST /channels/general/messages", {"json": {"content": "x"}}),
        adapter="channels/discord/wire.py: is_id",
        read_on="",
    ),
    _rule(
        "content length",
        _longer("content", 2000),
        f"{MESSAGE}#create-message: content, up to 2000 characters",
        _send(content="x" * 2001),
        limit=2000,
        adapter=f"{RENDER}: LONGEST_TEXT",
    ),
    _rule(
        "empty message",
        "50006 Cannot send an empty message",
        f"{CODES}#json; {MESSAGE}#create-message: one of content, embeds, stickers, components, files",
        _send(content=" \n"),
    ),
    _rule(
        "nonce length",
        _longer("nonce", 25),
        f"{MESSAGE}#create-message: nonce, up to 25 characters",
        _send(nonce="x" * 26),
        limit=25,
        adapter=f"{RENDER}: LONGEST_NONCE",
    ),
    _rule(
        "id of an answered message",
        _form("message_reference.message_id", "NUMBER_TYPE_COERCE", 'Value "that" is not snowflake.'),
        f"{MESSAGE}#message-reference-structure: message_id is a snowflake",
        _send(message_reference={"message_id": "that", "fail_if_not_exists": False}),
        adapter=f"{RENDER}: render_message",
        read_on="",
    ),
    _rule(
        "answered message",
        _form("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message"),
        f"{MESSAGE}#message-reference-structure: fail_if_not_exists, default true",
        _send(message_reference={"message_id": "4242"}),
        adapter=f"{RENDER}: fail_if_not_exists",
    ),
    _rule(
        "number of embeds",
        _longer("embeds", 10),
        f"{MESSAGE}#create-message: up to 10 embeds",
        _send(embeds=[{"title": "x"}] * 11),
        limit=10,
    ),
    _rule(
        "title length",
        _longer("embeds.0.title", 256),
        f"{MESSAGE}#embed-object-embed-limits",
        _embed(title="x" * 257),
        limit=256,
        adapter=f"{RENDER}: LONGEST_NAME",
    ),
    _rule(
        "description length",
        _longer("embeds.0.description", 4096),
        f"{MESSAGE}#embed-object-embed-limits",
        _embed(description="x" * 4097),
        limit=4096,
        adapter=f"{RENDER}: LONGEST_DESCRIPTION",
    ),
    _rule(
        "number of fields",
        _longer("embeds.0.fields", 25),
        f"{MESSAGE}#embed-object-embed-limits",
        _embed(fields=[{"name": "a", "value": "b"}] * 26),
        limit=25,
        adapter=f"{RENDER}: MOST_FIELDS",
    ),
    _rule(
        "field name length",
        _longer("embeds.0.fields.0.name", 256),
        f"{MESSAGE}#embed-object-embed-limits",
        _embed(fields=[{"name": "x" * 257, "value": "b"}]),
        limit=256,
        adapter=f"{RENDER}: LONGEST_NAME",
    ),
    _rule(
        "field value length",
        _longer("embeds.0.fields.0.value", 1024),
        f"{MESSAGE}#embed-object-embed-limits",
        _embed(fields=[{"name": "a", "value": "x" * 1025}]),
        limit=1024,
        adapter=f"{RENDER}: LONGEST_VALUE",
    ),
    _rule(
        "empty field",
        _form("embeds.0.fields.0.value", "BASE_TYPE_REQUIRED", "This field is required"),
        f"{MESSAGE}#embed-object-embed-field-structure: name and value are required",
        _embed(fields=[{"name": "a", "value": ""}]),
        adapter=f"{RENDER}: _compose_embed",
    ),
    _rule(
        "size of all embeds",
        _form("embeds", "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000"),
        f"{MESSAGE}#embed-object-embed-limits: 6,000 characters in all embeds of a message together",
        _send(embeds=[{"description": "x" * 3001}] * 2),
        limit=6000,
        adapter=f"{RENDER}: LONGEST_EMBED",
    ),
    _rule(
        "number of rows",
        _form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length."),
        f"{COMPONENTS}#legacy-message-component-behavior: up to 5 action rows",
        _send(
            components=[{"type": 1, "components": [_button(custom_id=str(each))]} for each in range(6)],
        ),
        limit=5,
        adapter=f"{RENDER}: render_buttons",
    ),
    _rule(
        "buttons in a row",
        _form("components.0.components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length."),
        f"{COMPONENTS}#action-row: up to 5 buttons",
        _buttons(*(_button(custom_id=str(each)) for each in range(6))),
        limit=5,
        adapter=f"{RENDER}: render_buttons",
    ),
    _rule(
        "label length",
        _longer("components.0.components.0.label", 80),
        f"{COMPONENTS}#button: label, max 80 characters",
        _buttons(_button(label="x" * 81)),
        limit=80,
        adapter=f"{RENDER}: render_buttons",
    ),
    _rule(
        "id of a component",
        _form("components.0.components.0.custom_id", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length."),
        f"{COMPONENTS}#anatomy-of-a-component: custom_id, 1-100 characters",
        _buttons(_button(custom_id="x" * 101)),
        limit=100,
    ),
    _rule(
        "one id for each component",
        _form(
            "components.0.components.1.custom_id",
            "COMPONENT_CUSTOM_ID_DUPLICATED",
            "Component custom id cannot be duplicated",
        ),
        f"{COMPONENTS}#anatomy-of-a-component: no two of a message share a custom_id",
        _buttons(_button(), _button()),
    ),
    _rule(
        "options of a menu",
        _form("components.0.components.0.options", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 25 in length."),
        f"{COMPONENTS}#string-select: options, max 25",
        _buttons(_menu(options=[{"label": "a", "value": str(each)} for each in range(26)])),
        limit=25,
        adapter=f"{RENDER}: render_buttons",
    ),
    _rule(
        "text of an option",
        _longer("components.0.components.0.options.0.label", 100),
        f"{COMPONENTS}#string-select: label, value and description, max 100 characters",
        _buttons(_menu(options=[{"label": "x" * 101, "value": "1"}])),
        limit=100,
        adapter=f"{RENDER}: render_buttons",
    ),
    _rule(
        "number of files",
        "30015 Maximum number of attachments in a message reached (10)",
        f"{CODES}#json",
        (SEND, {"files": [(f"files[{each}]", ("a.txt", b"x")) for each in range(11)]}),
        limit=10,
        adapter="channels/kit/uploads.py: split_files",
    ),
    _rule(
        "file size",
        "40005 Request entity too large",
        f"{DOCS}/reference#uploading-files: 10 MiB for each file",
        (SEND, {"large": 10 * 1024 * 1024 + 1}),
        status=413,
        limit=10 * 1024 * 1024,
        adapter="channels/discord/__init__.py: LARGEST_FILE",
    ),
    _rule(
        "size of a request",
        "40005 Request entity too large",
        f"{MESSAGE}#create-message: 25 MiB for a request",
        (SEND, {"files": [(f"files[{each}]", ("a.bin", bytes(9 * 1024 * 1024))) for each in range(3)]}),
        status=413,
        limit=25 * 1024 * 1024,
        adapter="channels/kit/uploads.py: split_files",
    ),
    _rule(
        "file of a voice message",
        "50160 Voice messages must have a single audio attachment.",
        f"{CODES}#json; {MESSAGE}#voice-messages: one attachment, no content",
        _send(content="", flags=1 << 13),
        adapter=f"{RENDER}: render_message",
    ),
    _rule(
        "words beside a voice message",
        "50159 Voice messages do not support additional content.",
        f"{CODES}#json; {MESSAGE}#voice-messages: no content",
        (SEND, {"data": {"payload_json": '{"flags": 8192, "content": "x"}'}, "large": 9}),
        adapter=f"{RENDER}: render_message",
    ),
    _rule(
        "edits of a voice message",
        "50162 Voice messages cannot be edited.",
        f"{CODES}#json; {MESSAGE}#voice-messages",
        ("PATCH /channels/$team/messages/$voice", {"json": {"content": "x"}}),
    ),
    _rule(
        "data of a voice message",
        "50161 Voice messages must have supporting metadata.",
        f"{CODES}#json; {MESSAGE}#attachment-object: duration_secs and waveform",
        (SEND, {"data": {"payload_json": '{"flags": 8192, "attachments": [{"id": 0}]}'}, "large": 9}),
        adapter=f"{RENDER}: FLAT_WAVE",
    ),
    _rule(
        "edits of others",
        "50005 Cannot edit a message authored by another user",
        f"{CODES}#json",
        ("PATCH /channels/$team/messages/$theirs", {"json": {"content": "x"}}),
        status=403,
    ),
    _rule(
        "empty edit",
        "50006 Cannot send an empty message",
        f"{CODES}#json",
        ("PATCH /channels/$team/messages/$own", {"json": {"content": ""}}),
    ),
    _rule(
        "known emoji",
        "10014 Unknown Emoji",
        f"{MESSAGE}#create-reaction: an emoji, or name:id",
        ("PUT /channels/$team/messages/$own/reactions/thumbsup/@me", {}),
        adapter="channels/discord/adapter.py: _react",
    ),
    _rule(
        "spelling of an emoji",
        "10014 Unknown Emoji",
        "https://github.com/discord/discord-api-docs/issues/864: its own table of spellings, with or without U+FE0F",
        ("PUT /channels/$team/messages/$own/reactions/✔\ufe0f/@me", {}),
        adapter="channels/discord/adapter.py: _react",
    ),
    _rule(
        "number of messages to read",
        _form("limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100."),
        f"{MESSAGE}#get-channel-messages: limit, 1-100",
        ("GET /channels/$team/messages", {"params": {"limit": "101"}}),
        limit=100,
        adapter="channels/discord/adapter.py: PAGE",
    ),
    _rule(
        "person to write to",
        "50033 Invalid Recipient(s)",
        f"{CODES}#json",
        ("POST /users/@me/channels", {"json": {"recipient_id": "4242"}}),
    ),
    _rule(
        "right to write",
        "50013 Missing Permissions",
        f"{CODES}#json: you lack permissions to perform that action",
        (SEND, {"json": {"content": "x"}, "$faults": ["forbidden"]}),
        status=403,
    ),
    _rule(
        "rate limit",
        "0 You are being rate limited.",
        f"{DOCS}/topics/rate-limits: Retry-After, and retry_after in the body",
        (SEND, {"json": {"content": "x"}, "$faults": ["rate_limit"]}),
        status=429,
        adapter="channels/discord/rest.py: read_retry_after",
    ),
    _rule(
        "known file",
        "This content is no longer available.",
        f"{DOCS}/reference#signed-attachment-cdn-urls: in plain text",
        ("GET $cdn/1/none.txt", {}),
        status=404,
        read_on="",
    ),
    _rule(
        "service away",
        "0 503: Service Unavailable",
        f"{CODES}#http: wait a bit and retry; it names 502 and 5xx",
        (SEND, {"json": {"content": "x"}, "$faults": ["busy"]}),
        status=503,
        adapter="channels/kit/http.py: Unavailable",
        read_on="",
    ),
    _rule(
        "right to the application",
        "20012 You are not authorized to perform this action on this application",
        f"{CODES}#json",
        ("PUT /applications/4242/commands", {"json": [COMMAND]}),
        status=403,
        adapter="channels/discord/adapter.py: _set_commands",
    ),
    _rule(
        "scope of commands",
        "50001 Missing Access",
        f"{CODES}#json",
        (SET, {"json": [COMMAND], "$faults": ["no_rights"]}),
        status=403,
    ),
    _rule(
        "number of commands",
        "30032 Maximum number of application commands reached (100)",
        f"{CODES}#json; {COMMANDS}#registering-a-command",
        (SET, {"json": [{**COMMAND, "name": f"stop{each}"} for each in range(101)]}),
        limit=100,
        adapter="channels/discord/adapter.py: COMMAND_RULES",
    ),
    _rule(
        "one name for each command",
        _form("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique"),
        f"{COMMANDS}#registering-a-command: names are unique for a type and scope",
        (SET, {"json": [COMMAND, COMMAND]}),
        adapter="channels/kit/native_commands.py: fit_commands",
    ),
    _rule(
        "name of a command",
        _form("0.name", "STRING_TYPE_REGEX", "String value did not match validation regex."),
        f"{COMMANDS}#application-command-object-application-command-naming: 1-32 letters, digits, - _ ', lower case",
        (SET, {"json": [{**COMMAND, "name": "Stop It"}]}),
        limit=32,
        adapter="channels/discord/adapter.py: COMMAND_RULES",
    ),
    _rule(
        "description of a command",
        _form("0.description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length."),
        f"{COMMANDS}#application-command-object: description, 1-100 characters",
        (SET, {"json": [{**COMMAND, "description": "x" * 101}]}),
        limit=100,
        adapter="channels/discord/adapter.py: COMMAND_RULES",
    ),
    _rule(
        "options of a command",
        _longer("0.options", 25),
        f"{COMMANDS}#application-command-object: options, max 25",
        (SET, {"json": [{**COMMAND, "options": [{**COMMAND, "name": f"o{each}"} for each in range(26)]}]}),
        limit=25,
    ),
    _rule(
        "one answer to an interaction",
        "40060 Interaction has already been acknowledged.",
        f"{CODES}#json",
        ("POST /interactions/$answered/click-token/callback", {"json": {"type": 4}}),
    ),
    _rule(
        "interaction in time",
        "10062 Unknown interaction",
        f"{DOCS}/interactions/receiving-and-responding: a first answer within 3 seconds",
        ("POST /interactions/$late/click-token/callback", {"json": {"type": 4}}),
        status=404,
        limit=3,
        adapter="channels/discord/adapter.py: ANSWER_S",
    ),
    _rule(
        "kind of an answer",
        _form("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 5}."),
        f"{DOCS}/interactions/receiving-and-responding: a command is answered by a message, or the promise of one",
        ("POST /interactions/$command/click-token/callback", {"json": {"type": 6}}),
        adapter=f"{RENDER}: render_receipt",
    ),
)
BY_NAME = index_rules(RULES)
