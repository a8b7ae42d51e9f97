"""How a command acts on a home: through the daemon if one runs, else itself, under the same lock and with the same
function. An operation that only reads looks at the store directly."""

import importlib
import io
import os
import time
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gatepost.core import home as homes
from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.process import home_lock, listen_address
from gatepost.serve.control.client import TIMEOUT_S, ControlClient, get_result
from gatepost.serve.control.declaration import OperationArgs
from gatepost.store.engine.readonly import read_store

PATIENCE_S = 15.0  # a daemon that starts holds the lock before it answers, and imports much


def home_of(given: str | None) -> Home:
    """`--home`, GATEPOST_HOME or the default one."""
    return homes.find(given)


def control_of(home: Home) -> ControlClient:
    return ControlClient(listen_address.find_control_path(home), home.path)


def zone_of(home: Home) -> tuple[tzinfo | None, str]:
    """The zone in which times are shown, and its name for the table's head: `timezone` where it is set, else local."""
    from gatepost.flow.sessions.sandbox.sandbox_plan import TIMEZONE

    config = settings.load_declared(home.path, TIMEZONE)
    if config.source(TIMEZONE) == "default":
        return None, f"local, {datetime.now().astimezone():%Z}"
    name = config[TIMEZONE]
    try:
        return ZoneInfo(name), name
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SetupError(f"timezone = {name!r} is not a zone; write it like Europe/Berlin") from None


def absolute(path: Path) -> str:
    """As somebody means it who stands here. Links stay links: whether one may be followed is judged by the gateway."""
    return os.path.abspath(path.expanduser())


def get_worktree_timeout(home: Home) -> float:
    """How long to wait for what is done in a worktree: git, and a setup or teardown after or before it."""
    from gatepost.flow.worktrees.sandbox_jobs import LIMIT_S

    return 2 * settings.load_declared(home.path, LIMIT_S)[LIMIT_S] + TIMEOUT_S


def read_operation(home: Home, declared: type[OperationArgs[Any]], given: dict[str, Any]) -> Any:
    """Run an operation that only reads, on a snapshot: no gateway is asked, and no lock is held."""
    from gatepost.serve.control.answers import to_json
    from gatepost.serve.control.contract import OPERATIONS
    from gatepost.store.engine.readonly import get_clock

    importlib.import_module(declared.__module__.replace(".arguments.", ".operations."))
    found = OPERATIONS[declared.info.name]
    assert found.read is not None
    return to_json(read_store(home, found.read, found.parse(given), get_clock(home).now()))


def run_operation(
    home: Home, name: str, args: dict[str, Any], *, awake: bool = False, timeout: float = TIMEOUT_S
) -> Any:
    """Run an operation and return its answer; what it refuses is raised here. `awake`: it must run an agent, also while
    the daemon is down."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if home_lock.find_holder(home) is None:
            try:
                return _run_locally(home, name, args, awake=awake)
            except home_lock.HomeLocked:
                continue  # somebody was faster
        try:
            return get_result(control_of(home).post(f"/v1/ops/{name}", args, timeout))
        except Unavailable as error:
            if error.uncertain or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _run_locally(home: Home, name: str, args: dict[str, Any], *, awake: bool) -> Any:
    import asyncio

    from gatepost.core.registry import load_folder, load_package
    from gatepost.flow.gateways.group_place import place_home
    from gatepost.serve.control.contract import OPERATIONS
    from gatepost.store.engine.open_store import prepare_store

    home.prepare()
    load_package("gatepost.serve.control.operations")
    load_package("gatepost.sandboxes")
    with home_lock.acquire(home, patience=0):
        load_folder(home.plugins / "sandboxes", "sandboxes")
        config = settings.load_declared(home.path)  # what it refuses leaves no store behind
        home = place_home(home, config)
        prepare_store(home, config, SystemClock())
        answer = asyncio.run(_run(home, config, None if awake else OPERATIONS[name], args))
        return asyncio.run(_run_with_gateway(home, OPERATIONS[name], args)) if awake else answer


async def _run(home: Home, config: settings.Config, run: Callable[..., Any] | None, args: dict[str, Any]) -> Any:
    """First the groups of every gateway, before anything that may fail: a store without them is of no use to the next
    one."""
    from gatepost.core.event_bus import EventBus
    from gatepost.flow.gateways.group_place import prepare_place
    from gatepost.flow.groups import ensure_defaults
    from gatepost.serve.control.contract import OperationDeps
    from gatepost.store.engine.open_store import open_store
    from gatepost.store.engine.readonly import get_clock
    from gatepost.store.gateways import group_places
    from gatepost.store.gateways.gateway_identity import find_mark, get_gateway_name

    store, clock = open_store(home, config, readers=1), get_clock(home, config)
    try:
        if home.shared is not None:
            await prepare_place(store, home, get_gateway_name(config), clock.now(), starts=False)
        if home.gateway:
            await store.write(group_places.claim_for_home, find_mark(home), home.gateway, clock.now())
        await ensure_defaults(store, home, clock, config, home.gateway)
        if run is None:
            return None
        config = settings.load_declared(home.path)  # with the settings that were declared since
        return await run(OperationDeps(home=home, store=store, clock=clock, config=config, events=EventBus()), args)
    finally:
        store.close()


async def _run_with_gateway(home: Home, run: Callable[..., Any], args: dict[str, Any]) -> Any:
    """With a gateway's pieces at hand and none of its flows but the tools: nobody else's work is taken up."""
    import asyncio

    from gatepost import app
    from gatepost.core import log
    from gatepost.flow.sessions.trial import run_trial
    from gatepost.flow.start_check import check_config
    from gatepost.serve.control.contract import OperationDeps

    app.load_plugins(home)
    config = settings.load(home.path)
    check_config(home, config)
    log.configure(home, config, io.StringIO())  # the command itself says what people are to know
    gateway = app.Gateway(home, config, SystemClock())
    calls = asyncio.create_task(gateway.dispatch.run())
    try:
        operation_deps = OperationDeps(
            home=gateway.home,
            store=gateway.store,
            clock=gateway.clock,
            config=config,
            events=gateway.events,
            try_out=partial(run_trial, gateway.sessions),
        )
        return await run(operation_deps, args)
    finally:
        calls.cancel()
        await asyncio.wait({calls})
        await gateway.models.close()
        gateway.files.close()
        gateway.store.close()
        log.close()
