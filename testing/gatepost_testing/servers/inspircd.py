"""A real IRC network: InspIRCd with TLS, and Atheme, which has its accounts."""

import asyncio
import os
import signal
from typing import Any

from gatepost_testing.certificates import ServerCertificate, ThrowawayAuthority
from gatepost_testing.servers.irc_server import BOT, IrcServerPlatform, IrcServerProcess
from gatepost_testing.servers.server_process import ServerProcess, find_ports, find_server
from gatepost_testing.waiting import PATIENCE_S

HOST = "localhost"
PASSWORD = "the-password"
SERVER, SERVICES, LINK_PASSWORD = "irc.gatepost.test", "services.gatepost.test", "between-servers"
_MODULES = (
    *("ssl_gnutls", "cap", "ircv3", "ircv3_accounttag", "ircv3_ctctags", "ircv3_echomessage", "ircv3_msgid"),
    *("ircv3_servertime", "services_account", "sasl", "spanningtree"),
)
_CONFIG = """
<path configdir="{folder}" datadir="{folder}" logdir="{folder}" runtimedir="{folder}">
<server name="{server}" description="A server for tests" network="Tests" id="001">
<admin name="nobody" nick="nobody" email="nobody@gatepost.test">
<dns server="127.0.0.1" timeout="1">
<bind address="127.0.0.1" port="{port}" type="clients">
<bind address="127.0.0.1" port="{tls_port}" type="clients" sslprofile="tests">
<bind address="127.0.0.1" port="{link_port}" type="servers">
<sslprofile name="tests" provider="gnutls" certfile="{held.chain}" keyfile="{held.key}">
<sasl target="{services}">
<connect name="everybody" allow="*" resolvehostnames="no" localmax="200" globalmax="200" maxconnwarn="no">
<link name="{services}" ipaddr="127.0.0.1" port="1" allowmask="127.0.0.1" sendpass="{password}" recvpass="{password}">
<uline server="{services}" silent="yes">
<log method="file" type="* -USERINPUT -USEROUTPUT" level="default" target="log">
"""
_SERVICES = """
loadmodule "modules/protocol/inspircd";
loadmodule "modules/backend/opensex";
loadmodule "modules/crypto/posix";
loadmodule "modules/nickserv/main";
loadmodule "modules/nickserv/register";
loadmodule "modules/saslserv/main";
loadmodule "modules/saslserv/plain";
uplink "{server}" {{ host = "127.0.0.1"; port = {port}; password = "{password}"; }};
serverinfo {{
  name = "{services}"; desc = "Services for tests"; numeric = "00A"; recontime = 1; netname = "Tests";
  hidehostsuffix = "users.gatepost.test"; adminname = "nobody"; adminemail = "nobody@gatepost.test";
  registeremail = "nobody@gatepost.test"; mta = "/bin/true"; loglevel = {{ error; info; }};
  maxlogins = 50; maxusers = 50; maxnicks = 5; maxchans = 5; auth = none; casemapping = rfc1459;
}};
nickserv {{ nick = "NickServ"; user = "NickServ"; host = "{services}"; real = "Accounts"; }};
saslserv {{ nick = "SaslServ"; user = "SaslServ"; host = "{services}"; real = "Log-ins"; }};
"""


def find_inspircd() -> str | None:
    return find_server("inspircd") if find_server("atheme-services") else None


class Inspircd(IrcServerProcess):
    def __init__(self, certificate: ServerCertificate) -> None:
        program = find_inspircd()
        if program is None:
            raise FileNotFoundError("InspIRCd is not installed; scripts/system_packages.py --all installs it")
        super().__init__("InspIRCd")
        self.port, self.tls_port, self.link_port = find_ports(3)
        text = _CONFIG.format(
            folder=self.folder,
            server=SERVER,
            services=SERVICES,
            port=self.port,
            tls_port=self.tls_port,
            link_port=self.link_port,
            held=certificate,
            password=LINK_PASSWORD,
        )
        config = self.folder / "inspircd.conf"
        config.write_text(text + "".join(f'<module name="{each}">\n' for each in _MODULES), encoding="utf-8")
        root = ["--runasroot"] if os.geteuid() == 0 else []
        self.launch([program, "--nofork", "--config", str(config), *root], (self.port, self.tls_port, self.link_port))


class Atheme(ServerProcess):
    """Accounts, for as long as it runs. It comes to the server by itself, and again once that is back."""

    def __init__(self, link_port: int) -> None:
        program = find_server("atheme-services")
        if program is None:
            raise FileNotFoundError("Atheme is not installed; scripts/system_packages.py --all installs it")
        super().__init__("Atheme")
        config = self.folder / "atheme.conf"
        values = {"server": SERVER, "services": SERVICES, "port": link_port, "password": LINK_PASSWORD}
        config.write_text(_SERVICES.format(**values), encoding="utf-8")
        places = ("-c", config), ("-D", self.folder), ("-l", self.folder / "log"), ("-p", self.folder / "pid")
        self.launch([program, "-n", *(str(each) for pair in places for each in pair)], ())

    def pause(self, on: bool) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)


class InspircdPlatform(IrcServerPlatform):
    """The bot comes by TLS and logs in with an account, which needs Atheme."""

    def __init__(self, authority: ThrowawayAuthority) -> None:
        super().__init__()
        self._authority = authority
        self._atheme: Atheme | None = None

    def make_server(self) -> Inspircd:
        return Inspircd(self._authority.sign(HOST))

    @property
    def atheme(self) -> Atheme:
        assert self._atheme is not None
        return self._atheme

    def start(self, port: int = 0) -> None:
        super().start(port)
        self._atheme = Atheme(self._get_process().link_port)
        self._run_in_loop(self._register())

    def stop(self) -> None:
        super().stop()
        self.atheme.stop()

    def get_settings(self) -> dict[str, Any]:
        return {
            **super().get_settings(),
            "host": HOST,
            "port": self._get_process().tls_port,
            "tls": True,
            "ca_file": str(self._authority.ca_file),
            "account": BOT,
        }

    def get_secrets(self) -> dict[str, str]:
        return {"password": PASSWORD}

    def crash(self) -> None:
        """The accounts are in the memory of Atheme, so that it goes on."""
        self.atheme.pause(True)
        super().crash()

    def come_back(self) -> None:
        """Nobody logs in before people are there: what is said in an empty channel is lost, as it is for people."""
        super().come_back()
        self.atheme.pause(False)

    def _get_process(self) -> Inspircd:
        assert isinstance(self.server, Inspircd)
        return self.server

    async def _register(self) -> None:
        """The bot's account, by somebody who has its nick for a moment."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"NICK {BOT}\r\nUSER {BOT} 0 * :{BOT}\r\n".encode())
        asking = f"PRIVMSG NickServ :REGISTER {PASSWORD} bot@gatepost.test\r\n".encode()
        async with asyncio.timeout(PATIENCE_S):
            while line := (await reader.readline()).decode():
                words = line.split()
                if words[0] == "PING":
                    writer.write(f"PONG {words[1]}\r\n".encode())
                elif words[1] in ("001", "401"):  # welcome; or Atheme is not there yet
                    await asyncio.sleep(0.05)
                    writer.write(asking)
                elif words[1] == "NOTICE" and "registered" in line:
                    writer.write(b"QUIT\r\n")
        writer.close()
