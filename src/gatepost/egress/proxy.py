"""The way to allowed hosts: CONNECT, plain HTTP in absolute form, and `/to/HOST/…`, which we ask over TLS ourselves.

The name is judged and looked up. Every address that comes back is judged, and one of exactly those is connected to:
nobody asks the resolver a second time. Redirects are the client's to follow, through here again. Secrets bound to a
host are put into the latter two forms. A tunnel is the client's own. Its first bytes, TLS or plain HTTP, must name the
host that it was allowed for. A plain one takes one request, since a second could name another host.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from urllib.parse import urlsplit

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.core.process.fencing import FenceCheck, always, check_contact
from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.core.secret_scrubber import SecretStreamScrubber
from gatepost.egress import rules, tls_client_hello
from gatepost.egress.http import (
    CHUNK,
    MOST_HEADERS,
    NOT_ASKED,
    EgressClient,
    HttpRefusal,
    HttpRequestHead,
    send_scrubbed_response,
)
from gatepost.egress.pace import PacedReader
from gatepost.egress.rules import EgressTarget, EgressVerdict
from gatepost.egress.secret_bindings import PORTS, SecretHeader

CONNECT_S = 15.0
IDLE_S = 600.0  # a tunnel in which nothing moves is closed
TO = "/to/"
TLS_PORT = 443  # here nothing but TLS is spoken
HTTP_PORT = 80  # here nothing but TLS or plain HTTP
MOST_LOOKUPS = 4  # of one session at once
LONGEST_LINE = 16 * 1024
LARGEST_BODY = 1024 * 1024 * 1024
_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "expect",
    }
)

MOST_BLANKS = 64  # bytes before a plain request; a server passes over an empty line or two
_BLANK = b"\t\n\v\f\r "  # a lenient server passes over these before a request and takes them for spaces (RFC 9112, 3)
_HTTP = re.compile(rb"[\t-\r ]*[!-~]+[\t\v\f\r ].*HTTP/[0-9]\Z", re.IGNORECASE | re.DOTALL)

# What ends the first line of a plain request: its version. Or a control sign, which says that it is none.
_LINE_END = re.compile(rb"HTTP/[0-9]|[\x00-\x08\n\x0e-\x1f]", re.IGNORECASE)
_OVERLAP = len(b"HTTP/")  # bytes in which a version may have begun

CheckTarget = Callable[[EgressTarget], Awaitable[EgressVerdict]]
Resolve = Callable[[str, int, BoundedThreadPool], Awaitable[list[str]]]
FindSecretHeaders = Callable[[str, EgressTarget], Awaitable[list[SecretHeader]]]


async def resolve(host: str, port: int, threads: BoundedThreadPool) -> list[str]:
    """The addresses of a name, as the system's resolver tells them. Slow names hold up their own session's alone."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    found = await threads.run(ask)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def read_connect(head: HttpRequestHead) -> EgressTarget:
    """The target of CONNECT; its Host may say nothing else."""
    target = _target(head.target, None)
    named = head.get("host")
    if named and _target(named, target.port) != target:
        raise HttpRefusal(400, "Host names another place than CONNECT", str(target))
    return target


def read_absolute(head: HttpRequestHead) -> tuple[EgressTarget, str]:
    """The target of an absolute-form request and the path to ask it for."""
    scheme, _, rest = head.target.partition("://")
    if scheme.lower() != "http":
        raise HttpRefusal(400, "https goes by CONNECT; only http:// is asked for in absolute form", head.target[:200])
    authority = rest.split("/", 1)[0].split("?", 1)[0].split("#", 1)[0]
    if "#" in rest or "\\" in rest:
        raise HttpRefusal(400, "the address has signs in it that no request has", head.target[:200])
    target = _target(authority, 80)
    named = head.get("host")
    if named and _target(named, 80) != target:
        raise HttpRefusal(400, "Host names another place than the request", str(target))
    parts = urlsplit(f"http://{authority}{rest[len(authority) :]}")
    return target, (parts.path or "/") + (f"?{parts.query}" if "?" in rest else "")


def read_forward(head: HttpRequestHead) -> tuple[EgressTarget, str]:
    """The target of `/to/HOST[:PORT]/path?query` and the rest of it. Its Host names the forwarder and means nothing."""
    rest = head.target.removeprefix(TO)
    authority = rest.split("/", 1)[0].split("?", 1)[0]
    if "#" in rest or "\\" in rest:
        raise HttpRefusal(400, "the address has signs in it that no request has", head.target[:200])
    path = rest[len(authority) :]
    return _target(authority, PORTS["https"]), path if path.startswith("/") else f"/{path}"


def _target(text: str, port: int | None) -> EgressTarget:
    try:
        return rules.read_target(text, port)
    except Invalid as error:
        raise HttpRefusal(403, f"{text[:100]}: {error}", text[:200]) from None


@cache
def load_tls_context() -> ssl.SSLContext:
    """The system's authorities; HTTP/1.1 is what we speak."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class ProxyDeps(Struct, frozen=True):
    """Things that a proxy asks of others."""

    judge: CheckTarget
    reached: Callable[[EgressTarget], None]
    bound: FindSecretHeaders
    may_act: FenceCheck = always
    resolve: Resolve = resolve
    tls: Callable[[], ssl.SSLContext] = load_tls_context


class Proxy:
    def __init__(self, deps: ProxyDeps) -> None:
        self._deps, self._lookups = deps, BoundedThreadPool(MOST_LOOKUPS)

    async def tunnel(self, client: EgressClient, head: HttpRequestHead) -> None:
        """CONNECT: bytes both ways, until either side has done."""
        target = read_connect(head)
        upstream, sink = await self.connect(target)
        try:
            client.start_tunnel()
            await _relay_tunnel(client, target, PacedReader(upstream, client.pace), sink)
        finally:
            sink.close()

    async def fetch(self, client: EgressClient, head: HttpRequestHead) -> None:
        """A plain request: its head is written anew, its answer passed on as it comes."""
        target, path = read_absolute(head)
        await self._exchange(client, head, "http", target, path)

    async def forward(self, client: EgressClient, head: HttpRequestHead) -> None:
        """`/to/…`: the same over TLS that begins here."""
        target, path = read_forward(head)
        await self._exchange(client, head, "https", target, path)

    async def _exchange(
        self, client: EgressClient, head: HttpRequestHead, scheme: str, target: EgressTarget, path: str
    ) -> None:
        verdict = await self._allowed(target)
        try:
            extra = await self._deps.bound(scheme, target)
        except HttpRefusal as no:
            no.target = str(target)
            raise
        # The system's certificates are read off the loop; from the second time on they are at hand.
        tls = await asyncio.to_thread(self._deps.tls) if scheme == "https" else None
        upstream, sink = await self._connect(target, verdict, tls)
        try:
            sink.write(_render(head, target, path, PORTS[scheme], extra))
            await sink.drain()
            async for piece in framed_body(client, head):
                sink.write(piece)
                await sink.drain()
            answer = PacedReader(upstream, client.pace)
            if extra:
                scrub = SecretStreamScrubber(each.value for each in extra)
                await send_scrubbed_response(answer, client, target, scrub, LARGEST_BODY, IDLE_S)
            else:
                await _relay_response(answer, client, target)
        except OSError as error:
            if client.answered:
                raise
            raise HttpRefusal(502, f"{target} broke off: {error.strerror or error}", str(target)) from None
        finally:
            sink.close()

    async def connect(
        self, target: EgressTarget, tls: ssl.SSLContext | None = None, verdict: EgressVerdict | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To a host that is allowed, at an address that was judged. `verdict`: it was judged before. Raises
        HttpRefusal."""
        return await self._connect(target, verdict or await self._allowed(target), tls)

    async def _allowed(self, target: EgressTarget) -> EgressVerdict:
        verdict = await self._deps.judge(target)
        if not verdict.allowed:
            raise HttpRefusal(403, verdict.reason, str(target))
        return verdict

    async def _connect(
        self, target: EgressTarget, verdict: EgressVerdict, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        last = "no address answered"
        name = target.host if tls else None
        for address in await self._addresses(target, verdict):
            check_contact(self._deps.may_act)
            try:
                async with asyncio.timeout(CONNECT_S):
                    connection = await asyncio.open_connection(
                        address, target.port, limit=CHUNK, ssl=tls, server_hostname=name
                    )
            except TimeoutError:
                last = "it does not answer"
            except ssl.SSLError as error:
                why = getattr(error, "verify_message", "") or error.reason
                last = f"its TLS or its certificate is not as it should be ({why})"
            except OSError as error:
                last = error.strerror or str(error)
            else:
                self._deps.reached(target)
                return connection
        raise HttpRefusal(502, f"{target} cannot be reached: {last}", str(target))

    async def _addresses(self, target: EgressTarget, verdict: EgressVerdict) -> list[str]:
        """All of them must be fit: one that is not says that somebody plays with the name."""
        try:
            async with asyncio.timeout(CONNECT_S):
                found = await self._deps.resolve(target.host, target.port, self._lookups)
        except (OSError, UnicodeError, TimeoutError):
            raise HttpRefusal(502, f"{target.host} is not known to the gateway's resolver", str(target)) from None
        for address in found:
            why = rules.check_address(address, local=verdict.local)
            if why:
                way = f"; the operator can: {verdict.way_in}" if why == rules.PRIVATE and verdict.way_in else ""
                raise HttpRefusal(403, f"{target} may not be reached: {why}{way}", str(target))
        return found


def _render(head: HttpRequestHead, target: EgressTarget, path: str, usual: int, extra: list[SecretHeader]) -> bytes:
    named = head.get("connection").split(",", MOST_HEADERS + 1)
    if len(named) > MOST_HEADERS:
        raise HttpRefusal(400, f"Connection names more than {MOST_HEADERS} headers", str(target))
    dropped = _HOP | {name.strip().lower() for name in named}
    if extra:
        dropped |= {*NOT_ASKED, *(each.header for each in extra)}
    kept = [(name, value) for name, value in head.headers if name not in dropped]
    kept += [("accept-encoding", "identity")] if extra else []
    kept += [(each.header, each.text) for each in extra]
    host = target.host if target.port == usual else str(target)
    length = [("transfer-encoding", "chunked")] if head.length is None else []
    if head.length or head.get("content-length"):
        length = [("content-length", str(head.length))]
    lines = [f"{head.method} {path} HTTP/1.1", f"host: {host}"]
    lines += [f"{name}: {value}" for name, value in (*kept, *length)]
    return "\r\n".join((*lines, "connection: close", "", "")).encode("latin-1")


async def _relay_response(upstream: PacedReader, client: EgressClient, target: EgressTarget) -> None:
    """The answer is for the sandbox alone, and its connection ends with it: there is nothing in it to judge."""
    while True:
        try:
            async with asyncio.timeout(IDLE_S):
                piece = await upstream.read(CHUNK)
        except TimeoutError:
            piece = b""
        if not piece and not client.answered:
            raise HttpRefusal(502, f"{target} gave no answer", str(target))
        if not piece:
            return
        client.answered = True
        await client.send(piece)


async def read_greeting(reader: PacedReader, target: EgressTarget) -> bytes:
    """Return the first bytes of a tunnel's client, if they fit the tunnel's host. They are a whole TLS greeting, the
    first line of a plain request, or any other bytes that came first. Raises Refusal."""
    said, greeting = bytearray(), tls_client_hello.HelloReader()
    try:
        while piece := await reader.read():
            said += piece
            if not tls_client_hello.begins_tls(bytes(said[:2])):
                break
            found = greeting.feed(piece)
            if found is not None and found.name == target.host:
                return bytes(said)
            if found is not None:
                named = f"names {found.name[:100]!r}" if found.name else "names no host"
                raise HttpRefusal(403, f"the TLS greeting in a tunnel to {target} {named}", str(target))
    except tls_client_hello.MalformedClientHello as error:
        raise HttpRefusal(
            403, f"the TLS greeting in a tunnel to {target} cannot be read: {error}", str(target)
        ) from None
    if said and (target.port == TLS_PORT or tls_client_hello.begins_tls(bytes(said[:2]))):
        raise HttpRefusal(403, f"a tunnel to {target} is for TLS, and something else was said in it", str(target))
    line = await _line(reader, said)
    if len(line) > LONGEST_LINE or (line and target.port == HTTP_PORT and not is_http_request(line)):
        raise HttpRefusal(403, f"a tunnel to {target}: what was said in it is neither TLS nor plain HTTP", str(target))
    if len(line) - len(line.lstrip(_BLANK)) > MOST_BLANKS:
        raise HttpRefusal(403, f"a tunnel to {target} begins with more than {MOST_BLANKS} blanks", str(target))
    return line


async def _line(reader: PacedReader, line: bytearray) -> bytes:
    """As far as it may become the first line of a plain request; what stands behind is put back. Empty lines before it
    are overlooked by servers. Every byte is looked at once, however it comes."""
    begins = searched = 0  # the first sign that is no blank; how far the line was searched
    while True:
        while begins < len(line) and begins <= MOST_BLANKS and line[begins] in _BLANK:
            begins += 1
        end = _LINE_END.search(line, max(begins, searched - _OVERLAP)) if begins <= MOST_BLANKS else None
        if end is not None:
            reader.unread(bytes(line[end.end() :]))
            return bytes(line[: end.end()])
        searched = len(line)
        if searched > LONGEST_LINE or begins > MOST_BLANKS or not (piece := await reader.read()):
            return bytes(line)
        line += piece


def is_http_request(said: bytes) -> bool:
    """Return True if a tunnel's first words are those of a plain request."""
    return _HTTP.match(said) is not None


async def rewrite_http_request(client: EgressClient, begun: bytes, target: EgressTarget) -> AsyncIterator[bytes]:
    """Plain HTTP in a tunnel: a request to the host that it was allowed for, written anew. Raises Refusal."""
    client.answered = False  # by the host, which is not asked yet: a refusal is said in the tunnel
    head = await client.head(begun)
    if head is None or not head.target.startswith("/") or not head.get("host"):
        raise HttpRefusal(403, f"plain HTTP in a tunnel to {target} asks for a path and names its host", str(target))
    if _target(head.get("host"), target.port) != target:
        raise HttpRefusal(403, f"Host names another place than the tunnel to {target}", str(target))
    client.answered = True
    yield _render(head, target, head.target, HTTP_PORT, [])
    async for piece in framed_body(client, head):
        yield piece


async def framed_body(client: EgressClient, head: HttpRequestHead) -> AsyncIterator[bytes]:
    """A request's body as it is sent on: by its length, or in chunks."""
    async for piece in client.body(head, LARGEST_BODY):
        yield b"%x\r\n%b\r\n" % (len(piece), piece) if head.length is None else piece
    if head.length is None:
        yield b"0\r\n\r\n"


async def _relay_tunnel(
    client: EgressClient, target: EgressTarget, outer: PacedReader, out: asyncio.StreamWriter
) -> None:
    inner, back, loop = client.reader, client.writer, asyncio.get_running_loop()
    moved = [loop.time()]

    async def pump(source: AsyncIterator[bytes], sink: asyncio.StreamWriter) -> bool:
        """False: one side is gone, and the other has nobody to talk to."""
        try:
            async for piece in source:
                moved[0] = loop.time()
                sink.write(piece)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()
        except OSError:
            return False
        return True

    async def read_pieces() -> AsyncIterator[bytes]:
        first = await read_greeting(inner, target)
        if is_http_request(first):
            async for piece in rewrite_http_request(client, first, target):
                yield piece
            await client.gone()
            return
        yield first
        async for piece in _pieces(inner):
            yield piece

    pumps = {loop.create_task(pump(read_pieces(), out)), loop.create_task(pump(_pieces(outer), back))}
    left, whole = set(pumps), True
    try:
        while left and whole and loop.time() - moved[0] < IDLE_S:
            done, left = await asyncio.wait(left, timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED)
            whole = not [each for each in done if not each.result()]  # every one: a refusal must not be overlooked
    except HttpRefusal:
        if client.answered:
            back.write(tls_client_hello.ALERT)  # what a TLS client can show of it
        raise
    finally:
        for each in left:
            each.cancel()
        await asyncio.wait(pumps)


async def _pieces(source: PacedReader) -> AsyncIterator[bytes]:
    while piece := await source.read(CHUNK):
        yield piece
