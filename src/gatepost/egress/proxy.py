"""The way to allowed hosts: CONNECT, and plain HTTP in absolute form.

The name is judged, looked up, every address that came back is judged, and exactly one of those is connected to: nobody
asks the resolver a second time. Redirects are the client's to follow, through here again.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

from gatepost.core.errors import Invalid
from gatepost.egress import rules
from gatepost.egress.http import CHUNK, Client, Head, Refusal
from gatepost.egress.rules import Target, Verdict

CONNECT_S = 15.0
IDLE_S = 600.0  # a tunnel in which nothing moves is closed
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

# Threads of their own: names that are slow to look up hold up nothing but other names.
_LOOKUPS = ThreadPoolExecutor(16, "lookup")

Judge = Callable[[Target], Awaitable[Verdict]]
Resolve = Callable[[str, int], Awaitable[list[str]]]


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system's resolver tells them."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    found = await asyncio.get_running_loop().run_in_executor(_LOOKUPS, ask)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def read_connect(head: Head) -> Target:
    """The target of CONNECT; its Host may say nothing else."""
    target = _target(head.target, None)
    named = head.get("host")
    if named and _target(named, target.port) != target:
        raise Refusal(400, "Host names another place than CONNECT", str(target))
    return target


def read_absolute(head: Head) -> tuple[Target, str]:
    """The target of an absolute-form request and the path to ask it for."""
    scheme, _, rest = head.target.partition("://")
    if scheme.lower() != "http":
        raise Refusal(400, "https goes by CONNECT; only http:// is asked for in absolute form", head.target[:200])
    authority = rest.split("/", 1)[0].split("?", 1)[0].split("#", 1)[0]
    if "#" in rest or "\\" in rest:
        raise Refusal(400, "the address has signs in it that no request has", head.target[:200])
    target = _target(authority, 80)
    named = head.get("host")
    if named and _target(named, 80) != target:
        raise Refusal(400, "Host names another place than the request", str(target))
    parts = urlsplit(f"http://{authority}{rest[len(authority) :]}")
    return target, (parts.path or "/") + (f"?{parts.query}" if "?" in rest else "")


def _target(text: str, port: int | None) -> Target:
    try:
        return rules.read_target(text, port)
    except Invalid as error:
        raise Refusal(403, f"{text[:100]}: {error}", text[:200]) from None


class Proxy:
    def __init__(self, judge: Judge, reached: Callable[[Target], None], find: Resolve = resolve) -> None:
        self._judge, self._reached, self._resolve = judge, reached, find

    async def tunnel(self, client: Client, head: Head) -> None:
        """CONNECT: bytes both ways, until either side has done."""
        target = read_connect(head)
        upstream, sink = await self._connect(target)
        try:
            client.start_tunnel()
            await _both_ways(client.reader, client.writer, upstream, sink)
        finally:
            sink.close()

    async def fetch(self, client: Client, head: Head) -> None:
        """A plain request: its head is written anew, its answer passed on as it comes."""
        target, path = read_absolute(head)
        upstream, sink = await self._connect(target)
        try:
            sink.write(_render(head, target, path))
            async for piece in client.body(head, LARGEST_BODY):
                sink.write(b"%x\r\n%b\r\n" % (len(piece), piece) if head.length is None else piece)
                await sink.drain()
            if head.length is None:
                sink.write(b"0\r\n\r\n")
            await sink.drain()
            await _pass_on(upstream, client, target)
        except OSError as error:
            if client.answered:
                raise
            raise Refusal(502, f"{target} broke off: {error.strerror or error}", str(target)) from None
        finally:
            sink.close()

    async def _connect(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        verdict = await self._judge(target)
        if not verdict.allowed:
            raise Refusal(403, verdict.reason, str(target))
        last = "no address answered"
        for address in await self._addresses(target, verdict):
            try:
                async with asyncio.timeout(CONNECT_S):
                    connection = await asyncio.open_connection(address, target.port, limit=CHUNK)
            except TimeoutError:
                last = "it does not answer"
            except OSError as error:
                last = error.strerror or str(error)
            else:
                self._reached(target)
                return connection
        raise Refusal(502, f"{target} cannot be reached: {last}", str(target))

    async def _addresses(self, target: Target, verdict: Verdict) -> list[str]:
        """All of them must be fit: one that is not says that somebody plays with the name."""
        try:
            async with asyncio.timeout(CONNECT_S):
                found = await self._resolve(target.host, target.port)
        except (OSError, UnicodeError, TimeoutError):
            raise Refusal(502, f"{target.host} is not known to the gateway's resolver", str(target)) from None
        for address in found:
            why = rules.judge_address(address, local=verdict.local)
            if why:
                raise Refusal(403, f"{target} may not be reached: {why}", str(target))
        return found


def _render(head: Head, target: Target, path: str) -> bytes:
    named = {name.strip().lower() for name in head.get("connection").split(",")}
    kept = [(name, value) for name, value in head.headers if name not in _HOP and name not in named]
    host = target.host if target.port == 80 else str(target)
    length = [("transfer-encoding", "chunked")] if head.length is None else []
    if head.length or head.get("content-length"):
        length = [("content-length", str(head.length))]
    lines = [f"{head.method} {path} HTTP/1.1", f"host: {host}"]
    lines += [f"{name}: {value}" for name, value in (*kept, *length)]
    return "\r\n".join((*lines, "connection: close", "", "")).encode("latin-1")


async def _pass_on(upstream: asyncio.StreamReader, client: Client, target: Target) -> None:
    """The answer is for the sandbox alone, and its connection ends with it: there is nothing in it to judge."""
    while True:
        try:
            async with asyncio.timeout(IDLE_S):
                piece = await upstream.read(CHUNK)
        except TimeoutError:
            piece = b""
        if not piece and not client.answered:
            raise Refusal(502, f"{target} gave no answer", str(target))
        if not piece:
            return
        client.answered = True
        await client.send(piece)


async def _both_ways(
    inner: asyncio.StreamReader, back: asyncio.StreamWriter, outer: asyncio.StreamReader, out: asyncio.StreamWriter
) -> None:
    loop = asyncio.get_running_loop()
    moved = [loop.time()]

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> bool:
        """False: one side is gone, and the other has nobody to talk to."""
        try:
            while piece := await source.read(CHUNK):
                moved[0] = loop.time()
                sink.write(piece)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()
        except OSError:
            return False
        return True

    async with asyncio.TaskGroup() as group:
        pumps = {group.create_task(pump(inner, out)), group.create_task(pump(outer, back))}
        whole = True
        while pumps and whole and loop.time() - moved[0] < IDLE_S:
            done, pumps = await asyncio.wait(pumps, timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED)
            whole = all(each.result() for each in done)
        for each in pumps:
            each.cancel()
