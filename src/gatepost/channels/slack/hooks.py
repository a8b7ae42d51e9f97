"""HTTP events: whether Slack sent it, and what is in it. Pure."""

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import parse_qs

from gatepost.channels.contract import HookRequest

WINDOW_S = 300


def sign(secret: str, moment: str, body: bytes) -> str:
    return "v0=" + hmac.new(secret.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()


def is_genuine(request: HookRequest, secret: str, now_s: int) -> bool:
    """Signed with our secret, and not long ago: an old request is somebody's recording."""
    moment = request.headers.get("x-slack-request-timestamp", "")
    given = request.headers.get("x-slack-signature", "")
    if not secret or not moment.isascii() or not moment.isdecimal() or len(moment) > 12:
        return False
    recent = abs(now_s - int(moment)) <= WINDOW_S
    return recent and hmac.compare_digest(sign(secret, moment, request.body).encode(), given.encode())


def read_hook(request: HookRequest) -> dict[str, Any] | None:
    """Events are JSON; a click is JSON in a form."""
    body = request.body
    try:
        if "form-urlencoded" in request.headers.get("content-type", ""):
            form = parse_qs(body.decode(), max_num_fields=50)
            body = (form.get("payload") or [""])[0].encode()
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
