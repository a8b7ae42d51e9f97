"""Common ground of podman and docker: a container's view, walls and limits as arguments, and its life.

No image is needed: the root inside is an almost empty folder with the host's `/usr`, as bubblewrap's is. Never the
host's uid 0: the command runs as the plan's uid (the daemon's own if it is not root), without capabilities. The engine
keeps a container alive whoever started it, so each has a guard, which ends it when the daemon is gone.
"""

import asyncio
import io
import os
import resource
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gatepost.core import error_classification
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.process.unix_sockets import can_refuse_descriptors
from gatepost.core.settings import setting
from gatepost.sandboxes import cgroups, mounts, seccomp
from gatepost.sandboxes.child import Child, cap_rlimit
from gatepost.sandboxes.contract import SandboxLimits, SandboxPlan

RUNTIME = setting(
    "sandbox.runtime",
    "",
    help="Of podman and docker: the OCI runtime, such as runc, crun or runsc; empty: the engine's own choice.",
)
RUNTIME_FLAGS = setting(
    "sandbox.runtime_flags",
    (),
    help="Of podman: flags for that runtime without their dashes. runsc needs network=none and, so that sockets work, "
    "host-uds=open (before 2023: fsgofer-host-uds).",
)
IMAGE = setting(
    "sandbox.image",
    "",
    help="Of podman and docker: the image agents see in the place of this machine's /usr; its C library must not be "
    "older than this machine's.",
)

LABEL = "gatepost"
# /sbin is a folder of its own: docker puts its first process there, and a link into /usr would hide it.
FOLDERS = ("dev", "etc", "opt", "proc", "run", "sbin", "sys", "tmp", "usr", "workspace")
OF_HOST = tuple(name for name in mounts.TOP_LEVEL if name not in FOLDERS)
ENGINE_S = 1.5  # what an engine has to notice that its container was killed
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSED_ON = (
    "HOME",
    "USER",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
)
# Its line means: all is over. No line: the daemon is gone. The second round is for what was just being made.
GUARD = 'read -r _ && exit; place=$1; shift; "$@"; sleep 1; "$@"; rm -rf -- "$place"'


class ContainerFolder:
    """A container's folder on the host while it lives: its root, the files of its `/etc`, an empty `/sys`,
    its filter, its number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root, self.etc, self.filter = folder / "root", folder / "etc", folder / "seccomp.json"
        self.sys, self.pid, self.id = folder / "sys", folder / "pid", folder / "id"

    def make(self, uid: int, gid: int) -> None:
        """Modes are set by hand: what is seen inside must be readable there, whatever our umask."""
        self.folder.mkdir(mode=0o700)
        _open_folder(self.root)
        with tarfile.open(fileobj=io.BytesIO(pack_root())) as packed:
            for entry in packed:
                if entry.issym():
                    (self.root / entry.name).symlink_to(entry.linkname)
                else:
                    _open_folder(self.root / entry.name, entry.mode)
        for folder in (self.sys, self.sys / "fs", self.sys / "fs" / "cgroup", self.etc):
            _open_folder(folder)
        for name, text in etc_files(uid, gid).items():
            (self.etc / name).write_text(text)
            (self.etc / name).chmod(0o444)
        self.filter.write_text(seccomp.make_profile(linger=can_refuse_descriptors()))

    @property
    def container(self) -> str:
        """The id that the engine gave it; '' before it did."""
        try:
            return self.id.read_text().strip()
        except OSError:
            return ""

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _open_folder(path: Path, mode: int = 0o755) -> None:
    path.mkdir()
    path.chmod(mode)


def get_containers_folder(engine: str) -> Path:
    """Return where the containers of this user have their folders; nobody else may look in."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() == 0:
        folder = Path("/run/gatepost-containers")
    elif runtime and Path(runtime).is_dir():
        folder = Path(runtime, "gatepost-containers")
    else:
        folder = Path(tempfile.gettempdir(), f"gatepost-containers-{os.geteuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise SetupError(f"{folder} must be a folder that only its owner, uid {os.geteuid()}, can enter; remove it")
        (folder / engine).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        otherwise = SetupError(f"{folder} cannot be made: {error.strerror}; containers need it")
        raise error_classification.to_gatepost_error(str(folder), error, otherwise) from None
    return folder / engine


def pack_root() -> bytes:
    """The root of a container that sees the host's `/usr`: folders to mount over, and the links that lead into it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in FOLDERS:
            # A runtime gives a tmpfs the mode of the folder that it covers.
            tar.addfile(_entry(name, tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755))
        for name in OF_HOST:
            path = Path("/", name)
            if path.is_symlink():
                link = _entry(name, tarfile.SYMTYPE, 0o777)
                link.linkname = os.readlink(path)
                tar.addfile(link)
            elif path.is_dir():
                tar.addfile(_entry(name, tarfile.DIRTYPE, 0o755))
    return packed.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def etc_files(uid: int, gid: int) -> dict[str, str]:
    """As in bubblewrap's, but for the number: here the user has the same one inside and outside."""
    return {
        **mounts.ETC,
        "passwd": f"agent:x:{uid}:{gid}:agent:/workspace/state/home:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
        "group": f"agent:x:{gid}:\nnogroup:x:65534:\n",
        "hostname": "gatepost\n",
    }


def get_host_owner(plan: SandboxPlan) -> tuple[int, int]:
    """Host uid and gid of what runs inside."""
    return (os.geteuid(), os.getegid()) if plan.uid is None else (plan.uid, plan.uid)


def run_options(plan: SandboxPlan, container: str, place: ContainerFolder, *, image: bool) -> list[str]:
    """Return what both engines understand, from `run` up to the image."""
    uid, gid = get_host_owner(plan)
    size = str(plan.limits.tmpfs_bytes)
    options = [
        *(
            "--rm",
            "--cidfile",
            str(place.id),
            "--name",
            container,
            "--label",
            f"{LABEL}={plan.name}",
            "--pull",
            "never",
            "--log-driver",
            "none",
        ),
        *("--init", "--sig-proxy=false", "--network", "none", "--ipc", "private", "--cgroupns", "private"),
        *("--read-only", "--cap-drop", "ALL", "--user", f"{uid}:{gid}", "--hostname", "gatepost"),
        *("--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
        *("--security-opt", f"seccomp={place.filter}"),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,size={size},mode=1777", "--shm-size", size),
        *limit_options(plan.limits),
        *mount_options(plan, place, image=image),
        *(word for name, value in plan.env.items() for word in ("--env", f"{name}={value}")),
        *("--workdir", plan.cwd, "--entrypoint", plan.command[0]),
    ]
    return [*options, "--interactive"] if plan.stdio else options


def limit_options(limits: SandboxLimits) -> list[str]:
    """Every rlimit is named: engines raise those that are not, which even root may not be able to. That on processes
    stays as it is, because it would count all that this uid runs; the cgroup counts what is inside."""
    files = min(limits.files, _get_hard_limit(resource.RLIMIT_NOFILE) or limits.files)
    processes = min(get_pid_max(), _get_hard_limit(resource.RLIMIT_NPROC) or get_pid_max())
    options = ["--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"]
    options += ["--ulimit", "core=0:0", "--pids-limit", str(limits.processes)]
    options += ["--memory", f"{limits.memory_mb}m", "--memory-swap", f"{limits.memory_mb}m"]
    if limits.file_mb:
        most = cap_rlimit(resource.RLIMIT_FSIZE, limits.file_mb << 20)
        options += ["--ulimit", f"fsize={most}:{most}"]
    options += ["--cpu-shares", str(cgroups.to_shares(cgroups.WORKING_SHARE))]
    if limits.cpu_percent:
        options += ["--cpus", f"{limits.cpu_percent / 100:g}"]
    return options


def get_pid_max() -> int:
    """As many as this machine can have at once. podman brings its own limit down to that before it sets another."""
    try:
        return int(Path("/proc/sys/kernel/pid_max").read_text())
    except (OSError, ValueError):
        return 32768


def _get_hard_limit(which: int) -> int | None:
    _, hard = resource.getrlimit(which)
    return None if hard == resource.RLIM_INFINITY else hard


def mount_options(plan: SandboxPlan, place: ContainerFolder, *, image: bool) -> list[str]:
    """The base view, unless an image has its own; our files of `/etc` over whatever the engine would put there."""
    options: list[str] = []
    if not image:
        options += _bind(Path("/usr"), "/usr")
        for path in (Path("/", name) for name in OF_HOST):
            if path.is_dir() and not path.is_symlink():
                options += _bind(path, str(path))
        for path in (Path("/etc", name) for name in mounts.ETC_OF_HOST):
            if path.exists():
                options += _bind(path.resolve(), str(path))
    # Nothing in /sys is an agent's business: names of devices, of the host's other containers …
    for name in ("", "/fs/cgroup"):
        options += _bind(Path(f"{place.sys}{name}"), f"/sys{name}")
    for name in etc_files(0, 0):
        options += _bind(place.etc / name, f"/etc/{name}")
    for mount in plan.mounts:
        options += _bind(mount.source.resolve(), mount.target, mount.writable)
    return options


def _bind(source: Path, target: str, writable: bool = False) -> list[str]:
    if set(f"{source}{target}") & set(',"\n'):
        raise Unavailable("a container", f"{source} cannot be mounted: container engines know no commas in a path")
    read_only = "" if writable else ",readonly"
    return ["--mount", f"type=bind,source={source},target={target}{read_only}"]


def engine_env(names: Iterable[str]) -> dict[str, str]:
    """Return what the engine's own program is given of our environment."""
    passed = {name: os.environ[name] for name in (*PASSED_ON, *names) if name in os.environ}
    return {"PATH": PATH, "LANG": "C.UTF-8", **passed}


class ContainerReaper:
    """A shell beside a container, which waits for a word from us. We dismiss it, or it acts: because we say so, or
    because we are no more."""

    def __init__(self, place: ContainerFolder, end: list[str], env: dict[str, str]) -> None:
        theirs, self._ours = os.pipe()
        try:
            process = subprocess.Popen(
                ["sh", "-c", GUARD, "guard", str(place.folder), *end],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
                cwd="/",
                start_new_session=True,  # what ends the daemon's process group is its cue
            )
        except OSError:
            os.close(self._ours)
            raise
        finally:
            os.close(theirs)
        self._child, self._open = Child(process, None, None), True

    def dismiss(self) -> None:
        if self._open:
            with suppress(BrokenPipeError):
                os.write(self._ours, b"\n")
        self.act()

    async def wait(self) -> None:
        """Until it has gone, with what it had to end."""
        await self._child.wait()

    def act(self) -> None:
        if self._open:
            self._open = False
            os.close(self._ours)


class ContainerSandbox:
    """A started container. `child` is the engine's program, which stays until the container has ended."""

    def __init__(self, child: Child, inner_pid: int, place: ContainerFolder, guard: ContainerReaper) -> None:
        self.pid, self.inner_pid = child.pid, inner_pid
        self._child, self._place, self._guard, self._killed = child, place, guard, False
        # The handle first: should the number be another's by now, that shows in the namespace.
        self._inner = _open_pidfd(inner_pid)
        self.pid_namespace = namespace_of(inner_pid)
        self._cgroup = None if self.pid_namespace is not None else cgroup_of(inner_pid, place.container)
        if child.ended:
            self._clean()
        else:
            child.on_end(self._clean)

    @property
    def last_words(self) -> str:
        """The end of what was written to stderr: for a log, not to be believed."""
        return self._child.last_words

    async def wait(self) -> int:
        code = await self._child.wait()
        return -signal.SIGKILL if self._killed and code == 128 + signal.SIGKILL else code

    def kill(self) -> None:
        if self._child.ended or self._killed:
            return
        self._killed = True
        try:  # the first process of a pid namespace takes all others with it; the engine notices
            if self._inner is None or self.pid_namespace is None:
                raise ProcessLookupError
            signal.pidfd_send_signal(self._inner, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._guard.act()
        self.thaw()  # a frozen one of cgroup v1 dies only then
        asyncio.get_running_loop().call_later(ENGINE_S, self._insist)

    @property
    def memory_is_limited(self) -> bool:
        """By the engine's cgroup: one that cannot is refused at its trial."""
        return True

    @property
    def freezer(self) -> Path | None:
        """The freezer of the engine's cgroup, which bears the container's id."""
        try:
            return cgroups.find_freezer(self.inner_pid, self._place.container, Path("/proc/self/mounts").read_text())
        except OSError:
            return None

    def freeze(self) -> bool:
        path = self.freezer
        return path is not None and cgroups.write_freezer(path, frozen=True)

    def thaw(self) -> None:
        path = self.freezer
        if path is not None:
            cgroups.write_freezer(path, frozen=False)

    def end_start(self) -> None:
        """Its share of the processors is what the engine gave it, from the beginning."""

    def owns(self, pid: int) -> bool:
        """gVisor's kernel is an ordinary process of the host, and another one connects for it; but both are alone in
        the container's cgroup."""
        if self._child.ended:
            return False
        if self.pid_namespace is not None:
            return namespace_of(pid) == self.pid_namespace
        return self._cgroup is not None and cgroup_of(pid, self._place.container) == self._cgroup

    def _insist(self) -> None:
        if not self._child.ended:
            self._guard.act()
            self._child.kill_after(ENGINE_S)

    def _clean(self) -> None:
        if self._inner is not None:
            os.close(self._inner)
            self._inner = None
        self._guard.dismiss()
        self._place.remove()


def namespace_of(pid: int) -> int | None:
    """The pid namespace of a process, if that is not our own: then it is none of a container's."""
    try:
        found = os.stat(f"/proc/{pid}/ns/pid").st_ino
        return None if found == os.stat("/proc/self/ns/pid").st_ino else found
    except OSError:
        return None


def cgroup_of(pid: int, container: str) -> str | None:
    """The cgroups of a process, if they are this container's own: they bear its id."""
    try:
        found = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    return found if container and container in found else None


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
