"""Facts that Discord tells of the bot's application before it connects: decisions without I/O."""

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.discord.gateway import PORTAL
from gatepost.channels.discord.wire import Payload
from gatepost.core.errors import Unavailable

PERMISSIONS = sum(1 << bit for bit in (6, 10, 11, 14, 15, 16, 38, 46, 51))
CONTENT_FLAGS = (1 << 18) | (1 << 19)  # the switch MESSAGE CONTENT INTENT, for large and for small bots


def check_intents(application: Payload) -> None:
    if not int(application.get("flags") or 0) & CONTENT_FLAGS:
        raise ChannelEnded(
            EndReason.RIGHTS,
            "the bot may not read messages",
            f"switch on MESSAGE CONTENT INTENT at {PORTAL}, on the page Bot of the application",
        )


def check_connections(answer: Payload) -> None:
    """Raise Unavailable if the token has no connection left: Discord lets it connect a number of times a day."""
    limit = answer.get("session_start_limit")
    if not isinstance(limit, dict) or limit.get("remaining") != 0:
        return
    wait = limit.get("reset_after")
    why = f"all {limit.get('total')} connections of the bot for today are used; a program that has its token may loop"
    raise Unavailable("Discord", why, retry_after=wait / 1000 if isinstance(wait, int | float) else None)


def render_invitation(application: Payload) -> str:
    return f"https://discord.com/oauth2/authorize?client_id={application['id']}&scope=bot&permissions={PERMISSIONS}"
