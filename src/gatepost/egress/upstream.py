"""The models' vendors: how they are asked, and what of their answers goes back into a sandbox.

Headers go both ways by list. The key is in one header out; an answer that holds it, wherever, comes back without it.
Redirects are not followed and not passed on.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.process.fencing import FenceCheck, always, check_contact
from gatepost.core.secret_scrubber import SecretStreamScrubber
from gatepost.egress import token_usage
from gatepost.egress.http import EgressClient, HttpRefusal, HttpRequestHead
from gatepost.egress.rules import EgressTarget, read_host
from gatepost.store.rights.secret_rows import UNBOUND

if TYPE_CHECKING:
    import httpx2

LARGEST_ANSWER = 64 * 1024 * 1024
LARGEST_OWN = 16 * 1024 * 1024  # of an answer to the gateway itself
BIG = 64 * 1024  # bytes; an answer above that is read off the loop
STEP = 4 * 1024  # bytes of a stream that are read without a break: that many may be a thousand events
SENT = 64 * 1024  # bytes of a body that are sent, and encrypted, without a break
MOST_BETAS = 64  # of a request that are looked at
CONNECT_S, SILENCE_S = 15.0, 600.0
USUAL_VERSION = "v1"
REFUSES_KEY = "the model's endpoint refuses the gateway's key; the operator must look"
BAD_GOOGLE_KEY = b"API_KEY_INVALID"  # in the error with which Google refuses a key, whose status is 400
_SENT = ("accept", "anthropic-version", "user-agent")
_PASSED = ("content-type", "request-id", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry")
_PASSED_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-")
# Betas by list, without their dates: none of these costs more than the price list says, works on what is kept at the
# vendor's, or lets another model answer. Others are left out, and the client's own fallback takes their place.
_BETAS = frozenset(
    {
        "advanced-tool-use",
        "claude-code",
        "claude-code-side-query",
        "computer-use",
        "context-management",
        "effort",
        "extended-cache-ttl",
        "fine-grained-tool-streaming",
        "interleaved-thinking",
        "mid-conversation-system",
        "mid-conversation-tool-changes",
        "oauth",
        "output-128k",
        "pdfs",
        "prompt-caching",
        "prompt-caching-scope",
        "redact-thinking",
        "structured-outputs",
        "thinking-display-updates",
        "thinking-token-count",
        "token-counting",
        "token-efficient-tools",
        "tool-examples",
        "tool-search-tool",
    }
)
_VERSIONED = re.compile(r"/v[0-9]\w*(?:/|\Z)")  # `/v1`, `/v1beta/openai`
_DATED = re.compile(r"([a-z0-9-]{1,60}?)-20[0-9]{2}-?[0-9]{2}-?[0-9]{2}\Z")


class VendorBaseUrl(Struct, frozen=True):
    """The beginning of a vendor's API; its version is in `url`."""

    url: str
    host: str
    port: int
    default: bool  # the vendor's own, where nothing is answered without a key
    own: bool = False  # a group's, not the gateway's

    @property
    def origin(self) -> str:
        """Return what a key is given for."""
        return f"{self.url.partition(':')[0]}://{self.host}:{self.port}"

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of keys that may be sent here. A key set before origins were recorded is for the gateway's
        endpoint."""
        return (self.origin,) if self.own else (self.origin, UNBOUND)

    @property
    def target(self) -> EgressTarget | None:
        """As a sandbox might name it; None if it is an address, which no sandbox may."""
        try:
            return EgressTarget(read_host(self.host), self.port)
        except Invalid:
            return None


def parse_base_url(
    name: str, text: str, *, default: bool, own: bool = False, version: str = USUAL_VERSION
) -> VendorBaseUrl:
    """`…/v1` may be written or left out, unless another version is in the path."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise SetupError(f"{name} = {text!r} is not an address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise SetupError(f"{name} = {text!r} is not an address; write it like https://host/v1, without user or query")
    path = parts.path.rstrip("/")
    path = path if _VERSIONED.search(path) else f"{path}/{version}"
    return VendorBaseUrl(f"{parts.scheme}://{parts.netloc}{path}", parts.hostname, port, default, own)


@dataclass(frozen=True, slots=True)
class VendorKey:
    value: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    beta: str = ""


NO_KEY = VendorKey("", {})


@dataclass(slots=True)
class Bill:
    """The costs of a call so far. Nothing asked, or refused by the vendor, is free."""

    free: bool = True
    measured: token_usage.MeasuredUsage = field(default_factory=token_usage.MeasuredUsage)
    arrived: int = 0  # bytes of what the model wrote
    started_at: float | None = None  # by the loop's clock: when it was asked
    read_at: float | None = None  # the same: when something of its answer was last read

    @property
    def seconds(self) -> float:
        """Since it was asked."""
        return asyncio.get_running_loop().time() - self.started_at if self.started_at is not None else 0.0

    @property
    def unread_seconds(self) -> float:
        """Since something of its answer was read: who does not read keeps the vendor's words in buffers, uncounted."""
        return asyncio.get_running_loop().time() - self.read_at if self.read_at is not None else self.seconds


class Upstream:
    """Connections to the vendors, kept between calls. The client library is loaded with the first one."""

    def __init__(self, may_act: FenceCheck = always) -> None:
        self._may_act = may_act
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _opened(self) -> "httpx2.AsyncClient":
        """Made off the loop: the library and the system's certificates take a few hundred milliseconds to read."""
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(_make_client)
            return self._client

    @asynccontextmanager
    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, bill: Bill
    ) -> AsyncIterator["httpx2.Response"]:
        """The vendor's answer, its body unread. From the moment the request may have arrived, it is not free."""
        client = await self._opened()
        import httpx2

        sent = dict(headers)
        if body is not None:
            sent["content-length"] = str(len(body))
        content = _in_pieces(body) if body else body
        request = client.build_request(method, url, headers=sent, content=content)
        check_contact(self._may_act)  # at the last moment: what was waited for above may have taken long
        bill.free = False
        bill.started_at = asyncio.get_running_loop().time()
        try:
            response = await client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            bill.free = True
            raise HttpRefusal(502, "the model's endpoint cannot be reached") from None
        except httpx2.TimeoutException:
            raise HttpRefusal(504, "the model's endpoint does not answer") from None
        except httpx2.HTTPError:
            raise HttpRefusal(502, "the model's endpoint broke off") from None
        bill.free = response.status_code != 200
        try:
            yield response
        except httpx2.HTTPError:
            raise HttpRefusal(502, "the model's endpoint broke off") from None
        finally:
            await response.aclose()


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), SENT):
        yield body[at : at + SENT]
        await asyncio.sleep(0)


def _make_client() -> "httpx2.AsyncClient":
    import httpx2

    return httpx2.AsyncClient(
        follow_redirects=False,
        trust_env=False,  # no .netrc, no proxy that nobody told us about
        timeout=httpx2.Timeout(SILENCE_S, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
    )


def request_headers(head: HttpRequestHead, vendor: str, key: VendorKey) -> dict[str, str]:
    sent = {name: head.get(name) for name in _SENT if head.get(name)}
    sent.setdefault("user-agent", "gatepost")
    sent["accept-encoding"] = "identity"
    if head.method == "POST":  # what we wrote is JSON, however the client would have it read
        sent["content-type"] = "application/json"
    if vendor == "anthropic":
        sent.setdefault("anthropic-version", "2023-06-01")
        said = ",".join(value for name, value in head.headers if name == "anthropic-beta")
        given = [each.strip() for each in said.split(",", MOST_BETAS)[:MOST_BETAS]]
        betas = [each for each in given if _is_listed(each)]
        betas += [key.beta] if key.beta and key.beta not in betas else []
        if betas:
            sent["anthropic-beta"] = ",".join(betas)
    return {**sent, **key.headers}


def _is_listed(beta: str) -> bool:
    dated = _DATED.match(beta)
    return dated is not None and dated[1] in _BETAS


def filter_response_headers(response: "httpx2.Response", key: str) -> list[tuple[str, str]]:
    return [
        (name, value)
        for name, value in response.headers.items()
        if (name in _PASSED or name.startswith(_PASSED_PREFIXES)) and not (key and key in value) and value.isprintable()
    ]


async def send_response(client: EgressClient, response: "httpx2.Response", key: str, bill: Bill) -> None:
    """An answer in one piece."""
    if response.status_code in (401, 403):
        # Vendors like to quote a part of the key.
        raise HttpRefusal(response.status_code, REFUSES_KEY)
    if 300 <= response.status_code < 400 or response.status_code < 200:
        raise HttpRefusal(502, "the model's endpoint sent us elsewhere, which is not followed")
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        await client.pace.spend(len(piece))
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise HttpRefusal(502, f"the model's endpoint answered with more than {LARGEST_ANSWER} bytes")
        pieces.append(piece)
    raw = b"".join(pieces)
    if response.status_code == 400 and BAD_GOOGLE_KEY in raw:
        raise HttpRefusal(401, REFUSES_KEY)
    if not bill.free:
        bill.measured = (
            token_usage.read_response_usage(raw)
            if size <= BIG
            else await asyncio.to_thread(token_usage.read_response_usage, raw)
        )
    raw = await _scrub(raw, key)
    headers = filter_response_headers(response, key)
    client.start(response.status_code, [*headers, ("content-length", str(len(raw)))])
    await client.send(raw)


async def read_bounded(response: "httpx2.Response", most: int) -> bytes | None:
    """Return an answer to the gateway itself; None if it has more bytes than that."""
    raw = bytearray()
    async for piece in response.aiter_bytes():
        raw += piece
        await asyncio.sleep(0)  # pieces that have arrived come without a break
        if len(raw) > most:
            return None
    return bytes(raw)


async def post_once(
    url: str,
    key: str,
    accept: str,
    body: object,
    bill: Bill,
    wait_s: float,
    may_act: FenceCheck,
    refuse: Callable[[int, str], Exception],
) -> bytes:
    """Post JSON of the gateway's own and return the answer. `refuse`: makes the error of a status, 0 if there is no
    whole answer, and of the words that say so."""
    headers = {"content-type": "application/json", "accept": accept, "user-agent": "gatepost"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    upstream = Upstream(may_act)
    try:
        async with asyncio.timeout(wait_s):
            async with upstream.ask("POST", url, headers, msgspec.json.encode(body), bill) as response:
                if response.status_code != 200:
                    raise refuse(response.status_code, f"it answered {response.status_code}")
                found = await read_bounded(response, LARGEST_OWN)
    except TimeoutError:
        raise refuse(0, f"it has not answered within {wait_s:g} s") from None
    except HttpRefusal:
        raise refuse(0, "it cannot be reached, or broke off") from None
    finally:
        await upstream.close()
    if found is None:
        raise refuse(0, f"it answered with more than {LARGEST_OWN} bytes")
    return found


async def _scrub(raw: bytes, key: str) -> bytes:
    scrub, pieces = SecretStreamScrubber([key]), []
    for at in range(0, len(raw), BIG):
        pieces.append(scrub.feed(raw[at : at + BIG]))
        await asyncio.sleep(0)
    return b"".join((*pieces, scrub.rest()))


async def stream_response(
    client: EgressClient, response: "httpx2.Response", key: str, bill: Bill, *, drop_usage: bool
) -> None:
    """Events as they come. One that ends early has no end for the client either."""
    events = token_usage.UsageEventFilter(key, drop_usage=drop_usage)
    client.start(200, [*filter_response_headers(response, key), ("transfer-encoding", "chunked")])
    try:
        clock = asyncio.get_running_loop().time
        async for piece in response.aiter_bytes():
            bill.read_at = clock()
            for at in range(0, len(piece), STEP):
                passed = events.feed(piece[at : at + STEP])
                bill.measured, bill.arrived = events.measured, events.arrived
                if passed:
                    await client.send_chunk(passed)
                await client.pace.spend(min(len(piece) - at, STEP))
        rest = events.rest()
        if rest:
            await client.send_chunk(rest)
    except ValueError:
        return  # an event without end: what it cost is not known
    finally:
        bill.measured, bill.arrived = events.measured, events.arrived
    await client.send_chunk(b"")
