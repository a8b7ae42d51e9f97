"""A refusal as our pages read it."""

from starlette.responses import JSONResponse, Response


def error_response(kind: str, text: str, status: int) -> Response:
    return JSONResponse({"ok": False, "error": {"kind": kind, "text": text}}, status)
