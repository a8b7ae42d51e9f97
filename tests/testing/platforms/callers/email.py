import re
import smtplib
import socket
from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import email as email_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.servers.dovecot import find_dovecot
from gatepost_testing.servers.mail_server import PASSWORD, MailServer
from gatepost_testing.waiting import PATIENCE_S


class PlatformCaller(RuleCaller):
    """A rule's method is the protocol. IMAP is spoken by a real Dovecot, SMTP by aiosmtpd with the words of Postfix."""

    platform_class, rules = MailServer, email_rules.RULES
    lacks = "" if find_dovecot() else "Dovecot is not installed: scripts/system_packages.py --all"
    is_slow = True

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, MailServer)
        self._smtp_port = platform.smtp_port
        self.names = {}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        return self._call_smtp(given) if method == "SMTP" else self._call_imap(given)

    def _call_smtp(self, given: dict[str, Any]) -> Refusal:
        client = smtplib.SMTP("127.0.0.1", self._smtp_port, timeout=PATIENCE_S)
        client.ehlo("caller")
        if not given.get("$bare"):
            client.login("bot", PASSWORD)
        answer = (0, b"")
        for line in given["$lines"]:
            client.send(line if isinstance(line, bytes) else f"{line}\r\n")
            answer = client.getreply()
        client.close()
        return answer[0], answer[1].decode()

    def _call_imap(self, given: dict[str, Any]) -> Refusal:
        password = given.get("$password", PASSWORD)
        commands = [
            f'LOGIN bot "{password}"',
            *(["SELECT INBOX", " ".join(given["$words"])] if password == PASSWORD else []),
        ]
        with socket.create_connection(("127.0.0.1", self.platform.port), PATIENCE_S) as wire:
            lines, said = wire.makefile("rb"), ""
            lines.readline()
            for number, command in enumerate(commands):
                wire.sendall(f"a{number} {command}\r\n".encode())
                while not (said := lines.readline().decode()).startswith(f"a{number} "):
                    if said.startswith("+"):
                        wire.sendall(b"\r\n")
        return 0, re.sub(r" \([0-9.]+ \+ .*secs\)\.?", "", said.partition(" ")[2].strip())
