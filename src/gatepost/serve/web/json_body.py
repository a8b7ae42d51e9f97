"""One text of a JSON body, within a size."""

import json

from starlette.requests import Request

from gatepost.core.errors import Invalid


async def read_text_field(request: Request, name: str, largest: int) -> str:
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
    text = value.get(name) if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise Invalid(name, "it is missing")
    return text
