"""Headers that say what a browser may do with a group's page. An agent wrote it, so it gets an origin of its own that
nobody else has: no cookie, no storage, no request with the visitor's rights. It loads nothing from other hosts.

A page that is not public may hold what nobody else is to see. It is shown in a frame of ours alone. Our page's policy
says where that frame may go, so no script of the agent's carries data elsewhere by leading the browser there.
"""

import html

from gatepost.core.late_pattern import late_pattern
from gatepost.serve.web.chat_files import PDF_POLICY
from gatepost.serve.web.sites.site_files import PDF, UNKNOWN_TYPE

PUBLIC_SANDBOX = "sandbox allow-scripts allow-forms allow-popups"
FRAMED_SANDBOX = "allow-scripts allow-forms"
# Browsers that know it open no connection elsewhere for the page: none of WebRTC, and none in advance.
ALLOWED_CONNECTIONS = {"connection-allowlist": "(response-origin)", "x-dns-prefetch-control": "off"}
ACTIVE = ("text/html; charset=utf-8", "image/svg+xml", "text/xml; charset=utf-8")
_HOST = late_pattern(r"[A-Za-z0-9.-]+(?::[0-9]{1,5})?\Z")  # what a policy can name
_STYLE = (
    "html,body{margin:0;height:100%}body{display:flex;flex-direction:column;font:13px system-ui,sans-serif;"
    "color-scheme:light dark}p{margin:0;padding:6px 12px;opacity:.75}iframe{flex:1;border:0;width:100%;background:#fff}"
)


def render_own(host: str, base: str) -> str:
    """Return the place below `base`, which ends with a slash, as a policy names it."""
    return f"{host}{base}" if _HOST.match(host) else "'self'"


def make_policy(host: str, base: str, *, framed: bool = False) -> str:
    """`base`: the path below which the page may load something, with a slash at its end."""
    own = render_own(host, base)
    sandbox, ancestors = (f"sandbox {FRAMED_SANDBOX}", "self") if framed else (PUBLIC_SANDBOX, "none")
    return (
        f"{sandbox}; default-src 'none'; script-src {own} 'unsafe-inline' 'unsafe-eval'; style-src {own}"
        f" 'unsafe-inline'; img-src {own} data: blob:; font-src {own} data:; media-src {own} data: blob:;"
        f" connect-src {own}; form-action {own}; manifest-src {own}; worker-src blob:; base-uri 'none';"
        f" webrtc 'block'; frame-ancestors '{ancestors}'"
    )


def make_site_headers(media_type: str, policy: str, *, public: bool) -> dict[str, str]:
    """A public file may be loaded by the page beside it, which has no origin: so by each page that knows its address.
    Any other file is for pages without an origin alone."""
    headers = {
        "content-type": media_type,
        "content-security-policy": PDF_POLICY if media_type == PDF else policy,  # no viewer works in a sandbox
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY" if public else "SAMEORIGIN",
        "access-control-allow-origin": "*" if public else "null",
        "cross-origin-resource-policy": "cross-origin",
        "cross-origin-opener-policy": "unsafe-none",  # a window that such a page opens is as confined as itself
        "permissions-policy": "microphone=(), camera=(), geolocation=(), payment=(), usb=()",
        "cache-control": "no-cache" if public else "private, no-cache",
    }
    if not public:
        headers |= ALLOWED_CONNECTIONS
    if media_type == UNKNOWN_TYPE:
        headers["content-disposition"] = "attachment"
    return headers


def render_frame(folder: str, address: str) -> str:
    """Return a page of ours that shows one of an agent's."""
    named = html.escape(folder)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>A page of {named}</title><style>{_STYLE}</style>"
        f"<p>A page that the agent {named} made. Nothing on it leads to other sites.</p>"
        f'<iframe title="The page of {named}" sandbox="{FRAMED_SANDBOX}" src="{html.escape(address)}"></iframe></html>'
    )


def make_frame_headers(host: str, base: str) -> dict[str, str]:
    """`base`: below which the frame stays, wherever its scripts would lead it."""
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; frame-src {render_own(host, base)}; base-uri 'none';"
        " form-action 'none'; webrtc 'block'; frame-ancestors 'none'"
    )
    return {"content-security-policy": policy, "cache-control": "no-store", **ALLOWED_CONNECTIONS}
