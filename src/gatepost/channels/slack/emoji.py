"""Slack's names of emoji. The table has those whose name is not that of Unicode; the others are found by it."""

import re
import unicodedata

NAMES = {
    "+1": "👍", "thumbsup": "👍", "-1": "👎", "thumbsdown": "👎", "heart": "❤️", "tada": "🎉", "joy": "😂",
    "smile": "😄", "smiley": "😃", "grinning": "😀", "grin": "😁", "laughing": "😆", "sweat_smile": "😅",
    "rolling_on_the_floor_laughing": "🤣", "slightly_smiling_face": "🙂", "wink": "😉", "blush": "😊",
    "heart_eyes": "😍", "kissing_heart": "😘", "sunglasses": "😎", "thinking_face": "🤔", "neutral_face": "😐",
    "unamused": "😒", "cry": "😢", "sob": "😭", "angry": "😠", "rage": "😡", "scream": "😱", "flushed": "😳",
    "confused": "😕", "pray": "🙏", "clap": "👏", "wave": "👋", "ok_hand": "👌", "raised_hands": "🙌", "muscle": "💪",
    "v": "✌️", "point_up": "☝️", "point_right": "👉", "point_left": "👈", "point_down": "👇", "fist": "✊",
    "white_check_mark": "✅", "heavy_check_mark": "✔️", "ballot_box_with_check": "☑️", "x": "❌", "warning": "⚠️",
    "no_entry": "⛔", "no_entry_sign": "🚫", "question": "❓", "exclamation": "❗", "100": "💯", "zap": "⚡",
    "star": "⭐", "star2": "🌟", "sparkles": "✨", "boom": "💥", "bulb": "💡", "bug": "🐛", "wrench": "🔧",
    "hammer_and_wrench": "🛠️", "lock": "🔒", "unlock": "🔓", "key": "🔑", "mag": "🔍", "memo": "📝", "calendar": "📆",
    "chart_with_upwards_trend": "📈", "hourglass_flowing_sand": "⏳", "hourglass": "⌛", "stopwatch": "⏱️",
    "alarm_clock": "⏰", "email": "✉️", "bell": "🔔", "coffee": "☕", "beer": "🍺", "pizza": "🍕", "cake": "🍰",
    "gift": "🎁", "ship": "🚢", "skull": "💀", "shrug": "🤷", "facepalm": "🤦", "man-shrugging": "🤷‍♂️",
    "woman-shrugging": "🤷‍♀️", "broken_heart": "💔", "green_heart": "💚", "blue_heart": "💙", "recycle": "♻️",
    "arrow_up": "⬆️", "arrow_down": "⬇️", "arrow_right": "➡️", "arrow_left": "⬅️", "checkered_flag": "🏁",
    "octagonal_sign": "🛑", "red_circle": "🔴", "large_green_circle": "🟢", "large_yellow_circle": "🟡",
    "saluting_face": "🫡", "hugging_face": "🤗", "partying_face": "🥳", "see_no_evil": "🙈", "robot_face": "🤖",
    "rotating_light": "🚨", "construction": "🚧", "pushpin": "📌", "paperclip": "📎", "speech_balloon": "💬",
    "information_source": "ℹ️", "heavy_plus_sign": "➕", "heavy_minus_sign": "➖", "raising_hand": "🙋",
}  # fmt: skip
_BY_EMOJI = {emoji.replace("\ufe0f", ""): name for name, emoji in reversed(NAMES.items())}
_NAME = re.compile(r"[a-z0-9_+'-]{1,80}\Z")
_SHADES = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f]")


def read_emoji(name: str) -> str:
    """The emoji of a name, or the name between colons: it may be one of the workspace's own."""
    plain = name.partition("::")[0]
    if plain in NAMES:
        return NAMES[plain]
    try:
        found = unicodedata.lookup(plain.replace("_", " ")) if _NAME.match(plain) else ""
    except KeyError:
        found = ""
    is_sign = bool(found) and unicodedata.category(found[0]) == "So"
    return found if is_sign else f":{plain[:80]}:"


def render_emoji(emoji: str) -> str:
    """The name of an emoji, or of a name between colons; '' if there is none."""
    given = emoji.strip().strip(":").lower()
    if _NAME.match(given):
        return given
    plain = _SHADES.sub("", emoji.strip())
    if plain in _BY_EMOJI:
        return _BY_EMOJI[plain]
    name = unicodedata.name(plain, "").lower().replace(" ", "_") if len(plain) == 1 else ""
    return name if _NAME.match(name) else ""
