"""Our messages and reactions as Telegram wants them. Pure."""

import hashlib
import html
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from gatepost.core.errors import Unsupported
from gatepost.messages.card import Card, CardButton, join_clicks
from gatepost.messages.markdown.dialects import break_names, escape_entities
from gatepost.messages.markdown.markup import TELEGRAM_HTML, render
from gatepost.messages.outbound import OutboundFile
from gatepost.messages.text_size import TextUnit, measure, shorten

LONGEST_TEXT = 4096  # units of UTF-16, once the tags are gone
LONGEST_CAPTION = 1024
LONGEST_DATA = 64  # bytes of a button's data
MOST_IN_GROUP = 10
LARGEST_PHOTO = 10 * 1024 * 1024
CHOOSE, DONE, DIGEST = "+", "=", "#"  # what the data of a button begins with, where it is not its id
CHECKED, UNCHECKED = "☑ ", "☐ "
DONE_LABEL = "Done"
_TAG = re.compile(r"<[^<>]*>")
_KINDS = {  # by type: the method, and the field that holds the file
    "image/jpeg": ("sendPhoto", "photo"),
    "image/png": ("sendPhoto", "photo"),
    "image/gif": ("sendAnimation", "animation"),
    "video/mp4": ("sendVideo", "video"),
    "audio/mpeg": ("sendAudio", "audio"),
    "audio/mp4": ("sendAudio", "audio"),
}
Keyboard = list[list[dict[str, str]]]
# As https://core.telegram.org/bots/api#reactiontypeemoji lists them, read 2026-11-17: none with U+FE0F.
_ALLOWED = (
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 "
    "🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 "
    "🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡 "
)
_NEAR = {  # what stands for the others
    "👍": "✅ ✔ ☑ 🆗 👊 🤙 ➕ ⬆ 💚",
    "👎": "❌ ✖ ❎ 🚫 ⛔ ➖ ⬇",
    "❤": "♥ 🧡 💛 💙 💜 🖤 🤍 💗 💖 💕 😻 ☺",
    "🔥": "🚀 💪 ✨ 🌟 ⭐ ‼ ❗",
    "🤣": "😂 😹 😆 😅",
    "😁": "😀 😃 😄 😊 🙂 😉 😺",
    "🎉": "🎊 🥳 🍻 🥂 🎈",
    "🤔": "❓ ❔ 🧐 💭 ⏳ ⌛ 🕐",
    "👀": "👁 🔍 🔎 👓",
    "👏": "🙌 👐",
    "😱": "😮 😯 😲 😧",
    "😢": "🙁 ☹ 😞 😔 😥 😿",
    "😡": "😠 👿",
    "✍": "📝 ✏ 🖊",
    "👨‍💻": "🛠 🔧 💻 🤖",
    "🙏": "🤞 🫶",
    "😴": "💤 🛌",
}
_VARIATIONS = str.maketrans(dict.fromkeys([0xFE0F, 0xFE0E, *range(0x1F3FB, 0x1F400)]))  # colours, and how it is drawn
ALLOWED = {emoji.translate(_VARIATIONS): emoji for emoji in _ALLOWED.split()}  # as Telegram writes them
NEAREST = {other: near for near, others in _NEAR.items() for other in others.split()}


class RenderedText(Struct, frozen=True):
    """`plain`: the same without tags, for a platform that does not like them."""

    html: str
    plain: str


def render_words(text: str, limit: int = LONGEST_TEXT) -> RenderedText:
    """A text that grows beyond the limit by its rendering (a table that is aligned) stays as it was written."""
    made = render(text, TELEGRAM_HTML)
    if count_shown(made) > limit:
        made = escape_entities(text)
    return RenderedText(made, text)


def count_shown(made: str) -> int:
    """Return what the platform counts: units of UTF-16 without tags."""
    return measure(html.unescape(_TAG.sub("", made)), TextUnit.UTF16)


def _escape_words(text: str) -> str:
    """Return what somebody else wrote, as words that call nobody."""
    return escape_entities(break_names(text))


def fits_card(card: Card) -> bool:
    made = _compose_card(card)
    return count_shown(made.html) <= LONGEST_TEXT and measure(made.plain, TextUnit.UTF16) <= LONGEST_TEXT


def render_card(card: Card) -> RenderedText:
    """The text of a card is markdown; everything else is shown as it is. One with buttons is never cut: nobody decides
    about what they do not see."""
    if fits_card(card):
        return _compose_card(card)
    if card.buttons and not card.done:
        raise Unsupported("card", "telegram", f"a card has at most {LONGEST_TEXT} characters; send the rest before it")
    words = _cut(_compose_card(structs.replace(card, done="")).plain, card.done)
    return RenderedText(_escape_words(words), words)


def _compose_card(card: Card) -> RenderedText:
    lines, plain = [f"<b>{_escape_words(card.title)}</b>"], [card.title]
    if card.text:
        lines += ["", render(card.text, TELEGRAM_HTML)]
        plain += ["", card.text]
    if card.fields:
        lines += ["", *(f"{_escape_words(each.name)}: {_escape_words(each.value)}" for each in card.fields)]
        plain += ["", *(f"{each.name}: {each.value}" for each in card.fields)]
    about = [each for each in card.buttons if each.about and not card.done]
    if about:
        lines += ["", *(f"{_escape_words(each.label)}: {_escape_words(each.about)}" for each in about)]
        plain += ["", *(f"{each.label}: {each.about}" for each in about)]
    if card.done:
        lines += ["", f"<i>{_escape_words(card.done)}</i>"]
        plain += ["", card.done]
    return RenderedText("\n".join(lines), "\n".join(plain))


def _cut(text: str, end: str) -> str:
    """To what the platform takes, with what must be seen at its end."""
    tail = f"\n\n{shorten(end, LONGEST_TEXT // 2, TextUnit.UTF16)}" if end else ""
    return shorten(text, LONGEST_TEXT - measure(tail, TextUnit.UTF16), TextUnit.UTF16) + tail


def render_keyboard(card: Card) -> tuple[Keyboard, dict[str, str]]:
    """The rows of buttons, and the ids that are too long to be the data of a button, by what stands for them."""
    if card.done or not card.buttons:
        return [], {}
    long_ids: dict[str, str] = {}
    rows: Keyboard = []
    for button in card.buttons:
        data = _make_data(button, CHOOSE if card.many else "", long_ids)
        label = f"{UNCHECKED}{button.label}" if card.many else button.label
        rows.append([{"text": label, "callback_data": data}])
    if card.many:
        rows.append([{"text": DONE_LABEL, "callback_data": DONE}])
    elif len(rows) == 2 and all(len(row[0]["text"]) <= 20 for row in rows):
        rows = [[*rows[0], *rows[1]]]
    return rows, long_ids


def _make_data(button: CardButton, prefix: str, long_ids: dict[str, str]) -> str:
    data = f"{prefix}{button.id}"
    if len(data.encode()) <= LONGEST_DATA and not button.id.startswith((CHOOSE, DONE, DIGEST)):
        return data
    short = DIGEST + hashlib.sha256(button.id.encode()).hexdigest()[:40]
    long_ids[short] = button.id
    return f"{prefix}{short}"


def show_choices(keyboard: Keyboard, chosen: frozenset[str]) -> Keyboard:
    """The same buttons, with these checked and no others. They are named by their data."""
    return [[_mark(button, chosen) for button in row] for row in keyboard]


def _mark(button: dict[str, str], chosen: frozenset[str]) -> dict[str, str]:
    data, label = str(button.get("callback_data", "")), str(button.get("text", ""))
    if not data.startswith(CHOOSE):
        return button
    return {
        **button,
        "text": (CHECKED if data in chosen else UNCHECKED) + label.removeprefix(CHECKED).removeprefix(UNCHECKED),
    }


def join_choices(keyboard: Keyboard, chosen: frozenset[str], long_ids: dict[str, str]) -> str:
    """One click for all that somebody chose, in the order of the buttons; '' if nothing is."""
    found = [
        str(button["callback_data"]).removeprefix(CHOOSE)
        for row in keyboard
        for button in row
        if button.get("callback_data") in chosen
    ]
    return join_clicks([long_ids.get(each, each) for each in found]) if found else ""


def pick_method(file: OutboundFile) -> tuple[str, str]:
    method, field = _KINDS.get(file.mime, ("sendDocument", "document"))
    if method == "sendPhoto" and file.size > LARGEST_PHOTO:
        return "sendDocument", "document"
    return method, field


def split_groups(files: Sequence[OutboundFile]) -> list[tuple[OutboundFile, ...]]:
    """A group has two to ten files; one file is sent alone."""
    return [tuple(files[at : at + MOST_IN_GROUP]) for at in range(0, len(files), MOST_IN_GROUP)]


def render_group(files: Sequence[OutboundFile], caption: str) -> list[dict[str, Any]]:
    """Pictures and films stand together; as soon as there is another file, all are documents."""
    methods = [pick_method(file) for file in files]
    shown = all(field in ("photo", "video") for _, field in methods)
    return [
        {
            "type": field if shown else "document",
            "media": f"attach://file{at}",
            **({"caption": caption, "parse_mode": "HTML"} if caption and at == 0 else {}),
        }
        for at, (_, field) in enumerate(methods)
    ]


def explain_reaction(address: str, reaction: str) -> str:
    """Return what to use in place of a reaction that Telegram does not have, or ''."""
    plain = reaction.strip().translate(_VARIATIONS)
    return "" if plain in ALLOWED or plain in NEAREST else "use one of 👍 👎 ❤ 🔥 👏 😁 🤔 🎉 🙏 👌 👀 💯 🤝 🫡"


def find_reaction(emoji: str) -> str:
    """Return what to react with. Raise Unsupported, with what can be used, if nothing is near."""
    if hint := explain_reaction("", emoji):
        raise Unsupported(f"react with {emoji[:20]}", "telegram", hint)
    plain = emoji.strip().translate(_VARIATIONS)
    return ALLOWED.get(plain) or NEAREST[plain]
