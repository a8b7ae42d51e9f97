"""A mailbox by IMAP. Everything here blocks, so it runs in a thread; `interrupt` may be called from another."""

import contextlib
import imaplib
import re
import socket
import ssl
import time
from collections.abc import Iterator

from imap_tools import BaseMailBox, MailBox, MailBoxStartTls, MailBoxUnencrypted
from imap_tools.errors import ImapToolsError, MailboxFolderSelectError, MailboxLoginError
from msgspec import Struct

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.email import MailSecurity
from gatepost.channels.email.wire import MESSAGE_ID
from gatepost.channels.kit.tls import find_bad_certificate, make_tls
from gatepost.core.errors import Unavailable

PLATFORM = "the mailbox"
# A log-in that may work later: by the codes of RFC 5530, and in the words of Gmail, which gives none.
_LATER = re.compile(r"\[(UNAVAILABLE|INUSE|LIMIT|SERVERBUG)\b|\btoo many\b", re.IGNORECASE)
TIMEOUT_S = 30.0
MOST_AT_ONCE = 200
SEEN = "\\Seen"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class MailServerLogin(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    security: MailSecurity
    user: str
    password: str
    ca_file: str = ""

    def check(self, setting: str) -> None:
        if not self.host:
            raise ChannelEnded(EndReason.SETTING, f"`{setting}` is not set", "name the mail server")
        if self.security is MailSecurity.NONE and self.host not in LOOPBACK:
            raise ChannelEnded(
                EndReason.SETTING,
                f"the password would go to {self.host} in the clear",
                "use tls or starttls; none is for this machine only",
            )


class FetchedMail(Struct, frozen=True):
    raw: bytes
    whole: bool


@contextlib.contextmanager
def read_errors(host: str) -> Iterator[None]:
    """Turn errors of the libraries into those of the gateway."""
    try:
        yield
    except MailboxLoginError as error:
        if _LATER.search(str(error)):
            raise Unavailable(PLATFORM, f"{host} cannot log anybody in now") from None
        raise ChannelEnded(
            EndReason.TOKEN, f"{host} refuses the password", "set it with `gatepost channel set`"
        ) from None
    except MailboxFolderSelectError as error:
        raise ChannelEnded(EndReason.SETTING, f"a folder cannot be opened ({error})", "check `folder`") from None
    except (imaplib.IMAP4.error, ImapToolsError, OSError, ValueError) as error:
        if (refusal := find_bad_certificate(host, error)) is not None:
            raise refusal from None
        raise Unavailable(PLATFORM, f"{host}: {type(error).__name__} {str(error)[:200]}".strip()) from None


def _connect(login: MailServerLogin) -> BaseMailBox:
    if login.security is MailSecurity.NONE:
        return MailBoxUnencrypted(login.host, port=login.port, timeout=TIMEOUT_S)
    make = MailBox if login.security is MailSecurity.TLS else MailBoxStartTls
    # The library's own context would accept every certificate.
    return make(login.host, port=login.port, timeout=TIMEOUT_S, ssl_context=make_tls(login.ca_file))


class ImapSession:
    """One connection with one folder open. `validity` tells one life of the folder from another."""

    def __init__(self, login: MailServerLogin, folder: str) -> None:
        self._login, self._folder = login, folder
        self._box: BaseMailBox | None = None
        self._interrupted = False
        self.validity = 0
        self.next_uid = 1

    @property
    def _client(self) -> imaplib.IMAP4:
        if self._box is None or self._interrupted:
            raise OSError("the connection is closed")
        return self._box.client

    def open(self) -> None:
        login = self._login
        login.check("imap_host")
        with read_errors(login.host):
            self._box = _connect(login)
            self._box.login(login.user, login.password, initial_folder=self._folder)
            self.validity = self._read_number("UIDVALIDITY")
            self.next_uid = self._read_number("UIDNEXT")

    def _read_number(self, name: str) -> int:
        _, data = self._client.response(name)
        return int(data[0]) if data and data[0] else 0

    def interrupt(self) -> None:
        """End whatever the thread waits for."""
        self._interrupted = True
        if self._box is not None:
            with contextlib.suppress(OSError, AttributeError):
                self._box.client.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.interrupt()
        if self._box is not None:
            with contextlib.suppress(OSError, AttributeError, imaplib.IMAP4.error):
                self._box.client.shutdown()

    def list_uids(self, criteria: str) -> list[int]:
        with read_errors(self._login.host):
            status, data = self._client.uid("SEARCH", criteria)
            if status != "OK":
                raise OSError(f"a search failed: {status}")
            return sorted(int(each) for each in (data[0] or b"").split())

    def list_after(self, last: int) -> list[int]:
        """`n:*` names the last mail even if it is older, so it is checked again."""
        return [uid for uid in self.list_uids(f"UID {last + 1}:*") if uid > last][:MOST_AT_ONCE]

    def find_start(self, begun: int) -> int:
        """The last mail that came before a moment (seconds): where a channel begins that never read here."""
        day = time.strftime("%d-%b-%Y", time.gmtime(begun - 86_400))
        for uid in self.list_uids(f"SINCE {day}")[-MOST_AT_ONCE:]:
            if self._get_arrival(uid) >= begun:
                return uid - 1
        return max(self.next_uid - 1, 0)

    def _get_arrival(self, uid: int) -> float:
        found = imaplib.Internaldate2tuple(self._fetch(uid, "(INTERNALDATE)")[0])
        return time.mktime(found) if found else 0.0

    def fetch(self, uid: int, largest: int) -> FetchedMail | None:
        """None if it is gone. It stays unread."""
        size = re.search(rb"RFC822\.SIZE (\d+)", self._fetch(uid, "(RFC822.SIZE)")[0])
        if size is None:
            return None
        whole = int(size[1]) <= largest
        raw = self._fetch(uid, "(BODY.PEEK[])" if whole else "(BODY.PEEK[HEADER])")[1]
        return FetchedMail(raw, whole) if raw else None

    def fetch_head(self, message_id: str) -> bytes:
        """The head of the mail with this id; b'' if it is not here."""
        uids = self.find(message_id)
        return self._fetch(uids[-1], "(BODY.PEEK[HEADER])")[1] if uids else b""

    def _fetch(self, uid: int, parts: str) -> tuple[bytes, bytes]:
        """The line of the answer, and the text that came with it."""
        with read_errors(self._login.host):
            status, data = self._client.uid("FETCH", str(uid), parts)
            if status != "OK":
                raise OSError(f"a mail cannot be fetched: {status}")
            for each in data:
                if isinstance(each, tuple):
                    return each[0], each[1]
            return (data[0] if data and isinstance(data[0], bytes) else b""), b""

    def find(self, message_id: str) -> list[int]:
        if not MESSAGE_ID.match(message_id) or any(sign in message_id for sign in '"\\'):
            return []
        return self.list_uids(f'HEADER Message-ID "<{message_id}>"')

    def set_flag(self, uid: int, flag: str, on: bool) -> None:
        with read_errors(self._login.host):
            self._client.uid("STORE", str(uid), "+FLAGS" if on else "-FLAGS", f"({flag})")

    def wait(self, seconds: float) -> None:
        """Until something happens in the folder, or the time is over. A server that cannot announce it is asked."""
        with read_errors(self._login.host):
            if self._client.response("EXISTS")[1] != [None]:
                return  # a mail was announced behind the answer to the last search, and will not be announced again
            if "IDLE" in self._client.capabilities and self._box is not None:
                with self._box.idle as idle:
                    if not self._client.untagged_responses.get("EXISTS") and not _has_unread_answer(self._client):
                        idle.poll(timeout=seconds)
            else:
                time.sleep(min(seconds, 15.0))  # in a thread of its own
            self._client.noop()


def _has_unread_answer(client: imaplib.IMAP4) -> bool:
    """Return True if the server has sent more than was read.

    Lines that came in one piece with the last one are no longer in the socket, where the library waits for them.
    Without this check a mail that arrived just then would be noticed minutes later.
    """
    sock, buffered = client.sock, getattr(client, "_file", None)
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    before = sock.gettimeout()
    sock.settimeout(0)
    try:
        return buffered is not None and bool(buffered.peek(1))
    except (OSError, ValueError):
        return False
    finally:
        sock.settimeout(before)
