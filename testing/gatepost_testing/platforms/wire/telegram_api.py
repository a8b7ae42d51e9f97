"""The methods of the emulated Bot API, by name. Each gets the platform and the parameters of the request."""

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import UploadFile
from starlette.requests import Request

from gatepost_testing.platform_rules.telegram import BY_NAME
from gatepost_testing.platforms.base import GivenFile
from gatepost_testing.platforms.wire.telegram_html import UnreadableHtml, count_units, read_html

if TYPE_CHECKING:
    from gatepost_testing.platforms.telegram import TelegramPlatform

LARGEST_UPLOAD, LARGEST_DOWNLOAD = BY_NAME["file size"].limit, BY_NAME["size of a download"].limit
STRUCTURED = ("commands", "reply_parameters", "reply_markup", "reaction", "media", "entities", "allowed_updates")
_REACTIONS = (
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u200d🔥 "
    "🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨\u200d💻 👀 "
    "🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷\u200d♂ 🤷 🤷\u200d♀ 😡"
)
REACTIONS = frozenset(_REACTIONS.split())  # as its list has them, without U+FE0F
ACTIONS = frozenset(
    {
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    }
)
ENTITIES = frozenset(
    {
        "mention",
        "hashtag",
        "cashtag",
        "bot_command",
        "url",
        "email",
        "phone_number",
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "blockquote",
        "expandable_blockquote",
        "code",
        "pre",
        "text_link",
        "text_mention",
        "custom_emoji",
    }
)
PARSE_MODES = frozenset({"", "html", "markdown", "markdownv2", "none"})
Params = dict[str, Any]


class BotApiError(Exception):
    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters

    def render(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return {**answer, "parameters": self.parameters} if self.parameters else answer


def refuse(name: str, words: tuple[str, str] = ("", ""), **parameters: Any) -> BotApiError:
    """The refusal of a rule. `words`: those of its own call, and what stands in their place."""
    rule = BY_NAME[name]
    return BotApiError(rule.status, rule.refusal.replace(*words) if words[0] else rule.refusal, **parameters)


async def read_params(request: Request) -> Params:
    """From JSON, a form or the query; files by the name of their field."""
    found: Params = dict(request.query_params)
    if "json" in request.headers.get("content-type", ""):
        found |= await request.json()
    elif request.method == "POST":
        async with request.form(max_part_size=LARGEST_UPLOAD) as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    data = await value.read()
                    found[name] = GivenFile(value.filename or name, data, value.content_type or "")
                else:
                    found[name] = value
    for name in STRUCTURED:
        if isinstance(found.get(name), str):
            found[name] = json.loads(found[name])
    return found


def find_number(params: Params, name: str, rule: str = "named message") -> int:
    """`rule`: the one that another value breaks."""
    try:
        return int(params[name])
    except (KeyError, ValueError, TypeError):
        raise refuse(rule) from None


def _find_chat(platform: "TelegramPlatform", params: Params, name: str = "chat_id") -> dict[str, Any]:
    if not str(params.get(name) or ""):
        raise refuse("named chat")
    ident = find_number(params, name, "known chat")
    if ident in platform.moved:
        raise refuse("group that became a supergroup", migrate_to_chat_id=platform.moved[ident])
    chat = platform.find_chat_by_id(ident)
    if chat is None:
        raise refuse("known chat")
    if ident in platform.closed:
        raise refuse("person who wrote first")
    return chat


def _find_message(platform: "TelegramPlatform", params: Params, what: str) -> dict[str, Any]:
    chat = _find_chat(platform, params)
    if not str(params.get("message_id") or ""):
        raise refuse("named message")
    found = platform.messages.get(find_number(params, "message_id"))
    if found is None or found["chat"]["id"] != chat["id"]:
        raise refuse(f"message to {what}")
    return found


def _read_words(params: Params, field: str) -> dict[str, Any]:
    """The text or caption, with its entities, as the message then has them."""
    raw, mode = str(params.get(field) or ""), str(params.get("parse_mode") or "").lower()
    if mode not in PARSE_MODES:
        raise refuse("parse mode")
    if mode == "html":
        try:
            words, entities = read_html(raw)
        except UnreadableHtml as error:
            rule = BY_NAME["entities of HTML"]
            raise BotApiError(rule.status, f"{rule.refusal.rpartition(': ')[0]}: {error}") from None
    else:
        words, entities = raw, _read_entities(params, field, raw)
    if field == "text" and not words.strip():
        raise refuse("blank text" if raw else "empty text")
    if count_units(words) > BY_NAME[f"{field} length"].limit:
        raise refuse(f"{field} length")
    if not words:
        return {}
    return {field: words, "entities" if field == "text" else "caption_entities": entities}


def _read_entities(params: Params, field: str, words: str) -> list[dict[str, Any]]:
    given = params.get("entities" if field == "text" else "caption_entities") or []
    for each in given:
        end = int(each["offset"]) + int(each["length"])
        if each.get("type") not in ENTITIES:
            raise refuse("kind of an entity")
        if end > count_units(words):
            raise refuse("place of an entity")
    return list(given)


def _read_keyboard(params: Params) -> dict[str, Any]:
    markup = params.get("reply_markup") or {}
    for row in markup.get("inline_keyboard") or ():
        for button in row:
            if not button.keys() & {"callback_data", "url", "switch_inline_query", "web_app", "copy_text"}:
                raise refuse("text of a button")
            if not 1 <= len(str(button.get("callback_data", "-")).encode()) <= BY_NAME["data of a button"].limit:
                raise refuse("data of a button")
    return {"reply_markup": markup} if markup.get("inline_keyboard") else {}


def _read_place(platform: "TelegramPlatform", params: Params, chat: dict[str, Any]) -> dict[str, Any]:
    place: dict[str, Any] = {}
    if params.get("message_thread_id"):
        thread = find_number(params, "message_thread_id", "known topic")
        if thread not in platform.messages and thread not in platform.topics:
            raise refuse("known topic")
        place |= {"message_thread_id": thread, "is_topic_message": True}
    reply = params.get("reply_parameters") or {}
    if reply:
        answered = platform.messages.get(int(reply["message_id"]))
        if answered is not None:
            place["reply_to_message"] = platform.make_quotable(answered)
        elif not reply.get("allow_sending_without_reply"):
            raise refuse("answered message")
    return place


def send_message(platform: "TelegramPlatform", params: Params) -> Any:
    chat = _find_chat(platform, params)
    content = {
        **_read_words(params, "text"),
        **_read_place(platform, params, chat),
        **_read_keyboard(params),
    }
    return platform.add_message(chat, platform.bot, content, raw=params)


def _make_sender(field: str) -> Callable[["TelegramPlatform", Params], Any]:
    def send_file(platform: "TelegramPlatform", params: Params) -> Any:
        chat, file = _find_chat(platform, params), params.get(field)
        if not file:
            raise refuse("file in the request", ("document", field))
        if isinstance(file, str):  # one that is there already
            file = platform.files.get(file)
        if not isinstance(file, GivenFile):
            raise refuse("known file of a message")
        if len(file.data) > platform.largest_upload:
            raise refuse("file size")
        if field == "photo" and not file.data.startswith((b"\x89PNG", b"\xff\xd8")):
            raise refuse("picture that can be read")
        content = {**_read_words(params, "caption"), **_read_place(platform, params, chat)}
        content |= platform.add_file(field, file)
        return platform.add_message(chat, platform.bot, content, files=[file], raw=params)

    return send_file


def send_group(platform: "TelegramPlatform", params: Params) -> Any:
    chat, media = _find_chat(platform, params), params.get("media") or []
    if not media:
        raise refuse("some file of an album")
    if len(media) > BY_NAME["size of an album"].limit:
        raise refuse("size of an album")
    kinds = {each["type"] for each in media}
    if len(kinds) > 1 and (alone := kinds & {"audio", "document"}):
        raise refuse("kinds of an album", ("document", max(alone)))
    album, sent = str(platform.make_number()), []
    for each in media:
        file = params[each["media"].removeprefix("attach://")]
        content = {**_read_words(each, "caption"), **_read_place(platform, params, chat)}
        content |= {"media_group_id": album, **platform.add_file(each["type"], file)}
        sent.append(platform.add_message(chat, platform.bot, content, files=[file], raw=params))
    return sent


def edit_text(platform: "TelegramPlatform", params: Params) -> Any:
    message = _find_message(platform, params, "edit")
    if "text" not in message:
        raise refuse("text to edit")
    return _change(platform, message, {**_read_words(params, "text"), **_read_keyboard(params)})


def edit_caption(platform: "TelegramPlatform", params: Params) -> Any:
    message = _find_message(platform, params, "edit")
    return _change(platform, message, {**_read_words(params, "caption"), **_read_keyboard(params)})


def edit_markup(platform: "TelegramPlatform", params: Params) -> Any:
    message = _find_message(platform, params, "edit")
    kept: dict[str, Any] = {
        name: message[name] for name in ("text", "entities", "caption", "caption_entities") if name in message
    }
    return _change(platform, message, {**kept, **_read_keyboard(params)})


def _change(platform: "TelegramPlatform", message: dict[str, Any], new: dict[str, Any]) -> Any:
    names = ("text", "entities", "caption", "caption_entities", "reply_markup")
    if message["from"]["id"] != platform.bot["id"]:
        raise refuse("edits of others")
    if {name: message[name] for name in names if name in message} == new:
        raise refuse("an edit that changes nothing")
    return platform.change_message(message, new)


def delete_message(platform: "TelegramPlatform", params: Params) -> Any:
    message = _find_message(platform, params, "delete")
    if message["date"] < platform.get_time() - 48 * 3600:
        raise refuse("age of a deletion")
    platform.remove_message(message)
    return True


def forward_message(platform: "TelegramPlatform", params: Params) -> Any:
    chat, source = _find_chat(platform, params), _find_chat(platform, params, "from_chat_id")
    found = platform.messages.get(find_number(params, "message_id"))
    if found is None or found["chat"]["id"] != source["id"]:
        raise refuse("message to forward")
    names = ("text", "entities", "caption", "document", "photo", "voice", "audio", "video")
    content = {name: found[name] for name in names if name in found}
    origin = {"type": "user", "sender_user": found["from"], "date": found["date"]}
    place = _read_place(platform, params, chat)
    return platform.add_message(chat, platform.bot, {**content, **place, "forward_origin": origin}, raw=params)


def set_reaction(platform: "TelegramPlatform", params: Params) -> Any:
    message = _find_message(platform, params, "react to")
    emoji = [str(each.get("emoji")) for each in params.get("reaction") or ()]
    if any(each not in REACTIONS for each in emoji) or len(emoji) > 1:
        raise refuse("emoji of a reaction")
    platform.set_reactions(message, "bot", emoji)
    return True


def _make_pin(pinned: bool) -> Callable[["TelegramPlatform", Params], Any]:
    def pin(platform: "TelegramPlatform", params: Params) -> Any:
        platform.find(str(_find_message(platform, params, "pin")["message_id"])).pinned = pinned
        return True

    return pin


def unpin_all(platform: "TelegramPlatform", params: Params) -> Any:
    room = platform.find_room(_find_chat(platform, params)["id"])
    thread = str(params.get("message_thread_id") or "")
    for each in platform.record:
        if each.room == room and (not thread or each.thread == thread):
            each.pinned = False
    return True


def send_action(platform: "TelegramPlatform", params: Params) -> Any:
    if params.get("action") not in ACTIONS:
        raise refuse("kind of an action")
    platform.typings.append(platform.find_room(_find_chat(platform, params)["id"]))
    return True


def get_file(platform: "TelegramPlatform", params: Params) -> Any:
    found = platform.files.get(str(params.get("file_id")))
    if found is None:
        raise refuse("known file")
    if len(found.data) > LARGEST_DOWNLOAD:
        raise refuse("size of a download")
    ident = str(params["file_id"])
    path = f"documents/{ident}"
    return {"file_id": ident, "file_unique_id": f"u{ident}", "file_size": len(found.data), "file_path": path}


def answer_click(platform: "TelegramPlatform", params: Params) -> Any:
    if str(params.get("callback_query_id")) not in platform.clicks:
        raise refuse("known click")
    platform.answered.append((str(params.get("callback_query_id")), str(params.get("text") or "")))
    return True


def create_topic(platform: "TelegramPlatform", params: Params) -> Any:
    _find_chat(platform, params)
    thread = platform.make_number()
    platform.topics.add(thread)
    return {"message_thread_id": thread, "name": str(params.get("name")), "icon_color": 7322096}


def get_chat(platform: "TelegramPlatform", params: Params) -> Any:
    chat = _find_chat(platform, params)
    return {**chat, "accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": {}}


def set_commands(platform: "TelegramPlatform", params: Params) -> Any:
    given = params.get("commands") or []  # without it, the bot has none from then on
    if not isinstance(given, list):
        raise refuse("list of commands")
    listed = [(str(each.get("command")), str(each.get("description") or "")) for each in given]
    if len(listed) > BY_NAME["number of commands"].limit:
        raise refuse("number of commands")
    for name, words in listed:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", name):
            raise refuse("name of a command")
        if not 1 <= len(words) <= 256:
            raise refuse("description of a command")
    platform.commands = dict(listed)
    return True


METHODS: Mapping[str, Callable[["TelegramPlatform", Params], Any]] = {
    "getme": lambda platform, _: platform.bot,
    "getwebhookinfo": lambda platform, _: {
        "url": platform.webhook,
        "has_custom_certificate": False,
        "pending_update_count": len(platform.updates),
    },
    "deletewebhook": lambda *_: True,
    "setmycommands": set_commands,
    "sendmessage": send_message,
    "sendmediagroup": send_group,
    "editmessagetext": edit_text,
    "editmessagecaption": edit_caption,
    "editmessagereplymarkup": edit_markup,
    "deletemessage": delete_message,
    "forwardmessage": forward_message,
    "setmessagereaction": set_reaction,
    "pinchatmessage": _make_pin(True),
    "unpinchatmessage": _make_pin(False),
    "unpinallchatmessages": unpin_all,
    "unpinallforumtopicmessages": unpin_all,
    "sendchataction": send_action,
    "getfile": get_file,
    "getchat": get_chat,
    "answercallbackquery": answer_click,
    "createforumtopic": create_topic,
    **{f"send{field}": _make_sender(field) for field in ("document", "photo", "voice", "audio", "video", "animation")},
}
READING = frozenset({"getme", "getwebhookinfo", "deletewebhook", "getfile", "getchat"})
UNFAILING = READING | {
    "setmycommands",
    "sendchataction",
    "answercallbackquery",
    "createforumtopic",
}  # no single fault is spent on these
