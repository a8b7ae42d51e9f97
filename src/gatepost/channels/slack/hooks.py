"""HTTP events: whether Slack sent it, and what is in it. Pure."""

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import parse_qs

from gatepost.channels.contract import HookRequest

WINDOW_S = 300
COMMAND_FIELDS = ("command", "text", "trigger_id", "team_id", "channel_id", "user_id", "user_name")
MOMENT, SIGNATURE = "x-slack-request-timestamp", "x-slack-signature"


def sign(secret: str, moment: str, body: bytes) -> str:
    return "v0=" + hmac.new(secret.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()


def is_genuine(request: HookRequest, secret: str, now_s: int) -> bool:
    """Signed with our secret, and not long ago: an old request is somebody's recording."""
    if not secret or not is_recent(request, now_s):
        return False
    expected = sign(secret, request.headers[MOMENT], request.body)
    return hmac.compare_digest(expected.encode(), request.headers.get(SIGNATURE, "").encode())


def is_recent(head: HookRequest, now_s: int) -> bool:
    moment = head.headers.get(MOMENT, "")
    known = moment.isascii() and moment.isdecimal() and len(moment) <= 12
    return known and abs(now_s - int(moment)) <= WINDOW_S


def read_hook(request: HookRequest) -> dict[str, Any] | None:
    """Events are JSON; a click is JSON in a form, and a slash command is a form itself."""
    body = request.body
    try:
        if "form-urlencoded" in request.headers.get("content-type", ""):
            form = parse_qs(body.decode(), max_num_fields=50)
            if "payload" not in form and ("command" in form or "ssl_check" in form):  # the latter asks for nothing
                return {name: form[name][0] for name in COMMAND_FIELDS if name in form}
            body = (form.get("payload") or [""])[0].encode()
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
