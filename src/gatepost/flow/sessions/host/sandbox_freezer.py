"""Everything that runs in sandboxes here, held still while this gateway may not act.

It is frozen by the gateway's own clock. Should the gateway be stopped, its keeper does the same.
"""

from typing import Protocol

from gatepost.core import log
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.flow.sessions.host import sandbox_processes
from gatepost.sandboxes.contract import Sandbox

_log = log.get("sessions")


class SandboxKeeper(Protocol):
    """Holds sandboxes when this process cannot."""

    def add(self, sandbox: Sandbox, freezer: str) -> None: ...
    def remove(self, sandbox: Sandbox) -> None: ...


class SandboxFreezer:
    def __init__(self, may_act: FenceCheck = always, keeper: SandboxKeeper | None = None) -> None:
        """`keeper`: None, if nobody takes over from this gateway."""
        self._may_act, self._keeper = may_act, keeper
        self._running: list[Sandbox] = []
        self.is_frozen = False

    def add(self, sandbox: Sandbox) -> None:
        """It has just started: before anything is awaited."""
        self._running.append(sandbox)
        if not self.may_go_on():
            sandbox_processes.freeze([sandbox])
        if self._keeper is not None:
            self._keeper.add(sandbox, sandbox_processes.find_freezer(sandbox))

    def remove(self, sandbox: Sandbox) -> None:
        """It has ended, or was killed."""
        if sandbox in self._running:
            self._running.remove(sandbox)
            if self._keeper is not None:
                self._keeper.remove(sandbox)

    def set_frozen(self, frozen: bool) -> bool:
        """Return True if that is a change."""
        if frozen == self.is_frozen:
            return False
        self.is_frozen = frozen
        _log.warning("sandboxes are frozen" if frozen else "sandboxes go on", sandboxes=len(self._running))
        (sandbox_processes.freeze if frozen else sandbox_processes.thaw)(self._running)
        return True

    def may_go_on(self) -> bool:
        """Return True if a sandbox may run now. If not, all are frozen from here on: whoever held some for a moment
        must not let them go."""
        if not self.is_frozen and not self._may_act():
            self.set_frozen(True)
        return not self.is_frozen
