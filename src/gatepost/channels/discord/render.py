"""Our messages as Discord wants them. Pure, but for the length of a sound, which is read from its file."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatepost.channels.discord.wire import VOICE_FLAG, is_id
from gatepost.channels.kit.native_commands import ShownCommand
from gatepost.core.errors import Unsupported
from gatepost.messages.card import Card
from gatepost.messages.inbound import Inbound
from gatepost.messages.markdown.blocks import read_fence
from gatepost.messages.markdown.markup import DISCORD, render
from gatepost.messages.outbound import Op, Outbound
from gatepost.messages.text_size import TextUnit, measure, shorten

NOBODY: dict[str, Any] = {"parse": []}  # no text of an agent calls people by itself
STYLES = {"primary": 1, "danger": 4}
LONGEST_NONCE = 25
LONGEST_TEXT = 2000
LONGEST_NAME, LONGEST_VALUE, LONGEST_DESCRIPTION, LONGEST_EMBED, MOST_FIELDS = 256, 1024, 4096, 6000, 25
MOST_FILES, LARGEST_REQUEST = 10, 24 * 1024 * 1024  # of 25 MiB; the words go along
FLAT_WAVE = base64.b64encode(bytes([64] * 32)).decode()
TAIL = 66_000  # the last page of an Ogg file is not longer


def make_nonce(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:LONGEST_NONCE]


def render_message(message: Outbound) -> dict[str, Any]:
    """The body of a new message. Its files are named by their place."""
    body: dict[str, Any] = {
        **render_content(message),
        "allowed_mentions": {**NOBODY, "replied_user": False},
        "nonce": make_nonce(message.key),
        "enforce_nonce": True,
    }
    if is_id(message.reply_to):  # another thing is refused, with all that is said
        body["message_reference"] = {"message_id": message.reply_to, "fail_if_not_exists": False}
    if message.files:
        body["attachments"] = [{"id": at, "filename": file.name} for at, file in enumerate(message.files)]
    if message.op is Op.VOICE:
        sound = message.files[0]
        body.pop("content", None)  # a voice message has no words beside it
        body["flags"] = VOICE_FLAG
        body["attachments"] = [
            {"id": 0, "filename": "voice-message.ogg", "duration_secs": read_length(sound.path), "waveform": FLAT_WAVE}
        ]
    return body


def render_edit(message: Outbound) -> dict[str, Any]:
    return {**render_content(message), "allowed_mentions": NOBODY}


def render_content(message: Outbound) -> dict[str, Any]:
    if message.card is None:
        return {"content": render_text(message.text)}
    return {"content": "", "embeds": [render_embed(message.card)], "components": render_buttons(message.card)}


def render_text(text: str) -> str:
    """Return a text as Discord reads it. One that escapes would make too long goes without them: the platform reads
    markdown itself. It ends a block of code at backticks anywhere in a line, so those in a block are made quotes."""
    rendered = render(text, DISCORD)
    return rendered if len(rendered) <= LONGEST_TEXT else _keep_blocks(text)


def _keep_blocks(text: str) -> str:
    """No longer than it was."""
    mark, lines = "", list[str]()
    for line in text.split("\n"):
        edge = read_fence(line)
        if edge is not None and not mark:
            mark = edge.mark
        elif edge is not None and edge.closes(mark):
            mark = ""
        elif mark:
            line = line.replace("```", "'''")
        lines.append(line)
    return "\n".join(lines)


def escape(text: str) -> str:
    """Plain words, as the platform's markdown shows them."""
    return "".join(f"\\{sign}" if sign in "\\`*_~|<>[]()#-@:" else sign for sign in text)


def fits_card(card: Card) -> bool:
    embed = _compose_embed(card)
    fields = embed.get("fields", [])
    names, values = [each["name"] for each in fields], [each["value"] for each in fields]
    parts = [(embed["title"], LONGEST_NAME), (embed["description"], LONGEST_DESCRIPTION)]
    parts += [(each, LONGEST_NAME) for each in names] + [(each, LONGEST_VALUE) for each in values]
    sizes = [(measure(text, TextUnit.UTF16), most) for text, most in parts]
    return len(fields) <= MOST_FIELDS and all(a <= b for a, b in sizes) and sum(a for a, _ in sizes) <= LONGEST_EMBED


def render_embed(card: Card) -> dict[str, Any]:
    """One with buttons is never cut: nobody decides about what they do not see."""
    if fits_card(card):
        return _compose_embed(card)
    if card.buttons and not card.done:
        raise Unsupported("card", "discord", f"a card has at most {LONGEST_EMBED} signs; send the rest before it")
    said = shorten(escape(card.done), LONGEST_VALUE, TextUnit.UTF16)
    text = shorten(render(card.text, DISCORD), LONGEST_DESCRIPTION - LONGEST_VALUE - 2, TextUnit.UTF16)
    title = shorten(card.title, LONGEST_NAME, TextUnit.UTF16)
    return {"title": title, "description": f"{text}\n\n{said}".strip()}


def _compose_embed(card: Card) -> dict[str, Any]:
    text = render(card.text, DISCORD)
    if card.done:
        text = f"{text}\n\n{escape(card.done)}".strip()
    embed: dict[str, Any] = {"title": card.title, "description": text}
    if card.fields:
        embed["fields"] = [
            {"name": escape(each.name) or "\u200b", "value": escape(each.value) or "\u200b"} for each in card.fields
        ]
    return embed


def render_buttons(card: Card) -> list[dict[str, Any]]:
    """Five in a row, five rows; one menu where several may be chosen. An empty list takes the buttons away."""
    if card.done or not card.buttons:
        return []
    if card.many:
        options = [
            {"label": each.label[:100], "value": each.id, **({"description": each.about[:100]} if each.about else {})}
            for each in card.buttons[:25]
        ]
        token = card.buttons[0].id.partition(":")[0]
        menu = {
            "type": 3,
            "custom_id": f"{token}:many"[:100],
            "min_values": 1,
            "max_values": len(options),
            "options": options,
        }
        return [{"type": 1, "components": [menu]}]
    made = [
        {"type": 2, "style": STYLES.get(each.style, 2), "label": each.label[:80], "custom_id": each.id}
        for each in card.buttons[:25]
    ]
    return [{"type": 1, "components": made[at : at + 5]} for at in range(0, len(made), 5)]


def read_length(path: str) -> float:
    """Return the length of Opus in Ogg in seconds, from the position of its last page (48,000 a second); 1 if
    unreadable."""
    with Path(path).open("rb") as file:
        file.seek(0, 2)
        file.seek(max(file.tell() - TAIL, 0))
        tail = file.read(TAIL)
    at = tail.rfind(b"OggS")
    position = int.from_bytes(tail[at + 6 : at + 14], "little", signed=True) if at >= 0 and len(tail) >= at + 14 else -1
    return round(position / 48_000, 2) if position > 0 else 1.0


def render_commands(commands: Sequence[ShownCommand]) -> list[dict[str, Any]]:
    """All commands of the application, in servers and in direct messages of the bot."""
    return [
        {
            "name": each.shown,
            "type": 1,
            "description": each.help,
            "options": _render_options(each.usage),
            "contexts": [0, 1],
            "integration_types": [0],
        }
        for each in commands
    ]


def _render_options(usage: str) -> list[dict[str, Any]]:
    """One field for all that may follow the name. `[TEXT]` may be left out, `TEXT` may not."""
    needed = not usage.startswith("[")
    return [{"type": 3, "name": "text", "description": usage[:100], "required": needed}] if usage else []


def render_receipt(command: Inbound) -> dict[str, Any]:
    """Render the answer to a command that its person alone sees. The command's result comes as a message."""
    words = command.text.replace("`", "'")[:200]
    return {"type": 4, "data": {"content": f"`{words}`", "flags": 1 << 6, "allowed_mentions": NOBODY}}
