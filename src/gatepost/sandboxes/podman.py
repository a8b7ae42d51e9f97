"""podman: containers without a daemon, as root or as an ordinary user. For those who want an image or another runtime,
such as gVisor's runsc; bubblewrap starts twenty times as fast.
"""

import os
import shutil
from pathlib import Path

from gatepost.core.settings import Config
from gatepost.sandboxes.containers import LABEL, PATH, ContainerFolder, engine_env, run_options
from gatepost.sandboxes.contract import SandboxPlan, sandbox
from gatepost.sandboxes.engine import Engine

SETTINGS_OF_ITS_OWN = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF")
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
SYSTEMD = Path("/run/systemd/system")


COMPLAINTS = {  # found in its words, in small letters → the way out
    "hybrid mode": "its runtime crun does not know cgroups of v1 and v2 side by side; apt install runc",
    "setrlimit": "its runtime may not raise the limits of a process; lower default_ulimits in containers.conf",
    "catatonit": "it has no first process to put into containers; install it: apt install catatonit",
    "init binary": "it has no first process to put into containers; install it: apt install catatonit",
    "newuidmap": "this user has no other uids to lend; install uidmap, and usermod --add-subuids 100000-165535 "
    "--add-subgids 100000-165535 NAME",
    "conmon": "conmon, which watches over its containers, is missing; install it: apt install conmon",
    "oci runtime": "its runtime is missing or does not work; apt install runc, or name another in sandbox.runtime",
    "image not known": "the image in sandbox.image is not here; podman pull or podman build it first",
}


@sandbox("podman")
class Podman(Engine):
    name = "podman"
    complaints = COMPLAINTS

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.runtime = self.runtime or choose_runtime(UNIFIED.exists(), shutil.which("runc", path=PATH))

    def run_command(self, plan: SandboxPlan, container: str, place: ContainerFolder) -> list[str]:
        command = [*self._podman(), "run", *run_options(plan, container, place, image=bool(self.image))]
        command += ["--read-only-tmpfs=false", "--passwd=false", "--http-proxy=false", "--pidfile", str(place.pid)]
        if os.geteuid() != 0:
            command += ["--userns", "keep-id"]
        root = [self.image] if self.image else ["--rootfs", str(place.root)]
        return [*command, *root, *plan.command[1:]]

    def end_command(self, *containers: str) -> list[str]:
        return [*self._podman(), "rm", "--force", "--ignore", "--time", "0", *containers]

    def list_command(self, prefix: str) -> list[str]:
        labelled = ("--filter", f"label={LABEL}", "--filter", f"name=^{prefix}")
        return [*self._podman(), "ps", "--all", *labelled, "--format", "{{.Names}}"]

    def prepare(self) -> None:
        """Nothing: a folder will do as a root."""

    def find_pid(self, container: str, place: ContainerFolder) -> int | None:
        try:
            return int(place.pid.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def env(self) -> dict[str, str]:
        return engine_env(SETTINGS_OF_ITS_OWN)

    def missing(self) -> str:
        return "podman is not installed; install it: apt install podman runc catatonit uidmap"

    def _podman(self) -> list[str]:
        command = [self.program or self.name, "--events-backend", "none"]
        if not SYSTEMD.exists():
            command += ["--cgroup-manager", "cgroupfs"]
        if self.runtime:
            command += ["--runtime", self.runtime]
        for flag in self.flags:
            command += ["--runtime-flag", flag]
        return command


def choose_runtime(unified: bool, runc: str | None) -> str:
    """podman prefers crun, which does not work where cgroup v1 is left; runc does."""
    return "runc" if runc is not None and not unified else ""
