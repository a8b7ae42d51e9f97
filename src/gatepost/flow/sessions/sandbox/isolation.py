"""Which walls agents get: one answer for the ready banner, status, doctor, connect and `sandbox run`.

Asked anew each time. A sandbox that is installed while the gateway runs is found by the next start of a session, and by
everybody who asks.
"""

from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.flow.reports import SandboxIsolation
from gatepost.flow.sessions.sandbox.sandbox_plan import MakeSandboxKind, choose_sandbox
from gatepost.sandboxes.contract import SANDBOXES
from gatepost.store.sessions.groups import Group

ANYBODY = Group(folder="", name="", created_at=0)  # a group that says nothing of sandboxes


def find_isolation(
    config: Config, group: Group = ANYBODY, provider: str = "", registry: Registry[MakeSandboxKind] = SANDBOXES
) -> SandboxIsolation:
    """Return what a session of this group gets. May start a sandbox to see; not for the event loop."""
    try:
        name, kind = choose_sandbox(config, group, provider, registry)
    except SetupError as error:
        return SandboxIsolation("", False, str(error))
    except Unavailable as error:  # short of something for a moment: whoever starts a session waits and asks again
        return SandboxIsolation("", False, f"not now: {error.why}")
    return SandboxIsolation(name, kind.isolated)


def render_banner(walls: SandboxIsolation) -> str:
    """One line for whoever starts the gateway."""
    if not walls.kind:
        return f"NO WALLS: only the demo runs; {walls.trouble}"
    if not walls.isolated:
        return (
            f"NO WALLS: agents run in {walls.kind!r} with all rights of the gateway's own user;"
            ' set sandbox.kind = "auto" for walls'
        )
    return f"agents run in {walls.kind}"
