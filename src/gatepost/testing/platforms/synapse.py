"""A real Matrix homeserver, Synapse, on a loopback port. One for all tests of a process; it ends with it."""

import atexit
import json
import shutil
import socket
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path

from gatepost.testing import programs
from gatepost.testing.waiting import block_until

SERVER_NAME = "test.localhost"
VERSION = "1.163.2"
PROGRAM = "synapse/bin/synapse_homeserver"
_ENDLESS = {"per_second": 10_000, "burst_count": 10_000}
_RUNNING: list["Synapse"] = []
_LOCK = threading.Lock()


def is_installed() -> bool:
    return programs.find(PROGRAM) is not None


def get_synapse() -> "Synapse":
    with _LOCK:
        if not _RUNNING:
            _RUNNING.append(Synapse())
            atexit.register(_RUNNING[0].stop)
        return _RUNNING[0]


class Synapse:
    """`url` is where it answers. Anybody may register; nobody outside can reach it."""

    def __init__(self) -> None:
        program = programs.find(PROGRAM)
        if program is None:
            raise FileNotFoundError("Synapse is not installed; scripts/system_packages.py --all installs it")
        self._folder = Path(tempfile.mkdtemp(prefix="gatepost-synapse-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        config = self._folder / "hs.yaml"
        config.write_text(json.dumps(self._make_config(port)), encoding="utf-8")  # JSON is YAML, too
        # By its own Python: the first line of the script names the folder in which it was installed, which may be gone.
        command = [str(program.parent / "python"), str(program), "-c", str(config)]
        subprocess.run([*command, "--generate-keys"], check=True, capture_output=True, cwd=self._folder)
        with (self._folder / "output.txt").open("wb") as output:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=output, stderr=output)
        block_until(self._answers, "Synapse")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(f"Synapse ended: {(self._folder / 'output.txt').read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/_matrix/client/versions", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _make_config(self, port: int) -> dict[str, object]:
        folder = self._folder
        (folder / "log.json").write_text(json.dumps({"version": 1, "root": {"level": "WARNING"}}), encoding="utf-8")
        listener = {"port": port, "type": "http", "tls": False, "bind_addresses": ["127.0.0.1"]}
        return {
            "server_name": SERVER_NAME,
            "listeners": [{**listener, "resources": [{"names": ["client"]}]}],
            "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
            "pid_file": str(folder / "pid"),
            "media_store_path": str(folder / "media"),
            "log_config": str(folder / "log.json"),
            "signing_key_path": str(folder / "signing.key"),
            "registration_shared_secret": "shared",
            "macaroon_secret_key": "macaroon",
            "form_secret": "form",
            "enable_registration": True,
            "enable_registration_without_verification": True,
            "trusted_key_servers": [],
            "suppress_key_server_warning": True,
            "report_stats": False,
            "federation_domain_whitelist": [],
            "presence": {"enabled": False},
            "caches": {"sync_response_cache_duration": "0s"},  # else a second first sync brings an old answer
            "rc_message": _ENDLESS,
            "rc_registration": _ENDLESS,
            "rc_login": {"address": _ENDLESS, "account": _ENDLESS, "failed_attempts": _ENDLESS},
            "rc_joins": {"local": _ENDLESS, "remote": _ENDLESS},
            "rc_joins_per_room": _ENDLESS,
            "rc_room_creation": _ENDLESS,
            "rc_invites": {"per_room": _ENDLESS, "per_user": _ENDLESS, "per_issuer": _ENDLESS},
            "rc_admin_redaction": _ENDLESS,
            "rc_media_create": _ENDLESS,
        }
