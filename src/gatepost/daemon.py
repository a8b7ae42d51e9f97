"""The daemon: the process around a gateway, with its lock, its sockets and its signals. `run` is `gatepost up`."""

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from socket import socket
from typing import Any

import uvloop

from gatepost import __version__
from gatepost.app import STOP_S, Gateway, load_plugins
from gatepost.channels.contract import CHANNELS
from gatepost.core import log, log_targets, settings
from gatepost.core.clock import Clock, SystemClock
from gatepost.core.home import Home
from gatepost.core.json_limits import limit_numbers
from gatepost.core.process import home_lock
from gatepost.core.process.listen_address import LISTEN, ListenAddress, control_path, parse, render_open_help
from gatepost.core.process.service_manager import make_service_manager
from gatepost.core.settings import Config, list_mistyped
from gatepost.flow.sessions.sandbox.isolation import find_isolation, render_banner
from gatepost.flow.sessions.sandbox.sandbox_plan import describe_sandbox
from gatepost.flow.start_check import check_config
from gatepost.http_apps import DaemonCommands, make_control_api, make_mcp_endpoints, make_web_site, serve_gateways
from gatepost.serve.auth_throttle import AuthThrottle, make_audit_recorder
from gatepost.serve.control import token_auth
from gatepost.serve.control.daemon_status import DaemonStatus, Lack
from gatepost.serve.http import CONNECTIONS, HttpServer, get_bound_address, open_listener
from gatepost.serve.web.dashboard.sidebar import is_demo
from gatepost.serve.web.signin.contract import describe_missing, list_missing_methods
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.store.engine.open_store import prepare_store, wait_for_store
from gatepost.store.gateways.gateway_checks import DRAIN_ASKED

ENOUGH_DESCRIPTORS = 65_536  # more only makes programs slow that go through all of them
SWITCH_S = 0.001  # after which a busy thread lets the event loop go on: of what strangers send, threads read much
WALLS_S = 5.0  # the ready banner waits for a trial start of the sandbox so long
NOTICE_S = 2.0  # so long a load balancer may go on to send requests to a gateway that has begun to drain
DRAIN_S = 30.0  # so long turns may go on when somebody else wants this gateway to end
STUCK = 75  # EX_TEMPFAIL: it ended, and something in it would not
# The control API on TCP: its socket, its token, the host that it is bound to and the further names that it goes by.
ControlTcp = tuple[socket, str, str, tuple[str, ...]]
_log = log.get("app")


class Daemon:
    """The doors of a gateway: its lock, its sockets, its signals."""

    def __init__(self, home: Home, config: Config, held: home_lock.HomeLock) -> None:
        self.home, self.config, self.lock = home, config, held
        self.clock: Clock = SystemClock()
        self.started_at = self.clock.now()
        self.stopping = asyncio.Event()
        self.manager = make_service_manager(os.environ, os.getpid())
        self._signals = 0
        self._draining: asyncio.Task[None] | None = None
        self._order = ""  # why it had to end
        self.control: ListenAddress | None = None  # on TCP
        self._commands = DaemonCommands(
            status=self.status,
            shutdown=self.stopping.set,
            drain=self.drain,
            new_login=self.new_login,
            stopping=self.stopping,
        )

    async def serve(self) -> int:
        """Bind, run every flow, say that we are ready, wait for the word, stop in good order. The exit code."""
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
            self.gateway = Gateway(self.home, self.config, self.clock, listen=str(self.listen))
            self.clock = self.gateway.clock
            if self.gateway.membership is not None:
                self.gateway.membership.on_order = self._ordered
            async with self.gateway.running():
                servers = self._make_servers(web_socket, control_socket, further)
                tasks = [asyncio.create_task(server.run()) for server in servers]
                self.gateway.page_address = str(self.listen)
                self.lock.publish(listen=str(self.listen), control=str(control.path))
                await self._announce()  # first: who starts it by hand looks for the address
                self.manager.notify("READY=1", f"STATUS=at {self.listen}")
                beat = asyncio.create_task(self.manager.beat())
                _log.info("started", version=__version__, home=str(self.home.path), listen=str(self.listen))
                await self._until_stopped(tasks)
                self.manager.notify("STOPPING=1")
                beat.cancel()
                self.gateway.worktrees.jobs.close()
                for endpoint in self._mcp.values():
                    await endpoint.close()
                for server in servers:
                    server.stop()
                await asyncio.wait(tasks, timeout=STOP_S / 4)
        _log.info("stopped")
        if self.gateway.left:
            # Threads that do not end would keep the interpreter from ending. The kernel lets go of the lock.
            print(f"gatepost: stopped without {self.gateway.left}", file=sys.stderr, flush=True)  # noqa: T201
            log_targets.close()
            os._exit(STUCK)
        if not self._order:
            return 0
        print(f"gatepost: stopped, because {self._order}", file=sys.stderr, flush=True)  # noqa: T201
        return int(self._order != DRAIN_ASKED)

    def _make_servers(self, web: socket, control: socket, further: ControlTcp | None) -> list[HttpServer]:
        self._mcp = make_mcp_endpoints(self.gateway)
        serve_gateways(self.gateway)
        api = make_control_api(self.gateway, self._mcp, self._commands)
        site = make_web_site(self.gateway, self.listen, self._commands)
        per_peer = self.config[CONNECTIONS]
        servers = [HttpServer(api, control), HttpServer(site, web, per_peer)]
        if further is not None:
            strikes = AuthThrottle(make_audit_recorder(self.gateway.store, self.clock, "control.listen"))
            guarded = token_auth.TokenAuthMiddleware(api, *further[1:], strikes)
            servers.append(HttpServer(guarded, further[0], per_peer))
        return servers

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
        if self.gateway.life is not None and self.gateway.life.said:
            lines.append(self.gateway.life.said)
        lines += [
            f"{describe_missing(method)}: pip install 'gatepost[{method.extra}]'"
            for method in list_missing_methods(self.config)
        ]
        print("\n".join(lines), flush=True)  # noqa: T201  the banner of `up`

    async def _until_stopped(self, tasks: list[asyncio.Task[None]]) -> None:
        """A word from outside, or a flow that broke: `running` raises what it was."""
        waiting = asyncio.create_task(self.stopping.wait())
        await asyncio.wait({waiting, self.gateway.flows, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self.stopping.set()

    def drain(self, within: float) -> None:
        """End turns for so many seconds, then stop."""
        if self._draining is None and not self.stopping.is_set():
            self._draining = asyncio.create_task(self._drain(within))

    async def _drain(self, within: float) -> None:
        until = asyncio.get_running_loop().time() + (NOTICE_S if self.gateway.lease is not None else 0.0)
        try:
            await self.gateway.drain(within)
            await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))  # what still comes is accepted
        finally:
            self.stopping.set()

    def _ordered(self, reason: str) -> None:
        _log.warning("this gateway drains and stops", reason=reason)
        self._order = reason
        self.drain(DRAIN_S)

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(1)  # the kernel lets go of the lock, and sandboxes end with us
        self.stopping.set()

    def _bind_control_tcp(self, stack: ExitStack) -> ControlTcp | None:
        wished = token_auth.find_listen_address(self.config)
        if wished is None:
            return None
        sock = stack.enter_context(open_listener(wished))
        self.control = get_bound_address(wished, sock)
        return sock, token_auth.load_token(self.home, self.config), wished.host, self.config[token_auth.HOSTS]

    async def new_login(self, person: str = "") -> str:
        """A one-time address that signs its opener in as that person; '': as the owner."""
        page = self.gateway.get_local_channel("web")
        return await make_login_url(self.gateway.store, self.clock, page, self.listen.url, person)

    async def status(self) -> DaemonStatus:
        gateway, lease, watchdog = self.gateway, self.gateway.lease, self.gateway.watchdog
        name, note = await asyncio.to_thread(describe_sandbox, self.config)
        return DaemonStatus(
            gateway="" if lease is None else lease.name,
            clock_off_ms=0 if lease is None else -lease.offset // 1000,
            draining=gateway.is_draining,
            refused_writes=gateway.store.refused_writes,
            pid=os.getpid(),
            version=__version__,
            started_at=self.started_at,
            listen=str(self.listen),
            control_listen=str(self.control or ""),
            home=str(self.home.path),
            sandbox=name,
            sandbox_note=note,
            channels=sorted(gateway.adapters),
            channel_health=gateway.supervisor.list_reports(),
            sessions_awake=len(gateway.sessions.awake),
            sessions_waiting=gateway.sessions.waiting,
            pressed=gateway.sessions.held_back,
            store_trouble=gateway.store_watch.find_trouble(),
            lacks=await self._list_lacks(),
            slow_steps=watchdog.count,
            slowest=watchdog.worst.label,
            slowest_ms=round(watchdog.worst.wall * 1000),
            busiest=watchdog.busiest.label,
            busiest_ms=round(watchdog.busiest.cpu * 1000),
        )

    async def _list_lacks(self) -> list[Lack]:
        lacks = [Lack.AGENT] if await self.gateway.store.read(is_demo, self.config) else []
        if all(CHANNELS[each.kind].always for each in self.gateway.supervisor.list_reports()):
            lacks.append(Lack.CHANNEL)
        return lacks


def make_new_store(place: Home) -> None:
    """In the place of one that is lost. A store that is there is left alone."""
    prepare_store(place, settings.load_declared(place.path), SystemClock(), new=True)


def run(home: Home, given: Mapping[str, Any], held: home_lock.HomeLock) -> int:
    """`gatepost up`, with the home's lock held for life."""
    load_plugins(home)
    config = settings.load(home.path, given=given)
    check_config(home, config)
    raise_descriptor_limit()  # of the whole process, as the next: not before it is known that it starts
    limit_numbers()
    sys.setswitchinterval(SWITCH_S)
    log_targets.configure(home, config)
    for each in list_mistyped():
        _log.warning(each)
    wait_for_store(home, config, _log.warning)
    gc.freeze()  # modules are no garbage: no later search looks at them
    gc.enable()
    try:
        return uvloop.run(Daemon(home, config, held).serve())
    finally:
        log_targets.close()


def raise_descriptor_limit() -> int:
    """Raise the soft limit as far as the hard one allows, up to what is enough; the limit that now holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, ENOUGH_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a container may forbid it; then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return soft
