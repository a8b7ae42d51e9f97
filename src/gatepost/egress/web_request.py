"""One request of the gateway on behalf of an agent, and its answer: over the agent's own way out, and bounded.

Nothing of the gateway goes along: no cookie, no secret that is bound to the host, no proxy. Redirects are followed, and
each is judged anew. An answer is taken whole or refused.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from urllib.parse import quote, urljoin, urlsplit

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.egress import rules
from gatepost.egress.http import LARGEST_HEAD, HttpRefusal, parse_answer_head, read_answer_head, read_chunks
from gatepost.egress.pace import PacedReader
from gatepost.egress.rules import EgressTarget, EgressVerdict
from gatepost.egress.secret_bindings import PORTS
from gatepost.egress.way_out import WayOut

LONGEST_URL = 4000
LARGEST_ANSWER = 10 * 1024 * 1024  # bytes, as they come and as they are when unpacked
MOST_REDIRECTS = 5
WHOLE_S = 30.0  # for a request with its redirects, however slowly something comes
UNPACKED = 256 * 1024  # bytes that are unpacked without a break
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_BODILESS = frozenset((204, 304))
_KEPT = "!#$%&'()*+,/:;=?@[]~"  # what stands in an address as it is; what is encoded already stays so
_AGENT = "Mozilla/5.0 (compatible; Gatepost)"


class WebUrl(Struct, frozen=True):
    """An address that may be asked: http or https, a host's name, nobody's name or password."""

    scheme: str
    target: EgressTarget
    path: str  # with what is behind the question mark

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        return self.target.host if self.target.port == PORTS[self.scheme] else str(self.target)


class WebAnswer(Struct, frozen=True):
    url: WebUrl  # that answered, after redirects
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


def read_url(text: str) -> WebUrl:
    """Raises Invalid."""
    given = text.strip()
    if len(given) > LONGEST_URL:
        raise Invalid("url", f"has {len(given)} characters; at most {LONGEST_URL} are possible")
    if "\\" in given or not given.isprintable():
        raise Invalid("url", "has signs in it that no address has")
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        raise Invalid("url", f"{given[:80]!r} is not an address") from None
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise Invalid("url", f"{given[:80]!r} begins neither with https:// nor with http://")
    if parts.username is not None or parts.password is not None:
        raise Invalid("url", "holds a name or a password; nobody is signed in by this tool")
    port = PORTS[scheme] if port is None else rules.read_port(str(port))
    target = EgressTarget(rules.read_host(parts.hostname or ""), port)
    path = quote(parts.path, safe=_KEPT) or "/"
    return WebUrl(scheme, target, path + (f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""))


async def fetch_page(way: WayOut, url: WebUrl) -> WebAnswer:
    """Get what stands at an address, wherever it redirects. Raises HttpRefusal, which is recorded."""
    try:
        async with asyncio.timeout(WHOLE_S):
            for _ in range(MOST_REDIRECTS + 1):
                answer = await exchange(way, url)
                location = answer.headers.get("location", "")
                if answer.status not in _REDIRECTS or not location:
                    return answer
                url = _follow(answer.url, location)
        raise HttpRefusal(502, f"{url.target} redirects more than {MOST_REDIRECTS} times", str(url.target))
    except TimeoutError:
        no = HttpRefusal(504, f"{url.target} has not answered in full within {WHOLE_S:g} s", str(url.target))
        way.record_refusal(no)
        raise no from None
    except HttpRefusal as no:
        way.record_refusal(no)
        raise


def _follow(url: WebUrl, location: str) -> WebUrl:
    try:
        return read_url(urljoin(str(url), location.strip()))
    except (Invalid, ValueError) as error:
        why = str(error) if isinstance(error, Invalid) else "it is not an address"
        raise HttpRefusal(
            403, f"{url.target} redirects to a place that is not gone to: {why}", str(url.target)
        ) from None


async def exchange(
    way: WayOut,
    url: WebUrl,
    method: str = "GET",
    headers: Mapping[str, str] = MappingProxyType({}),
    body: bytes = b"",
    largest: int = LARGEST_ANSWER,
    verdict: EgressVerdict | None = None,
) -> WebAnswer:
    """One request, without redirects. `verdict`: the host was judged otherwise than by its rules. Raises
    HttpRefusal."""
    tls = await asyncio.to_thread(way.load_tls) if url.scheme == "https" else None
    upstream, sink = await way.proxy.connect(url.target, tls, verdict)
    try:
        sink.write(_render_request(url, method, headers, body))
        await sink.drain()
        return await _read_answer(PacedReader(upstream, way.pace), url, largest)
    except OSError as error:
        raise HttpRefusal(502, f"{url.target} broke off: {error.strerror or error}", str(url.target)) from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, zlib.error):
        raise HttpRefusal(502, f"{url.target} gave no answer, or none that can be read", str(url.target)) from None
    finally:
        sink.close()


def _render_request(url: WebUrl, method: str, headers: Mapping[str, str], body: bytes) -> bytes:
    sent = {
        "host": url.authority,
        "user-agent": _AGENT,
        "accept": "text/html,application/xhtml+xml,*/*;q=0.8",
        "accept-encoding": "identity",
        **headers,
        **({"content-length": str(len(body))} if body else {}),
        "connection": "close",
    }
    lines = [f"{method} {url.path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


async def _read_answer(upstream: PacedReader, url: WebUrl, largest: int) -> WebAnswer:
    status, headers = parse_answer_head(await read_answer_head(upstream))
    if status in _BODILESS or status in _REDIRECTS:
        return WebAnswer(url, status, headers, b"")
    body = bytearray()
    async for piece in _unpack(_read_body(upstream, headers, url, largest), headers, url):
        body += piece
        if len(body) > largest:
            raise _too_large(url, largest)
    return WebAnswer(url, status, headers, bytes(body))


async def _read_body(
    upstream: PacedReader, headers: Mapping[str, str], url: WebUrl, largest: int
) -> AsyncIterator[bytes]:
    """As it comes: what is packed has the same bound as what it becomes."""
    coding, size = headers.get("transfer-encoding", "").lower(), headers.get("content-length", "")
    if coding:
        if coding != "chunked":
            raise ValueError("a framing that was not asked for")
        async for piece in read_chunks(upstream, largest + LARGEST_HEAD):
            yield piece
        return
    if size and not (size.isascii() and size.isdigit()):
        raise ValueError("a length that is none")
    left = int(size) if size else None
    if left is not None and left > largest:
        raise _too_large(url, largest)
    taken = 0
    while left != 0:
        piece = await upstream.read()
        if not piece:
            if left is not None:
                raise asyncio.IncompleteReadError(b"", left)
            return
        piece = piece if left is None else piece[:left]
        left = None if left is None else left - len(piece)
        taken += len(piece)
        if taken > largest:
            raise _too_large(url, largest)
        yield piece


async def _unpack(pieces: AsyncIterator[bytes], headers: Mapping[str, str], url: WebUrl) -> AsyncIterator[bytes]:
    """Packed although that was not asked for: unpacked step by step, so that little never becomes much at once."""
    packing = headers.get("content-encoding", "").strip().lower()
    if packing in ("", "identity"):
        async for piece in pieces:
            yield piece
        return
    if packing not in ("gzip", "x-gzip", "deflate"):
        raise HttpRefusal(502, f"{url.target} packs its answer as {packing[:20]!r}, which is not read", str(url.target))
    unpacking = zlib.decompressobj(47)  # gzip or zlib, by its head
    async for piece in pieces:
        left = piece
        while left:
            yield unpacking.decompress(left, UNPACKED)
            if unpacking.eof:  # what follows is no part of it, and would be kept and copied with every further piece
                return
            left = unpacking.unconsumed_tail
            await asyncio.sleep(0)
    yield unpacking.flush()


def _too_large(url: WebUrl, largest: int) -> HttpRefusal:
    most = largest // 1024**2
    why = f"{url.target} answers with more than {most} MB; download it with a program of your own, in parts"
    return HttpRefusal(502, why, str(url.target))
