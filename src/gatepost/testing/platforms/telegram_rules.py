"""What Telegram refuses, and how it says so."""

from gatepost.testing.platforms.rules import PlatformRule, index_rules

API = "https://core.telegram.org/bots/api"
SERVER = "https://github.com/tdlib/telegram-bot-api, Client.cpp"  # the words of its errors
TEAM = {"chat_id": "$team"}

RULES = (
    PlatformRule(
        name="text length",
        source=f"{API}#sendmessage: text, 1-4096 characters after entities parsing",
        refusal="Bad Request: message is too long",
        limit=4096,
        call=("sendMessage", {**TEAM, "text": "x" * 4097}),
        adapter="channels/telegram/render.py: LONGEST_TEXT",
    ),
    PlatformRule(
        name="caption length",
        source=f"{API}#senddocument: caption, 0-1024 characters after entities parsing",
        refusal="Bad Request: message caption is too long",
        limit=1024,
        call=("sendDocument", {**TEAM, "document": "$file", "caption": "x" * 1025}),
        adapter="channels/telegram/render.py: LONGEST_CAPTION",
    ),
    PlatformRule(
        name="empty text",
        source=f"{API}#sendmessage: text, 1-4096 characters",
        refusal="Bad Request: message text is empty",
        call=("sendMessage", {**TEAM, "text": " \n"}),
    ),
    PlatformRule(
        name="parse mode",
        source=f"{API}#formatting-options; {SERVER}",
        refusal="Bad Request: unsupported parse_mode",
        call=("sendMessage", {**TEAM, "text": "x", "parse_mode": "Wiki"}),
        adapter="channels/telegram/sending.py: parse_mode HTML",
    ),
    PlatformRule(
        name="entities of HTML",
        source=f"{API}#html-style; {SERVER}",
        refusal="Bad Request: can't parse entities: can't find end tag corresponding to start tag b",
        call=("sendMessage", {**TEAM, "text": "<b>x", "parse_mode": "HTML"}),
        adapter="channels/telegram/sending.py: _call_with_words",
    ),
    PlatformRule(
        name="place of an entity",
        source=f"{API}#messageentity; {SERVER}",
        refusal="Bad Request: entity beginning at UTF-16 offset 0 ends after the end of the text at UTF-16 offset 9",
        call=("sendMessage", {**TEAM, "text": "x", "entities": [{"type": "bold", "offset": 0, "length": 9}]}),
    ),
    PlatformRule(
        name="kind of an entity",
        source=f"{API}#messageentity; {SERVER}",
        refusal="Bad Request: can't parse MessageEntity: unsupported type specified",
        call=("sendMessage", {**TEAM, "text": "x", "entities": [{"type": "loud", "offset": 0, "length": 1}]}),
    ),
    PlatformRule(
        name="known chat",
        source=f"{API}#sendmessage: chat_id; {SERVER}",
        refusal="Bad Request: chat not found",
        call=("sendMessage", {"chat_id": 4242, "text": "x"}),
        adapter="channels/telegram/wire.py: parse_room",
    ),
    PlatformRule(
        name="named chat",
        source=f"{API}#sendmessage: chat_id; {SERVER}",
        refusal="Bad Request: chat_id is empty",
        call=("sendMessage", {"text": "x"}),
    ),
    PlatformRule(
        name="file in the request",
        source=f"{API}#senddocument; {SERVER}",
        refusal="Bad Request: there is no document in the request",
        call=("sendDocument", TEAM),
    ),
    PlatformRule(
        name="known file of a message",
        source=f"{API}#sending-files; {SERVER}",
        refusal="Bad Request: wrong file identifier/HTTP URL specified",
        call=("sendDocument", {**TEAM, "document": "no-such-file"}),
    ),
    PlatformRule(
        name="known file",
        source=f"{API}#getfile; {SERVER}",
        refusal="Bad Request: invalid file_id",
        call=("getFile", {"file_id": "no-such-file"}),
    ),
    PlatformRule(
        name="size of an album",
        source=f"{API}#sendmediagroup: media, 2-10 items; https://github.com/tdlib/td, MessagesManager.cpp",
        refusal="Bad Request: too many messages to send as an album",
        limit=10,
        call=("sendMediaGroup", {**TEAM, "media": [{"type": "document", "media": "attach://file"}] * 11}),
        adapter="channels/telegram/render.py: split_groups",
    ),
    PlatformRule(
        name="data of a button",
        source=f"{API}#inlinekeyboardbutton: callback_data, 1-64 bytes",
        refusal="Bad Request: BUTTON_DATA_INVALID",
        limit=64,
        call=(
            "sendMessage",
            {
                **TEAM,
                "text": "x",
                "reply_markup": {"inline_keyboard": [[{"text": "a", "callback_data": "x" * 65}]]},
            },
        ),
        adapter="channels/telegram/render.py: LONGEST_DATA",
    ),
    PlatformRule(
        name="text of a button",
        source=f"{API}#inlinekeyboardbutton: text; {SERVER}",
        refusal="Bad Request: text buttons are unallowed in the inline keyboard",
        call=("sendMessage", {**TEAM, "text": "x", "reply_markup": {"inline_keyboard": [[{"text": "a"}]]}}),
    ),
    PlatformRule(
        name="answered message",
        source=f"{API}#replyparameters; {SERVER}",
        refusal="Bad Request: message to be replied not found",
        call=("sendMessage", {**TEAM, "text": "x", "reply_parameters": {"message_id": 4242}}),
        adapter="channels/telegram/sending.py: allow_sending_without_reply",
    ),
    PlatformRule(
        name="known topic",
        source=f"{API}#sendmessage: message_thread_id; {SERVER}",
        refusal="Bad Request: message thread not found",
        call=("sendMessage", {**TEAM, "text": "x", "message_thread_id": 4242}),
    ),
    PlatformRule(
        name="message to edit",
        source=f"{API}#editmessagetext; {SERVER}",
        refusal="Bad Request: message to edit not found",
        call=("editMessageText", {**TEAM, "message_id": 4242, "text": "x"}),
    ),
    PlatformRule(
        name="edits of others",
        source=f"{API}#editmessagetext; {SERVER}",
        refusal="Bad Request: message can't be edited",
        call=("editMessageText", {**TEAM, "message_id": "$theirs", "text": "x"}),
    ),
    PlatformRule(
        name="an edit that changes nothing",
        source=f"{API}#editmessagetext; {SERVER}",
        refusal="Bad Request: message is not modified: specified new message content and reply markup are exactly "
        "the same as a current content and reply markup of the message",
        call=("editMessageText", {**TEAM, "message_id": "$own", "text": "own words"}),
        adapter="channels/telegram/sending.py: NOT_MODIFIED",
    ),
    PlatformRule(
        name="message to delete",
        source=f"{API}#deletemessage; {SERVER}",
        refusal="Bad Request: message to delete not found",
        call=("deleteMessage", {**TEAM, "message_id": 4242}),
        adapter="channels/telegram/sending.py: GONE",
    ),
    PlatformRule(
        name="named message",
        source=f"{API}#deletemessage; {SERVER}",
        refusal="Bad Request: message identifier is not specified",
        call=("deleteMessage", TEAM),
        adapter="channels/telegram/sending.py: GONE",
    ),
    PlatformRule(
        name="message to forward",
        source=f"{API}#forwardmessage; {SERVER}",
        refusal="Bad Request: message to forward not found",
        call=("forwardMessage", {**TEAM, "from_chat_id": "$team", "message_id": 4242}),
    ),
    PlatformRule(
        name="message to pin",
        source=f"{API}#pinchatmessage; {SERVER}",
        refusal="Bad Request: message to pin not found",
        call=("pinChatMessage", {**TEAM, "message_id": 4242}),
    ),
    PlatformRule(
        name="emoji of a reaction",
        source=f"{API}#reactiontypeemoji: one of its list, in which no emoji has U+FE0F",
        read_on="2026-11-17",
        refusal="Bad Request: REACTION_INVALID",
        call=("setMessageReaction", {**TEAM, "message_id": "$own", "reaction": [{"type": "emoji", "emoji": "❤️‍🔥"}]}),
        adapter="channels/telegram/reactions.py",
    ),
    PlatformRule(
        name="message to react to",
        source=f"{API}#setmessagereaction; {SERVER}",
        refusal="Bad Request: message to react not found",
        call=("setMessageReaction", {**TEAM, "message_id": 4242, "reaction": [{"type": "emoji", "emoji": "👍"}]}),
    ),
    PlatformRule(
        name="kind of an action",
        source=f"{API}#sendchataction; {SERVER}",
        refusal="Bad Request: wrong parameter action in request",
        call=("sendChatAction", {**TEAM, "action": "dancing"}),
    ),
    PlatformRule(
        name="known click",
        source=f"{API}#answercallbackquery; {SERVER}",
        refusal="Bad Request: query is too old and response timeout expired or query ID is invalid",
        call=("answerCallbackQuery", {"callback_query_id": "4242"}),
    ),
    PlatformRule(
        name="name of a command",
        source=f"{API}#botcommand: 1-32 characters, lowercase English letters, digits and underscores; {SERVER}",
        refusal="Bad Request: BOT_COMMAND_INVALID",
        call=("setMyCommands", {"commands": [{"command": "remote-control", "description": "x"}]}),
        limit=32,
        adapter="channels/telegram/adapter.py: COMMAND_RULES",
    ),
    PlatformRule(
        name="description of a command",
        source=f"{API}#botcommand: 1-256 characters; {SERVER}",
        refusal="Bad Request: BOT_COMMAND_DESCRIPTION_INVALID",
        call=("setMyCommands", {"commands": [{"command": "help", "description": "x" * 257}]}),
        limit=256,
        adapter="channels/telegram/adapter.py: COMMAND_RULES",
    ),
    PlatformRule(
        name="number of commands",
        source=f"{API}#setmycommands: at most 100 commands",
        refusal="Bad Request: BOT_COMMANDS_TOO_MUCH",
        call=("setMyCommands", {"commands": [{"command": f"c{at}", "description": "x"} for at in range(101)]}),
        limit=100,
        adapter="channels/telegram/adapter.py: COMMAND_RULES",
    ),
)
BY_NAME = index_rules(RULES)
