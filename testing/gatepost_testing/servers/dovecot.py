"""A real IMAP server, Dovecot, on loopback ports, with mailboxes that are made when a mail comes."""

import os
import smtplib

from gatepost_testing.certificates import ServerCertificate
from gatepost_testing.servers.server_process import ServerProcess, find_ports, find_server

NOBODY = 65534
DOMAIN = "mail.test"
_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/log
protocols = imap lmtp
listen = 127.0.0.1
{tls}
disable_plaintext_auth = no
auth_mechanisms = plain login
auth_failure_delay = 0
mail_location = maildir:{folder}/mail/%n
first_valid_uid = 1
first_valid_gid = 1
mail_max_userip_connections = 200
mailbox_idle_check_interval = 1s
passdb {{
  driver = passwd-file
  args = scheme=PLAIN username_format=%n {folder}/users
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/mail/%n allow_all_users=yes
}}
namespace inbox {{
  inbox = yes
  mailbox Sent {{
    auto = create
    special_use = \\Sent
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service auth {{
  inet_listener {{
    address = 127.0.0.1
    port = {auth}
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
"""
_OWN_USER = """
default_internal_user = {name}
default_internal_group = {name}
default_login_user = {name}
"""


def find_dovecot() -> str | None:
    return find_server("dovecot")


class Dovecot(ServerProcess):
    def __init__(self, certificate: ServerCertificate | None = None) -> None:
        """`certificate`: for TLS on `imaps_port`, and for STARTTLS on `imap_port`."""
        program = find_dovecot()
        if program is None:
            raise FileNotFoundError("Dovecot is not installed; scripts/system_packages.py --all installs it")
        super().__init__("Dovecot")
        self.imap_port, self.lmtp_port, self.imaps_port, self.auth_port = find_ports(4)
        self._certificate = certificate
        self._write_config()
        self.launch([program, "-F", "-c", str(self.folder / "dovecot.conf")], self._list_ports())
        self.wait_until_up()

    def _write_config(self) -> None:
        root = os.geteuid() == 0
        user, group = (NOBODY, NOBODY) if root else (os.getuid(), os.getgid())
        mail = self.folder / "mail"
        mail.mkdir()
        os.chown(mail, user, group)
        held = self._certificate
        text = _CONFIG.format(
            folder=self.folder,
            user=user,
            group=group,
            imap=self.imap_port,
            lmtp=self.lmtp_port,
            auth=self.auth_port,
            imaps=self.imaps_port if held else 0,
            tls=f"ssl = yes\nssl_cert = <{held.chain}\nssl_key = <{held.key}" if held else "ssl = no",
        ) + ("" if root else _OWN_USER.format(name=os.environ.get("USER", "nobody")))
        (self.folder / "dovecot.conf").write_text(text, encoding="utf-8")
        self.set_passwords({})

    def set_passwords(self, passwords: dict[str, str]) -> None:
        lines = "".join(f"{name}:{password}\n" for name, password in passwords.items())
        part = self.folder / "users.new"
        part.write_text(lines, encoding="utf-8")
        part.chmod(0o644)
        part.rename(self.folder / "users")

    def deliver(self, raw: bytes, sender: str, recipient: str) -> None:
        with smtplib.LMTP("127.0.0.1", self.lmtp_port) as client:
            client.sendmail(sender, [recipient], raw)

    def _list_ports(self) -> list[int]:
        return [self.imap_port, self.lmtp_port, self.auth_port, *([self.imaps_port] if self._certificate else [])]
