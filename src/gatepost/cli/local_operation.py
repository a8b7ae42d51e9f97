"""An operation without a daemon: by this process itself, under the lock of the home and with the same function."""

import asyncio
from collections.abc import Callable
from typing import Any

from gatepost.cli import output
from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.registry import load_folder, load_package
from gatepost.flow.gateways.group_place import place_home, prepare_place
from gatepost.flow.groups import ensure_defaults
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.open_store import open_store, prepare_store
from gatepost.store.engine.readonly import get_clock
from gatepost.store.gateways import group_places
from gatepost.store.gateways.gateway_identity import find_mark, get_gateway_name


def run_locally(home: Home, name: str, args: dict[str, Any], *, awake: bool) -> Any:
    is_new = not home.path.exists()
    home.prepare()
    OPERATIONS.complete()
    load_package("gatepost.sandboxes")
    with home_lock.acquire(home, patience=0):
        load_folder(home.plugins / "sandboxes", "sandboxes")
        config = settings.load_declared(home.path)  # what it refuses leaves no store behind
        home = place_home(home, config)
        prepare_store(home, config, SystemClock())
        if is_new:
            output.print_line(f"a new home was made: {home.path}; --home or GATEPOST_HOME names another", error=True)
        answer = asyncio.run(_run(home, config, None if awake else OPERATIONS[name], args))
        if not awake:
            return answer
        from gatepost.cli.local_gateway import run_with_gateway  # heavy: the whole gateway

        return asyncio.run(run_with_gateway(home, OPERATIONS[name], args))


async def _run(home: Home, config: settings.Config, run: Callable[..., Any] | None, args: dict[str, Any]) -> Any:
    """First the groups of every gateway, before anything that may fail: a store without them is of no use to the next
    one."""
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
