"""Headers that say what a browser may do with the page of a chat link.

The page has our origin, so a browser that is signed in may send our cookie along. The policy lets its scripts ask
nothing but the widget's own addresses, which look at no cookie. Which pages may show it in a frame, the link says.
"""

import re

from gatepost.serve.web.browser_security import HEADERS

API = "/chat/api/"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?\Z")
NOWHERE = "'none'"


def render_headers(host: str, origins: str) -> dict[str, str]:
    """`host`: as the browser named us. `origins`: of pages that may show it, between blanks; '': none."""
    ours = f"{host}{API}" if _HOST.match(host) else "'self'"  # a policy cannot name an IPv6 address
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none';"
        f" connect-src {ours}; frame-ancestors {origins or NOWHERE}"
    )
    headers = {
        "content-security-policy": policy,
        "permissions-policy": "microphone=(), camera=(), geolocation=(), payment=(), usb=()",
        "cross-origin-resource-policy": "cross-origin" if origins else HEADERS["cross-origin-resource-policy"],
        "x-robots-tag": "noindex",
    }
    return headers if origins else {**headers, "x-frame-options": HEADERS["x-frame-options"]}
