"""The app: opens the store, finds the plug-ins, starts the flows, waits, stops. Wiring only.

`Gateway` is everything but the doors (lock, sockets, signals): tests run it on a temporary home. Each part is put
together beside its flow; what is served over HTTP is in `http_apps.py`, the process in `daemon.py`.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from gatepost.channels.contract import Channel, ChannelKind
from gatepost.channels.local_channel import LocalChannel
from gatepost.core import ids, log, registry
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.process.fencing import always
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.process.watchdog import EVERY_S, Watchdog
from gatepost.core.settings import Config
from gatepost.egress.endpoints import key_origins
from gatepost.flow.assembly import FlowDeps, make_channels, make_egress, make_loops, make_sessions, make_tools
from gatepost.flow.channel_specs import find_kinds, load_set_kinds
from gatepost.flow.gateways import duties
from gatepost.flow.gateways.commands import GatewayCommands, OtherHomes
from gatepost.flow.gateways.duties import Duties, channel_duty
from gatepost.flow.gateways.folder_check import has_files
from gatepost.flow.gateways.group_mover import GroupMover
from gatepost.flow.gateways.group_place import SHARED_FOLDER, PlaceNotices, place_home, prepare_place
from gatepost.flow.gateways.keeper import Keeper
from gatepost.flow.gateways.membership import DutyWork, GatewayMembership
from gatepost.flow.gateways.session_claims import SessionClaims, SoleGateway, StoredClaims
from gatepost.flow.gateways.session_directory import SessionDirectory
from gatepost.flow.groups import ensure_defaults
from gatepost.flow.instruction_watch import InstructionWatch
from gatepost.flow.intake import attachments
from gatepost.flow.notices import add_owner_notices
from gatepost.flow.overview import AwakeSandbox
from gatepost.flow.pairing import get_page_url
from gatepost.flow.sessions.crash_recovery import continue_turns, sweep_leftovers
from gatepost.flow.sessions.host.sandbox_processes import SandboxFreezer
from gatepost.flow.sessions.sandbox.isolation import find_isolation
from gatepost.flow.sessions.sandbox.sandbox_plan import name_prefix
from gatepost.flow.sessions.session_deps import MOST_AWAKE
from gatepost.flow.skills.adoption import adopt_all
from gatepost.flow.skills.skill_folders import sweep_folders
from gatepost.flow.store_watch import StoreLife, StoreWatch
from gatepost.sandboxes.contract import SANDBOXES
from gatepost.serve.agents.mcp_servers import make_management_dispatch, make_self_dispatch
from gatepost.serve.agents.service import AgentService
from gatepost.serve.alerts.alert_facts import AlertSources
from gatepost.serve.alerts.alert_loop import AlertLoop
from gatepost.serve.alerts.alert_messages import WaysToPeople, read_last_room
from gatepost.serve.backups.backup_runs import BackupLoop
from gatepost.serve.backups.group_restoring import finish as finish_group
from gatepost.serve.health.health_check import HealthCheck, HealthDeps
from gatepost.serve.telemetry.trace_export import TraceExporter
from gatepost.store.engine.deadline import NEVER, UNIT_S
from gatepost.store.engine.open_store import check_whole, join_gateways, open_store, prepare_store
from gatepost.store.gateways.machine_memory import identify_file
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.money import reservations
from gatepost.store.port import OpenStore
from gatepost.store.rights import secrets
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.sessions import errands, skills, turns

if TYPE_CHECKING:
    from gatepost.store.postgres.gateway_lease import GatewayLease

STOP_S = 10.0
# What is served declares settings, too, and so does what only a command uses. They are known also where a gateway
# serves nothing.
DECLARING = (
    "gatepost.serve.http",
    "gatepost.serve.control.token_auth",
    "gatepost.serve.control.agent_registry",
    "gatepost.serve.web.site",
)

_log = log.get("app")


def load_plugins(home: Home) -> None:
    """The package's own, then the home's. A second thing of the same name stops the start."""
    find_kinds(home)
    for kind in ("tools", "sandboxes"):
        registry.load_package(f"gatepost.{kind}")
        registry.load_folder(home.plugins / kind, kind)
    registry.load_package("gatepost.serve.web.signin")
    for module in DECLARING:
        importlib.import_module(module)
    load_set_kinds(home)  # last: by now all else is declared


class Gateway:
    """Channels in, agents in the middle, channels out. `running()` is its whole life."""

    def __init__(
        self,
        home: Home,
        config: Config,
        clock: Clock,
        extra: Mapping[str, tuple[ChannelKind, Channel]] | None = None,
        listen: str = "",
    ) -> None:
        home = place_home(home, config)
        self.home, self.config = home, config
        self.events, self.files, self.stopping = EventBus(), FairThreadPool(), asyncio.Event()
        self.page_address = ""  # that the web page is bound to, once it is served
        self.left = ""  # what did not end when we stopped
        self.watchdog = Watchdog(every=config[EVERY_S])
        prepare_store(home, config, clock)
        unchecked = check_whole(home, config)
        self.lease = join_gateways(home, config, listen, config[MOST_AWAKE])
        file = identify_file(home.store) if self.lease is None else ""
        self.clock: Clock = clock if self.lease is None else self.lease.clock
        self.started_at = self.clock.now()
        self.is_draining = False
        self.duties = Duties(shared=self.lease is not None)
        self.keeper = Keeper() if self.lease is not None else None
        self.store = self._open_store()
        self.passing = FilePassing(self.store, clock, home.media) if self.lease is not None else None
        deps = self._make_deps()
        self.durations = deps.durations
        self.watchdog.on_tick(self.durations.count_noted)
        channels = make_channels(deps, extra or {})
        self.kinds, self.adapters, self.supervisor = channels.kinds, channels.adapters, channels.supervisor
        self.channels, self.typing, self.pump = channels.instances, channels.typing, channels.pump
        self.channels.get_page = self._get_page
        egress = make_egress(deps, channels)
        self.prices, self.models = egress.prices, egress.models
        tools = make_tools(deps, channels, egress, self._end_session)
        self.tools, self.connectors, self.worktrees = tools.tools, tools.connectors, tools.worktrees
        self.forker, self.replayer = tools.forker, tools.replayer
        self.meanings = tools.meanings
        self.tool_deps, self.dispatch = tools.deps, tools.dispatch
        self.sessions = make_sessions(deps, channels, egress, tools.dispatch)
        self.commands = self._make_commands(self.lease) if self.lease is not None else None
        self.directory = SessionDirectory(self.sessions, self.commands, self._show_switches)
        loops = make_loops(deps, channels, tools, self.sessions, self.directory, self._get_page, self.move_models)
        self.intake, self.requests, self.newcomers = loops.intake, loops.requests, loops.newcomers
        self.provider_answers = loops.provider_answers
        self.schedule, self.errands = loops.schedule, loops.errands
        self.errand_sessions, self.chat_forks = loops.errand_sessions, loops.chat_forks
        self.retention, self.erasure = loops.retention, loops.erasure
        self.directory.forget = self.erasure.erase_files
        self.erasure.others = OtherHomes(self.store, self.commands) if self.commands is not None else None
        self.agents = AgentService(self.directory, self.worktrees, self.get_local_channel("agents"), self.stopping)
        self.management = make_management_dispatch(self.agents, self.tool_deps)
        self.self_id = make_self_dispatch(self.tool_deps)
        self.get_local_channel(errands.INSTANCE).set_file_folder(home.media / errands.PLATFORM)
        for instance, channel in self.adapters.items():
            if isinstance(channel, LocalChannel):  # they run from the start
                self.events.on_change(self._changed, instance)
        self.sessions.on_end_all(self.worktrees.jobs.end_all)
        pop_full = self.sessions.host_limits.shortage.pop_full
        self.store_watch = StoreWatch(home, self.store, self.events, pop_full, unchecked, file)
        self.traces = TraceExporter(home, self.store, config)
        self.health = self._make_health()
        self.membership = self._join(self.lease, self.keeper) if self.lease is not None and self.keeper else None
        self.backups = BackupLoop(home, config, self.clock, self._add_failure_notice)
        self.alerts = self._make_alerts()
        alone = self.lease is None
        self.life = StoreLife(home, config, self.store, self.clock, self.events, file) if alone else None

    def _join(self, lease: "GatewayLease", keeper: Keeper) -> GatewayMembership:
        supervisor = self.supervisor
        work = DutyWork(
            list_wanted=lambda: [channel_duty(instance) for instance in self.adapters],
            list_platforms=supervisor.list_platforms,
            list_bound=supervisor.list_bound,
            list_failing=supervisor.list_failing,
            list_made=supervisor.list_made,
            list_health=supervisor.list_health,
            is_busy=supervisor.is_busy,
            give_up_s=self.config[duties.GIVE_UP_S],
        )
        return GatewayMembership(lease, self.store, self.sessions, self.duties, work, keeper)

    def _make_commands(self, lease: "GatewayLease") -> GatewayCommands:
        return GatewayCommands(self.store, self.clock, self.events, lease.name)

    def _open_store(self) -> OpenStore:
        slow = self.watchdog.report_slow_unit
        store = open_store(self.home, self.config, unit_s=NEVER, slow=slow, lease=self.lease)
        self.watchdog.on_tick(store.interrupt_overdue)
        return store

    def _make_deps(self) -> FlowDeps:
        return FlowDeps(
            home=self.home,
            config=self.config,
            clock=self.clock,
            store=self.store,
            secrets=SecretReader(self.store, Keyring(self.home), self.clock),
            events=self.events,
            files=self.files,
            owner=ids.new("run") if self.lease is None else self.lease.name,
            duties=self.duties,
            claims=self._make_claims(),
            freezer=SandboxFreezer(self.is_in_contact, self.keeper),
            passing=self.passing,
            may_act=self.is_in_contact if self.lease is not None else always,
            shared=self.lease is not None,
        )

    def _make_claims(self) -> SessionClaims:
        if self.lease is None:
            return SoleGateway()
        found = partial(has_files, self.home) if self.has_local_groups else None
        return StoredClaims(self.store, self.clock, self.lease.name, found)

    @property
    def has_local_groups(self) -> bool:
        """Return True if folders of groups are on one of several gateways each."""
        return bool(self.home.gateway)

    def is_in_contact(self) -> bool:
        """False: other gateways may believe that this one is dead, so it calls nobody."""
        return self.lease is None or self.lease.in_contact

    def find_unready(self) -> str:
        """Why nobody should be sent to this gateway now; '': it serves."""
        if self.is_draining:
            return "draining"
        if not self.is_in_contact():
            return "out of contact with the database"
        return "the store is not well" if self.store_watch.find_trouble() else ""

    async def drain(self, within: float) -> None:
        """Begin nothing new, give up what one gateway does for all, and let turns end for so many seconds. The stop
        hands over the rest."""
        self.is_draining = True
        if self.membership is not None:
            self.membership.close()
            await self._wait_for_sends()
            with suppress(Unavailable):
                await self.membership.release_duties()
        await self.sessions.drain(within)

    async def _wait_for_sends(self) -> None:
        """Write down what is on its way to a platform, before another gateway sends there."""
        for _ in range(100):
            if not any(map(self.pump.is_sending, self.adapters)):
                return
            await asyncio.sleep(0.05)

    def _make_health(self) -> HealthCheck:
        return HealthCheck(
            HealthDeps(
                home=self.home,
                store=self.store,
                clock=self.clock,
                config=self.config,
                list_reports=self.supervisor.list_reports,
                held_back=lambda: self.sessions.held_back,
                trace_trouble=lambda: self.traces.trouble,
                store_trouble=self.store_watch.find_trouble,
                on_news=self.events.operation,
            )
        )

    def _make_alerts(self) -> AlertLoop:
        sources = AlertSources(
            home=self.home,
            config=self.config,
            store=self.store,
            clock=self.clock,
            list_reports=self.supervisor.list_reports,
            list_findings=self.health.list_findings,
            list_store_troubles=self.store_watch.list_untold,
            gateway=self.lease.name if self.lease is not None else "",
            looks_for_all=partial(self.duties.holds, duties.ALERTS),
        )
        way = WaysToPeople(self.channels, (), read_last_room(self.config))
        return AlertLoop(sources, self.events, way, self.store_watch.forget_notices)

    def list_awake(self) -> list[AwakeSandbox]:
        return [AwakeSandbox(live.session.id, live.session.folder) for live in self.sessions.awake]

    async def _end_session(self, session_id: str, reason: str) -> None:
        await self.directory.end(session_id, reason)

    def _get_page(self) -> str:
        return get_page_url(self.config, self.page_address) if self.page_address else ""

    def get_local_channel(self, name: str) -> LocalChannel:
        """A platform that is ourselves: it always runs."""
        channel = self.adapters[name]
        assert isinstance(channel, LocalChannel)
        return channel

    def _changed(self, instance: str, address: str) -> None:
        """A platform that is ourselves shows what becomes of a message."""
        channel = self.adapters.get(instance)
        if isinstance(channel, LocalChannel):
            channel.ring(address)

    def move_models(self, config: Config) -> None:
        """The settings that say where models are, and what they cost, have changed."""
        self.models.move(config)
        self.prices.move(config)

    async def _add_failure_notice(self, key: str, text: str) -> None:
        for room in await self.store.write(add_owner_notices, self.channels, key, text, self.clock.now()):
            self.events.room(*room)

    def _show_switches(self) -> None:
        for channel in self.adapters.values():
            if isinstance(channel, LocalChannel):
                channel.ring(channel.main_room)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Gateway"]:
        """Settle what the last run left, then run every flow until the block is left."""
        if self.membership is not None:
            self.membership.start()
        try:
            await self._prepare_start()
        except BaseException:
            if self.lease is not None:
                await asyncio.to_thread(self.lease.stop)
            raise
        self.flows = asyncio.create_task(self._flows())
        with self.watchdog.watching(asyncio.get_running_loop()):
            try:
                yield self
            finally:
                await self._stop()

    async def _prepare_start(self) -> None:
        if self.lease is not None:
            folder = self.config[SHARED_FOLDER]
            await prepare_place(self.store, self.home, self.lease.name, self.clock.now(), shared_folder=folder)
        await finish_group(self.home, self.store, self.channels, self.config, self.clock)  # an agent that is put back
        await ensure_defaults(self.store, self.home, self.clock, self.config, self.home.gateway)
        await adopt_all(self.store, self.home, self.clock)  # before any agent runs
        digests = await self.store.read(skills.list_digests)
        await asyncio.to_thread(sweep_folders, self.home, digests)
        if self.life is not None:
            await self.life.begin(self.channels)
        sweep_leftovers(self.home, [make(self.config) for _, make in SANDBOXES.items()], name_prefix(self.home))
        if self.membership is not None:
            await self.membership.recover()
        else:
            await self.store.write(reservations.settle_leftovers, self.clock.now())
        await self.store.write(secrets.bind_origins, key_origins(self.config))
        await self.worktrees.recover()
        if self.membership is None:
            await continue_turns(self.sessions.deps)
        await self.sessions.apply_switches()
        await self.supervisor.prepare()
        self.store.set_unit_timeout(
            self.config[UNIT_S]
        )  # not before: a start may have much to settle, and nobody waits

    async def _flows(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for flow in (
                self.dispatch,
                self.management,
                self.self_id,
                self.pump,
                self.typing,
                self.sessions,
                self.errand_sessions,
                self.chat_forks,
            ):
                tasks.create_task(flow.run())
            if self.has_local_groups:
                tasks.create_task(self.newcomers.run())  # each makes the groups whose parent it has
            else:
                tasks.create_task(self.duties.run_while_held(duties.NEWCOMERS, self.newcomers.run))
            for duty, loop in (
                (duties.REQUESTS, self.requests),
                (duties.SCHEDULE, self.schedule),
                (duties.ERRANDS, self.errands),
                (duties.RETENTION, self.retention),
                (duties.MEANINGS, self.meanings),
            ):
                tasks.create_task(self.duties.run_while_held(duty, loop.run))
            if self.membership is not None and self.commands is not None:
                tasks.create_task(self.membership.run())
                tasks.create_task(self.commands.run(self.directory.make_host()))
                tasks.create_task(self.provider_answers.run())
                tasks.create_task(self.retention.run_beside(lambda: self.duties.holds(duties.RETENTION)))
            if self.passing is not None:
                tasks.create_task(self.duties.run_while_held(duties.FILES, self.passing.run))
            if self.lease is not None and self.has_local_groups:
                tasks.create_task(self.requests.run_beside())
                tasks.create_task(GroupMover(self.sessions, self.lease.name, self.events).run())
                notices = PlaceNotices(self.store, self.clock, self.config, self.events, self.channels)
                tasks.create_task(self.duties.run_while_held(duties.PLACES, notices.run))
            if self.life is not None:
                tasks.create_task(self.life.run())
            tasks.create_task(self.store_watch.run())
            tasks.create_task(self.backups.run())
            tasks.create_task(self.alerts.run())
            tasks.create_task(InstructionWatch(self.store, self.home, self.clock).run())
            tasks.create_task(self._prepare())
            tasks.create_task(self.connectors.run())
            tasks.create_task(self.intake.late_files.run())
            tasks.create_task(self.supervisor.run(self.intake.receive))
            if self.traces.is_on:
                tasks.create_task(self.traces.run())

    async def _prepare(self) -> None:
        """Do what need not hold up the start: try out a sandbox before it is needed, and sweep leftovers."""
        try:
            await asyncio.to_thread(find_isolation, self.config)
            await attachments.remove_orphans(self.store, self.home.media)
        except (GatepostError, OSError) as error:
            _log.warning("not everything could be prepared", error=str(error))

    async def _stop(self) -> None:
        self.store.stop_waiting()
        self.stopping.set()  # who waits for an agent is let go
        self.worktrees.jobs.close()
        await self.sessions.stop_all(turns.GATEWAY_STOPPED)
        if self.membership is not None:
            with suppress(Unavailable):
                await self.membership.leave()
        self.flows.cancel()
        await asyncio.wait({self.flows}, timeout=STOP_S / 2)
        await self.supervisor.close()
        await self.meanings.close()
        await self.models.close()
        if self.keeper is not None:
            self.keeper.stop()
        self.files.close()
        if self.life is not None:
            await self.life.close()
        await self.store_watch.close()
        self.left = self.store.close()
        if self.left:
            _log.error("the store could not be closed in time", left=self.left)
        if self.flows.done() and not self.flows.cancelled() and (error := self.flows.exception()) is not None:
            raise error
