"""The app: opens the store, finds the plug-ins, starts the flows, waits, stops. Wiring only.

`Gateway` is everything but the doors (lock, sockets, signals): tests run it on a temporary home. `run` is the daemon.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from socket import socket
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import uvloop
from starlette.applications import Starlette

from gatepost import __version__
from gatepost.channels.contract import CHANNELS, Channel, ChannelDeps, ChannelKind
from gatepost.channels.local_channel import LocalChannel
from gatepost.core import home_lock, ids, log, registry, settings
from gatepost.core.clock import Clock, SystemClock, iso
from gatepost.core.descriptor_limit import raise_limit
from gatepost.core.errors import GatepostError, SetupError
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.json_limits import limit_numbers
from gatepost.core.keyring import Keyring
from gatepost.core.listen_address import LISTEN, ListenAddress, control_path, parse, render_open_help
from gatepost.core.name_suggestions import did_you_mean
from gatepost.core.settings import Config
from gatepost.core.thread_pools import FairThreadPool
from gatepost.core.watchdog import EVERY_S, Watchdog
from gatepost.egress.egress_socket import EgressDeps
from gatepost.egress.endpoints import gateway_bases, key_origins
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.price_list import PriceList
from gatepost.egress.prices import load_own_prices
from gatepost.flow.budgets_and_secrets import SpenderSecrets, StoreBudget
from gatepost.flow.channel_specs import SpecOrigin, find_kinds, list_file_specs, load_set_kinds
from gatepost.flow.channel_supervisor import ChannelSupervisor, ChannelSurroundings
from gatepost.flow.delivery.delivery_loop import DeliveryLoop
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.delivery.typing_indicator import TypingIndicator
from gatepost.flow.errands.errand_loop import ErrandLoop
from gatepost.flow.groups import ensure_defaults
from gatepost.flow.intake import attachments
from gatepost.flow.intake.intake import Intake
from gatepost.flow.newcomer_groups import NewcomerGroups
from gatepost.flow.pairing import get_page_url
from gatepost.flow.person_erasure import PersonErasure
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.held_calls import HeldCalls
from gatepost.flow.requests.refused_hosts import RefusedHosts
from gatepost.flow.requests.request_loop import RequestLoop
from gatepost.flow.retention import Retention
from gatepost.flow.schedule.task_loop import TaskLoop
from gatepost.flow.sessions.crash_recovery import continue_turns, sweep_leftovers
from gatepost.flow.sessions.drafts import DraftRelay
from gatepost.flow.sessions.extra_mounts import read_allowed
from gatepost.flow.sessions.forking import SessionForker
from gatepost.flow.sessions.isolation import find_isolation, render_banner
from gatepost.flow.sessions.panic_result import PanicResult
from gatepost.flow.sessions.provider_specs import list_own_providers, list_plugin_providers, list_provider_names
from gatepost.flow.sessions.replaying import SessionReplayer
from gatepost.flow.sessions.sandbox_plan import KIND, TIMEZONE, describe_sandbox, name_prefix
from gatepost.flow.sessions.sandbox_requirements import follow_channels
from gatepost.flow.sessions.session_deps import LOOK_S, MOST_AWAKE, PROVIDER, SessionDeps
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.flow.sessions.session_timeouts import ListeningTime
from gatepost.flow.sessions.trial import run_trial
from gatepost.flow.worktrees.worktrees import Worktrees
from gatepost.gate.connectors import CONNECTORS, Connectors
from gatepost.gate.dispatch import Dispatch, ToolDeps
from gatepost.sandboxes.contract import SANDBOXES
from gatepost.serve.agents import groups as group_tools
from gatepost.serve.agents import management_endpoint as agent_tools
from gatepost.serve.agents import self_id
from gatepost.serve.agents.service import AgentService
from gatepost.serve.auth_throttle import AuthThrottle, make_audit_recorder
from gatepost.serve.control import token_auth
from gatepost.serve.control.api import ApiDeps, make_api
from gatepost.serve.control.contract import OperationDeps, to_json
from gatepost.serve.http import CONNECTIONS, HttpServer, get_bound_address, open_listener
from gatepost.serve.web.dashboard.handlers import DashboardDeps
from gatepost.serve.web.login import make_login_url
from gatepost.serve.web.site import WebDeps, make_site
from gatepost.store import errands, reservations, secrets, turns
from gatepost.store.deadline import NEVER, UNIT_S
from gatepost.store.migrate import migrate
from gatepost.store.secrets import SecretReader
from gatepost.store.sqlite_store import SqliteStore
from gatepost.tools.contract import TOOLS

STOP_S = 10.0
WALLS_S = 5.0  # the ready banner waits for a trial start of the sandbox so long
STUCK = 75  # EX_TEMPFAIL: it ended, and something in it would not

_log = log.get("app")


def load_plugins(home: Home) -> None:
    """The package's own, then the home's. A second thing of the same name stops the start."""
    find_kinds(home)
    for kind in ("tools", "sandboxes"):
        registry.load_package(f"gatepost.{kind}")
        registry.load_folder(home.plugins / kind, kind)
    registry.load_package("gatepost.serve.control.operations")
    load_set_kinds(home)  # last: by now all else is declared


class Gateway:
    """Channels in, agents in the middle, channels out. `running()` is its whole life."""

    def __init__(
        self,
        home: Home,
        config: Config,
        clock: Clock,
        extra: Mapping[str, tuple[ChannelKind, Channel]] | None = None,
    ) -> None:
        self.home, self.config, self.clock = home, config, clock
        self.owner = ids.new("run")
        self.left = ""  # what did not end when we stopped
        self.bells = EventBus()
        migrate(home.store, clock)
        self.watchdog = Watchdog(every=config[EVERY_S])
        self.store = SqliteStore(home.store, unit_s=NEVER, slow=self.watchdog.report_slow_unit)
        self.watchdog.on_tick(self.store.interrupt_overdue)
        self.kinds: dict[str, ChannelKind] = {}
        self.channels: dict[str, Channel] = {}
        opened = SecretReader(self.store, Keyring(home), clock)
        self.supervisor = self._make_supervisor(opened, extra or {})
        self.reach = ChannelInstances(self.kinds, self.channels)
        self.typing = TypingIndicator(self.channels, self.reach)
        self.drafts = DraftRelay(self.channels)
        self.pump = DeliveryLoop(self.store, clock, config, self.channels, self.reach, self.bells, self.owner)
        self.supervisor.is_sending = self.pump.is_sending
        self.pump.on_channel_ended(self.supervisor.report_end, self.supervisor.find_trouble)
        tools = self.tools = TOOLS.copy()
        self.connectors = Connectors(config[CONNECTORS], tools, home, self.bells, opened)
        purse = StoreBudget(self.store, clock, self.reach, self.bells)
        keys = SpenderSecrets(self.store, opened)
        self.prices = PriceList(home, config)
        self.models = ModelProxy(config, purse, keys, self.prices, self.prices.tool)
        hosts = RefusedHosts(self.store, clock, config, self.bells, self.reach)
        egress = EgressDeps(store=self.store, clock=clock, models=self.models, keys=keys, asker=hosts)
        self.worktrees = Worktrees(home, config, self.store, clock, egress)
        self.files = FairThreadPool()
        held_calls = HeldCalls(self.store, clock, config, self.bells, self.reach)
        questions = AgentQuestions(self.store, clock, config, self.bells, self.reach)
        self.forker = SessionForker(home, self.store, clock, config, self.files, self._end_session)
        self.replayer = SessionReplayer(home, self.store, clock, config, self.bells, self.files)
        self.around = ToolDeps(
            store=self.store,
            clock=clock,
            config=config,
            home=home,
            bells=self.bells,
            reach=self.reach,
            writes_to=self.pump.write,
            channels=self.channels,
            worktrees=self.worktrees,
            forker=self.forker,
            replayer=self.replayer,
            threads=self.files,
            holder=held_calls,
            host_asker=hosts,
            questions=questions,
        )
        self.dispatch = Dispatch(tools, self.around)
        self.sessions = SessionSupervisor(
            SessionDeps(
                home=home,
                config=config,
                store=self.store,
                clock=clock,
                bells=self.bells,
                dispatch=self.dispatch,
                egress=egress,
                reach=self.reach,
                typing=self.typing,
                drafts=self.drafts,
                pump=self.pump,
                owner=self.owner,
                files=self.files,
                listening=ListeningTime(clock),
            )
        )
        self.requests = RequestLoop(
            self.store,
            clock,
            config,
            self.bells,
            self.reach,
            held_calls,
            self.dispatch,
            self.sessions,
            questions,
            home.media,
        )
        self.schedule = TaskLoop(self.store, clock, config, self.bells, self.reach)
        self.errands = ErrandLoop(self.store, clock, self.bells, self.sessions, config[LOOK_S])
        _hub(self, errands.INSTANCE).set_file_folder(home.media / errands.PLATFORM)
        self.newcomers = NewcomerGroups(self.store, clock, config, home, self.bells, self.reach)
        self.pump.on_sent(self.typing.delivered)
        self.pump.on_sent(self.drafts.delivered)
        self.pump.on_sent(lambda instance, address, thread: self.bells.change(instance, address))
        self.bells.on_change(self._changed)
        self.page_address = ""  # that the web page is bound to, once it is served
        self.intake = Intake(
            self.store,
            clock,
            config,
            self.bells,
            self.reach,
            home,
            self.sessions.stop,
            self.sessions.kill,
            self.sessions.end,
            self.sessions.renew,
            lambda: get_page_url(config, self.page_address) if self.page_address else "",
            self.forker,
        )
        self.retention = Retention(home, self.store, clock, config, self.sessions.keep_asleep)
        asleep, end = self.sessions.keep_asleep, self.sessions.end
        self.erasure = PersonErasure(home, self.store, clock, asleep, end, self.intake.discard_counts)
        self.stopping = asyncio.Event()
        self.sessions.on_end_all(self.worktrees.jobs.end_all)
        self.agents = AgentService(self.sessions, self.worktrees, _hub(self, "agents"), self.stopping)
        self.management = agent_tools.make_management_dispatch(self.agents, self.around)
        self.self_id = self_id.make_self_dispatch(self.around)

    async def _end_session(self, session_id: str, reason: str) -> None:
        await self.sessions.end(session_id, reason)

    def _make_supervisor(
        self, opened: SecretReader, extra: Mapping[str, tuple[ChannelKind, Channel]]
    ) -> ChannelSupervisor:
        """With the channels that are ourselves, and those that are given. The others are made when it starts."""
        around = ChannelSurroundings(
            home=self.home, config=self.config, store=self.store, clock=self.clock, secrets=opened
        )
        made = ChannelSupervisor(around, self.kinds, self.channels)
        for name, kind in CHANNELS.list_loaded():
            if kind.always:
                channel = kind.make(ChannelDeps(instance=name, config=self.config, clock=self.clock))
                made.add_made(name, kind, channel, SpecOrigin.ALWAYS)
        for instance, (kind, channel) in extra.items():
            made.add_made(instance, kind, channel, SpecOrigin.GIVEN)
        follow_channels(self.config, self.kinds)
        return made

    def _changed(self, instance: str, address: str) -> None:
        """A platform that is ourselves shows what becomes of a message."""
        channel = self.channels.get(instance)
        if isinstance(channel, LocalChannel):
            channel.ring(address)

    def move_models(self, config: Config) -> None:
        """The settings that say where models are, and what they cost, have changed."""
        self.models.move(config)
        self.prices.move(config)

    async def obey(self) -> int:
        """The switches have changed: do as they say, and show it."""
        ended = await self.sessions.obey()
        self._show_switches()
        return ended

    async def halt(self, turn_on: Callable[[], Awaitable[bool]]) -> PanicResult:
        """A panic: everything ends, and that is shown."""
        done = await self.sessions.halt(turn_on)
        self._show_switches()
        return done

    def _show_switches(self) -> None:
        for channel in self.channels.values():
            if isinstance(channel, LocalChannel):
                channel.ring(channel.main_room)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Gateway"]:
        """Settle what the last run left, then run every flow until the block is left."""
        await ensure_defaults(self.store, self.home, self.clock, self.config)
        sweep_leftovers(self.home, [make(self.config) for _, make in SANDBOXES.items()], name_prefix(self.home))
        await self.store.write(reservations.settle_leftovers, self.clock.now())
        await self.store.write(secrets.bind_origins, key_origins(self.config))
        await self.worktrees.recover()
        await continue_turns(self.sessions.parts)
        await self.sessions.obey()
        await self.supervisor.prepare()
        self.store.set_unit_timeout(
            self.config[UNIT_S]
        )  # not before: a start may have much to settle, and nobody waits
        self.flows = asyncio.create_task(self._flows())
        with self.watchdog.watching(asyncio.get_running_loop()):
            try:
                yield self
            finally:
                await self._stop()

    async def _flows(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for flow in (
                self.dispatch,
                self.management,
                self.self_id,
                self.pump,
                self.typing,
                self.sessions,
                self.requests,
                self.newcomers,
                self.schedule,
                self.errands,
            ):
                tasks.create_task(flow.run())
            tasks.create_task(self._prepare())
            tasks.create_task(self.connectors.run())
            tasks.create_task(self.retention.run())
            tasks.create_task(self.supervisor.run(self.intake.receive))

    async def _prepare(self) -> None:
        """What need not hold up the start: a sandbox is tried out before it is needed, and leftovers are swept."""
        try:
            await asyncio.to_thread(find_isolation, self.config)
            await attachments.remove_orphans(self.store, self.home.media)
        except (GatepostError, OSError) as error:
            _log.warning("not everything could be prepared", error=str(error))

    async def _stop(self) -> None:
        self.stopping.set()  # who waits for an agent is let go
        self.worktrees.jobs.close()
        await self.sessions.stop_all(turns.GATEWAY_STOPPED)
        self.flows.cancel()
        await asyncio.wait({self.flows}, timeout=STOP_S / 2)
        await self.supervisor.close()
        await self.models.close()
        self.files.close()
        self.left = self.store.close()
        if self.left:
            _log.error("the store could not be closed in time", left=self.left)
        if self.flows.done() and not self.flows.cancelled() and (error := self.flows.exception()) is not None:
            raise error


class Daemon:
    """The doors of a gateway: its lock, its sockets, its signals."""

    def __init__(self, home: Home, config: Config, held: home_lock.HomeLock) -> None:
        self.home, self.config, self.lock = home, config, held
        self.clock = SystemClock()
        self.started_at = self.clock.now()
        self.stopping = asyncio.Event()
        self._signals = 0
        self.control: ListenAddress | None = None  # on TCP

    async def serve(self) -> None:
        """Bind, run every flow, say that we are ready, wait for the word, stop in good order."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)
        wished = parse(self.config[LISTEN])
        control = ListenAddress(kind="unix", path=control_path(self.home, self.config))
        with ExitStack() as stack:
            web_socket, control_socket = (
                stack.enter_context(open_listener(wished)),
                stack.enter_context(open_listener(control)),
            )
            self.listen = get_bound_address(wished, web_socket)
            further = self._bind_control_tcp(stack)
            self.gateway = Gateway(self.home, self.config, self.clock)
            async with self.gateway.running():
                api = self._api()
                per_peer = self.config[CONNECTIONS]
                servers = [HttpServer(api, control_socket), HttpServer(self._site(), web_socket, per_peer)]
                if further is not None:
                    strikes = AuthThrottle(make_audit_recorder(self.gateway.store, self.clock, "control.listen"))
                    servers.append(
                        HttpServer(token_auth.TokenAuthMiddleware(api, *further[1:], strikes), further[0], per_peer)
                    )
                tasks = [asyncio.create_task(server.run()) for server in servers]
                self.gateway.page_address = str(self.listen)
                self.lock.publish(listen=str(self.listen), control=str(control.path))
                _log.info("started", version=__version__, home=str(self.home.path), listen=str(self.listen))
                await self._announce()
                await self._until_stopped(tasks)
                self.gateway.worktrees.jobs.close()
                for endpoint in self.mcp.values():
                    await endpoint.close()
                for server in servers:
                    server.stop()
                await asyncio.wait(tasks, timeout=STOP_S / 4)
        _log.info("stopped")
        if self.gateway.left:
            # Threads that do not end would keep the interpreter from ending. The kernel lets go of the lock.
            print(f"gatepost: stopped without {self.gateway.left}", file=sys.stderr, flush=True)  # noqa: T201
            log.close()
            os._exit(STUCK)

    async def _announce(self) -> None:
        """The ready banner: where to go, and which walls there are. The address that signs its opener in is for
        whoever sits at the terminal; a service's output is kept in a journal, which others read."""
        walls = asyncio.create_task(asyncio.to_thread(find_isolation, self.config))
        done, _ = await asyncio.wait({walls}, timeout=WALLS_S)
        line = (
            render_banner(walls.result()) if done else "the sandbox is still being tried out; `gatepost status` tells"
        )
        if sys.stdout.isatty():
            lines = [f"gatepost is ready at {render_open_help(await self.new_login())}", line]
        else:
            where = self.listen.url if self.listen.kind == "unix" else f"{self.listen.url}/"
            lines = [f"gatepost is ready at {where}", line, "`gatepost login` prints an address that signs you in"]
        print("\n".join(lines), flush=True)  # noqa: T201  the banner of `up`

    async def _until_stopped(self, tasks: list[asyncio.Task[None]]) -> None:
        """A word from outside, or a flow that broke: `running` raises what it was."""
        waiting = asyncio.create_task(self.stopping.wait())
        await asyncio.wait({waiting, self.gateway.flows, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self.stopping.set()

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(1)  # the kernel lets go of the lock, and sandboxes end with us
        self.stopping.set()

    def _bind_control_tcp(self, stack: ExitStack) -> tuple[socket, str, str, tuple[str, ...]] | None:
        """The control API on TCP: its socket, its token and the names that it goes by."""
        if not self.config[token_auth.LISTEN]:
            return None
        wished = parse(self.config[token_auth.LISTEN])
        if wished.kind != "tcp":
            raise SetupError("control.listen is for TCP (host:port); where the socket lies, control_socket says")
        sock = stack.enter_context(open_listener(wished))
        self.control = get_bound_address(wished, sock)
        return sock, token_auth.load_token(self.home, self.config), wished.host, self.config[token_auth.HOSTS]

    def _api(self) -> Starlette:
        gateway = self.gateway
        largest = self.config[token_auth.LARGEST_BODY]
        self.mcp = {
            agent_tools.PATH: agent_tools.make_management_app(gateway.management, gateway.around, largest),
            self_id.PATH: self_id.make_self_app(gateway.self_id, gateway.around, largest),
            group_tools.PATH: group_tools.make_groups_app(gateway.dispatch, gateway.around, largest),
        }
        return make_api(
            ApiDeps(
                office=self._office(),
                terminal=_hub(gateway, "terminal"),
                status=self.status,
                shutdown=self.stopping.set,
                new_login=self.new_login,
                stopping=self.stopping,
                mcp=self.mcp,
            )
        )

    def _office(self) -> OperationDeps:
        gateway = self.gateway
        return OperationDeps(
            home=self.home,
            store=gateway.store,
            clock=self.clock,
            config=self.config,
            bells=gateway.bells,
            stop_session=gateway.sessions.stop,
            renew_session=gateway.sessions.renew,
            obey=gateway.obey,
            halt=gateway.halt,
            try_out=partial(run_trial, gateway.sessions),
            move_models=gateway.move_models,
            extra={
                "agents": gateway.agents,
                "retention": gateway.retention,
                "erasure": gateway.erasure,
                "tools": gateway.tools,
                "channels": gateway.supervisor,
                "forker": gateway.forker,
                "reach": gateway.reach,
                "replayer": gateway.replayer,
            },
        )

    def _site(self) -> Starlette:
        gateway = self.gateway
        return make_site(
            WebDeps(
                store=gateway.store,
                clock=self.clock,
                bells=gateway.bells,
                stop_session=gateway.sessions.stop,
                config=self.config,
                home=self.home,
                channel=_hub(gateway, "web"),
                stopping=self.stopping,
                listens=self.listen.host if self.listen.kind == "tcp" else None,
                reach=gateway.reach,
                channels=gateway.channels,
                dashboard=DashboardDeps(office=self._office(), status=self.status),
            )
        )

    async def new_login(self, person: str = "") -> str:
        """A one-time address that signs its opener in as that person; '': as the owner."""
        return await make_login_url(self.gateway.store, self.clock, _hub(self.gateway, "web"), self.listen.url, person)

    async def status(self) -> dict[str, Any]:
        gateway = self.gateway
        name, note = await asyncio.to_thread(describe_sandbox, self.config)
        return {
            "pid": os.getpid(),
            "version": __version__,
            "started_at": iso(self.started_at),
            "listen": str(self.listen),
            "control_listen": str(self.control or ""),
            "home": str(self.home.path),
            "sandbox": name,
            "sandbox_note": note,
            "channels": sorted(gateway.channels),
            "channel_health": to_json(gateway.supervisor.list_reports()),
            "sessions_awake": len(gateway.sessions.awake),
            "sessions_waiting": gateway.sessions.waiting,
            "pressed": gateway.sessions.held_back,
            **gateway.watchdog.to_status(),
        }


def _hub(gateway: Gateway, name: str) -> LocalChannel:
    channel = gateway.channels[name]
    assert isinstance(channel, LocalChannel)
    return channel


def check_config(home: Home, config: Config) -> None:
    """What the declarations alone cannot judge: names that must exist. Said now, not with the first message."""
    twins = list_own_providers() & list_plugin_providers(home)
    if twins:
        raise SetupError(
            f"two providers are named {min(twins)!r}: gatepost's own and one in {home.plugins}; rename yours"
        )
    known = list_provider_names(home)
    if config[PROVIDER] not in known:
        near = did_you_mean(config[PROVIDER], known)
        raise SetupError(
            f"sessions.provider = {config[PROVIDER]!r}: there is none such; there are: {', '.join(known)}{near}"
        )
    if config[KIND] != "auto" and config[KIND] not in SANDBOXES:
        near = did_you_mean(config[KIND], ("auto", *SANDBOXES))
        raise SetupError(
            f"sandbox.kind = {config[KIND]!r}: there is none such; there are: auto, {', '.join(SANDBOXES)}{near}"
        )
    try:
        ZoneInfo(config[TIMEZONE])
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SetupError(f"timezone = {config[TIMEZONE]!r} is no time zone; write it like Europe/Berlin") from None
    if config[MOST_AWAKE] < 1:
        raise SetupError(f"{MOST_AWAKE.name} = {config[MOST_AWAKE]}: no agent would ever run; the least is 1")
    parse(config[LISTEN])
    gateway_bases(config)
    load_own_prices(home, config)
    list_file_specs(config)
    read_allowed(config, home)


def run(home: Home, given: Mapping[str, Any], held: home_lock.HomeLock) -> int:
    """`gatepost up`, with the home's lock held for life."""
    load_plugins(home)
    config = settings.load(home.path, given=given)
    check_config(home, config)
    raise_limit()  # of the whole process, as the next: not before it is known that it starts
    limit_numbers()
    log.configure(home, config)
    gc.freeze()  # modules are no garbage: no later search looks at them
    gc.enable()
    try:
        uvloop.run(Daemon(home, config, held).serve())
    finally:
        log.close()
    return 0
