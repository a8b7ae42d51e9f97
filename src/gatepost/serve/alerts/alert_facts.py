"""The facts that alerts are made of. Facts in memory are read at each look; files, programs and the store are asked
every half a minute, off the event loop."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import DAY, SECOND, Clock
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.flow import channel_specs, overview
from gatepost.flow.channel_health import ChannelReport
from gatepost.flow.channel_specs import ChannelSpec, get_last_name
from gatepost.flow.overview import AgentFacts
from gatepost.flow.reports import SandboxIsolation
from gatepost.flow.sessions.sandbox.isolation import find_isolation
from gatepost.flow.sessions.sandbox.sandbox_plan import KIND
from gatepost.serve.alerts.conditions import SOON, AlertFacts, Expiry
from gatepost.serve.backups.backup_folder import EVERY_HOURS, count_days_unproven, find_folder, list_backups
from gatepost.serve.health.findings import Finding
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.messages.outbox import EffectState
from gatepost.store.port import Db, Store
from gatepost.store.rights import api_tokens
from gatepost.store.rights.tokens import TokenState
from gatepost.store.rooms import channel_instances
from gatepost.store.web.overview import list_unclear

BACKUP_DAYS = setting(
    "alerts.backup_days", 7, help="After so many days without a proven backup somebody is told; 0: never."
)
SLOW = 30 * SECOND  # between two looks at files, programs and the store
STORE_S = 5.0
SHORT_LIVED = 2 * SOON  # a token that was made for so long ends as it should
IN_USE = 30 * DAY  # a token that nobody used for so long may end
NOT_NOW = "not now: "  # how a shortage of a moment begins
LARGEST_CERTIFICATES = 1024 * 1024
CA_FILE = "ca_file"  # the last name of a channel's setting
_log = log.get("alerts")


class AlertSources(Struct, frozen=True, kw_only=True):
    """`gateway`: this one, if several share the store. `looks_for_all`: returns True if this one looks at what they
    share."""

    home: Home
    config: Config
    store: Store
    clock: Clock
    list_reports: Callable[[], list[ChannelReport]]
    list_findings: Callable[[], Awaitable[list[Finding]]]
    list_store_troubles: Callable[[], Sequence[str]]
    gateway: str = ""
    looks_for_all: Callable[[], bool]


class StoredFacts(Struct, frozen=True, kw_only=True):
    failing: tuple[str, ...]
    spent: tuple[str, ...]
    tokens: tuple[Expiry, ...]
    gone: tuple[str, ...]
    living: frozenset[str]
    uncertain: int
    began_at: int  # when the store was made
    channels: tuple[channel_instances.StoredChannel, ...]


class MachineFacts(Struct, frozen=True, kw_only=True):
    walls: SandboxIsolation | None
    unproven_days: int | None
    certificates: tuple[Expiry, ...]


def read_stored_facts(db: Db, now: int) -> StoredFacts:
    known = gateways.list_all(db)
    work = overview.read_open_work(db, now)
    shared = [each for each in work.budgets if each.is_spent]
    return StoredFacts(
        failing=tuple(sorted({each.folder for each in overview.list_open_facts(work) if _fails(each)})),
        spent=tuple(sorted({each.scope.name for each in shared})),
        tokens=tuple(_list_ending(db, now)),
        gone=tuple(each.name for each in known if not is_living(each, now)),
        living=frozenset(each.name for each in known if is_living(each, now)),
        uncertain=sum(each.count for each in list_unclear(db, now - DAY) if each.state is EffectState.UNCERTAIN),
        began_at=int(gateways.get_store_id(db) or now),
        channels=tuple(channel_instances.list_all(db)),
    )


def _fails(facts: AgentFacts) -> bool:
    """One at rest fails nobody."""
    return facts.rest is None and facts.is_failing and not facts.is_over_budget


def _list_ending(db: Db, now: int) -> list[Expiry]:
    """Return the tokens of programs that are in use and were made to last."""
    return [
        Expiry(each.id, each.expires_at)
        for each in api_tokens.list_all(db)
        if each.expires_at is not None
        and each.get_state(now) is not TokenState.REVOKED
        and each.expires_at - each.created_at > SHORT_LIVED
        and each.last_used_at is not None
        and now - each.last_used_at < IN_USE
    ]


def list_certificates(config: Config, rows: Sequence[channel_instances.StoredChannel]) -> list[Expiry]:
    """Return when the certificates end that channels trust besides the system's."""
    found = []
    try:
        specs, _ = channel_specs.list_specs(config, rows)
    except GatepostError:  # told of as what is wrong with the settings
        return []
    for spec in specs:
        path = _get_ca_file(spec, config) if spec.is_on else ""
        if path and (ends := _find_end(Path(path))) is not None:
            found.append(Expiry(spec.instance, ends))
    return found


def _get_ca_file(spec: ChannelSpec, config: Config) -> str:
    own = spec.make_config(config)
    return next((str(own[each]) for each in spec.kind.settings if get_last_name(each) == CA_FILE), "")


def _find_end(path: Path) -> int | None:
    """Return when the last of a file's certificates ends: one that replaces another is put beside it. None: there is
    none that can be read, which the channel itself says."""
    from cryptography import x509  # 20 ms, and few channels have a file of certificates

    try:
        with path.open("rb") as file:
            found = x509.load_pem_x509_certificates(file.read(LARGEST_CERTIFICATES))
    except (OSError, ValueError):
        return None
    return max((int(each.not_valid_after_utc.timestamp()) * SECOND for each in found), default=None)


def find_unproven_days(home: Home, config: Config, began_at: int, shared: bool, now: int) -> int | None:
    """Return for how many days there is no proven backup. None: of several gateways this one makes none."""
    try:
        found = list_backups(find_folder(home, config))
    except Invalid:  # the doctor says what is wrong with it
        found = []
    if shared and not found and config[EVERY_HOURS] <= 0:
        return None
    days = count_days_unproven(found, now)
    return max(now - began_at, 0) // DAY if days is None else days


class AlertFactReader:
    def __init__(self, sources: AlertSources) -> None:
        self._sources = sources
        self._slow = AlertFacts(now=0)
        self._looked_at: int | None = None
        self.living: frozenset[str] | None = None  # gateways; None: nobody has looked yet

    async def read(self) -> AlertFacts:
        sources = self._sources
        now, monotonic = sources.clock.now(), sources.clock.monotonic()
        if self._looked_at is None or monotonic - self._looked_at >= SLOW:
            self._slow = await self._read_slow(now)
            self._looked_at = monotonic
        troubles = tuple(sources.list_store_troubles())
        quick = replace(self._slow, now=now, store_troubles=troubles, free_bytes=await self._measure_disk())
        return replace(quick, channels=tuple(sources.list_reports())) if sources.looks_for_all() else quick

    async def _measure_disk(self) -> int | None:
        try:
            return (await asyncio.to_thread(shutil.disk_usage, self._sources.home.path)).free
        except OSError:
            return None

    async def _read_slow(self, now: int) -> AlertFacts:
        """Return the facts; those that cannot be found are left open, and the doctor says why."""
        sources, config = self._sources, self._sources.config
        facts = AlertFacts(now=now, backup_days=config[BACKUP_DAYS], is_open_by_choice=config[KIND] == "process")
        try:
            stored = await sources.store.read(read_stored_facts, now, within=STORE_S)
        except GatepostError as error:
            _log.warning("the store could not be looked at for alerts", error=str(error))
            return facts
        self.living = stored.living
        machine = await asyncio.to_thread(self._read_machine, stored, now)
        facts = replace(
            facts, walls=machine.walls, certificates=machine.certificates, findings=await sources.list_findings()
        )
        if not sources.looks_for_all():
            return facts
        return replace(
            facts,
            failing=stored.failing,
            spent=stored.spent,
            tokens=stored.tokens,
            gone=stored.gone,
            uncertain=stored.uncertain,
            unproven_days=machine.unproven_days,
        )

    def _read_machine(self, stored: StoredFacts, now: int) -> MachineFacts:
        home, config = self._sources.home, self._sources.config
        walls = find_isolation(config) if config[KIND] != "process" else SandboxIsolation("process", False)
        try:
            days = find_unproven_days(home, config, stored.began_at, bool(self._sources.gateway), now)
        except (GatepostError, OSError):
            days = None
        return MachineFacts(
            walls=None if walls.trouble.startswith(NOT_NOW) else walls,
            unproven_days=days,
            certificates=tuple(list_certificates(config, stored.channels)),
        )
