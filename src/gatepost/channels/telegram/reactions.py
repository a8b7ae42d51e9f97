"""The emoji that Telegram lets a bot react with, and the nearest of them for others."""

from gatepost.core.errors import Unsupported

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
