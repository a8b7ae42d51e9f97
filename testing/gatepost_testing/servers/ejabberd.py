"""A real XMPP server, ejabberd, on loopback ports, with archives and an upload service behind TLS, and its people.

It is started without its own script, which needs the account that the package made. It is one Erlang node without a
name, so that no port mapper is left behind.
"""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

from gatepost_testing.certificates import ServerCertificate, ThrowawayAuthority
from gatepost_testing.platforms.base import NotOffered
from gatepost_testing.servers.prosody import DOMAIN, ROOM_HOST
from gatepost_testing.servers.server_process import ServerProcess, find_ports, find_server
from gatepost_testing.servers.xmpp_server import ACCOUNTS, PASSWORD, XmppServer
from gatepost_testing.waiting import block_until

_REGISTER = """lists:foreach(fun(Name) ->
  ejabberd_auth:try_register(Name, <<"{domain}">>, <<"{password}">>) end, [{names}]),
file:write_file("ready", "")."""


def find_libraries() -> Path | None:
    """Return the folder of Erlang's libraries that ejabberd is in; None if it is not installed."""
    found = sorted(Path("/usr/lib").glob("*/ejabberd-*/ebin")) if find_server("erl") else []
    return found[-1].parent.parent if found else None


class Ejabberd(ServerProcess):
    def __init__(self, certificate: ServerCertificate) -> None:
        """`certificate`: for STARTTLS on `port`, where people may also come without, and for files."""
        libraries, program = find_libraries(), find_server("erl")
        if libraries is None or program is None:
            raise FileNotFoundError("ejabberd is not installed; scripts/system_packages.py --all installs it")
        super().__init__("ejabberd")
        self.port, self.http_port = find_ports(2)
        held = self.folder / "certificate.pem"
        held.write_bytes(certificate.chain.read_bytes() + certificate.key.read_bytes())
        config = self.folder / "ejabberd.yml"
        config.write_text(json.dumps(self._make_config(str(held))), encoding="utf-8")  # JSON is YAML, too
        names = ", ".join(f'<<"{each}">>' for each in ACCOUNTS)
        self.launch(
            [
                *(program, "-noinput", "-mnesia", "dir", f'"{self.folder}/data"', "-s", "ejabberd"),
                *("-eval", _REGISTER.format(domain=DOMAIN, password=PASSWORD, names=names)),
            ],
            (self.port, self.http_port),
            {
                "HOME": str(self.folder),
                "ERL_LIBS": str(libraries),
                "ERL_CRASH_DUMP": str(self.folder / "dump"),
                "EJABBERD_CONFIG_PATH": str(config),
                "EJABBERD_LOG_PATH": str(self.folder / "log"),
            },
        )

    def _make_config(self, certificate: str) -> dict[str, Any]:
        listening = {"ip": "127.0.0.1"}
        room = {"mam": True, "anonymous": False, "persistent": True, "public": True}
        return {
            "hosts": [DOMAIN],
            "loglevel": "info",
            "certfiles": [certificate],
            "auth_method": ["internal"],
            "acme": {"auto": False},
            "listen": [
                {**listening, "port": self.port, "module": "ejabberd_c2s", "starttls": True},
                {
                    **listening,
                    "port": self.http_port,
                    "module": "ejabberd_http",
                    "tls": True,
                    "request_handlers": {"/upload": "mod_http_upload"},
                },
            ],
            "modules": {
                "mod_disco": {},
                "mod_ping": {},
                "mod_roster": {},
                "mod_offline": {},
                "mod_mam": {"assume_mam_usage": True, "default": "always"},
                "mod_muc": {"hosts": [ROOM_HOST], "access_create": "all", "default_room_options": room},
                "mod_http_upload": {
                    "hosts": [f"files.{DOMAIN}"],
                    "access": "all",
                    "docroot": str(self.folder / "files"),
                    "put_url": f"https://{DOMAIN}:{self.http_port}/upload",
                },
            },
        }

    def start_again(self) -> None:
        (self.folder / "ready").unlink(missing_ok=True)
        super().start_again()

    def wait_until_up(self) -> None:
        """Its ports answer a moment before the accounts are there."""
        super().wait_until_up()
        block_until((self.folder / "ready").exists, "the accounts of ejabberd")

    def set_password(self, name: str, password: str) -> None:
        raise NotOffered("accounts are made when the server starts")


class EjabberdPlatform(XmppServer):
    """The bot comes by STARTTLS, and files by HTTPS, with a certificate of this authority."""

    most_history = 50  # a room has no history but since the server came back

    def __init__(self, authority: ThrowawayAuthority) -> None:
        super().__init__()
        self._authority = authority
        self.verify = ssl.create_default_context(cafile=authority.ca_file)

    def make_server(self) -> Ejabberd:
        return Ejabberd(self._authority.sign(DOMAIN))

    def get_settings(self) -> dict[str, Any]:
        return {
            **super().get_settings(),
            "server": f"127.0.0.1:{self.server.port}",
            "security": "starttls",
            "ca_file": str(self._authority.ca_file),
            "file_hosts": (),  # those of its own domain are read without being named
        }

    def crash(self) -> None:
        self._get_process().kill()

    def come_back(self) -> None:
        process = self._get_process()
        process.start_again()
        process.wait_until_up()
        self._run_in_loop(self._come_back())

    def _get_process(self) -> Ejabberd:
        assert isinstance(self.server, Ejabberd)
        return self.server

    async def _come_back(self) -> None:
        for client in self._clients.values():
            client.abort()
        await asyncio.sleep(0)
        await self._let_people_in()
