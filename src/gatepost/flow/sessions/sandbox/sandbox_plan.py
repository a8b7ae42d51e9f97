"""Parts of a session's sandbox: folders, mounts, variables, command, limits; and which kind of sandbox it gets.

Invariants. Nothing that a sandbox can write is a way for it to what is not its own. `in/` and the sockets are read-only
inside, and the session's folder itself belongs to the host. The group's folder lies in a tree that a parent group's
agent can rearrange: it is compared with the one that was meant before anything else runs inside.
"""

import compileall
import hashlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

import gatepost
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.settings import Config, setting
from gatepost.flow.schedule import TIMEZONE
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.flow.sessions.sandbox.extra_mounts import (
    EXTRA,
    WORKSPACE,
    GrantedMount,
    grant_mounts,
    make_mount_points,
    parse_mount_request,
)
from gatepost.flow.sessions.sandbox.group_limits import limits_of
from gatepost.flow.sessions.sandbox.sandbox_requirements import BIN, declared_mounts, program_mounts, variables
from gatepost.flow.sessions.sandbox.start_folder import StartFolder
from gatepost.inside.bridge import PYTHON_LIBRARIES
from gatepost.sandboxes.contract import SANDBOXES, Mount, SandboxKind, SandboxLimits, SandboxPlan, trouble_of
from gatepost.store.sessions.groups import Group

KIND = setting(
    "sandbox.kind",
    "auto",
    help="Where agents run: auto (the first that works of the isolated ones), bubblewrap, process (no isolation) …",
)

AGENT, SKILLS, RUN = f"{WORKSPACE}/agent", f"{WORKSPACE}/skills", "/run/gatepost"
PYTHON, LIBRARIES, PLUGINS = "/opt/gatepost/python", "/opt/gatepost/lib", "/opt/gatepost/plugins/providers"
NEEDED_INSIDE = ("gatepost", "apsw", "msgspec")
GIT_CONFIG, NOWHERE = "gitconfig", "agents.invalid"  # a domain that can never be anybody's (RFC 2606)
SAVED_MB = 2048  # a worktree that is saved becomes one file, however small the group's limit is
FIRST_CHOICE = "bubblewrap"
DEMO = "demo"  # the one provider that runs nobody's code, and may do so without walls

# The first code that runs inside. Nothing else does until it has seen that the folders of others are those meant.
# Where our interpreter's library is concerns our own programs alone: those of agents would find ours before the host's.
# No garbage is looked for while it imports, as there is none: that was a tenth of a start.
BOOT = """\
import gc, os, sys
gc.disable()
_, libraries, many, *command = sys.argv
for _ in range(int(many)):
    place, identity, *command = command
    found = os.stat(place)
    if f"{found.st_dev}:{found.st_ino}" != identity:
        sys.exit(f"{place} was exchanged for something else while the sandbox started")
if command[:1] != [sys.executable]:
    os.environ.pop("LD_LIBRARY_PATH", None)
if command:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)
sys.path += libraries.split(":")
sys.argv = ["runner"]
from gatepost.inside.runner import main
gc.freeze()
gc.enable()
main()
"""

MakeSandboxKind = Callable[[Config], SandboxKind]

_kinds: WeakKeyDictionary[Config, dict[MakeSandboxKind, SandboxKind]] = WeakKeyDictionary()


def name_prefix(home: Home) -> str:
    """Return what the names of this home's sandboxes begin with, so that a sweep ends no other home's."""
    return f"gatepost-{hashlib.sha256(os.fsencode(home.path)).hexdigest()[:8]}-"


def make_sandbox_plan(
    home: Home,
    config: Config,
    group: Group,
    session_id: str,
    *,
    provider: str,
    parents: Sequence[Group] = (),
    start: StartFolder | None = None,
    also: Sequence[GrantedMount] = (),
    copy: Path | None = None,
    job: bool = False,
    command: tuple[str, ...] | None = None,
    stdio: bool = False,
    uid: int | None = None,
    skills: Path | None = None,
) -> SandboxPlan:
    """Return the plan of a session's sandbox, whose folders must have been prepared.

    `parents` are the groups above its own, the nearest first. `also` is seen besides. `copy` of the group's folder is
    seen in its place, and nothing else of the host can be written then. With `job`, nothing of the group's own is seen.
    `command` runs in the place of the runner. `uid` is that of the group (`group_uid`). `skills`: those
    that are agreed for it."""
    uid = sandbox_uid(config) if uid is None else uid
    libraries, limits = _libraries(), limits_of(config, group, parents)
    own = [] if job else [_own_folder(home, group, copy)]
    seen = [] if job else _extra_mounts(home, config, group, provider)
    if copy is not None:
        seen = [replace(each, mount=replace(each.mount, writable=False)) for each in seen]
    extra = [*seen, *also, *([start.granted] if start else [])]
    make_mount_points(home, session_id, extra, uid)
    with open_untrusted(home.sessions) as sessions:  # the folder is closed to others, and read-only inside
        config_of_git = render_git_config(group, (each.mount.target for each in extra))
        sessions.write_bytes(f"{session_id}/{GIT_CONFIG}", config_of_git.encode(), mode=0o644)
    where = start.inside if start else AGENT
    meant = {each.mount.target: f"{each.device}:{each.inode}" for each in (*own, *extra)}
    return SandboxPlan(
        name=name_prefix(home) + session_id,
        mounts=(
            *_own_mounts(home, session_id),
            *((Mount(source=skills, target=SKILLS),) if skills is not None else ()),
            *(each.mount for each in (*own, *extra)),
            *_library_mounts(home, libraries),
            *program_mounts(config, home, provider),
        ),
        command=(
            f"{PYTHON}/{_executable()}",
            *("-I", "-S", "-B", "-X", "frozen_modules=on", "-c", BOOT),
            ":".join(_library_targets(libraries)),
            str(len(meant)),
            *(word for pair in meant.items() for word in pair),
            *(command or ()),
        ),
        env={
            **variables(config, home, provider),
            **_variables(config, provider),
            "GATEPOST_START": where,
            "GIT_CONFIG_SYSTEM": f"{WORKSPACE}/{GIT_CONFIG}",
            "GATEPOST_SKILLS": SKILLS,
        },
        cwd=where,
        limits=SandboxLimits(
            memory_mb=limits.memory_mb,
            processes=limits.processes,
            cpu_percent=limits.cpu_percent,
            file_mb=max(limits.disk_mb, SAVED_MB) if job else limits.disk_mb,
        ),
        uid=uid,
        stdio=stdio,
        log=home.logs / f"{session_id}.log",
    )


def render_git_config(group: Group, mounts: Iterable[str]) -> str:
    """Return git's settings for a group's sandboxes: who commits, and which folders of others it may work in. The
    agent's own settings, and those of a repository, go before these."""
    address = re.sub(r"[^a-z0-9._-]+", "-", group.folder.lower()).strip("-.") or "agent"
    name = " ".join(re.sub(r"[^\w .()-]+", " ", group.name).split()).strip(".") or address
    safe = [f'\tdirectory = "{each}{below}"' for each in mounts for below in ("", "/*")]
    lines = ["[include]", "\tpath = /etc/gitconfig", "[user]", f'\tname = "{name}"', f"\temail = {address}@{NOWHERE}"]
    return "\n".join([*lines, *(["[safe]", *safe] if safe else []), ""])


def make_inside_command(name: str, *words: str) -> tuple[str, ...]:
    """One of our own programs of the standard library, as it is called inside."""
    return (f"{PYTHON}/{_executable()}", "-I", "-S", "-B", f"{LIBRARIES}/gatepost/inside/{name}", *words)


def wrap_with_forwarder(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command that finds the way out by its variables, as agents do."""
    return make_inside_command("forwarder.py", RUN, "--", *command)


def prepare_folders(home: Home, config: Config, group: Group, session_id: str, uid: int | None = None) -> None:
    """The folders of a session and of its group, each with the owner and mode that the walls rely on. Files of somebody
    else are given to `uid`: a copied home, or a group that ran in another kind of sandbox, goes on."""
    _compile_inside()
    home.ensure()
    uid = sandbox_uid(config) if uid is None else uid
    mode, ours = (0o700, None) if uid is None else (0o750, 0)  # ours to write, the sandbox's to read
    with open_untrusted(home.sessions) as sessions:
        for name in ("", "/agent", "/skills"):
            sessions.make_dir(session_id + name, mode, ours, uid)
        if home.shared is not None:
            for name in ("/in", "/out"):  # what the mailbox is mounted over
                sessions.make_dir(session_id + name, mode, ours, uid)
        _give_folder(sessions, f"{session_id}/state", uid)
        copy = f"{session_id}/{home.replay_copy(session_id).name}"
        if sessions.exists(copy):
            _give_folder(sessions, copy, uid)
        sessions.make_dir(f"{session_id}/state/home", 0o700, uid)
    with open_untrusted(home.mailboxes) as mailboxes:
        if home.shared is not None:  # what an earlier time here left: the session may have been elsewhere since
            mailboxes.remove_tree(session_id)
        for name in ("", "/in", "/in/files"):
            mailboxes.make_dir(session_id + name, mode, ours, uid)
        _give_folder(mailboxes, f"{session_id}/out", uid)
        mailboxes.make_dir(f"{session_id}/out/files", 0o700, uid)
    with open_untrusted(home.run) as run:
        run.make_dir(str(home.sockets_of(session_id).relative_to(home.run)), mode, ours, uid)
    with open_untrusted(home.groups) as groups:
        place = ""
        for segment in group.folder.split("/"):
            place = f"{place}/{segment}".lstrip("/")
            _give_folder(groups, place, uid)


def _give_folder(root: UntrustedFolder, place: str, uid: int | None) -> None:
    """Make a folder that an agent writes to, or give it to `uid` with all that is in it. uid 0 is a sandbox without
    walls: it needs no file of its own, but the top shows the next one with walls that files of root are there."""
    if uid and root.exists(place):
        root.give(place, uid)
    root.make_dir(place, 0o700, uid)


def give_worktree(home: Home, place: Path, uid: int | None) -> None:
    """Give a managed worktree to whoever works in it now."""
    with open_untrusted(home.worktrees) as worktrees:
        _give_folder(worktrees, str(place.relative_to(home.worktrees)), uid)


def choose_sandbox(
    config: Config, group: Group, provider: str, registry: Registry[MakeSandboxKind] = SANDBOXES
) -> tuple[str, SandboxKind]:
    """The kind that this group's agent runs in. Without walls only by an explicit choice, or for the demo where the
    machine has none to offer. Raises Unavailable if that cannot be told now: what ran within walls yesterday does not
    run without them because the machine lacks something for a moment."""
    name, kind, trouble = _choose(group.sandbox or config[KIND], config, registry)
    if kind is not None:
        return name, kind
    if provider == DEMO and name == "auto":
        return "process", _kind("process", config, registry)
    raise SetupError(f"no sandbox can be used: {trouble}; until then only the provider {DEMO!r} runs")


def describe_sandbox(config: Config, registry: Registry[MakeSandboxKind] = SANDBOXES) -> tuple[str, str]:
    """For status and doctor: which kind agents get, and what an operator should know about it."""
    try:
        name, kind, trouble = _choose(config[KIND], config, registry)
    except Unavailable as error:
        return "none", f"not now: {error.why}"
    if kind is None:
        return "none", trouble
    return name, "" if kind.isolated else "no isolation: agents run with all rights of the gateway's own user"


def _choose(chosen: str, config: Config, registry: Registry[MakeSandboxKind]) -> tuple[str, SandboxKind | None, str]:
    """Name and kind, or why there is none and what to do. Raises Unavailable if the chosen kind, or bubblewrap, cannot
    be tried out now; another engine that is away is passed over, because many machines have one that never runs."""
    if chosen != "auto":
        kind = _kind(chosen, config, registry)
        trouble = kind.trouble()
        return chosen, kind if trouble is None else None, f"{chosen}: {trouble}"
    troubles = []
    for name in sorted(registry, key=lambda each: (each != FIRST_CHOICE, each)):
        kind = _kind(name, config, registry)
        if not kind.isolated:
            continue
        trouble = kind.trouble() if name == FIRST_CHOICE else trouble_of(kind)
        if trouble is None:
            return name, kind, ""
        troubles.append(f"{name}: {trouble}")
    why = "; ".join(troubles) or "no isolated kind is installed"
    return "auto", None, f'{why}. Mend that, or set sandbox.kind = "process" to run agents without any isolation'


def _kind(name: str, config: Config, registry: Registry[MakeSandboxKind]) -> SandboxKind:
    """One object a kind and configuration: it remembers whether it works."""
    known, make = _kinds.setdefault(config, {}), registry[name]
    if make not in known:
        known[make] = make(config)
    return known[make]


def _extra_mounts(home: Home, config: Config, group: Group, provider: str) -> list[GrantedMount]:
    """Judged again at each start: settings and folders change."""
    found = [
        *grant_mounts(config, home, map(parse_mount_request, group.mounts)),
        *declared_mounts(config, home, provider),
    ]
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SetupError(f"two things are to be seen at {EXTRA}/{twice}; rename one: `gatepost group show`")
    return found


def _own_folder(home: Home, group: Group, copy: Path | None) -> GrantedMount:
    """It lies in a tree that a parent group's agent can rearrange."""
    source = copy or home.group(group.folder)
    with open_untrusted(source) as root:
        device, inode = root.identity
    return GrantedMount(Mount(source=source, target=AGENT, writable=True), device, inode, is_file=False)


def _own_mounts(home: Home, session_id: str) -> list[Mount]:
    session, mailbox = home.session(session_id), home.mailbox(session_id)
    return [
        Mount(source=session, target=WORKSPACE),
        Mount(source=mailbox / "in", target=f"{WORKSPACE}/in"),
        Mount(source=mailbox / "out", target=f"{WORKSPACE}/out", writable=True),
        Mount(source=session / "state", target=f"{WORKSPACE}/state", writable=True),
        # Connecting to a socket needs no writable mount, and so nobody inside can put another in its place.
        Mount(source=home.sockets_of(session_id), target=RUN),
    ]


def _library_mounts(home: Home, libraries: Sequence[Path]) -> list[Mount]:
    mounts = [Mount(source=Path(sys.base_prefix).resolve(), target=PYTHON)]
    for source, target in zip(libraries, _library_targets(libraries), strict=True):
        mounts.append(Mount(source=source, target=target))
    if (home.plugins / "providers").is_dir():
        mounts.append(Mount(source=home.plugins / "providers", target=PLUGINS))
    return mounts


def _variables(config: Config, provider: str) -> dict[str, str]:
    env = {
        "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
        "HOME": f"{WORKSPACE}/state/home",
        "USER": "agent",
        "LANG": "C.UTF-8",
        "TZ": config[TIMEZONE],
        "GATEPOST_RUN": RUN,
        "GATEPOST_WORKSPACE": WORKSPACE,
        "GATEPOST_AGENT": AGENT,
        "GATEPOST_PROVIDER": provider,
        "GATEPOST_PLUGINS": PLUGINS,
    }
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and Path(sys.base_prefix).resolve() != Path("/usr"):
        # The interpreter looks for libpython where it was built. The first code inside removes the first of these.
        env |= dict.fromkeys(("LD_LIBRARY_PATH", PYTHON_LIBRARIES), f"{PYTHON}/lib")
    return env


@cache
def _executable() -> str:
    """The interpreter's path below its prefix."""
    prefix, real = Path(sys.base_prefix).resolve(), Path(sys.executable).resolve()
    if real.is_relative_to(prefix):
        return str(real.relative_to(prefix))
    return f"bin/python{sys.version_info.major}.{sys.version_info.minor}"


@cache
def _libraries() -> tuple[Path, ...]:
    """The folders that hold what the runner imports."""
    found: list[Path] = []
    for name in NEEDED_INSIDE:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SetupError(f"the package {name!r} is not installed; `make setup` installs everything")
        folder = Path(spec.origin).resolve().parent.parent
        if folder not in found:
            found.append(folder)
    return tuple(found)


@cache
def _compile_inside() -> None:
    """Bytecode for what only runs inside: there the package is read-only, so each start would compile it again."""
    package = Path(gatepost.__file__).parent
    with suppress(OSError):
        compileall.compile_file(package / "__init__.py", quiet=2)
        _open_to_read(package / "__pycache__")
        for name in ("inside", "mailbox", "jsonrpc"):
            compileall.compile_dir(package / name, quiet=2)
            for compiled in (package / name).rglob("__pycache__"):
                _open_to_read(compiled)


def _open_to_read(folder: Path) -> None:
    """Bytecode that we wrote under a umask of 077, for the other user who runs inside."""
    for path in (folder, *folder.iterdir()):
        found = path.stat()
        readable = 0o755 if path == folder else 0o644
        if found.st_uid == os.geteuid() and found.st_mode & readable != readable:
            path.chmod(found.st_mode | readable)


def _library_targets(libraries: Sequence[Path]) -> list[str]:
    return [LIBRARIES + (f"-{number}" if number else "") for number in range(len(libraries))]
