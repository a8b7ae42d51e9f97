"""Servers of a gateway over HTTP: the control API with its MCP endpoints, and the web site.

A page of the web site is a route in `serve/web/site.py`. The parts that it works with are given to it in
`make_web_site`; an act of it on the gateway is an operation, with the deps of `make_operation_deps`.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from msgspec import Struct
from starlette.applications import Starlette

from gatepost.app import Gateway
from gatepost.core.process.keeper_process import read_clock
from gatepost.core.process.listen_address import ListenAddress
from gatepost.flow.sessions.trial import run_trial
from gatepost.serve.agents import mcp_servers
from gatepost.serve.agents.mcp_endpoint import McpEndpoint
from gatepost.serve.control import token_auth
from gatepost.serve.control.api import ApiDeps, make_api
from gatepost.serve.control.contract import OperationDeps
from gatepost.serve.control.daemon_status import DaemonStatus
from gatepost.serve.control.passed_operations import OperationPasser, run_passed
from gatepost.serve.metrics import GatewayMeasurements, LeaseMeasurements, MetricsPage
from gatepost.serve.web.dashboard.handlers import DashboardDeps
from gatepost.serve.web.site import WebDeps, make_site
from gatepost.store.gateways.gateway_identity import NAME


class DaemonCommands(Struct, frozen=True, kw_only=True):
    """Commands for the process itself."""

    status: Callable[[], Awaitable[DaemonStatus]]
    shutdown: Callable[[], None]
    drain: Callable[[float], None]
    new_login: Callable[[str], Awaitable[str]]
    stopping: asyncio.Event


def make_operation_deps(gateway: Gateway) -> OperationDeps:
    return OperationDeps(
        home=gateway.home,
        store=gateway.store,
        clock=gateway.clock,
        config=gateway.config,
        events=gateway.events,
        stop_session=gateway.directory.stop,
        renew_session=gateway.directory.renew,
        apply_switches=gateway.directory.apply_switches,
        halt=gateway.directory.halt,
        try_out=partial(run_trial, gateway.sessions),
        move_models=gateway.move_models,
        pass_on=None if gateway.commands is None else OperationPasser(gateway.commands),
        extra={
            "agents": gateway.agents,
            "awake": gateway.list_awake,
            "health": gateway.health,
            "alerts": gateway.alerts,
            "retention": gateway.retention,
            "erasure": gateway.erasure,
            "tools": gateway.tools,
            "connectors": gateway.connectors,
            "channels": gateway.supervisor,
            "forker": gateway.forker,
            "channel_instances": gateway.channels,
            "replayer": gateway.replayer,
        },
    )


def serve_gateways(gateway: Gateway) -> None:
    """From now on operations are run for other gateways that have not the folder."""
    gateway.directory.operate = partial(run_passed, make_operation_deps(gateway))


def make_mcp_endpoints(gateway: Gateway) -> dict[str, McpEndpoint]:
    """By path."""
    deps, largest = gateway.tool_deps, gateway.config[token_auth.LARGEST_BODY]
    return {
        mcp_servers.MANAGEMENT_PATH: mcp_servers.make_management_app(gateway.management, deps, largest),
        mcp_servers.SELF_PATH: mcp_servers.make_self_app(gateway.self_id, deps, largest),
        mcp_servers.GROUPS_PATH: mcp_servers.make_groups_app(gateway.dispatch, deps, largest),
    }


def make_control_api(gateway: Gateway, mcp: Mapping[str, McpEndpoint], daemon: DaemonCommands) -> Starlette:
    return make_api(
        ApiDeps(
            operation_deps=make_operation_deps(gateway),
            terminal=gateway.get_local_channel("terminal"),
            status=daemon.status,
            shutdown=daemon.shutdown,
            drain=daemon.drain,
            new_login=daemon.new_login,
            stopping=daemon.stopping,
            mcp=mcp,
        )
    )


def measure_gateway(gateway: Gateway) -> GatewayMeasurements:
    return GatewayMeasurements(
        name=gateway.lease.name if gateway.lease is not None else gateway.config[NAME] or socket.gethostname(),
        started_at=gateway.started_at,
        durations=gateway.durations,
        sessions_awake=len(gateway.sessions.awake),
        sessions_waiting=gateway.sessions.waiting,
        slow_steps=tuple(gateway.watchdog.list_totals()),
        refused_writes=gateway.store.refused_writes,
        channels=tuple(gateway.supervisor.list_reports()),
        traces=gateway.traces.get_counts(),
        facts=gateway.alerts.facts,
        lease=_measure_lease(gateway),
    )


def _measure_lease(gateway: Gateway) -> LeaseMeasurements | None:
    if gateway.lease is None or gateway.membership is None:
        return None
    return LeaseMeasurements(
        in_contact=gateway.lease.in_contact,
        left_s=max(gateway.lease.stops_at - read_clock(), 0.0),
        takeovers=gateway.membership.takeovers,
        duties=len(gateway.duties.list_held()),
    )


def make_web_site(gateway: Gateway, listen: ListenAddress, daemon: DaemonCommands) -> Starlette:
    return make_site(
        WebDeps(
            store=gateway.store,
            clock=gateway.clock,
            events=gateway.events,
            config=gateway.config,
            home=gateway.home,
            channel=gateway.get_local_channel("web"),
            stopping=daemon.stopping,
            listens=listen.host if listen.kind == "tcp" else None,
            channels=gateway.channels,
            adapters=gateway.adapters,
            store_id="" if gateway.lease is None else gateway.lease.store_id,
            find_unready=gateway.find_unready,
            dashboard=DashboardDeps(operation_deps=make_operation_deps(gateway)),
            metrics=MetricsPage(gateway.store, gateway.clock, partial(measure_gateway, gateway)),
        )
    )
