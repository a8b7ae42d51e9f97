"""process: no sandbox at all, an ordinary child with the rights of the gateway. For machines that have nothing better
and operators who said so; also where the demo runs when nothing else can.

It has no mounts: wherever the plan names a path inside, the child is given the host's path instead.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

from gatepost.core.errors import Unavailable
from gatepost.core.npm_programs import find_commands
from gatepost.core.settings import Config
from gatepost.inside.bridge import PYTHON_LIBRARIES
from gatepost.sandboxes.child import Child, cap_rlimit
from gatepost.sandboxes.contract import Mount, SandboxLimits, SandboxPlan, sandbox


class ProcessSandbox:
    pid_namespace: int | None = None

    def __init__(self, child: Child) -> None:
        self.pid = self.inner_pid = child.pid
        self._child = child
        child.on_end(child.kill_group)

    @property
    def last_words(self) -> str:
        return self._child.last_words

    async def wait(self) -> int:
        return await self._child.wait()

    def kill(self) -> None:
        if not self._child.ended:
            self._child.kill_group()

    @property
    def memory_is_limited(self) -> bool:
        return False

    def end_start(self) -> None:
        """Its share of the processors is that of its nice value, from the beginning."""

    def owns(self, pid: int) -> bool:
        """It leads a session: whatever it started is in it."""
        try:
            return os.getsid(pid) == self.pid
        except ProcessLookupError:
            return False


@sandbox("process")
class ProcessSandboxKind:
    isolated = False

    def __init__(self, config: Config) -> None:
        pass

    def trouble(self) -> str | None:
        return None

    async def start(self, plan: SandboxPlan) -> ProcessSandbox:
        return self._spawn(plan)

    def _spawn(self, plan: SandboxPlan) -> ProcessSandbox:
        words = None if plan.stdio else os.pipe()
        env = {name: to_host_path(value, plan.mounts) for name, value in plan.env.items()}
        for name in ("LD_LIBRARY_PATH", PYTHON_LIBRARIES):
            env.pop(name, None)  # on the host the interpreter finds its own
        try:
            process = subprocess.Popen(
                [to_host_path(each, plan.mounts) for each in plan.command],
                stdin=None if plan.stdio else subprocess.DEVNULL,
                stdout=None if words is None else words[1],
                stderr=None if words is None else words[1],
                env={**env, "PATH": _path(plan)},
                cwd=to_host_path(plan.cwd, plan.mounts),
                start_new_session=True,
                umask=0o022,  # what an agent writes in a project is for others to read; the home's folders are closed
            )
        except OSError as error:
            if words is not None:
                os.close(words[0])
            raise Unavailable("a process", f"{error.filename or plan.command[0]}: {error.strerror}") from None
        finally:
            if words is not None:
                os.close(words[1])
        _limit(process.pid, plan.limits)
        return ProcessSandbox(Child(process, None if words is None else words[0], plan.log))

    def sweep(self, prefix: str) -> int:
        return 0  # a runner whose line is gone ends by itself, and nothing else tells them apart


def _limit(pid: int, limits: SandboxLimits) -> None:
    """Set what holds without walls, on the child that just began: there is nothing in it yet that could write."""
    if limits.file_mb and sys.platform == "linux":
        most = cap_rlimit(resource.RLIMIT_FSIZE, limits.file_mb << 20)
        with suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


def _path(plan: SandboxPlan) -> str:
    """The gateway's own, after the folders of the programs that would be mounted."""
    inside = plan.env.get("PATH", "")
    first = inside.partition(":")[0]
    folders = [str(mount.source.parent) for mount in plan.mounts if os.path.dirname(mount.target) == first]
    packages = f"{os.path.dirname(first)}/npm"
    folders += [str(find_commands(each.source)) for each in plan.mounts if os.path.dirname(each.target) == packages]
    return ":".join((*folders, os.environ.get("PATH", inside)))


def to_host_path(text: str, mounts: Iterable[Mount]) -> str:
    """A path inside (or several, with colons), where it is on the host. Anything else stays as it is."""
    if not text.startswith("/"):
        return text
    longest_first = sorted(mounts, key=lambda mount: -len(mount.target))
    return ":".join(_to_host_path(part, longest_first) for part in text.split(":"))


def _to_host_path(path: str, mounts: Iterable[Mount]) -> str:
    for mount in mounts:
        if path == mount.target or path.startswith(mount.target + "/"):
            return str(mount.source) + path[len(mount.target) :]
    return path
