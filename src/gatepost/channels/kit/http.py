"""HTTP to a platform: one client, and one reading of what went wrong.

An adapter imports this in its `adapter.py`, never in its declaration: the client takes a tenth of a second to load.
"""

import asyncio
import json
import math
import re
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import httpx2
from msgspec import Struct

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.kit.backoff import LONGEST_ASKED_S
from gatepost.channels.kit.tls import find_bad_certificate, find_certificate_error, list_causes, make_tls
from gatepost.core.errors import GatepostError, Invalid, Refused, Unavailable
from gatepost.core.process.fencing import MAY_ACT, always, wait_for_contact
from gatepost.egress.rules import check_address
from gatepost.messages.inbound import OpenFile

LARGEST_ANSWER = 8 * 1024 * 1024
TIMEOUT_S = 25.0  # below delivery.timeout_s, so that the adapter says what happened
UNANSWERED_MS = 4000  # for which the kernel tries to send, where another gateway may act soon: shorter than a lease
LONGEST_DETAIL = 300
UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)  # nothing reached the platform
_HOST = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)?(?:[^/?#]*@)?(?P<host>[^/?#@]*)")
READING = frozenset({"GET", "HEAD"})
FOR_LATER = (408, 425)  # a request that came too slowly, or too early
NOT_OFFERED = 501  # the server is set so, and answers the same to each repetition
PORTS = {"http": 80, "https": 443}
LOOK_UP_S = 10.0


def list_socket_options() -> list[tuple[int, int, int]]:
    """List the socket options of a channel's connections.

    If several gateways share a store, the kernel drops unsent data after a while. Else it would arrive when the link is
    back, after messages that another gateway has sent meanwhile.
    """
    if MAY_ACT.get() is always or sys.platform != "linux":
        return []
    return [(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)]


class PlatformRefusal(Refused):
    """The platform says no, and will say no again."""

    def __init__(self, platform: str, action: str, status: int, answer: Any, detail: str = "") -> None:
        said = " ".join((detail or _find_detail(answer)).split())[:LONGEST_DETAIL]
        super().__init__("this bot", action, platform, f"{status} {said}".strip())
        self.status, self.answer, self.detail = status, answer, said


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformAnswer:
    """The answer of a platform to one call."""

    response: httpx2.Response
    body: Any  # decoded if it is JSON, else as text
    action: str  # what was asked for, in words
    effect: bool  # whether the call may have changed something there
    retry_after: float | None  # how long it asks us to wait, in seconds

    @property
    def status(self) -> int:
        return self.response.status_code


ReadError = Callable[[PlatformAnswer], GatepostError | None]


class PlatformHttp:
    """A client for one platform's API. `headers` (the token) go to the API's own origin alone."""

    def __init__(
        self,
        platform: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_S,
        remedy: str = "",
        find_retry_after: Callable[[httpx2.Response, Any], float | None] | None = None,
        read_error: ReadError | None = None,
        is_own_place: Callable[[str], bool] | None = None,
        ca_file: str | None = None,
    ) -> None:
        """`remedy`: what the operator does about a token that is refused. `find_retry_after`: where the platform says
        elsewhere than in the Retry-After header how long to wait. `read_error`: what an answer means, where its status
        does not say it; it is asked about each answer, and None leaves it to the status. `is_own_place`: the addresses
        that `headers` go to, where the API's own origin is not all. `ca_file`: the channel's setting, if it has one; an
        authority that is not known ends the channel then."""
        self.platform, self.base_url = platform, base_url.rstrip("/") + "/"
        check_web_address(base_url)
        parts = urlsplit(self.base_url)
        self._origin, self._headers = (parts.scheme, parts.netloc), dict(headers or {})
        self._remedy, self._find_retry_after, self._read_error = remedy, find_retry_after, read_error
        self._is_own_place = is_own_place or self._is_origin
        self._timeout, self._ca_file, self._is_known = timeout, ca_file, False
        self._making: asyncio.Task[httpx2.AsyncClient] | None = None

    async def _get_client(self) -> httpx2.AsyncClient:
        """Made when it is first needed, once, and off the loop: reading the certificates takes a while."""
        if self._making is None:
            self._making = asyncio.create_task(self._make_client())
        return await asyncio.shield(self._making)

    async def get_tls(self) -> ssl.SSLContext:
        """By which its server is known, for a connection beside it."""
        return await asyncio.to_thread(make_tls, self._ca_file) if self._ca_file else await asyncio.to_thread(_get_tls)

    async def _make_client(self) -> httpx2.AsyncClient:
        return self._open_client(await self.get_tls())

    def _open_client(self, verify: ssl.SSLContext) -> httpx2.AsyncClient:
        wire = httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, socket_options=list_socket_options())
        return httpx2.AsyncClient(transport=wire, timeout=self._timeout, follow_redirects=False, trust_env=False)

    async def close(self) -> None:
        making, self._making = self._making, None
        if making is not None:
            with suppress(ChannelEnded):  # there is no client: its certificates could not be read
                await (await making).aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        action: str = "",
        reads: bool | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **body: Any,
    ) -> Any:
        """The answer, decoded if it is JSON, else as text. `action`: the words for an error, such as "send a message".
        `reads`: it changes nothing there, so a lost answer is no uncertain effect (default: for GET). `body`: `json`,
        `params`, `data`, `files` or `content`, as httpx2 takes them."""
        _, answer = await self.exchange(
            method, path, action=action, reads=reads, headers=headers, timeout=timeout, **body
        )
        return answer

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        action: str = "",
        reads: bool | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **body: Any,
    ) -> tuple[httpx2.Response, Any]:
        """The same with the response, for its headers and status."""
        effect = not (method in READING if reads is None else reads)
        url = urljoin(self.base_url, path.lstrip("/") if "://" not in path else path)
        given = {**(self._headers if self._is_own_place(url) else {}), **(headers or {})}
        options: dict[str, Any] = body if timeout is None else {"timeout": timeout, **body}
        try:
            client = await self._get_client()
            await wait_for_contact()  # a poll would take another gateway's events
            async with client.stream(method, url, headers=given, **options) as response:
                self._is_known = True
                raw = await _read_bounded(response)
        except UNSENT as error:
            raise self._explain_unreached(url, error) from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            why = f"the connection broke ({type(error).__name__})"
            raise Unavailable(self.platform, why, uncertain=effect) from None
        except httpx2.InvalidURL as error:
            raise Invalid("address", f"{self.platform} cannot be called: {error}") from None
        answer = _decode(response, raw)
        self._raise_error(response, answer, action or f"{method} {urlsplit(url).path}", effect)
        return response, answer

    async def download(
        self, url: str, *, action: str = "read a file", known_host: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a file that the platform names, as they come; whoever reads them counts them. Elsewhere than at
        the API's own origin, it must be on the public web. `known_host`: the operator named the host."""
        try:
            full = urljoin(self.base_url, url)
            parts = urlsplit(full)
        except ValueError:
            raise Invalid("file", f"{self.platform} gave an address that cannot be read") from None
        if parts.scheme not in ("http", "https"):
            raise Invalid("file", f"{self.platform} gave an address that is not on the web")
        foreign = not known_host and (parts.scheme, parts.netloc) != self._origin
        try:
            async with self._stream_foreign(parts) if foreign else self._stream("GET", full) as response:
                if response.status_code >= 300:
                    self._raise_error(response, "", action, effect=False)
                async for chunk in response.aiter_bytes():
                    yield chunk
        except httpx2.TransportError as error:
            raise self._explain_break(full, error, "the file broke off") from None
        except httpx2.InvalidURL as error:
            raise Invalid("file", f"{self.platform} gave an address that cannot be read: {error}") from None

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, broken: str = "the connection broke", **options: Any
    ) -> AsyncIterator[httpx2.Response]:
        """An answer that is read as it comes; its status is the caller's to judge. `broken`: the words for an end of
        the connection. `options`: `headers`, `timeout` and a body, as httpx2 takes them."""
        url = urljoin(self.base_url, path)
        try:
            async with self._stream(method, url, **options) as response:
                yield response
        except httpx2.TransportError as error:
            raise self._explain_break(url, error, broken) from None

    @asynccontextmanager
    async def _stream(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> AsyncIterator[httpx2.Response]:
        client = await self._get_client()
        given = {**(self._headers if self._is_own_place(url) else {}), **(headers or {})}
        async with client.stream(method, url, headers=given, **options) as response:
            self._is_known = True
            yield response

    @asynccontextmanager
    async def _stream_foreign(self, parts: SplitResult) -> AsyncIterator[httpx2.Response]:
        """By a client of its own: a connection to the same address under another name must not be used for it. It is
        on the public web, so the public authorities count."""
        host, port = split_host(parts)
        pinned = pin_request(parts, host, port, await find_public_address(self.platform, host, port))
        async with (
            self._open_client(await asyncio.to_thread(_get_tls)) as client,
            client.stream(
                "GET", pinned.url, headers={"host": pinned.host}, extensions={"sni_hostname": pinned.name}
            ) as response,
        ):
            yield response

    def _explain_break(self, url: str, error: httpx2.TransportError, broken: str) -> GatepostError:
        if find_certificate_error(error) is not None:
            return self._explain_unreached(url, error)
        return Unavailable(self.platform, f"{broken} ({type(error).__name__})")

    def _explain_unreached(self, url: str, error: httpx2.TransportError) -> GatepostError:
        """Return the end of the channel, if its own server shows a certificate that the operator has to do with. One
        that was accepted before is waited for: somebody mends it, or this machine moves on to another network."""
        if self._ca_file is not None and not self._is_known and self._is_origin(url):
            end = find_bad_certificate(urlsplit(url).hostname or "", error)
            if end is not None:
                return end
        lasting = find_certificate_error(error) is not None
        return Unavailable(self.platform, explain_unreached(url, error), lasting=lasting)

    def _is_origin(self, url: str) -> bool:
        parts = urlsplit(url)
        return (parts.scheme, parts.netloc) == self._origin

    def _raise_error(self, response: httpx2.Response, body: Any, action: str, effect: bool) -> None:
        failed = response.status_code >= 300
        wait = self._retry_after(response, body) if failed or "retry-after" in response.headers else None
        given = PlatformAnswer(response=response, body=body, action=action, effect=effect, retry_after=wait)
        error = self._read_error(given) if self._read_error else None
        if error is None and failed:
            error = self._read_status(given)
        if error is not None:
            raise error

    def _read_status(self, given: PlatformAnswer) -> GatepostError:
        if given.status == 429:
            return Unavailable(self.platform, "it asks us to wait", retry_after=given.retry_after)
        if given.status in FOR_LATER or (given.status >= 500 and given.status != NOT_OFFERED):
            # One that says 0 is still away: our own pauses are longer. One that says a day may be back in a minute.
            wait = min(given.retry_after, LONGEST_ASKED_S) if given.retry_after else None
            return Unavailable(self.platform, f"it answers {given.status}", retry_after=wait, uncertain=given.effect)
        if given.status == 401:
            return ChannelEnded(
                EndReason.TOKEN,
                f"{self.platform} no longer accepts the token ({_find_detail(given.body)[:80] or 'unauthorized'})",
                self._remedy or "set a valid one with `gatepost channel set`",
            )
        return PlatformRefusal(self.platform, given.action, given.status, given.body)

    def _retry_after(self, response: httpx2.Response, answer: Any) -> float | None:
        """None: it does not say, or says neither a number of seconds nor a moment."""
        is_limit = response.status_code == 429  # what a limit's headers say of other answers is no wait
        try:
            found = self._find_retry_after(response, answer) if self._find_retry_after and is_limit else None
            wait = _read_wait(response.headers) if found is None else float(found)
        except (ValueError, TypeError, OverflowError):  # also of a date without a zone, or far away
            return None
        return max(wait, 0.0) if math.isfinite(wait) else None


def _read_wait(headers: Mapping[str, str]) -> float:
    """Return the seconds of Retry-After. RFC 9110 allows a moment, too: it is held against the server's own clock."""
    retry_after = headers.get("retry-after", "")
    if not retry_after[:1].isalpha() or "," not in retry_after:
        return float(retry_after)
    return (parsedate_to_datetime(retry_after) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()


def check_web_address(url: str) -> None:
    """The error shows the host alone: what follows it, or stands before it, may be a key."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port, or of an IPv6 address
        good = False
    if not good:
        found = _HOST.match(url)
        shown = f"{found['scheme'] or ''}{found['host']}" if found else ""
        raise ChannelEnded(EndReason.SETTING, f"{shown!r} is no web address", "write it as https://host")


def explain_unreached(url: str, error: BaseException) -> str:
    """Return where nobody answered, and why, in words."""
    parts = urlsplit(url)
    return explain_no_connection(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80), error)


def explain_no_connection(host: str, port: int, error: BaseException) -> str:
    """The same of a host and a port."""
    return f"it cannot be reached at {host}:{port} ({_find_cause(error)})"


def _find_cause(error: BaseException) -> str:
    """The deepest reason that has words."""
    for each in list_causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted: {each.verify_message}"
        if isinstance(each, ssl.SSLError):
            return f"TLS failed: {each.reason or 'it does not speak it'}"
        if isinstance(each, socket.gaierror):
            return "there is no such name"
        if isinstance(each, ConnectionRefusedError):
            return "the connection was refused"
        if isinstance(each, OSError) and each.errno is not None and each.strerror:
            return each.strerror.lower()
    return "no answer in time" if isinstance(error, (httpx2.TimeoutException, TimeoutError)) else type(error).__name__


@cache
def _get_tls() -> ssl.SSLContext:
    """One for all platforms."""
    return httpx2.create_ssl_context()


async def _read_bounded(response: httpx2.Response) -> bytes:
    parts, size = [], 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > LARGEST_ANSWER:
            raise httpx2.ReadError("the answer is too large")
        parts.append(chunk)
    return b"".join(parts)


def _decode(response: httpx2.Response, raw: bytes) -> Any:
    if "json" in response.headers.get("content-type", ""):
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            return raw.decode(errors="replace")
    return raw.decode(errors="replace")


def _find_detail(answer: Any) -> str:
    """Return what the usual fields say."""
    if isinstance(answer, Mapping):
        for name in ("description", "message", "error_description", "error", "errmsg", "msg", "detail"):
            value = answer.get(name)
            if isinstance(value, Mapping):
                value = value.get("message")
            if isinstance(value, str) and value:
                return value
        return ""
    return answer if isinstance(answer, str) and len(answer) <= LONGEST_DETAIL else ""


class PinnedRequest(Struct, frozen=True):
    """A request to one address, under the name that was asked for.

    The name is looked up once, and what was checked is what is connected to: a second look-up could give another
    answer.
    """

    url: str
    host: str  # for the header
    name: str  # that the certificate must have


def split_host(parts: SplitResult) -> tuple[str, int]:
    """The host as resolvers and certificates write it, and the port."""
    try:
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise Invalid("file", "its address is not one of the web") from None
    if not host:
        raise Invalid("file", "its address names no host")
    return host, port


async def find_public_address(platform: str, host: str, port: int) -> str:
    """Return the first address of a host. Raise Refused if one of them is of this machine or a private network.

    A stranger may have chosen the address of a file. Fetched without a look, it would let them reach what only this
    machine can reach.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOK_UP_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        raise Unavailable(platform, f"the host of a file is not found ({host[:100]})") from None
    addresses = [str(each[4][0]) for each in found]
    if not addresses or any(check_address(each, local=False) for each in addresses):
        why = "it is not on the public web; a stranger may have chosen the address"
        raise Refused("this bot", "read a file", host[:100], why)
    return addresses[0]


def pin_request(parts: SplitResult, host: str, port: int, address: str) -> PinnedRequest:
    """`parts`: of the address asked for. A name and password in it are left out."""
    numeric = f"[{address}]" if ":" in address else address
    shown = f"[{host}]" if ":" in host else host
    url = urlunsplit((parts.scheme, f"{numeric}:{port}", parts.path or "/", parts.query, ""))
    return PinnedRequest(url, shown if port == PORTS[parts.scheme] else f"{shown}:{port}", host)


def open_download(connect: Callable[[], Awaitable[PlatformHttp]], url: str) -> OpenFile:
    """Return how a file of the platform is read. Nothing is connected before somebody reads it."""

    async def read() -> AsyncIterator[bytes]:
        async for chunk in (await connect()).download(url):
            yield chunk

    return read
