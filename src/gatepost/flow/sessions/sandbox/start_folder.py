"""The folder in which an agent starts: its group's, or one that it was given to work in, seen at /workspace/project.

That one is a managed worktree, or lies where the operator's allow-list lets agents write. It is judged again at each
start, like every other mount: settings and folders change.
"""

import stat
from pathlib import Path, PurePosixPath

from msgspec import Struct

from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.extra_mounts import ALLOWED, WORKSPACE, GrantedMount, MountRequest, grant_mount
from gatepost.sandboxes.contract import Mount

PROJECT = f"{WORKSPACE}/project"


class StartFolder(Struct, frozen=True):
    granted: GrantedMount
    below: str = ""  # the way from there to where it starts
    managed: bool = False  # it is a worktree of ours

    @property
    def inside(self) -> str:
        return f"{PROJECT}/{self.below}".rstrip("/")


def find_start_folder(home: Home, config: Config, cwd: str) -> StartFolder | None:
    """None: in the group's folder. Raises Invalid or NotFound if nobody may start there, or it is not there."""
    if not cwd:
        return None
    place = parse_worktree_path(home, cwd)
    if place is not None:
        return _in_worktree(home, *place)
    granted = grant_for_field("cwd", config, home, MountRequest(cwd, "project", writable=True))
    if granted.is_file:
        raise Invalid("cwd", f"{cwd} is a file, not a folder")
    if not granted.mount.writable:
        raise Invalid("cwd", f"agents may not write in {cwd}: the setting {ALLOWED.name} must name it with `:rw`")
    return StartFolder(replace(granted, mount=replace(granted.mount, target=PROJECT)))


def grant_for_field(field: str, config: Config, home: Home, wish: MountRequest) -> GrantedMount:
    """`grant`, with a refusal that names what was asked for here."""
    try:
        return grant_mount(config, home, wish)
    except Invalid as refused:
        raise Invalid(field, refused.why) from None


def parse_worktree_path(home: Home, cwd: str) -> tuple[str, str, str] | None:
    """(project, slug, the way below) of a path in a managed worktree."""
    path = PurePosixPath(cwd)
    if not path.is_relative_to(home.worktrees) or ".." in path.parts:
        return None
    parts = path.relative_to(home.worktrees).parts
    return (parts[0], parts[1], "/".join(parts[2:])) if len(parts) >= 2 else None


def worktree_mount(home: Home, project: str, slug: str) -> GrantedMount:
    """Its folder, writable. The folders above it are the host's alone, so nobody can put another in its place."""
    with open_untrusted(home.worktrees) as root:
        found = root.stat(f"{project}/{slug}")
    if not stat.S_ISDIR(found.st_mode):
        raise NotFound("worktree", slug, "`gatepost worktree ls` shows them")
    mount = Mount(source=home.worktree(project, slug), target=PROJECT, writable=True)
    return GrantedMount(mount, found.st_dev, found.st_ino, is_file=False)


def _in_worktree(home: Home, project: str, slug: str, below: str) -> StartFolder:
    try:
        granted = worktree_mount(home, project, slug)
        if below:
            with open_untrusted(home.worktrees) as root:
                if not stat.S_ISDIR(root.stat(f"{project}/{slug}/{below}").st_mode):
                    raise Invalid("cwd", f"{below} is no folder of the worktree {slug} (links are not followed)")
    except NotFound:
        raise NotFound("folder", f"{project}/{slug}/{below}".rstrip("/"), "was its worktree archived?") from None
    return StartFolder(granted, below, managed=True)


def is_repository(home: Home, group_folder: str, start: StartFolder | None) -> bool:
    """Return True if git would find a repository from where it starts. Looked at from outside, without running
    anything."""
    root_path = home.group(group_folder) if start is None else start.granted.mount.source
    steps = [""] if start is None else _upwards(start.below)
    try:
        with open_untrusted(Path(root_path)) as root:
            return any(root.exists(f"{step}/.git".lstrip("/")) for step in steps)
    except GatepostError:
        return False


def _upwards(below: str) -> list[str]:
    """`a/b` → a/b, a, ''."""
    parts = [part for part in below.split("/") if part]
    return ["/".join(parts[:many]) for many in range(len(parts), -1, -1)]
