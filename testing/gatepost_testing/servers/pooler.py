"""A real PgBouncer before a PostgresServer: Debian's package, a unix socket only."""

import os
import shutil
import signal
import socket
import subprocess
from types import TracebackType

from gatepost.core.errors import SetupError
from gatepost_testing.servers.postgres import ACCOUNT, PostgresServer
from gatepost_testing.waiting import PATIENCE_S, block_until

PACKAGE = "pgbouncer"
PORT = 6432


def find_pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))


class Pooler:
    """`with Pooler(server, "one", mode="transaction") as pooler: pooler.url`."""

    def __init__(self, server: PostgresServer, database: str, mode: str) -> None:
        program = find_pgbouncer()
        if program is None:
            raise SetupError(f"PgBouncer is not installed; apt-get install {PACKAGE}")
        self._folder, self._database = server.folder, database
        file = self._folder / "pgbouncer.ini"
        file.write_text(
            f"[databases]\n{database} = host={server.folder} dbname={database} user={ACCOUNT}\n"
            f"[pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\nunix_socket_dir = {server.folder}\n"
            f"auth_type = any\npool_mode = {mode}\nlogfile = {server.folder}/pgbouncer.log\n"
        )
        file.chmod(0o644)
        as_account = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups"]
        self._command = [*(as_account if os.geteuid() == 0 else []), program, "-q", str(file)]

    @property
    def url(self) -> str:
        return f"postgresql://{ACCOUNT}@/{self._database}?host={self._folder}&port={PORT}"

    def __enter__(self) -> "Pooler":
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        block_until(self._listens, "PgBouncer to listen")
        return self

    def _listens(self) -> bool:
        """The file is there a moment before anybody is let in."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._folder / f".s.PGSQL.{PORT}")) == 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
