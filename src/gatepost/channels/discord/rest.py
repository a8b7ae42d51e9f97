"""Discord's REST API: the token, and how it says that we must wait."""

from typing import Any

import httpx2

from gatepost import __version__
from gatepost.channels.discord.gateway import PORTAL
from gatepost.channels.kit.http import PlatformHttp
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
        )

    def _check(self, response: httpx2.Response, answer: Any, action: str, effect: bool) -> None:
        """A limit is of one route, so of one room, unless it says that it is of the whole bot. An answer without JSON
        is the proxy's before the API, which refuses our address."""
        try:
            super()._check(response, answer, action, effect)
        except Unavailable as error:
            if response.status_code == 429 and (not isinstance(answer, dict) or answer.get("global")):
                raise Unavailable(
                    self.platform, "it asks us to wait", retry_after=error.retry_after, everywhere=True
                ) from None
            raise


def read_retry_after(response: httpx2.Response, answer: Any) -> float | None:
    """The body is more exact than the header, which has whole seconds."""
    found = answer.get("retry_after") if isinstance(answer, dict) else None
    return float(found) if isinstance(found, int | float) else None
