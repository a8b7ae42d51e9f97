"""Several real gateways on one real database, each a daemon with a home of its own.

with Cluster(tmp_path, ("a", "b"), **settings) as cluster:
    cluster["a"].kill()

They share a key ring, a settings file and, unless `local`, the folders of groups and sessions.
"""

import shutil
import signal
from pathlib import Path
from types import TracebackType

from gatepost.core.keyring import FILE as KEYRING
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.servers.postgres import PostgresServer
from gatepost_testing.storms.network_link import NetworkLink

DATABASE = "cluster"
# libfaketime 0.9.10 answers EINVAL to a sleep whose end has come before it looks.
SLEEP = "import select, time\ntime.sleep = lambda wait: select.select([], [], [], max(0, wait)) and None\n"


def find_faketime() -> Path | None:
    """Debian's library that shows a process another time; None: it is not installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


class Cluster:
    def __init__(
        self, folder: Path, names: tuple[str, ...], toml: str = "", *, local: bool = False, **settings: str
    ) -> None:
        """`settings`: of all of them, as `DaemonProcess` takes them. `local`: each has groups of its own."""
        self.shared_folder = folder / "shared"
        if not local:
            settings = {"groups_place": "shared", "groups_shared_folder": str(self.shared_folder), **settings}
        self._links: dict[str, NetworkLink] = {}
        self.server = PostgresServer()
        self._folder, self._names, self._toml, self._settings = folder, names, toml, settings
        self.daemons: dict[str, DaemonProcess] = {}

    def put_behind(self, name: str, link: NetworkLink) -> None:
        """Before it is entered: this one runs behind an open link, so that it can be cut off."""
        self._links[name] = link
        self.server.listen_at(link.host)

    def __enter__(self) -> "Cluster":
        self.server.__enter__()
        for each in (self.shared_folder, self.shared_folder / "groups"):
            each.mkdir(parents=True)
            each.chmod(0o711)
        url = self.server.add_database(DATABASE)
        for name in self._names:
            shared = {"store_url": url, "store_unsafe": "true", "gateway_name": name}
            self.daemons[name] = DaemonProcess(self._folder / name, **{**self._settings, **shared})
            self.daemons[name].home.mkdir(parents=True)
            if (link := self._links.get(name)) is not None:
                self.daemons[name].enter = link.enter
                self.daemons[name].env["GATEPOST_STORE_URL"] = self.server.url(DATABASE, link.host)
            (self.daemons[name].home / "gatepost.toml").write_text(self._toml, encoding="utf-8")
            if "groups_shared_folder" in self._settings:  # for tests, which look for groups in a home
                (self.daemons[name].home / "groups").symlink_to(self.shared_folder / "groups")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for daemon in self.daemons.values():
            if daemon.is_running:
                daemon.stop(signal.SIGKILL)
            daemon.sweep()
        self.server.__exit__(kind, error, trace)

    def __getitem__(self, name: str) -> DaemonProcess:
        return self.daemons[name]

    @property
    def first(self) -> DaemonProcess:
        return self.daemons[self._names[0]]

    @property
    def group(self) -> Path:
        """The folder of `home`, unless it is `local`."""
        return self.shared_folder / "groups" / "home"

    def share_keys(self) -> None:
        """Once the first has its keys. Before the others start."""
        for name in self._names[1:]:
            shutil.copy(self.first.home / KEYRING, self.daemons[name].home / KEYRING)

    def skew(self, name: str, by_s: int) -> None:
        """Before it starts: its machine's wall clock is off by so many seconds. Needs `find_faketime`."""
        library = find_faketime()
        assert library is not None
        daemon = self.daemons[name]
        daemon.anew = True  # the library is loaded with the interpreter
        patch = self._folder / "skew" / "sitecustomize.py"
        patch.parent.mkdir(exist_ok=True)
        patch.write_text(SLEEP, encoding="utf-8")
        daemon.env |= {
            "LD_PRELOAD": str(library),
            "FAKETIME": f"{by_s:+d}s",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": str(patch.parent),
        }

    def cut(self, name: str) -> None:
        """It reaches neither the database nor a platform, and is not told so. It is behind a link."""
        self._links[name].cut()

    def join(self, name: str) -> None:
        self._links[name].join()

    def query(self, sql: str) -> list[list[str]]:
        """Rows of the database, as text."""
        return [line.split("|") for line in self.server.execute(sql, DATABASE).splitlines()]

    def find_holder(self, duty: str) -> str:
        """Which gateway does what one at a time does; '' if none."""
        rows = self.query(f"SELECT gateway FROM duties WHERE name = '{duty}'")
        return rows[0][0] if rows else ""

    def count_open_turns(self, name: str) -> int:
        return int(self.query(f"SELECT COUNT(*) FROM turns WHERE ended_at IS NULL AND owner = '{name}'")[0][0])
