"""Discord's REST API: the token, and how it says that we must wait."""

from typing import Any

import httpx2

from gatepost import __version__
from gatepost.channels.discord.gateway import PORTAL
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.core.errors import Unavailable


class DiscordHttp(PlatformHttp):
    def __init__(self, base_url: str, token: str) -> None:
        self.token = token
        agent = f"DiscordBot (https://github.com/gatepost, {__version__})"
        super().__init__(
            "Discord",
            base_url,
            headers={"authorization": f"Bot {token}", "user-agent": agent},
            remedy=f"make a new token at {PORTAL}, on the page Bot, and set it with `gatepost channel set`",
            find_retry_after=read_retry_after,
            read_error=read_error,
        )


DEEPEST = 12  # of a form


def read_error(given: PlatformAnswer) -> Unavailable | PlatformRefusal | None:
    """A limit is of one route, so of one room, unless it says that it is of the whole bot. An answer without JSON is
    the proxy's before the API, which refuses our address. A refused form says in a tree which field is wrong."""
    if given.status == 429 and (not isinstance(given.body, dict) or given.body.get("global")):
        return Unavailable("Discord", "it asks us to wait", retry_after=given.retry_after, everywhere=True)
    errors = given.body.get("errors") if given.status == 400 and isinstance(given.body, dict) else None
    if errors and (wrong := find_wrong_field(errors)):
        return PlatformRefusal("Discord", given.action, given.status, given.body, wrong)
    return None


def find_wrong_field(errors: Any) -> str:
    """The path of the first field that is wrong, and why; '' if the tree is another one than documented."""
    path = list[str]()
    while isinstance(errors, dict) and errors and len(path) < DEEPEST:
        listed = errors.get("_errors")
        if isinstance(listed, list) and listed and isinstance(listed[0], dict):
            return ": ".join(filter(None, [".".join(path), str(listed[0].get("message") or "")]))
        name = next(iter(errors))
        path.append(str(name))
        errors = errors[name]
    return ""


def read_retry_after(response: httpx2.Response, answer: Any) -> float | None:
    """The body is more exact than the header, which has whole seconds."""
    found = answer.get("retry_after") if isinstance(answer, dict) else None
    return float(found) if isinstance(found, int | float) else None
