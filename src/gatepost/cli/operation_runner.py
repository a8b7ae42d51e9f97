"""How a command acts on a home: through the daemon if one runs, else itself, under the same lock and with the same
function. An operation that only reads looks at the store directly."""

import importlib
import os
import time
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gatepost.core import home as homes
from gatepost.core import settings
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.home import Home, expand_user
from gatepost.core.process import home_lock, listen_address
from gatepost.flow.schedule import TIMEZONE
from gatepost.flow.worktrees import LIMIT_S
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.client import TIMEOUT_S, ControlClient, get_result
from gatepost.serve.control.declaration import OperationArgs
from gatepost.store.engine.readonly import get_clock, read_store

PATIENCE_S = 15.0  # a daemon that starts holds the lock before it answers, and imports much


def home_of(given: str | None) -> Home:
    """`--home`, GATEPOST_HOME or the default one."""
    return homes.find(given)


def control_of(home: Home) -> ControlClient:
    return ControlClient(listen_address.find_control_path(home), home.path)


def zone_of(home: Home) -> tuple[tzinfo | None, str]:
    """The zone in which times are shown, and its name for the table's head: `timezone` where it is set, else local."""
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
    return os.path.abspath(expand_user(path))


def get_worktree_timeout(home: Home) -> float:
    """How long to wait for what is done in a worktree: git, and a setup or teardown after or before it."""
    return 2 * settings.load_declared(home.path, LIMIT_S)[LIMIT_S] + TIMEOUT_S


def read_operation(home: Home, declared: type[OperationArgs[Any]], given: dict[str, Any]) -> Any:
    """Run an operation that only reads, on a snapshot: no gateway is asked, and no lock is held."""
    from gatepost.serve.control.contract import OPERATIONS

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
                from gatepost.cli.local_operation import run_locally  # heavy: the store, and every operation

                return run_locally(home, name, args, awake=awake)
            except home_lock.HomeLocked:
                continue  # somebody was faster
        try:
            return get_result(control_of(home).post(f"/v1/ops/{name}", args, timeout))
        except Unavailable as error:
            if error.uncertain or time.monotonic() > deadline:
                raise
        time.sleep(0.05)
