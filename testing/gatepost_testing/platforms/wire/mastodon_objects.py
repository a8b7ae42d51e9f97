"""Accounts and requests of an emulated Mastodon server, as they are written."""

import json
from typing import Any

from starlette.requests import Request

BOT_NAME = "porter"


def describe_account(account: str, name: str, url: str) -> dict[str, Any]:
    picture = f"{url}/avatars/{name}.png"
    return {
        "id": account,
        "username": name,
        "acct": name,
        "display_name": name.title(),
        "bot": name == BOT_NAME,
        "url": f"{url}/@{name}",
        "uri": f"{url}/users/{name}",
        "avatar": picture,
        "avatar_static": picture,
        "header": picture,
        "header_static": picture,
        "note": "",
        "fields": [],
        "emojis": [],
        "locked": False,
        "created_at": "2026-01-01T00:00:00.000Z",
    }


def render_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


async def read_form(request: Request) -> dict[str, Any]:
    """JSON or a form, as clients like it; `name[]` is a list."""
    if "json" in request.headers.get("content-type", ""):
        found: dict[str, Any] = await request.json()
        return found
    form, asked = await request.form(), {}
    for name in form:
        asked[name.removesuffix("[]")] = form.getlist(name) if name.endswith("[]") else form[name]
    return asked
