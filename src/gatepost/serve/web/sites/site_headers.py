"""What a browser may do with a group's page. An agent wrote it, so it gets an origin of its own that nobody else has:
no cookie, no storage, no request with the visitor's rights. It loads nothing from other hosts, and stands in no frame.
"""

import re

from gatepost.serve.web.chat_files import PDF_POLICY
from gatepost.serve.web.sites.site_files import PDF, UNKNOWN_TYPE

SANDBOX = "sandbox allow-scripts allow-forms allow-popups"
_HOST = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]{1,5})?\Z")  # what a policy can name


def make_policy(host: str, base: str) -> str:
    """`base`: the path below which the page may load something, with a slash at its end."""
    own = f"{host}{base}" if _HOST.match(host) else "'self'"
    return (
        f"{SANDBOX}; default-src 'none'; script-src {own} 'unsafe-inline' 'unsafe-eval'; style-src {own}"
        f" 'unsafe-inline'; img-src {own} data: blob:; font-src {own} data:; media-src {own} data: blob:;"
        f" connect-src {own}; form-action {own}; manifest-src {own}; worker-src blob:; base-uri 'none';"
        " frame-ancestors 'none'"
    )


def make_site_headers(media_type: str, policy: str, *, public: bool) -> dict[str, str]:
    """Every file may be loaded by the page beside it, which has no origin: so by each page that knows its address."""
    headers = {
        "content-type": media_type,
        "content-security-policy": PDF_POLICY if media_type == PDF else policy,  # no viewer works in a sandbox
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "access-control-allow-origin": "*",
        "cross-origin-resource-policy": "cross-origin",
        "cross-origin-opener-policy": "unsafe-none",  # a window that such a page opens is as confined as itself
        "permissions-policy": "microphone=(), camera=(), geolocation=(), payment=(), usb=()",
        "cache-control": "no-cache" if public else "private, no-cache",
    }
    if media_type == UNKNOWN_TYPE:
        headers["content-disposition"] = "attachment"
    return headers
