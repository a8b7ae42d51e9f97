"""How a command acts on a home: through the daemon if one runs, else itself, under the same lock and with the same
function. What only reads looks at the store directly."""

import asyncio
import os
import time
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gatepost.core import home as homes
from gatepost.core import listen, lock, settings
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.serve.control.client import TIMEOUT_S, Control
from gatepost.store.look import look
from gatepost.store.port import Db

PATIENCE_S = 15.0  # a daemon that starts holds the lock before it answers, and imports much
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def home_of(given: str | None) -> Home:
    """`--home`, GATEPOST_HOME or the default one."""
    return homes.find(given)


def control_of(home: Home) -> Control:
    return Control(listen.find_control(home), home.path)


def zone_of(home: Home) -> tuple[tzinfo | None, str]:
    """The zone in which times are shown, and its name for the table's head: `timezone` where it is set, else local."""
    from gatepost.flow.sessions.plan import TIMEZONE

    config = settings.peek(home.path, TIMEZONE)
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


def errand_s(home: Home) -> float:
    """How long to wait for what is done in a worktree: git, and a setup or teardown after or before it."""
    from gatepost.flow.worktrees.errands import LIMIT_S

    return 2 * settings.peek(home.path, LIMIT_S)[LIMIT_S] + TIMEOUT_S


def reading(home: Home, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
    return look(home.store, fn, *args)


def operate(home: Home, name: str, args: dict[str, Any], *, awake: bool = False, timeout: float = TIMEOUT_S) -> Any:
    """Run an operation and return its answer; what it refuses is raised here. `awake`: it must run an agent, also while
    the daemon is down."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if lock.holder(home) is None:
            try:
                return _alone(home, name, args, awake=awake)
            except lock.Taken:
                continue  # somebody was faster
        try:
            return control_of(home).post(f"/v1/ops/{name}", args, timeout)["result"]
        except Unavailable as error:
            if error.uncertain or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _alone(home: Home, name: str, args: dict[str, Any], *, awake: bool) -> Any:
    from gatepost.core.clock import SystemClock
    from gatepost.core.registry import load_folder, load_package
    from gatepost.serve.control.contract import OPERATIONS
    from gatepost.store.migrate import migrate

    home.prepare()
    load_package("gatepost.serve.control.operations")
    load_package("gatepost.sandboxes")
    with lock.take(home, patience=0):
        load_folder(home.plugins / "sandboxes", "sandboxes")
        config = settings.peek(home.path)  # what it refuses leaves no store behind
        migrate(home.store, SystemClock())
        asyncio.run(_settle_in(home, config))
        if awake:
            return asyncio.run(_run_awake(home, OPERATIONS[name], args))
        return asyncio.run(_run(home, OPERATIONS[name], args))


async def _settle_in(home: Home, config: settings.Config) -> None:
    """The groups of every gateway, before anything that may fail: a store without them is of no use to the next one."""
    from gatepost.core.clock import SystemClock
    from gatepost.flow.groups import ensure_defaults
    from gatepost.flow.sessions.plan import sandbox_uid
    from gatepost.store.writer import SqliteStore

    store = SqliteStore(home.store, readers=1)
    try:
        await ensure_defaults(store, home, SystemClock(), sandbox_uid(config))
    finally:
        store.close()


async def _run(home: Home, run: Callable[..., Any], args: dict[str, Any]) -> Any:
    from gatepost.core.bells import Bells
    from gatepost.core.clock import SystemClock
    from gatepost.serve.control.contract import Office
    from gatepost.store.writer import SqliteStore

    store, clock = SqliteStore(home.store, readers=1), SystemClock()
    try:
        office = Office(home=home, store=store, clock=clock, config=settings.peek(home.path), bells=Bells())
        return await run(office, args)
    finally:
        store.close()


async def _run_awake(home: Home, run: Callable[..., Any], args: dict[str, Any]) -> Any:
    """With a gateway's pieces at hand and none of its flows but the tools: nobody else's work is taken up."""
    import io
    from functools import partial

    from gatepost import app
    from gatepost.core import log
    from gatepost.core.clock import SystemClock
    from gatepost.flow.sessions.trial import try_out
    from gatepost.serve.control.contract import Office

    app.load_plugins(home)
    config = settings.load(home.path)
    app.check(home, config)
    log.configure(home, config, io.StringIO())  # the command itself says what people are to know
    gateway = app.Gateway(home, config, SystemClock())
    calls = asyncio.create_task(gateway.dispatch.run())
    try:
        office = Office(
            home=home,
            store=gateway.store,
            clock=gateway.clock,
            config=config,
            bells=gateway.bells,
            dispatch=gateway.dispatch,
            try_out=partial(try_out, gateway.sessions),
        )
        return await run(office, args)
    finally:
        calls.cancel()
        await asyncio.wait({calls})
        await gateway.models.close()
        gateway.files.shutdown(wait=False)
        gateway.store.close()
        log.close()
