"""A real Matrix homeserver, Synapse, on a loopback port. `get_synapse` has one for all tests of a process, which ends
with it."""

import json
import subprocess
import threading
import urllib.error
import urllib.request

from gatepost_testing import programs
from gatepost_testing.certificates import ServerCertificate
from gatepost_testing.servers.server_process import ServerProcess, find_ports
from gatepost_testing.waiting import block_until

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
        return _RUNNING[0]


class Synapse(ServerProcess):
    """`url` is where it answers. Anybody may register; nobody outside can reach it."""

    def __init__(self, certificate: ServerCertificate | None = None) -> None:
        """`certificate`: for `tls_port`, where it answers, too."""
        program = programs.find(PROGRAM)
        if program is None:
            raise FileNotFoundError("Synapse is not installed; scripts/system_packages.py --all installs it")
        super().__init__("Synapse")
        port, self.tls_port = find_ports(2)
        self.url = f"http://127.0.0.1:{port}"
        config = self.folder / "hs.yaml"
        config.write_text(json.dumps(self._make_config(port, certificate)), encoding="utf-8")  # JSON is YAML, too
        # By its own Python: the first line of the script names the folder in which it was installed, which may be gone.
        command = [str(program.parent / "python"), str(program), "-c", str(config)]
        subprocess.run([*command, "--generate-keys"], check=True, capture_output=True, cwd=self.folder)
        self.launch(command, (port, *([self.tls_port] if certificate else [])))
        self.wait_until_up()

    def wait_until_up(self) -> None:
        super().wait_until_up()
        block_until(self._answers, "Synapse")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_matrix/client/versions", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _make_config(self, port: int, certificate: ServerCertificate | None) -> dict[str, object]:
        folder = self.folder
        (folder / "log.json").write_text(json.dumps({"version": 1, "root": {"level": "WARNING"}}), encoding="utf-8")
        listener = {"type": "http", "bind_addresses": ["127.0.0.1"], "resources": [{"names": ["client"]}]}
        listeners = [{**listener, "port": port, "tls": False}]
        tls: dict[str, object] = {}
        if certificate is not None:
            listeners.append({**listener, "port": self.tls_port, "tls": True})
            tls = {"tls_certificate_path": str(certificate.chain), "tls_private_key_path": str(certificate.key)}
        return {
            "server_name": SERVER_NAME,
            "listeners": listeners,
            **tls,
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
