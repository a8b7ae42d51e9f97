"""The token that each write of a signed-in browser carries besides our header and our Origin: a page of somebody else
can neither read it nor make it.

It is made from the browser's cookie, which no script sees, so it ends with it and nothing is kept. It is in no cookie
of its own: pages on other ports of this host could read that.
"""

import hashlib
import hmac

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.serve.web.browser_security import READS
from gatepost.serve.web.error_response import error_response

HEADER = "x-csrf-token"
REFUSED = "refused"  # the same header of an answer: the page asks for the token anew
_PURPOSE = b"gatepost csrf token"


def make_csrf_token(browser: str) -> str:
    """`browser`: the token of its cookie."""
    return hmac.new(browser.encode("utf-8", "surrogatepass"), _PURPOSE, hashlib.sha256).hexdigest()


def is_write_proven(request: Request, browser: str) -> bool:
    """Return True if it changes nothing, or carries the token of its browser."""
    shown = request.headers.get(HEADER, "").encode("utf-8", "replace")
    return request.method in READS or hmac.compare_digest(shown, make_csrf_token(browser).encode())


def render_refusal() -> Response:
    answer = error_response("csrf", "This page is out of date. Load it again.", 403)
    answer.headers[HEADER] = REFUSED
    return answer


async def show_csrf_token(request: Request) -> Response:
    return JSONResponse({"token": make_csrf_token(request.state.browser)})
