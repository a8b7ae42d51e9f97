"""Refusals of signal-cli's daemon: the code of each error of JSON-RPC, then its words. It answers 200 all the same."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules, make_rule

CLI = "https://github.com/AsamK/signal-cli/blob/master/src/main/java/org/asamk/signal"
SEND = f"{CLI}/commands/SendCommand.java"
RESULTS = f"{CLI}/util/SendMessageResultUtils.java: outputResult"
EXPLAIN = "channels/signal/rpc.py: explain"
UNKNOWN_PERSON = "00000000-0000-0000-0000-000000000404"
UNKNOWN_GROUP = "A" * 43 + "="
READ_ON = "2026-11-17"  # the day on which these were compared


def _rule(name: str, refusal: str, source: str, method: str, status: int = 200, **more: Any) -> PlatformRule:
    return make_rule(name, status, refusal, source, method, read_on=READ_ON, **more)


def _make_message(**fields: Any) -> dict[str, Any]:
    return {"groupId": "$team", "message": "x", **fields}


RULES = (
    _rule(
        "known account",
        "-32602: Specified account does not exist",
        f"{CLI}/jsonrpc/SignalJsonRpcCommandHandler.java",
        "listDevices",
        given={"account": "+4900000000"},
        adapter="channels/signal/rpc.py: LOST_ACCOUNT",
    ),
    _rule(
        "account that Signal knows",
        "-32603: Failed to send message: [403] Authorization failed! (AuthorizationFailedException)"
        " (UnexpectedErrorException)",
        f"{SEND}; SignalJsonRpcCommandHandler.java: an unexpected error is -32603, with the name of its class",
        "send",
        given={"$faults": ["unauthorized"], **_make_message()},
        adapter="channels/signal/rpc.py: LOST_ACCOUNT",
    ),
    _rule(
        "link to Signal's servers",
        "-32603: Failed to send message: Connection reset (IOException) (UnexpectedErrorException)",
        f"{SEND}: an IOException is an unexpected error",
        "send",
        given={"$faults": ["busy"], **_make_message()},
        adapter=EXPLAIN,
    ),
    _rule(
        "pace",
        "-5: Failed to send message due to rate limiting",
        f"{RESULTS}; the wait is in `retryAfterSeconds` of the results",
        "send",
        given={"$faults": ["rate_limit"], **_make_message()},
        adapter="channels/signal/rpc.py: find_wait",
    ),
    _rule(
        "known method",
        "-32601: Method not implemented",
        f"{CLI}/jsonrpc/SignalJsonRpcCommandHandler.java",
        "shout",
    ),
    _rule(
        "some recipient",
        "-1: No recipients given",
        f"{CLI}/util/CommandUtil.java: getRecipientIdentifiers",
        "send",
        given={"message": "x"},
        adapter="channels/signal/wire.py: render_room",
    ),
    _rule(
        "registered person",
        f"-1: The user {UNKNOWN_PERSON} is not registered.",
        f"{SEND}: UnregisteredRecipientException; one person's account, not the bot's",
        "send",
        given={"recipient": [UNKNOWN_PERSON], "message": "x"},
        adapter=EXPLAIN,
    ),
    _rule(
        "known group",
        f"-1: Group not found: {UNKNOWN_GROUP}",
        "https://github.com/AsamK/signal-cli, GroupNotFoundException",
        "send",
        given=_make_message(groupId=UNKNOWN_GROUP),
        adapter=EXPLAIN,
    ),
    _rule(
        "member of a group",
        "-1: User is not a member in group: team ($team)",
        "https://github.com/AsamK/signal-cli, NotAGroupMemberException",
        "send",
        given={"$faults": ["forbidden"], **_make_message()},
        adapter=EXPLAIN,
    ),
    _rule(
        "trusted keys",
        "-4: Failed to send message due to untrusted identities",
        RESULTS,
        "send",
        given={"$faults": ["no_rights"], **_make_message()},
        adapter=EXPLAIN,
    ),
    _rule(
        "form of a style",
        "-1: Invalid textStyle syntax (loud) expected 'start:length:STYLE'",
        f"{SEND}: parseTextStyles",
        "send",
        given=_make_message(textStyle=["loud"]),
        adapter="messages/markdown/markup.py: render_styles",
    ),
    _rule(
        "known style",
        "-1: Invalid style: LOUD",
        f"{SEND}: parseTextStyles",
        "send",
        given=_make_message(textStyle=["0:1:LOUD"]),
        adapter="messages/markdown/markup.py: render_styles",
    ),
    _rule(
        "author of a quote",
        "-1: Quote author parameter is missing",
        SEND,
        "send",
        given=_make_message(quoteTimestamp=1),
        adapter="channels/signal/wire.py: render_send",
    ),
    _rule(
        "known file",
        "-1: Could not find attachment with ID: none",
        f"{CLI}/commands/GetAttachmentCommand.java",
        "getAttachment",
        given={"id": "none"},
    ),
    _rule(
        "known events",
        "",
        f"{CLI}/http/HttpServerHandler.java: 400 for an account that the daemon does not have",
        "GET events?account=%2B4900000000",
        400,
        adapter="channels/signal/rpc.py: list_events",
    ),
    _rule(
        "kind of a body",
        "",
        f"{CLI}/http/HttpServerHandler.java: 415 for what is not application/json",
        "POST rpc",
        415,
        adapter="channels/signal/rpc.py: call_raw",
    ),
)
BY_NAME = index_rules(RULES)
