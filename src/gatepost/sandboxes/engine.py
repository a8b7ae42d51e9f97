"""A container engine driven by its command: tried whole before it is trusted, started from, swept.

Each engine says how a container is run and ended and what its complaints mean; the rest is the same.
"""

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from gatepost.core.error_classification import is_transient
from gatepost.core.errors import GatepostError, SetupError, Unavailable
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.flow.sessions.sandbox.sandbox_plan import KIND
from gatepost.sandboxes import seccomp
from gatepost.sandboxes.child import Child
from gatepost.sandboxes.containers import (
    IMAGE,
    PATH,
    RUNTIME,
    RUNTIME_FLAGS,
    ContainerFolder,
    ContainerReaper,
    ContainerSandbox,
    get_containers_folder,
    get_host_owner,
)
from gatepost.sandboxes.contract import Mount, SandboxPlan
from gatepost.sandboxes.probes import Probes

START_S, TRIAL_S, LOOK_S = 30.0, 20.0, 0.005
WRITE = ("/bin/sh", "-c", "{ stat -c %d:%i /trial || echo unknown; } > /trial/seen")
NOT_STARTED = (125, 126, 127)  # the engine's own exit codes, unless a container has had its turn
NOTICED_LIMITS = ("not supported", "ignored", "discarded", "does not support")

_probes = Probes()


class EngineResult(Struct, frozen=True):
    """The outcome of an engine's command."""

    code: int
    out: str
    words: str  # its stderr


class Engine(ABC):
    isolated = True
    name: str
    complaints: Mapping[str, str]  # what is found in its words, in small letters → the way out

    def __init__(self, config: Config) -> None:
        self._config = config
        self.program = shutil.which(self.name, path=PATH)
        self.image, self.runtime, self.flags = config[IMAGE], config[RUNTIME], config[RUNTIME_FLAGS]

    @abstractmethod
    def run_command(self, plan: SandboxPlan, container: str, place: ContainerFolder) -> list[str]: ...

    @abstractmethod
    def end_command(self, *containers: str) -> list[str]:
        """Ends and removes them, whatever their state; one that is gone already is no error."""

    @abstractmethod
    def list_command(self, prefix: str) -> list[str]:
        """Prints the names of all containers that begin so, one a line."""

    @abstractmethod
    def find_pid(self, container: str, place: ContainerFolder) -> int | None:
        """The first process inside, seen from the host; None: not yet. May block."""

    @abstractmethod
    def env(self) -> dict[str, str]:
        """The environment of its own program."""

    @abstractmethod
    def missing(self) -> str: ...

    @abstractmethod
    def prepare(self) -> None:
        """Prepare everything that a start needs. May block; raises Unavailable."""

    def trouble(self) -> str | None:
        key = (self.program or "", self.name, self.image, self.runtime, *self.flags, str(sandbox_uid(self._config)))
        return _probes.ask(key, self._find_trouble_or_error)

    def _find_trouble_or_error(self) -> str | None:
        try:
            return self._find_trouble()
        except (GatepostError, OSError) as error:
            if is_transient(error):
                raise
            return str(error)

    async def start(self, plan: SandboxPlan) -> ContainerSandbox:
        if self.program is None:
            raise Unavailable(self.name, self.missing())
        for mount in plan.mounts:
            if not mount.source.exists():
                raise Unavailable(self.name, f"{mount.source}, to be seen at {mount.target}, is missing")
        if plan.uid == 0:
            raise SetupError("a sandbox never runs as the host's root; this one has no uid of its own")
        await asyncio.to_thread(self.prepare)
        place, container = self._make_place(plan)
        guard: ContainerReaper | None = None
        try:
            guard = ContainerReaper(place, self.end_command(container), self.env())
            child = self._spawn(plan, container, place)
            async with asyncio.timeout(START_S):
                return ContainerSandbox(child, await self._first_pid(child, container, place), place, guard)
        except (TimeoutError, OSError, GatepostError) as error:
            _clean_up(guard, place)
            why = f"it did not start within {START_S:g} s" if isinstance(error, TimeoutError) else str(error)
            raise error if isinstance(error, Unavailable) else Unavailable(self.name, why) from None
        except asyncio.CancelledError:
            _clean_up(guard, place)
            raise

    def sweep(self, prefix: str) -> int:
        """Asks the engine only if it was used here: each question takes a tenth of a second of the daemon's start."""
        try:
            left = [path for path in get_containers_folder(self.name).iterdir() if path.name.startswith(prefix)]
        except (GatepostError, OSError):
            left = []
        if self.program is None or not (left or self._config[KIND] == self.name):
            return 0
        listed = self.ask(self.list_command(prefix))
        names = [name for name in listed.out.split() if name.startswith(prefix)] if listed is not None else []
        if names:
            self.ask(self.end_command(*names))
        for path in left:
            ContainerFolder(path).remove()
        return len(names)

    def explain(self, words: str) -> str:
        """Its complaint, with the way out where there is a known one."""
        said = " ".join(words.split())[-400:]
        for found, remedy in self.complaints.items():
            if found in words.lower():
                return f"{remedy} ({said})"
        return f"a trial start failed: {said or 'it said nothing'}"

    def _make_place(self, plan: SandboxPlan) -> tuple[ContainerFolder, str]:
        """A name of its own for each start: the last one's may still be on its way out."""
        container = f"{plan.name}.{secrets.token_hex(4)}"
        place = ContainerFolder(get_containers_folder(self.name) / container)
        place.make(*get_host_owner(plan))
        return place, container

    def _spawn(self, plan: SandboxPlan, container: str, place: ContainerFolder) -> Child:
        words = None if plan.stdio else os.pipe()
        try:
            process = subprocess.Popen(
                self.run_command(plan, container, place),
                stdin=None if plan.stdio else subprocess.DEVNULL,
                stdout=None if words is None else words[1],
                stderr=None if words is None else words[1],
                env=self.env(),
                cwd="/",
                umask=0o022,
                start_new_session=True,  # a Ctrl-C in the daemon's terminal is the daemon's
            )
        except OSError:
            if words is not None:
                os.close(words[0])
            raise
        finally:
            if words is not None:
                os.close(words[1])
        return Child(process, None if words is None else words[0], plan.log)

    async def _first_pid(self, child: Child, container: str, place: ContainerFolder) -> int:
        """0 if it has come and gone before anybody looked."""
        while True:
            ended = child.ended
            pid = await asyncio.to_thread(self.find_pid, container, place)
            if pid is not None:
                return pid
            if ended:
                break
            await asyncio.sleep(LOOK_S)
        if await child.wait() in NOT_STARTED:
            raise Unavailable(self.name, self.explain(child.last_words).removeprefix("a trial start failed: "))
        return 0

    def _find_trouble(self) -> str | None:
        if sys.platform != "linux":
            return (
                f"{self.name} runs containers in a virtual machine here, and the gateway's sockets do not reach into "
                "it; run the gateway itself in that Linux machine"
            )
        if self.program is None:
            return self.missing()
        if not seccomp.supported():
            return f"there is no system call filter for the machine type {os.uname().machine} yet"
        self.prepare()
        bare = SandboxPlan(name="gatepost-trial", mounts=(), command=WRITE, cwd="/", uid=sandbox_uid(self._config))
        place, container = self._make_place(bare)
        try:
            return self._try(bare, place, container)
        finally:
            place.remove()

    def _try(self, bare: SandboxPlan, place: ContainerFolder, container: str) -> str | None:
        """Whole, with a file written inside: only then is it sure who that is on the host."""
        folder, (uid, gid) = place.folder / "trial", get_host_owner(bare)
        folder.mkdir()
        os.chown(folder, uid, gid)
        plan = replace(bare, mounts=(Mount(source=folder, target="/trial", writable=True),))
        tried = self.ask(self.run_command(plan, container, place))
        if tried is None:
            self.ask(self.end_command(container))
            raise Unavailable(self.name, f"a trial start did not end within {TRIAL_S:g} s")
        if tried.code != 0:
            return self.explain(tried.words)
        seen = folder / "seen"
        return (
            find_missing_limits(self.name, tried.words)
            or check_file_owner(self.name, seen, uid)
            or check_folder_identity(seen)
        )

    def ask(self, command: list[str], given: bytes = b"") -> EngineResult | None:
        """None: no answer in time."""
        try:
            ran = subprocess.run(
                command, env=self.env(), cwd="/", input=given, capture_output=True, timeout=TRIAL_S, check=False
            )
        except subprocess.TimeoutExpired:
            return None
        return EngineResult(ran.returncode, ran.stdout.decode(errors="replace"), ran.stderr.decode(errors="replace"))


def find_missing_limits(engine: str, words: str) -> str | None:
    """An engine that cannot set a limit warns and goes on; a sandbox without limits is none. Swap may be missing."""
    for line in words.splitlines():
        small = line.lower()
        if "limit" in small and "swap" not in small and any(each in small for each in NOTICED_LIMITS):
            return f"{engine} cannot limit memory and processes here ({line.strip()}); cgroup v2 or root is needed"
    return None


def check_file_owner(engine: str, seen: Path, uid: int) -> str | None:
    try:
        found = seen.stat().st_uid
    except FileNotFoundError:
        return f"what was written inside is not on this machine; {engine} must run its containers here, not elsewhere"
    if found == uid:
        return None
    return f"files made inside belong to uid {found} instead of {uid}; switch off the remapping of users in {engine}"


def check_folder_identity(seen: Path) -> str | None:
    """The first code inside compares its folder's numbers with those that were meant."""
    meant = seen.parent.stat()
    if seen.read_text().strip() == f"{meant.st_dev}:{meant.st_ino}":
        return None
    return (
        "its runtime gives folders numbers of its own, as gVisor's does, so an agent cannot tell whether it got the "
        "folder that was meant for it; set sandbox.runtime to runc or crun"
    )


def _clean_up(guard: ContainerReaper | None, place: ContainerFolder) -> None:
    if guard is None:
        place.remove()
    else:
        guard.act()
