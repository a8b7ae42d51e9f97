"""E-mail for tests: a real Dovecot, an SMTP server (aiosmtpd) that delivers into it, and a relay before the bot.

Each person has a mailbox; the bot's server confirms senders by DMARC, under the name `AUTHSERV_ID`. There are no
groups: the room `team` is the mailbox of ann, as `direct:ann` is. A second reader is nothing to IMAP, mails keep their
order, and what is read is never forgotten: those faults do nothing.
"""

import asyncio
import email
import email.policy
import imaplib
import itertools
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from gatepost_testing.platform_rules.email import BY_NAME
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile, PlatformFault, ShownMessage
from gatepost_testing.servers.dovecot import DOMAIN, Dovecot
from gatepost_testing.waiting import PATIENCE_S, block_until

AUTHSERV_ID = f"mx.{DOMAIN}"
PROOF = f"Authentication-Results: {AUTHSERV_ID}; dmarc=pass header.from={DOMAIN}"
BOT = f"bot@{DOMAIN}"
PASSWORD = "mailbox password"
_IDS = re.compile(r"<([^<>\s]+)>")
_ANSWERS = {PlatformFault.FORBIDDEN: "policy of a server", PlatformFault.BUSY: "a server that is busy"}
_RULES = {  # of what the library refuses in words of its own
    r"503 Error: need MAIL command": "sender before recipients",
    r"503 Error: nested MAIL command": "one sender",
    r"503 Error: need RCPT command": "some recipient",
    r"552 Error: message size exceeds .*": "mail size",
    r"500 (Command line|Line) too long.*": "length of a line",
    r'500 Error: command ".*" not recognized': "known command",
}
UNSURE = b"later"  # a user whose password the server cannot check
UNKNOWN, ELSEWHERE = f"nobody@{DOMAIN}", "elsewhere.test"


def refuse(name: str, **values: str) -> str:
    """Return the refusal of a rule. `values` stand in place of those of its own call."""
    words = f"{BY_NAME[name].status} {BY_NAME[name].refusal}"
    for old, new in values.items():
        words = words.replace(old, new)
    return words


class PostfixWords(SMTP):
    """The library's server, which refuses in the words of Postfix."""

    async def push(self, status: str | bytes) -> None:
        said = status if isinstance(status, str) else status.decode()
        name = next((rule for words, rule in _RULES.items() if re.fullmatch(words, said)), "")
        await super().push(refuse(name) if name else said)


class MailServer(EmulatedPlatform):
    kind = "email"
    has_groups = False
    cannot = frozenset({"edit", "delete", "react", "join", "click", "get_typing"})

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)
        self._dovecot: Dovecot | None = None
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.StreamWriter] = set()
        self.smtp_port = 0

    # How it is run.

    @property
    def dovecot(self) -> Dovecot:
        assert self._dovecot is not None
        return self._dovecot

    def make_dovecot(self) -> Dovecot:
        return Dovecot()

    def start(self, port: int = 0) -> None:
        self._dovecot = self.make_dovecot()
        self._set_passwords(PASSWORD)
        block_until(lambda: self._find_verdict(PASSWORD) is True, "the password")
        super().start(port)

    def stop(self) -> None:
        super().stop()
        self.dovecot.stop()

    async def _open(self, port: int) -> None:
        relay = await asyncio.start_server(self._relay, "127.0.0.1", port)
        smtp = await self._loop.create_server(self._make_smtp, "127.0.0.1", 0)
        self.port = int(relay.sockets[0].getsockname()[1])
        self.smtp_port = int(smtp.sockets[0].getsockname()[1])
        self._servers = [relay, smtp]

    async def _close(self) -> None:
        await self.drop_connections()
        for server in self._servers:
            server.close()
        await self._cancel_others()

    def _set_passwords(self, bot: str) -> None:
        self.dovecot.set_passwords({"bot": bot, "ann": PASSWORD, "bob": PASSWORD})

    # How a channel is pointed at it.

    def get_settings(self) -> dict[str, Any]:
        return {
            "address": BOT,
            "user": "bot",
            "name": "The Bot",
            "imap_host": "127.0.0.1",
            "imap_port": self.port,
            "imap_security": "none",
            "smtp_host": "127.0.0.1",
            "smtp_port": self.smtp_port,
            "smtp_security": "none",
            "authserv_id": AUTHSERV_ID,
        }

    def get_secrets(self) -> dict[str, str]:
        return {"password": PASSWORD}

    def get_address(self, room: str) -> str:
        return f"email:{_get_person(room)}@{DOMAIN}"

    def get_sender(self, person: str) -> str:
        return f"email:{person}@{DOMAIN}"

    # Actions of people.

    def send(
        self,
        text: str,
        *,
        room: str = "team",
        sender: str = "ann",
        thread: str = "",
        reply_to: str = "",
        files: Sequence[GivenFile] = (),
        mention: bool = False,
        subject: str = "",
    ) -> str:
        mail = EmailMessage()
        own_id = f"{sender}.{next(self._numbers)}@{DOMAIN}"
        mail["From"], mail["To"], mail["Message-ID"] = f"{sender}@{DOMAIN}", BOT, f"<{own_id}>"
        answered = reply_to or thread
        if subject or answered:
            mail["Subject"] = subject or "Re: the matter"
        root = thread or self._find_root(reply_to)
        if answered:
            mail["In-Reply-To"] = f"<{answered}>"
            mail["References"] = " ".join(f"<{each}>" for each in dict.fromkeys((root, answered)))
        mail.set_content(text)
        for file in files:
            main, _, sub = file.mime.partition("/")
            mail.add_attachment(file.data, maintype=main, subtype=sub, filename=file.name)
        self._note(mail, sender, sender)
        self.hand_in(sender, mail)
        return own_id

    def hand_in(self, sender: str, mail: EmailMessage) -> None:
        """Somebody sends a mail, and the bot's server confirms that it is theirs."""
        self.deliver(f"{PROOF}\r\n".encode() + mail.as_bytes(policy=email.policy.SMTP))

    def deliver(self, raw: bytes, sender: str = f"someone@{DOMAIN}") -> None:
        """A mail as it is, into the bot's mailbox."""
        times = 2 if self.claim_fault(PlatformFault.DUPLICATE) else 1
        for _ in range(times):
            self.dovecot.deliver(raw, sender, BOT)

    def _find_root(self, message: str) -> str:
        with self.changed:
            return next((each.thread for each in self.record if each.id == message), "") or message

    # Visible state.

    def list_shown(self, room: str = "", *, by_bot: bool = True) -> list[ShownMessage]:
        return super().list_shown(f"direct:{_get_person(room)}" if room else "", by_bot=by_bot)

    def _note(self, mail: EmailMessage, person: str, sender: str) -> None:
        own_id = _IDS.findall(str(mail["Message-ID"]))[0]
        references = _IDS.findall(str(mail["References"] or ""))
        body = mail.get_body(("plain",))
        shown = ShownMessage(
            id=own_id,
            room=f"direct:{person}",
            sender=sender,
            text=body.get_content().replace("\r\n", "\n").strip() if body is not None else "",
            raw=mail,
            thread=references[0] if references else "",
            reply_to=(_IDS.findall(str(mail["In-Reply-To"] or "")) or [""])[0],
            files=[_read_file(each) for each in mail.iter_attachments()],
            key=own_id,
        )
        with self.changed:
            self.record.append(shown)
            self.changed.notify_all()

    # Faults.

    def fault(self, *faults: PlatformFault) -> None:
        if PlatformFault.UNAUTHORIZED in faults:
            self._set_passwords("another one")
            block_until(lambda: self._find_verdict(PASSWORD) is False, "the new password")
        super().fault(*faults)
        if PlatformFault.UNAUTHORIZED in faults:
            self._run_in_loop(self.drop_connections())

    def heal(self) -> None:
        self._set_passwords(PASSWORD)
        block_until(lambda: self._find_verdict(PASSWORD) is True, "the old password")
        super().heal()

    def _find_verdict(self, password: str) -> bool | None:
        """Return whether Dovecot lets the bot in; None: it cannot be asked. It reads the file of passwords once a
        second at most: whoever is quicker is judged by the old one."""
        try:
            client = imaplib.IMAP4("127.0.0.1", self.dovecot.imap_port, timeout=PATIENCE_S)
        except OSError:
            return None
        with suppress(OSError, imaplib.IMAP4.error), client:
            client.login("bot", password)
            return True
        return False

    async def drop_connections(self) -> None:
        for writer in list(self._connections):
            writer.transport.abort()

    # SMTP.

    def _make_smtp(self) -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of passwords without TLS: nothing leaves this machine
            return PostfixWords(
                self,
                hostname=AUTHSERV_ID,
                authenticator=self._log_in,
                auth_require_tls=False,
                auth_required=True,
                loop=self._loop,
            )

    def _log_in(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any) -> AuthResult:
        right = isinstance(given, LoginPassword) and given.password == PASSWORD.encode()
        if isinstance(given, LoginPassword) and given.login == UNSURE:
            return AuthResult(success=False, handled=False, message=refuse("a log-in for later"))
        return AuthResult(success=right and not self.is_faulty(PlatformFault.UNAUTHORIZED), handled=False)

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            return refuse("owner of an address", **{BOT: address})
        if self.claim_fault(PlatformFault.RATE_LIMIT):
            return refuse("pace")
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address == UNKNOWN:
            return refuse("known mailbox")
        if address.endswith(f"@{ELSEWHERE}"):
            return refuse("way to a domain", **{f"ann@{ELSEWHERE}": address})
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        fault = self.claim_fault(*_ANSWERS, PlatformFault.NO_ANSWER)
        if fault in _ANSWERS:
            return refuse(_ANSWERS[fault])
        raw = envelope.original_content or b""
        for recipient in envelope.rcpt_tos:
            await asyncio.to_thread(self.dovecot.deliver, raw, envelope.mail_from or "", recipient)
            read = email.message_from_bytes(raw, policy=email.policy.default)
            assert isinstance(read, EmailMessage)
            if recipient != BOT:
                self._note(read, recipient.partition("@")[0], "bot")
        if fault is PlatformFault.NO_ANSWER and isinstance(server.transport, asyncio.Transport):
            server.transport.abort()
        return "250 2.0.0 accepted"

    # IMAP.

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.dovecot.imap_port)
        self._connections.update((writer, back))
        try:
            await asyncio.gather(self._pump(reader, back, held=False), self._pump(there, writer, held=True))
        except asyncio.CancelledError:  # at the end of all; raised, the loop would report it
            writer.transport.abort()
        finally:
            self._connections.difference_update((writer, back))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, held: bool) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                while held and self.is_faulty(PlatformFault.HELD_POLL):  # noqa: ASYNC110  `changed` is of threads
                    await asyncio.sleep(0.02)
                target.write(data)
                await target.drain()
        target.close()


def _get_person(room: str) -> str:
    return "ann" if room == "team" else room.removeprefix("direct:")


def _read_file(part: Any) -> GivenFile:
    return GivenFile(part.get_filename() or "", part.get_payload(decode=True) or b"", part.get_content_type())
