"""`egress.sock`: one per session, the only way out of its sandbox. HTTP/1.1, one request a connection.

CONNECT, http:// and `/to/HOST/…` go to allowed hosts, `/anthropic/v1/…`, `/openai/v1/…` and
`/google/v1beta/…` to the models. Everything
else, including each request that is ambiguous, is refused with a sentence and recorded. Many clients show nothing of a
refused CONNECT but its number, so `GET /refused` tells the latest reasons.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import msgspec

from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.core.process.acceptor import Acceptor
from gatepost.core.process.fencing import RETRY_S
from gatepost.core.process.unix_sockets import bind_unix, peer_pid, remove_at_exit
from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.egress import proxy
from gatepost.egress.http import LARGEST_HEAD, EgressClient, HttpRefusal, HttpRequestHead
from gatepost.egress.request_bodies import LARGEST_BODY
from gatepost.egress.upstream import VendorBaseUrl
from gatepost.egress.way_out import FEW, EgressDeps, WayOut
from gatepost.store.rights.egress import EgressOutcome
from gatepost.store.sessions import groups
from gatepost.tools.call import Caller

MOST_CONNECTIONS = 64  # of one session; a tunnel takes two descriptors
# Who connects faster waits in the kernel's queue.
CONNECTIONS = Rate(per_second=50, burst=16, patience_s=0)
MOST_CALLS = 16  # of models at once
MEGABYTE = 1024 * 1024
MOST_HELD = 64  # megabytes of such calls' bodies at once
REFUSED = "/refused"
REVOKED = "this session was stopped"
REPLAY = "this is a replay: it reaches models, and nothing else of the network"

_log = log.get("egress")


class WeightedSemaphore:
    """So much at once; who comes first gets first, also where a smaller one would still fit."""

    def __init__(self, most: int) -> None:
        self._free, self._turn = asyncio.Semaphore(most), asyncio.Lock()

    @asynccontextmanager
    async def hold(self, units: int) -> AsyncIterator[None]:
        held = 0
        try:
            async with self._turn:
                while held < units:
                    await self._free.acquire()
                    held += 1
            yield
        finally:
            for _ in range(held):
                self._free.release()


class EgressSocket:
    """Open it before its sandbox starts, close it after the sandbox has ended."""

    def __init__(
        self,
        deps: EgressDeps,
        caller: Caller,
        owns: Callable[[int], bool],
        own: Mapping[str, VendorBaseUrl] = MappingProxyType({}),
    ) -> None:
        """`own`: the model endpoints of the group itself, by vendor."""
        self._deps, self._caller, self._owns = deps, caller, owns
        self.way = WayOut(deps, caller, own)
        self._calls, self._bodies = asyncio.Semaphore(MOST_CALLS), WeightedSemaphore(MOST_HELD)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: Acceptor | None = None
        self._file = ExitStack()
        self._revoked = False

    async def open(self, path: Path, uid: int | None = None) -> None:
        """Listen at `path`, which is `uid`'s alone from the first moment."""
        listener = bind_unix(path, uid)
        self._file.enter_context(remove_at_exit(path))
        loop = asyncio.get_running_loop()
        self._server = Acceptor(listener, self._protocol, bucket=TokenBucket(CONNECTIONS, loop.time()))

    def _protocol(self) -> asyncio.BaseProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=LARGEST_HEAD), self._arrive)

    async def close(self) -> None:
        """Nobody new comes in, every call is cut and settled, and the file goes if it is still ours."""
        self.revoke()
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._file.close()
        self.way.close()

    def revoke(self) -> None:
        """Every call in flight is cut now, and whoever comes is refused."""
        self._revoked = True
        for task in self._tasks:
            task.cancel()

    def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid = peer_pid(writer.get_extra_info("socket"))
        if self._server is None or self._is_crowded() or pid <= 0 or not self._owns(pid):
            _log.warning("a connection was turned away", folder=self._caller.folder, pid=pid, open=len(self._tasks))
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(EgressClient(reader, writer, self.way.pace)))
        self._tasks.add(task)
        self._deps.open.number += 1
        task.add_done_callback(self._leave)

    def _is_crowded(self) -> bool:
        own, every = len(self._tasks), self._deps.open
        return own >= MOST_CONNECTIONS or (own >= FEW and every.number >= every.most)

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._deps.open.number -= 1

    async def _serve(self, client: EgressClient) -> None:
        head: HttpRequestHead | None = None
        try:
            head = await client.head()
            if self._revoked:
                raise HttpRefusal(403, REVOKED)
            if head is not None:
                await self._answer(client, head)
        except HttpRefusal as no:
            await self._refuse(client, head, no)
        except Unavailable as error:  # the store is away, or we may not act without it
            later = max(1, round(error.retry_after or RETRY_S))
            await self._refuse(client, head, HttpRefusal(503, str(error), retry_after=later))
        except OSError:
            pass  # the client is gone
        except Exception:  # noqa: BLE001  one request that nobody thought of must not end the way out
            _log.exception("a request could not be answered", folder=self._caller.folder)
            await self._refuse(
                client, head, HttpRefusal(502, "the gateway had a problem of its own; its log describes it")
            )
        finally:
            client.writer.close()

    async def _answer(self, client: EgressClient, head: HttpRequestHead) -> None:
        leaves = head.method == "CONNECT" or not head.target.startswith("/") or head.target.startswith(proxy.TO)
        if leaves and self._caller.replays:
            raise HttpRefusal(403, REPLAY)
        if head.method == "CONNECT":
            await self.way.proxy.tunnel(client, head)
            return
        if not head.target.startswith("/"):
            await self.way.proxy.fetch(client, head)
            return
        if head.target.startswith(proxy.TO):
            await self.way.proxy.forward(client, head)
            return
        if (head.method, head.target) == ("GET", REFUSED):
            text = "\n".join(self.way.refusals) or "nothing was refused yet"
            await client.whole(200, f"{text}\n".encode(), "text/plain; charset=utf-8")
            return
        group = await self._deps.store.read(groups.get, self._caller.folder)
        features = read_features(group.options.get("model_features")) if group else frozenset()
        size = LARGEST_BODY if head.length is None else min(head.length, LARGEST_BODY)
        async with self._calls, self._bodies.hold(-(-size // MEGABYTE)):
            name = await self._deps.models.answer(client, head, self.way.spender(), features, self.way.own)
        self.way.record(name, EgressOutcome.ALLOWED, "")

    async def _refuse(self, client: EgressClient, head: HttpRequestHead | None, no: HttpRefusal) -> None:
        self.way.record_refusal(no)
        if client.answered:
            return  # it breaks off: there is no other way to say so
        with suppress(OSError):
            vendor = head.target.split("/", 2)[1] if head is not None and head.target.startswith("/") else ""
            kind, body = render_refusal(no, vendor)
            later = [] if no.retry_after is None else [("retry-after", str(no.retry_after))]
            reason = _header(no.reason)
            # Of a refused CONNECT, clients show the status line at most.
            phrase = reason if head is not None and head.method == "CONNECT" else ""
            await client.whole(no.status, body, kind, [("x-gatepost-reason", reason), *later], phrase)
            await client.drain_request()


_GOOGLE_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def read_features(option: object) -> frozenset[str]:
    """A group's option `model_features`: a list, or words between commas."""
    words = option.split(",") if isinstance(option, str) else option if isinstance(option, list) else []
    return frozenset(str(word).strip() for word in words)


def render_refusal(no: HttpRefusal, vendor: str) -> tuple[str, bytes]:
    """(content type, body): the sentence, in the shape that the vendor's clients show."""
    reason = f"gatepost: {no.reason}"
    kinds = {400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error"}
    kind = kinds.get(no.status, "not_found_error" if no.status == 404 else "api_error")
    if vendor == "anthropic":
        return "application/json", msgspec.json.encode({"type": "error", "error": {"type": kind, "message": reason}})
    if vendor == "openai":
        code = "insufficient_quota" if no.status == 402 else None
        return "application/json", msgspec.json.encode({"error": {"message": reason, "type": kind, "code": code}})
    if vendor == "google":
        status = _GOOGLE_STATUS.get(no.status, "INTERNAL")
        error = {"code": no.status, "message": reason, "status": status}
        return "application/json", msgspec.json.encode({"error": error})
    return "text/plain; charset=utf-8", f"{reason}\n".encode()


def _header(text: str) -> str:
    """A sentence as one line of a head."""
    return "".join(sign if " " <= sign <= "~" else "?" for sign in text)[:500]
