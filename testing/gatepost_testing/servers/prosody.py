"""A real XMPP server, Prosody, on loopback ports, with archives and an upload service."""

from gatepost_testing.certificates import ServerCertificate
from gatepost_testing.servers.server_process import ServerProcess, find_ports, find_server

DOMAIN = "localhost"
ROOM_HOST = f"rooms.{DOMAIN}"
_CONFIG = """
run_as_root = true
pidfile = "{folder}/pid"
data_path = "{folder}/data"
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
http_ports = {{ {http} }}
http_interfaces = {{ "127.0.0.1" }}
https_ports = {{}}
http_external_url = "http://127.0.0.1:{http}/"
modules_enabled = {{ "roster", "saslauth", "disco", "ping", "mam"{with_tls} }}
modules_disabled = {{ "s2s"{without_tls} }}
{tls}
allow_unencrypted_plain_auth = true
authentication = "internal_plain"
log = {{ info = "{folder}/log" }}
VirtualHost "{domain}"
Component "{rooms}" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_room_locking = false
  muc_log_by_default = true
  muc_log_presences = false
  muc_room_default_public_jids = {public}
Component "files.{domain}" "http_file_share"
  http_host = "127.0.0.1"
  http_file_share_size_limit = 10485760
  http_file_share_daily_quota = 104857600
"""
_TLS = """
c2s_require_encryption = true
c2s_direct_tls_ports = {{ {port} }}
ssl = {{ key = "{held.key}"; certificate = "{held.chain}" }}
"""
_NO_TLS = "c2s_require_encryption = false"


def find_prosody() -> str | None:
    return find_server("prosody")


class Prosody(ServerProcess):
    def __init__(self, *, shows_accounts: bool = True, certificate: ServerCertificate | None = None) -> None:
        """`certificate`: for STARTTLS on `port`, and for TLS on `tls_port`; without it nothing is encrypted."""
        program = find_prosody()
        if program is None:
            raise FileNotFoundError("Prosody is not installed; scripts/system_packages.py --all installs it")
        super().__init__("Prosody")
        self.port, self.http_port, self.tls_port = find_ports(3)
        config = self.folder / "prosody.cfg.lua"
        config.write_text(
            _CONFIG.format(
                folder=self.folder, port=self.port, http=self.http_port, domain=DOMAIN, rooms=ROOM_HOST,
                public="true" if shows_accounts else "false",
                with_tls=', "tls"' if certificate else "",
                without_tls="" if certificate else ', "tls"',
                tls=_TLS.format(port=self.tls_port, held=certificate) if certificate else _NO_TLS,
            ),
            encoding="utf-8",
        )  # fmt: skip
        (self.folder / "data" / DOMAIN / "accounts").mkdir(parents=True)
        self.launch([program, "--config", str(config), "-F"], (self.port, self.http_port))

    def set_password(self, name: str, password: str) -> None:
        """The server reads the file with each login."""
        target = self.folder / "data" / DOMAIN / "accounts" / f"{name}.dat"
        part = target.with_suffix(".new")
        part.write_text(f'return {{ ["password"] = "{password}"; }};\n', encoding="utf-8")
        part.rename(target)
