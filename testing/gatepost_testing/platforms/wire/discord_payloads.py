"""The emulated Discord's words about itself, and what people read of its messages."""

from collections.abc import Sequence
from typing import Any

from gatepost_testing.markdown_scanner import strip_markdown

EVERYONE = {
    "name": "@everyone",
    "permissions": str((1 << 53) - 1),
    "position": 0,
    "color": 0,
    "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
    "hoist": False,
    "managed": False,
    "mentionable": False,
    "flags": 0,
}
MEMBER = {"roles": [], "joined_at": "2024-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0}


def make_guild(
    ident: str, channels: Sequence[dict[str, Any]], threads: Sequence[dict[str, Any]], bot: dict[str, Any]
) -> dict[str, Any]:
    """As a new session gets it."""
    return {
        "id": ident,
        "name": "Emulated",
        "owner_id": ident,
        "joined_at": "2024-01-01T00:00:00+00:00",
        "large": False,
        "unavailable": False,
        "member_count": 2,
        "channels": [dict(each) for each in channels],
        "threads": [dict(each) for each in threads],
        "roles": [{**EVERYONE, "id": ident}],
        "members": [{**MEMBER, "user": bot}],
        "emojis": [],
        "stickers": [],
        "features": [],
        "premium_tier": 0,
        "preferred_locale": "en-US",
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "system_channel_flags": 0,
    }


def make_ready(session: str, bot: dict[str, Any], guild: str, url: str, flags: int) -> dict[str, Any]:
    return {
        "v": 10,
        "user": bot,
        "session_id": session,
        "resume_gateway_url": url,
        "guilds": [{"id": guild, "unavailable": True}],
        "private_channels": [],
        "application": {"id": bot["id"], "flags": flags},
    }


def read_words(message: dict[str, Any]) -> str:
    parts = [message["content"]]
    for embed in message["embeds"]:
        parts += [embed.get("title") or "", embed.get("description") or ""]
        parts += [f"{each['name']}: {each['value']}" for each in embed.get("fields") or ()]
    return "\n".join(strip_markdown(each) for each in parts if each)


def list_labels(message: dict[str, Any]) -> list[str]:
    parts = [part for row in message["components"] for part in row["components"]]
    return [each["label"] for part in parts for each in (part["options"] if part["type"] == 3 else [part])]
