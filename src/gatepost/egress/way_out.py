"""The way out of one session: every target is judged by the rules as they are now, and each try is recorded.

The socket of a sandbox and the tools that fetch for its agent share one of these. So there is one decision, one pace,
one record and one question to people about a host, however it is asked for.
"""

import asyncio
import resource
import ssl
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.core.records import replace
from gatepost.egress import proxy, rules, secret_bindings
from gatepost.egress.contract import HostSecrets, Spender
from gatepost.egress.http import HttpRefusal
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.pace import Pace
from gatepost.egress.rules import EgressTarget, EgressVerdict
from gatepost.egress.secret_bindings import SecretHeader
from gatepost.egress.upstream import VendorBaseUrl
from gatepost.messages.text import clean
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit, egress, secret_rows
from gatepost.store.rights.egress import EgressOutcome
from gatepost.tools.call import Caller, HostAsker

FEW = 8  # a session has always so many connections, however many the others have
MOST_REFUSALS = 20  # that /refused tells
MOST_WRITTEN = 2000  # different denials of one session that are written down one by one
MOST_AUDITED = 100  # of these, those that have a row in the audit; the rest is counted there when the session ends

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
    ways: "WeakValueDictionary[str, WayOut]" = msgspec.field(default_factory=WeakValueDictionary)  # by lane


class WayOut:
    """The way out of one session, or of a group's calls without one."""

    def __init__(
        self, deps: EgressDeps, caller: Caller, own: Mapping[str, VendorBaseUrl] = MappingProxyType({})
    ) -> None:
        """`own`: the model endpoints of the group itself, by vendor."""
        self._deps, self._caller, self.own = deps, caller, own
        proxy_deps = proxy.ProxyDeps(
            judge=self.judge,
            reached=lambda target: self.record(str(target), EgressOutcome.ALLOWED, ""),
            bound=self._bound,
            may_act=deps.may_act,
            resolve=deps.resolve,
            tls=deps.tls,
        )
        self.proxy, self.load_tls = proxy.Proxy(proxy_deps), deps.tls
        self.pace = Pace()
        self.refusals: OrderedDict[str, None] = OrderedDict()  # the latest last, each sentence once
        self._written: set[tuple[str, str]] = set()
        self._unaudited = 0  # different denials that are only counted in the audit
        self._asking = asyncio.Lock()  # one question at a time: the next one finds what became of it
        deps.ways[caller.lane] = self

    def close(self) -> None:
        """Write down how many denials were only counted."""
        if self._unaudited:
            details = {"repeated": self._unaudited, "session": self._caller.session_id or ""}
            record = audit.AuditRecord(
                self._deps.clock.now(), f"agent:{self._caller.folder}", "egress", "refused", details
            )
            self._unaudited = 0
            with suppress(GatepostError):
                self._deps.store.post(audit.append, record, lane=self._caller.lane)

    def spender(self) -> Spender:
        turn = self._caller.running() if self._caller.running is not None else None
        return Spender(self._caller.folder, self._caller.session_id or "", turn.id if turn else None)

    async def judge(self, target: EgressTarget) -> EgressVerdict:
        """Rules are read anew for every request: what is denied now is denied now."""
        known = await self._deps.store.read(egress.list_rules)
        models = self._deps.models.targets | {base.target for base in self.own.values() if base.target is not None}
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

    async def judge_service(self, target: EgressTarget) -> EgressVerdict:
        """Judge a host that the operator's settings name. Raises HttpRefusal if a rule denies it."""
        verdict = rules.check_service(await self._deps.store.read(egress.list_rules), self._caller.folder, target)
        if not verdict.allowed:
            raise HttpRefusal(403, verdict.reason, str(target))
        return verdict

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
        spender, purpose = self.spender(), f"{scheme}://{target}"
        return [
            secret_bindings.make_secret_header(each, await self._deps.keys.get(each.name, spender, purpose))
            for each in secret_bindings.select_bindings(found, self._caller.folder)
        ]

    def record_refusal(self, no: HttpRefusal) -> None:
        self.record(no.target or "-", EgressOutcome.DENIED if no.status < 500 else EgressOutcome.FAILED, no.reason)
        self._remember(clean(no.reason)[:500])

    def _remember(self, reason: str) -> None:
        self.refusals.pop(reason, None)
        self.refusals[reason] = None
        if len(self.refusals) > MOST_REFUSALS:
            self.refusals.popitem(last=False)

    def record(self, target: str, verdict: EgressOutcome, reason: str) -> None:
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
