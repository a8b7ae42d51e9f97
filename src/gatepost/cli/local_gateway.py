"""An operation without a daemon that runs an agent: with the pieces of a gateway."""

import asyncio
import io
from collections.abc import Callable
from functools import partial
from typing import Any

from gatepost import app
from gatepost.core import log_targets, settings
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.flow.sessions.trial import run_trial
from gatepost.flow.start_check import check_config
from gatepost.serve.control.contract import OperationDeps


async def run_with_gateway(home: Home, run: Callable[..., Any], args: dict[str, Any]) -> Any:
    """With a gateway's pieces at hand and none of its flows but the tools: nobody else's work is taken up."""
    app.load_plugins(home)
    config = settings.load(home.path)
    check_config(home, config)
    log_targets.configure(home, config, io.StringIO())  # the command itself says what people are to know
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
        log_targets.close()
