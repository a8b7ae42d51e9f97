"""A real mail system: Postfix, which takes mails by SMTP and delivers them by LMTP into Dovecot's mailboxes."""

import email
import email.policy
import imaplib
import os
import pwd
import signal
import smtplib
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from typing import Any

from gatepost_testing.certificates import ServerCertificate, ThrowawayAuthority
from gatepost_testing.platforms.base import ShownMessage
from gatepost_testing.servers.dovecot import DOMAIN, Dovecot, find_dovecot
from gatepost_testing.servers.mail_server import BOT, PASSWORD, PROOF, MailServer
from gatepost_testing.servers.server_process import ServerProcess, find_ports, find_server
from gatepost_testing.waiting import PATIENCE_S

HOST = "localhost"
OWNER = "postfix"
_LOOK_S = 0.05
_MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
mail_owner = postfix
setgid_group = postdrop
myhostname = {host}
mydestination =
mynetworks =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
alias_database =
local_recipient_maps =
virtual_mailbox_domains = {domain}
virtual_transport = lmtp:inet:127.0.0.1:{lmtp}
default_transport = error:no mail leaves this machine
smtpd_tls_security_level = may
smtpd_tls_chain_files = {held.key}, {held.chain}
smtpd_tls_auth_only = yes
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:127.0.0.1:{auth}
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_sender_restrictions = check_sender_access static:{{PREPEND {proof}}}
minimal_backoff_time = 1s
maximal_backoff_time = 1s
queue_run_delay = 1s
"""
_MASTER = """
127.0.0.1:{port} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes
127.0.0.1:{starttls} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
error unix - - n - - error
retry unix - - n - - error
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""


def find_postfix() -> str | None:
    """Return where it is, if its tests can run: only root may start it."""
    return find_server("postfix") if find_dovecot() and os.geteuid() == 0 else None


class Postfix(ServerProcess):
    def __init__(self, certificate: ServerCertificate, lmtp_port: int, auth_port: int) -> None:
        """TLS on `port`, STARTTLS on `starttls_port`. Passwords are Dovecot's."""
        program = find_postfix()
        if program is None:
            raise FileNotFoundError("Postfix is not installed; scripts/system_packages.py --all installs it")
        super().__init__("Postfix")
        self.port, self.starttls_port = find_ports(2)
        owner = pwd.getpwnam(OWNER)
        for name in ("config", "queue", "data"):
            (self.folder / name).mkdir()
        os.chown(self.folder / "data", owner.pw_uid, owner.pw_gid)
        main = _MAIN.format(
            folder=self.folder, host=HOST, domain=DOMAIN, held=certificate, lmtp=lmtp_port, auth=auth_port, proof=PROOF
        )
        (self.folder / "config" / "main.cf").write_text(main, encoding="utf-8")
        master = _MASTER.format(port=self.port, starttls=self.starttls_port)
        (self.folder / "config" / "master.cf").write_text(master, encoding="utf-8")
        self.launch([program, "-c", str(self.folder / "config"), "start-fg"], (self.port, self.starttls_port))
        self.wait_until_up()

    def kill(self) -> None:
        """Its master leaves the process group that it was started in."""
        held = self.folder / "queue" / "pid" / "master.pid"
        if held.exists() and (number := held.read_text().strip()):
            with suppress(ProcessLookupError):
                os.killpg(int(number), signal.SIGKILL)
            held.unlink()
        super().kill()


class PostfixPlatform(MailServer):
    """Everybody sends through Postfix and reads their own mailbox in Dovecot, both with TLS of this authority. The
    record has the mails in the mailboxes of ann and bob."""

    def __init__(self, authority: ThrowawayAuthority) -> None:
        super().__init__()
        self._authority, self._certificate = authority, authority.sign(HOST)
        self._tls = ssl.create_default_context(cafile=authority.ca_file)
        self._postfix: Postfix | None = None

    @property
    def postfix(self) -> Postfix:
        assert self._postfix is not None
        return self._postfix

    def make_dovecot(self) -> Dovecot:
        return Dovecot(self._certificate)

    def start(self, port: int = 0) -> None:
        super().start(port)
        self._postfix = Postfix(self._certificate, self.dovecot.lmtp_port, self.dovecot.auth_port)

    def stop(self) -> None:
        self.postfix.stop()
        super().stop()

    def get_settings(self) -> dict[str, Any]:
        return {
            **super().get_settings(),
            "imap_host": HOST,
            "imap_port": self.dovecot.imaps_port,
            "imap_security": "tls",
            "smtp_host": HOST,
            "smtp_port": self.postfix.port,
            "smtp_security": "tls",
            "ca_file": str(self._authority.ca_file),
        }

    def crash(self) -> None:
        self.postfix.kill()
        self.dovecot.kill()

    def come_back(self) -> None:
        for server in (self.dovecot, self.postfix):
            server.start_again()
            server.wait_until_up()

    def hand_in(self, sender: str, mail: EmailMessage) -> None:
        with smtplib.SMTP(HOST, self.postfix.starttls_port, timeout=PATIENCE_S) as client:
            client.starttls(context=self._tls)
            client.login(sender, PASSWORD)
            client.send_message(mail, f"{sender}@{DOMAIN}", [BOT])

    # Visible state.

    def list_shown(self, room: str = "", *, by_bot: bool = True) -> list[ShownMessage]:
        self._read_mailboxes()
        return super().list_shown(room, by_bot=by_bot)

    def wait_for(self, holds: Callable[[], bool], timeout: float = PATIENCE_S) -> bool:
        """Mailboxes announce nothing here: they are looked into again and again."""
        bound = time.monotonic() + timeout
        while time.monotonic() < bound:
            self._read_mailboxes()
            if holds():
                return True
            time.sleep(_LOOK_S)
        return False

    def _read_mailboxes(self) -> None:
        """Keep each mail that people have not read yet. While the server is away there is none."""
        with self.changed, suppress(OSError, imaplib.IMAP4.error):
            for person in ("ann", "bob"):
                self._read_mailbox(person)

    def _read_mailbox(self, person: str) -> None:
        with imaplib.IMAP4_SSL(HOST, self.dovecot.imaps_port, ssl_context=self._tls, timeout=PATIENCE_S) as box:
            box.login(person, PASSWORD)
            box.select()
            for number in box.search(None, "UNSEEN")[1][0].split():
                _, data = box.fetch(number.decode(), "(RFC822)")  # which makes it read
                assert isinstance(data[0], tuple)
                mail = email.message_from_bytes(data[0][1], policy=email.policy.default)
                assert isinstance(mail, EmailMessage)
                self._note(mail, person, "bot")
