"""A real IMAP server, Dovecot, on loopback ports, with mailboxes that are made when a mail comes."""

import os
import shutil
import smtplib
import socket
import subprocess
import tempfile
from pathlib import Path

from gatepost.testing.waiting import block_until

NOBODY = 65534
DOMAIN = "mail.test"
_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login
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
    port = 0
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service anvil {{
  chroot =
}}
"""
_OWN_USER = """
default_internal_user = {name}
default_internal_group = {name}
default_login_user = {name}
"""


def find_dovecot() -> str | None:
    return shutil.which("dovecot", path=_PLACES)


class Dovecot:
    def __init__(self) -> None:
        program = find_dovecot()
        if program is None:
            raise FileNotFoundError("Dovecot is not installed; scripts/system_packages.py --all installs it")
        self._folder = Path(tempfile.mkdtemp(prefix="gatepost-dovecot-"))
        self._folder.chmod(0o755)
        self.imap_port, self.lmtp_port = _find_ports(2)
        self._write_config()
        config = self._folder / "dovecot.conf"
        self._process = subprocess.Popen(
            [program, "-F", "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        block_until(self._answers, "Dovecot")

    def _write_config(self) -> None:
        root = os.geteuid() == 0
        user, group = (NOBODY, NOBODY) if root else (os.getuid(), os.getgid())
        mail = self._folder / "mail"
        mail.mkdir()
        os.chown(mail, user, group)
        text = _CONFIG.format(folder=self._folder, user=user, group=group, imap=self.imap_port, lmtp=self.lmtp_port) + (
            "" if root else _OWN_USER.format(name=os.environ.get("USER", "nobody"))
        )
        (self._folder / "dovecot.conf").write_text(text, encoding="utf-8")
        self.set_passwords({})

    def set_passwords(self, passwords: dict[str, str]) -> None:
        lines = "".join(f"{name}:{password}\n" for name, password in passwords.items())
        part = self._folder / "users.new"
        part.write_text(lines, encoding="utf-8")
        part.chmod(0o644)
        part.rename(self._folder / "users")

    def deliver(self, raw: bytes, sender: str, recipient: str) -> None:
        with smtplib.LMTP("127.0.0.1", self.lmtp_port) as client:
            client.sendmail(sender, [recipient], raw)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            log = self._folder / "log"
            raise AssertionError(f"Dovecot ended: {log.read_text()[-1000:] if log.exists() else ''}")
        for port in (self.imap_port, self.lmtp_port):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) != 0:
                    return False
        return True


def _find_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
