"""`egress.sock`: one per session, the only way out of its sandbox. HTTP/1.1, one request a connection.

CONNECT, http:// and `/to/HOST/…` go to allowed hosts, `/anthropic/v1/…` and `/openai/v1/…` to the models. Everything
else, including each request that is ambiguous, is refused with a sentence and recorded. Many clients show nothing of a
refused CONNECT but its number, so `GET /refused` tells the latest reasons.
"""

import asyncio
import resource
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.process.acceptor import Acceptor
from gatepost.core.process.fencing import RETRY_S, FenceCheck, always
from gatepost.core.process.unix_sockets import bind_unix, peer_pid, remove_at_exit
from gatepost.core.records import replace
from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.egress import proxy, rules, secret_bindings
from gatepost.egress.contract import HostSecrets, Spender
from gatepost.egress.http import LARGEST_HEAD, EgressClient, HttpRefusal, HttpRequestHead
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.pace import Pace
from gatepost.egress.request_bodies import LARGEST_BODY
from gatepost.egress.rules import EgressTarget, EgressVerdict
from gatepost.egress.secret_bindings import SecretHeader
from gatepost.egress.upstream import VendorBaseUrl
from gatepost.messages.text import clean
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit, egress, secret_rows
from gatepost.store.rights.egress import EgressOutcome
from gatepost.store.sessions import groups
from gatepost.tools.call import Caller, HostAsker

MOST_CONNECTIONS = 64  # of one session; a tunnel takes two descriptors
FEW = 8  # a session has always so many, however many the others have
# Who connects faster waits in the kernel's queue.
CONNECTIONS = Rate(per_second=50, burst=16, patience_s=0)
MOST_CALLS = 16  # of models at once
MEGABYTE = 1024 * 1024
MOST_HELD = 64  # megabytes of such calls' bodies at once
REFUSED = "/refused"
MOST_REFUSALS = 20  # that /refused tells
MOST_WRITTEN = 2000  # different denials of one session that are written down one by one
MOST_AUDITED = 100  # of these, those that have a row in the audit; the rest is counted there when the session ends
REVOKED = "this session was stopped"
REPLAY = "this is a replay: it reaches models, and nothing else of the network"

_log = log.get("egress")


@dataclass(slots=True)
class OpenConnections:
    """Connections of all sessions: together they leave most descriptors to everybody else."""

    most: int = field(default_factory=lambda: max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8, FEW))
    number: int = 0


class EgressDeps(Struct, frozen=True, kw_only=True):
    """Parts that every session's way out shares: given once by the app."""

    store: Store
    clock: Clock
    models: ModelProxy
    keys: HostSecrets  # what is bound to a host
    resolve: proxy.Resolve = proxy.resolve
    tls: Callable[[], ssl.SSLContext] = proxy.load_tls_context
    open: OpenConnections = msgspec.field(default_factory=OpenConnections)
    may_act: FenceCheck = always
    asker: HostAsker | None = None  # None: nobody can be asked in this process


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
        self._deps, self._caller, self._owns, self._own = deps, caller, owns, own
        proxy_deps = proxy.ProxyDeps(
            judge=self._judge,
            reached=lambda target: self._tried(str(target), EgressOutcome.ALLOWED, ""),
            bound=self._bound,
            may_act=deps.may_act,
            resolve=deps.resolve,
            tls=deps.tls,
        )
        self._proxy = proxy.Proxy(proxy_deps)
        self._calls, self._bodies = asyncio.Semaphore(MOST_CALLS), WeightedSemaphore(MOST_HELD)
        self.pace = Pace()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: Acceptor | None = None
        self._file = ExitStack()
        self._written: set[tuple[str, str]] = set()
        self._unaudited = 0  # different denials that are only counted in the audit
        self._refusals: OrderedDict[str, None] = OrderedDict()  # the latest last, each sentence once
        self._asking = asyncio.Lock()  # one question at a time: the next one finds what became of it
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
        if self._unaudited:
            details = {"repeated": self._unaudited, "session": self._caller.session_id or ""}
            record = audit.AuditRecord(
                self._deps.clock.now(), f"agent:{self._caller.folder}", "egress", "refused", details
            )
            self._unaudited = 0
            with suppress(GatepostError):
                self._deps.store.post(audit.append, record, lane=self._caller.lane)

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
        task = asyncio.get_running_loop().create_task(self._serve(EgressClient(reader, writer, self.pace)))
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
            await self._proxy.tunnel(client, head)
            return
        if not head.target.startswith("/"):
            await self._proxy.fetch(client, head)
            return
        if head.target.startswith(proxy.TO):
            await self._proxy.forward(client, head)
            return
        if (head.method, head.target) == ("GET", REFUSED):
            text = "\n".join(self._refusals) or "nothing was refused yet"
            await client.whole(200, f"{text}\n".encode(), "text/plain; charset=utf-8")
            return
        group = await self._deps.store.read(groups.get, self._caller.folder)
        features = read_features(group.options.get("model_features")) if group else frozenset()
        size = LARGEST_BODY if head.length is None else min(head.length, LARGEST_BODY)
        async with self._calls, self._bodies.hold(-(-size // MEGABYTE)):
            name = await self._deps.models.answer(client, head, self._spender(), features, self._own)
        self._tried(name, EgressOutcome.ALLOWED, "")

    def _spender(self) -> Spender:
        turn = self._caller.running() if self._caller.running is not None else None
        return Spender(self._caller.folder, self._caller.session_id or "", turn.id if turn else None)

    async def _judge(self, target: EgressTarget) -> EgressVerdict:
        """Rules are read anew for every request: what is denied now is denied now."""
        known = await self._deps.store.read(egress.list_rules)
        models = self._deps.models.targets | {base.target for base in self._own.values() if base.target is not None}
        verdict = rules.check_target(known, self._caller.folder, target, models)
        asker = self._deps.asker
        if not verdict.unsaid or asker is None or not rules.may_be_offered(target):
            return verdict
        if await asker.is_allowed(self._caller, str(target)):
            return EgressVerdict(True, "", way_in=verdict.way_in)
        said = await self._ask(asker, target)
        return (
            replace(verdict, reason=f"{target} is not allowed for {self._caller.folder}; {said}") if said else verdict
        )

    async def _ask(self, asker: HostAsker, target: EgressTarget) -> str:
        try:
            async with self._asking:
                return await asker.ask(self._caller, str(target))
        except GatepostError as error:
            _log.warning("nobody could be asked about a host", folder=self._caller.folder, why=str(error))
            return ""

    async def _bound(self, scheme: str, target: EgressTarget) -> list[SecretHeader]:
        """Return what goes into a request to this host, read anew for every one."""
        found = await self._deps.store.read(secret_rows.list_bindings_for_host, scheme, target.host, target.port)
        spender, purpose = self._spender(), f"{scheme}://{target}"
        return [
            secret_bindings.make_secret_header(each, await self._deps.keys.get(each.name, spender, purpose))
            for each in secret_bindings.select_bindings(found, self._caller.folder)
        ]

    async def _refuse(self, client: EgressClient, head: HttpRequestHead | None, no: HttpRefusal) -> None:
        self._tried(no.target or "-", EgressOutcome.DENIED if no.status < 500 else EgressOutcome.FAILED, no.reason)
        self._remember(clean(no.reason)[:500])
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

    def _remember(self, reason: str) -> None:
        self._refusals.pop(reason, None)
        self._refusals[reason] = None
        if len(self._refusals) > MOST_REFUSALS:
            self._refusals.popitem(last=False)

    def _tried(self, target: str, verdict: EgressOutcome, reason: str) -> None:
        """Write it down: a denial for the first time also in the audit, until there are too many different ones."""
        target, reason = clean(target)[:300], clean(reason)[:500]
        new = (target, reason) not in self._written
        if new and len(self._written) >= MOST_WRITTEN:
            target, reason = "-", "more than can be told apart"
        audited = len(self._written) < MOST_AUDITED
        self._written.add((target, reason))
        if new and verdict == EgressOutcome.DENIED and not audited:
            self._unaudited += 1
        try:
            self._deps.store.post(
                self._write, target, verdict, reason, audited, self._deps.clock.now(), lane=self._caller.lane
            )
        except GatepostError:
            _log.warning("a try could not be written down", folder=self._caller.folder, target=target, verdict=verdict)

    def _write(self, db: Db, target: str, verdict: EgressOutcome, reason: str, audited: bool, now: int) -> None:
        folder, session = self._caller.folder, self._caller.session_id or ""
        if (
            egress.record_attempt(db, folder, session, target, verdict, reason, now)
            and verdict == EgressOutcome.DENIED
            and audited
        ):
            details = {"session": session, "target": target, "reason": reason}
            audit.append(db, audit.AuditRecord(now, f"agent:{folder}", "egress", "refused", details))


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
    return "text/plain; charset=utf-8", f"{reason}\n".encode()


def _header(text: str) -> str:
    """A sentence as one line of a head."""
    return "".join(sign if " " <= sign <= "~" else "?" for sign in text)[:500]
