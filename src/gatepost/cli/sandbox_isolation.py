"""Which walls agents get here, for every command that says so."""

from contextlib import suppress

from gatepost.cli.gateway_retry import post_operation
from gatepost.cli.operation_runner import control_of
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.registry import load_folder, load_package
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.isolation import ANYBODY, find_isolation
from gatepost.flow.sessions.sandbox.isolation_report import SandboxIsolation
from gatepost.serve.control.arguments.connect import IsolationArgs
from gatepost.store.sessions.groups import Group

ASK_S = 15.0  # a trial start of a sandbox may take ten


def get_isolation(home: Home, config: Config, group: Group = ANYBODY, provider: str = "") -> SandboxIsolation:
    """A running gateway's own answer: it may find other programs than this command does. Else this machine's."""
    if home_lock.find_holder(home) is not None:
        with suppress(GatepostError):  # it starts or stops, or is of an older version
            args = {"folder": group.folder, "provider": provider}
            return post_operation(control_of(home), IsolationArgs, args, ASK_S)
    load_package("gatepost.sandboxes")
    load_folder(home.plugins / "sandboxes", "sandboxes")
    return find_isolation(config, group, provider)
