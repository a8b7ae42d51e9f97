"""The doctor's checks that a running gateway can do by itself, for the pages and the overview.

They run off the event loop, once in half a minute at most, and only if somebody asks. Facts in memory (channels, room
for sandboxes) are always current.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from gatepost.core import log, settings
from gatepost.core.clock import SECOND, Clock
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.channel_health import ChannelReport
from gatepost.flow.sessions.sandbox.isolation import find_isolation
from gatepost.flow.upkeep.start_check import check_config
from gatepost.serve.health.agent_checks import check_agents
from gatepost.serve.health.channel_checks import check_channel_rows, check_reports
from gatepost.serve.health.findings import Finding
from gatepost.serve.health.machine_checks import check_folder, check_space, check_walls
from gatepost.serve.health.store_checks import check_late, check_rows
from gatepost.serve.web.signin.contract import check_sign_in
from gatepost.store.port import Db, Store

CACHE = 30 * SECOND
FIRST_WAIT_S = 0.5  # whoever asks first waits so long; everybody else gets what was found last
STORE_S = 5.0
MOST_FINDINGS = 50
_SHOWN = ("fail", "warn")  # the worst first

_log = log.get("health")


class HealthDeps(Struct, frozen=True, kw_only=True):
    """`held_back`: why no further sandbox is woken, '' if one may be. `trace_trouble`: why traces cannot be sent, '' if
    they are, or are off. `on_news`: the checks found something else than before."""

    home: Home
    store: Store
    clock: Clock
    config: Config
    list_reports: Callable[[], list[ChannelReport]]
    held_back: Callable[[], str]
    on_news: Callable[[], None]
    trace_trouble: Callable[[], str] = str
    store_trouble: Callable[[], str] = str  # why the store cannot be relied on; '' if it can


class HealthCheck:
    def __init__(self, deps: HealthDeps) -> None:
        self._deps = deps
        self._found: list[Finding] = []
        self._checked_at: int | None = None  # by the monotonic clock
        self._checking: asyncio.Task[None] | None = None

    async def list_findings(self) -> list[Finding]:
        """Return what is not well, the worst first."""
        self._renew()
        if self._checked_at is None and self._checking is not None:
            await asyncio.wait({self._checking}, timeout=FIRST_WAIT_S)
        return sort_findings([*self._check_memory(), *self._found])

    def _renew(self) -> None:
        now = self._deps.clock.monotonic()
        is_new = self._checked_at is not None and now - self._checked_at < CACHE
        if not is_new and (self._checking is None or self._checking.done()):
            self._checking = asyncio.create_task(self._check())

    async def _check(self) -> None:
        deps = self._deps
        machine = await asyncio.to_thread(_check_machine, deps.home, deps.config)
        try:
            stored = await deps.store.read(_check_store, deps.config, deps.clock.now(), within=STORE_S)
        except GatepostError as error:
            stored = [_make_failure("store", error)]
        before, self._found = self._found, sort_findings([*machine, *stored])
        self._checked_at = deps.clock.monotonic()
        if before != self._found:
            deps.on_news()

    def _check_memory(self) -> Iterator[Finding]:
        yield from check_reports(self._deps.list_reports())
        if why := self._deps.store_trouble():
            yield Finding("fail", "store", f"is not well: {why}")
        if why := self._deps.held_back():
            yield Finding("warn", "sandbox", f"{why}: no further sandbox is woken")
        if why := self._deps.trace_trouble():
            yield Finding("warn", "telemetry", f"traces cannot be sent: {why}", "`gatepost doctor` asks the receiver")


def sort_findings(found: list[Finding]) -> list[Finding]:
    """Those that somebody should know of, a bounded number."""
    shown = [each for each in found if each.level in _SHOWN]
    return sorted(shown, key=lambda each: _SHOWN.index(each.level))[:MOST_FINDINGS]


def _check_machine(home: Home, config: Config) -> list[Finding]:
    """Files and programs: not for the event loop. A check that cannot be run hides no other."""
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "home": lambda: check_folder(home),
        "disk": lambda: check_space(home),
        "settings": lambda: _check_settings(home),
        "sandbox": lambda: check_walls(find_isolation(config)),
        "agents": lambda: check_agents(home, config),
        "sign-in": lambda: check_sign_in(config),
    }
    found: list[Finding] = []
    for subject, check in checks.items():
        try:
            found += check()
        except (GatepostError, OSError) as error:
            found.append(_make_failure(subject, error))
    return found


def _make_failure(subject: str, error: Exception) -> Finding:
    _log.warning("a check could not be run", subject=subject, error=str(error))
    return Finding("warn", subject, f"could not be checked: {error}", "`gatepost doctor` looks again")


def _check_settings(home: Home) -> Iterator[Finding]:
    """Check the settings file as it is now, because the next start reads it."""
    try:
        check_config(home, settings.load(home.path))
    except GatepostError as error:
        yield Finding("fail", "settings", str(error), "mend or remove what it names before the next start")


def _check_store(db: Db, config: Config, now: int) -> list[Finding]:
    return [*check_late(db, now), *check_rows(db, config, now), *check_channel_rows(db, config)]
