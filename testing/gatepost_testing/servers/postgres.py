"""A real PostgreSQL server of one's own, in a folder that goes with it: Debian's package, a unix socket, and TCP
only at addresses that are asked for.

`fsync` is off, so that a test waits for no disk: what a crash of the machine loses is not looked at here; a crash
of the server is (`restart(mode="immediate")`).
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from gatepost.core.errors import SetupError

ACCOUNT = "postgres"
PACKAGE = "postgresql"
FOLDERS = ("/usr/lib/postgresql",)
OPTIONS = {
    "fsync": "off",
    "listen_addresses": "''",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "logging_collector": "off",
    "autovacuum_naptime": "60",
}


def find_programs() -> Path | None:
    """The folder with `initdb` and `pg_ctl` of the newest version that is installed."""
    found = sorted(
        (each for folder in FOLDERS for each in Path(folder).glob("*/bin") if (each / "initdb").exists()),
        key=lambda each: int(each.parent.name) if each.parent.name.isdigit() else 0,
    )
    if found:
        return found[-1]
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


class PostgresServer:
    """`with PostgresServer() as server: server.add_database("one")`."""

    def __init__(self, **options: str) -> None:
        programs = find_programs()
        if programs is None:
            raise SetupError(f"PostgreSQL is not installed; apt-get install {PACKAGE}")
        self._programs, self._options = programs, OPTIONS | options
        self._addresses: list[str] = []
        # A socket's path is at most 107 bytes long, so the folder is a short one.
        self.folder = Path(tempfile.mkdtemp(prefix="gppg-", dir="/tmp"))
        self._as_account: list[str] = []
        if os.geteuid() == 0:
            account = pwd.getpwnam(ACCOUNT)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as_account = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups"]

    def listen_at(self, address: str) -> None:
        """Before it starts: at an address of this machine, by which everybody is let in who gets there."""
        self._addresses.append(address)
        self._options["listen_addresses"] = f"'{','.join(self._addresses)}'"

    def __enter__(self) -> "PostgresServer":
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N")
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in self._options.items())
            file.write(f"unix_socket_directories = '{self.folder}'\n")
        with (self.folder / "data" / "pg_hba.conf").open("a") as file:
            file.writelines(f"host all all {address} 255.255.255.252 trust\n" for address in self._addresses)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_standby(self, primary: "PostgresServer") -> None:
        """In place of entering it: a copy of a server that runs, which follows it. Leave it as any other."""
        self._run("pg_basebackup", "-D", self._data, "-h", str(primary.folder), "-U", "postgres", "-R", "-c", "fast")
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{self.folder}'\n")
        self.start()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-l", str(self.folder / "log"), "-w", "-s", "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self._data, "-w", "-s", "-m", mode, "stop")

    def restart(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self._data, "-l", str(self.folder / "log"), "-w", "-s", "-m", mode, "restart")

    def url(self, database: str, address: str = "") -> str:
        """By its socket, or by TCP at this one of its addresses."""
        return f"postgresql://postgres@{address}/{database}" + ("" if address else f"?host={self.folder}")

    def add_database(self, name: str, template: str = "template0") -> str:
        """Its address."""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def execute(self, sql: str, database: str = "postgres") -> str:
        return self._run("psql", "-h", str(self.folder), "-U", "postgres", "-qAtX", "-d", database, "-c", sql)

    def _run(self, program: str, *args: str) -> str:
        done = subprocess.run(
            [*self._as_account, str(self._programs / program), *args],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SetupError(f"{program} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout
