"""The home: where everything lies, and who may look. See `docs/concepts.md` for the tree.

When the daemon is root, each sandbox runs as a uid of its own. That uid must be able to pass through the home (0711),
and to reach nothing in it but its own files. When the daemon is an ordinary user, folders are 0700.
"""

import errno
import os
from pathlib import Path

from msgspec import Struct

from gatepost.core.errors import SetupError, Unavailable

LONGEST_SOCKET_PATH = 107  # bytes; the kernel's sun_path with its NUL
_SESSION, _SOCKET = "0" * 8, "runner.sock"  # what stands for any session and any of its sockets, which are as long


class Home(Struct, frozen=True):
    path: Path
    shared: Path | None = None  # where groups and sessions lie, if other gateways see them, too
    gateway: str = ""  # whose folders these are, if other gateways on the same store have their own

    @property
    def store(self) -> Path:
        return self.path / "gatepost.db"

    @property
    def lock(self) -> Path:
        return self.path / "gatepost.lock"

    @property
    def pid_file(self) -> Path:
        return self.path / "gatepost.pid.json"

    @property
    def control(self) -> Path:
        return self.run / "control.sock"

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def place(self) -> Path:
        """The folder that has those of groups and sessions in it."""
        return self.shared or self.path

    @property
    def groups(self) -> Path:
        return self.place / "groups"

    @property
    def sessions(self) -> Path:
        return self.place / "sessions"

    @property
    def mailboxes(self) -> Path:
        """The mailboxes of sessions, `in` and `out` of each, always on this machine."""
        return self.sessions if self.shared is None else self.path / "mailboxes"

    @property
    def worktrees(self) -> Path:
        """`<project>/<slug>`: what agents work on that is not their group's own."""
        return self.path / "worktrees"

    @property
    def skills(self) -> Path:
        """Agreed skills, on this machine: `content/<digest>` and `sets/<digest>`, made from the store."""
        return self.path / "skills"

    @property
    def plugins(self) -> Path:
        return self.path / "plugins"

    @property
    def media(self) -> Path:
        """The deliveries' own copies of files, which no sandbox can reach."""
        return self.path / "media"

    @property
    def channels(self) -> Path:
        """`<instance>`: what the library of a channel must keep on the disk. Made when a channel needs it."""
        return self.path / "channels"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def sockets_of(self, session_id: str) -> Path:
        """A session's sockets: a short name, because a socket path has 107 bytes."""
        return self.run / "s" / session_id[-8:]

    def check_length(self) -> None:
        """Raise SetupError if the sockets of sessions cannot lie here: no agent could ever answer."""
        size = len(os.fsencode(self.path))
        most = LONGEST_SOCKET_PATH - len(os.fsencode(self.sockets_of(_SESSION) / _SOCKET)) + size
        if size > most:
            raise SetupError(
                f"the path of the home {self.path} has {size} bytes, and at most {most} are possible, because the"
                " sockets of its sessions lie below it; choose a shorter one by --home or GATEPOST_HOME"
            )

    def session(self, session_id: str) -> Path:
        return self.sessions / session_id

    def mailbox(self, session_id: str) -> Path:
        return self.mailboxes / session_id

    def replay_copy(self, session_id: str) -> Path:
        """The copy of its group's folder that a replay works in."""
        return self.session(session_id) / "replay"

    def worktree(self, project: str, slug: str) -> Path:
        return self.worktrees / project / slug

    def group(self, folder: str) -> Path:
        return self.groups / folder

    def _folders(self) -> tuple[tuple[Path, int], ...]:
        passable = 0o711 if os.geteuid() == 0 else 0o700
        return (
            (self.path, passable),
            (self.run, passable),
            (self.run / "s", passable),
            (self.groups, passable),
            (self.sessions, passable),
            (self.mailboxes, passable),
            (self.worktrees, passable),
            (self.skills, passable),
            (self.plugins, passable),
            (self.media, 0o700),
            (self.logs, 0o700),
        )

    def is_read_only(self) -> bool:
        """Return True if the disk of the home is read-only, as after a disk error."""
        try:
            return bool(os.statvfs(self.path).f_flag & os.ST_RDONLY)
        except OSError:
            return False

    def ensure(self) -> None:
        """Make what was deleted of the tree while the gateway runs."""
        if not all(folder.is_dir() for folder, _ in self._folders()):
            self.prepare()

    def prepare(self) -> None:
        """Make the tree with its modes."""
        for folder, mode in self._folders():
            try:
                folder.mkdir(mode=mode, parents=folder == self.path, exist_ok=True)
                folder.chmod(mode)
            except OSError as error:
                for place in (folder, *folder.parents):
                    if place.exists() and not place.is_dir():
                        raise SetupError(f"{place} is a file, not a folder; the home must be one (`--home`)") from None
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise Unavailable(str(folder), error.strerror or "") from None
                raise SetupError(
                    f"{folder} cannot be used as part of the home: {error.strerror}; --home or GATEPOST_HOME chooses"
                    " another place"
                ) from None
        for kind in ("channels", "tools", "sandboxes"):
            (self.plugins / kind).mkdir(mode=0o700, exist_ok=True)
        self._open_providers()

    def _open_providers(self) -> None:
        """Providers are loaded inside, by another user if we are root: the one folder here that others may list."""
        folder = self.plugins / "providers"
        try:
            folder.mkdir()
        except FileExistsError:  # it keeps the mode that somebody gave it; and another start may be as quick
            return
        folder.chmod(0o755 if os.geteuid() == 0 else 0o700)


def find(given: str | None = None) -> Home:
    """`--home`, else GATEPOST_HOME, else ~/.gatepost."""
    chosen = given or os.environ.get("GATEPOST_HOME") or "~/.gatepost"
    return Home(expand_user(chosen).absolute())


def expand_user(path: str | Path) -> Path:
    """Return a path that may begin with `~` or `~NAME`, as a shell would. Raise SetupError if nobody is so called."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        why = "this machine does not know whose home folder that is"
        raise SetupError(f"{str(path)[:200]!r}: {why}; write the whole path, or set HOME") from None
