"""JSON between our pages and the gateway: a body within its size, and a refusal."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.core.errors import Invalid


async def read_object(request: Request, largest: int) -> dict[str, Any]:
    """`largest`: bytes of the whole body. The announced length is not believed: what comes is counted."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > largest:
            raise Invalid("body", "too large")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise Invalid("body", "it is not JSON") from None
    return value if isinstance(value, dict) else {}


def get_text(given: dict[str, Any], name: str) -> str:
    text = given.get(name)
    if not isinstance(text, str):
        raise Invalid(name, "it is missing")
    return text


async def read_text_field(request: Request, name: str, largest: int) -> str:
    return get_text(await read_object(request, largest), name)


def error_response(kind: str, text: str, status: int) -> Response:
    """A refusal as our pages read it."""
    return JSONResponse({"ok": False, "error": {"kind": kind, "text": text}}, status)
