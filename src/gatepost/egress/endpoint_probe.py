"""Ask a model's endpoint whether it is there and takes a key. Costs nothing: it lists models, or counts tokens."""

import asyncio

from msgspec import Struct

from gatepost.egress.http import HttpRefusal
from gatepost.egress.upstream import Bill, Upstream, VendorBaseUrl, VendorKey

PROBE_S = 8.0
_REFUSED = (401, 403)
_NO_SUCH_PATH = (404, 405, 501)
_COUNT = b'{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hello"}]}'


class EndpointVerdict(Struct, frozen=True):
    reachable: bool
    accepted: bool | None = None  # whether it takes the key; None: it does not say
    reason: str = ""


async def probe(upstream: Upstream, vendor: str, base: VendorBaseUrl, key: VendorKey) -> EndpointVerdict:
    """Bounded by PROBE_S."""
    try:
        async with asyncio.timeout(PROBE_S):
            status = await _ask(upstream, "GET", f"{base.url}/models", vendor, key)
            if status in _NO_SUCH_PATH and vendor == "anthropic":
                status = await _ask(upstream, "POST", f"{base.url}/messages/count_tokens", vendor, key)
                status = 200 if status == 400 else status  # it judged the body, so the key has passed
    except TimeoutError:
        return EndpointVerdict(False, reason=f"it does not answer within {PROBE_S:g} s")
    except HttpRefusal as error:
        return EndpointVerdict(False, reason=error.reason)
    if status in _REFUSED:
        return EndpointVerdict(True, False, f"it answers {status}")
    return EndpointVerdict(True, True) if status == 200 else EndpointVerdict(True, None, f"it answers {status}")


async def _ask(upstream: Upstream, method: str, url: str, vendor: str, key: VendorKey) -> int:
    headers = {"accept": "application/json", "user-agent": "gatepost", **key.headers}
    if vendor == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    if key.beta:
        headers["anthropic-beta"] = key.beta
    body = None
    if method == "POST":
        headers["content-type"], body = "application/json", _COUNT
    async with upstream.ask(method, url, headers, body, Bill()) as response:
        return int(response.status_code)
