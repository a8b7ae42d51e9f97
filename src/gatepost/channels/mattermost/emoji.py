"""Names of emoji as Mattermost writes them. One that is not in this table goes by its name, between colons."""

import re

from gatepost.core.errors import Invalid

_NAME = re.compile(r"[a-z0-9_+-]{1,64}\Z")
_NAMES = {
    "👍": "+1",
    "👎": "-1",
    "❤": "heart",
    "💔": "broken_heart",
    "😀": "grinning",
    "😄": "smile",
    "😊": "blush",
    "🙂": "slightly_smiling_face",
    "😉": "wink",
    "😂": "joy",
    "🤣": "rolling_on_the_floor_laughing",
    "😍": "heart_eyes",
    "😎": "sunglasses",
    "🤔": "thinking_face",
    "😢": "cry",
    "😭": "sob",
    "😡": "rage",
    "😱": "scream",
    "😮": "open_mouth",
    "😕": "confused",
    "🙁": "slightly_frowning_face",
    "😴": "sleeping",
    "🤯": "exploding_head",
    "🤷": "shrug",
    "🤦": "face_palm",
    "🙏": "pray",
    "👏": "clap",
    "🙌": "raised_hands",
    "👋": "wave",
    "👌": "ok_hand",
    "💪": "muscle",
    "🤝": "handshake",
    "👀": "eyes",
    "🎉": "tada",
    "🔥": "fire",
    "🚀": "rocket",
    "⭐": "star",
    "✨": "sparkles",
    "💯": "100",
    "✅": "white_check_mark",
    "☑": "ballot_box_with_check",
    "✔": "heavy_check_mark",
    "❌": "x",
    "⚠": "warning",
    "❓": "question",
    "❗": "exclamation",
    "🛑": "octagonal_sign",
    "🚫": "no_entry_sign",
    "💡": "bulb",
    "🐛": "bug",
    "🔧": "wrench",
    "📌": "pushpin",
    "📎": "paperclip",
    "📝": "memo",
    "📅": "date",
    "⏳": "hourglass_flowing_sand",
    "⏰": "alarm_clock",
    "☕": "coffee",
    "🍺": "beer",
    "🎂": "birthday",
    "💩": "hankey",
    "🤖": "robot_face",
    "🐙": "octopus",
    "1⃣": "one",
    "2⃣": "two",
    "3⃣": "three",
    "4⃣": "four",
    "5⃣": "five",
}
_SIGNS = {name: sign for sign, name in _NAMES.items()} | {"thumbsup": "👍", "thumbsdown": "👎"}


def get_name(reaction: str) -> str:
    """Return what to call an emoji, or a name that is one already."""
    plain = reaction.replace("\ufe0f", "")
    name = _NAMES.get(plain) or plain.strip(":").lower()
    if not _NAME.match(name):
        raise Invalid("reaction", f"Mattermost wants the name of {reaction[:20]!r}, such as :tada: or 👍")
    return name


def get_sign(name: str) -> str:
    """The emoji itself where it is known, else its name."""
    return _SIGNS.get(name, name if _NAME.match(name) else "unknown")
