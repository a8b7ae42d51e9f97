"""Discord's REST API: the token, and how it says that we must wait."""

from typing import Any

import httpx2

from gatepost import __version__
from gatepost.channels.discord.gateway import PORTAL
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp
from gatepost.core.errors import Unavailable


class DiscordHttp(PlatformHttp):
    def __init__(self, base_url: str, token: str) -> None:
        self.token = token
        agent = f"DiscordBot (https://github.com/gatepost, {__version__})"
        super().__init__(
            "Discord",
            base_url,
            headers={"authorization": f"Bot {token}", "user-agent": agent},
            way_out=f"make a new token at {PORTAL}, on the page Bot, and set it with `gatepost channel set`",
            find_retry_after=read_retry_after,
            read_error=read_error,
        )


def read_error(given: PlatformAnswer) -> Unavailable | None:
    """A limit is of one route, so of one room, unless it says that it is of the whole bot. An answer without JSON is
    the proxy's before the API, which refuses our address."""
    if given.status == 429 and (not isinstance(given.body, dict) or given.body.get("global")):
        return Unavailable("Discord", "it asks us to wait", retry_after=given.retry_after, everywhere=True)
    return None


def read_retry_after(response: httpx2.Response, answer: Any) -> float | None:
    """The body is more exact than the header, which has whole seconds."""
    found = answer.get("retry_after") if isinstance(answer, dict) else None
    return float(found) if isinstance(found, int | float) else None
