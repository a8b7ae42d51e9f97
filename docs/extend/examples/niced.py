"""niced: another kind of sandbox with a low priority. Put this file into `plugins/sandboxes/` of the home.

It builds no walls of its own and is as isolated as the kind that it is laid around.
"""

import shutil

from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.sandboxes.contract import SANDBOXES, Sandbox, SandboxPlan, sandbox

AROUND = setting("sandbox.niced.around", "bubblewrap", help="The kind of sandbox that gets the low priority.")
LEVEL = setting("sandbox.niced.level", 10, help="How nice: 1 to 19.")


@sandbox("niced")
class Niced:
    def __init__(self, config: Config) -> None:
        self._inner = SANDBOXES[config[AROUND]](config)
        self._level = config[LEVEL]
        self.isolated = self._inner.isolated

    def trouble(self) -> str | None:
        if shutil.which("nice") is None:
            return "nice is not installed; install the package coreutils"
        return self._inner.trouble()

    async def start(self, plan: SandboxPlan) -> Sandbox:
        return await self._inner.start(replace(plan, command=("nice", "-n", str(self._level), *plan.command)))

    def sweep(self, prefix: str) -> int:
        return self._inner.sweep(prefix)
