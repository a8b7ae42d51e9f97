"""docker: containers of a daemon that runs as root. For those who have it and nothing else.

docker starts from images alone, so an almost empty one is made, which needs no registry. Access to its daemon is as
good as root on this machine, so no sandbox ever sees its socket.
"""

import hashlib

from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config
from gatepost.sandboxes.containers import (
    LABEL,
    ContainerFolder,
    engine_env,
    get_containers_folder,
    pack_root,
    run_options,
)
from gatepost.sandboxes.contract import SandboxPlan, sandbox
from gatepost.sandboxes.engine import Engine

COMPLAINTS = {  # found in its words, in small letters → the way out
    "permission denied while trying to connect": "this user may not speak to the docker daemon; add it to the "
    "group docker, which is as good as making it root",
    "cannot connect to the docker daemon": "the docker daemon does not run; start it: systemctl start docker, or "
    "name its socket in DOCKER_HOST",
    "no such image": "the image in sandbox.image is not here; docker pull or docker build it first",
    "unknown or invalid runtime": "the docker daemon does not know the runtime in sandbox.runtime; add it to "
    "daemon.json",
    "docker-init": "it has no first process to put into containers; install it: apt install tini",
    "rlimit": "its runtime may not raise the limits of a process; lower default-ulimits in daemon.json",
}


@sandbox("docker")
class Docker(Engine):
    name = "docker"
    complaints = COMPLAINTS

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._root = f"gatepost-root:{hashlib.sha256(pack_root()).hexdigest()[:12]}"

    def prepare(self) -> None:
        if self.image:
            return
        known = self.ask([*self._docker(), "image", "inspect", "--format", "{{.Id}}", self._root])
        if known is not None and known.code == 0:
            return
        made = self.ask([*self._docker(), "import", "-", self._root], pack_root())
        if made is None or made.code != 0:
            raise Unavailable(self.name, "no answer in time" if made is None else self.explain(made.words))

    def run_command(self, plan: SandboxPlan, container: str, place: ContainerFolder) -> list[str]:
        command = [*self._docker(), "run", *run_options(plan, container, place, image=bool(self.image))]
        if self.runtime:
            command += ["--runtime", self.runtime]
        return [*command, self.image or self._root, *plan.command[1:]]

    def end_command(self, *containers: str) -> list[str]:
        return [*self._docker(), "rm", "--force", *containers]

    def list_command(self, prefix: str) -> list[str]:
        labelled = ("--filter", f"label={LABEL}", "--filter", f"name=^{prefix}")
        return [*self._docker(), "ps", "--all", *labelled, "--format", "{{.Names}}"]

    def find_pid(self, container: str, place: ContainerFolder) -> int | None:
        if not place.id.exists():
            return None
        answer = self.ask([*self._docker(), "inspect", "--format", "{{.State.Pid}}", container])
        found = answer.out.strip() if answer is not None else ""
        return int(found) if found.isdigit() and found != "0" else None

    def env(self) -> dict[str, str]:
        # A folder without a config.json: the operator's could put proxies, with their passwords, into containers.
        return {**engine_env(("DOCKER_HOST",)), "DOCKER_CONFIG": str(get_containers_folder(self.name))}

    def missing(self) -> str:
        return "docker is not installed; install it: apt install docker.io"

    def _docker(self) -> list[str]:
        return [self.program or self.name]
