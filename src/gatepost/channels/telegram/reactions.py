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


def find_reaction(emoji: str) -> str:
    """What to react with. Unsupported, with what can be used, if nothing is near."""
    plain = emoji.strip().translate(_VARIATIONS)
    found = ALLOWED.get(plain) or NEAREST.get(plain)
    if found is None:
        raise Unsupported(f"react with {emoji[:20]}", "telegram", "use one of 👍 👎 ❤ 🔥 👏 😁 🤔 🎉 🙏 👌 👀 💯 🤝 🫡")
    return found
