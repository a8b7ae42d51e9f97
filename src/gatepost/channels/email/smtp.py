"""One mail to one server by SMTP, and what became of it."""

import asyncio
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY

from aiosmtplib import (
    SMTP,
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPException,
    SMTPResponseException,
)

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.email import MailSecurity
from gatepost.channels.email.imap import MailServerLogin
from gatepost.channels.kit.tls import find_bad_certificate, make_tls
from gatepost.core.errors import Refused, Unavailable

PLATFORM = "the mail server"
TIMEOUT_S = 20.0
NO_LOGIN = frozenset({530, 535})


def _make_token_error(host: str, code: int) -> ChannelEnded:
    return ChannelEnded(
        EndReason.TOKEN, f"{host} does not accept the password ({code})", "set it with `gatepost channel set`"
    )


async def open_smtp(login: MailServerLogin) -> SMTP:
    """Connected and logged in. The server must offer the protection that is set: there is no way back to none."""
    login.check("smtp_host")
    tls = None if login.security is MailSecurity.NONE else await asyncio.to_thread(make_tls, login.ca_file)
    client = SMTP(
        hostname=login.host,
        port=login.port,
        use_tls=login.security is MailSecurity.TLS,
        start_tls=login.security is MailSecurity.STARTTLS,
        tls_context=tls,
        timeout=TIMEOUT_S,
    )
    try:
        await client.connect()
        await client.ehlo()
        if login.password and client.supports_extension("auth"):
            await client.login(login.user, login.password)
    except SMTPAuthenticationError as error:
        client.close()
        if error.code < 500:
            raise Unavailable(PLATFORM, f"it answers {error.code} {error.message[:200]}") from None
        raise _make_token_error(login.host, error.code) from None
    except (SMTPConnectError, SMTPException, OSError) as error:
        client.close()
        if (refusal := find_bad_certificate(login.host, error)) is not None:
            raise refusal from None
        raise Unavailable(
            PLATFORM, f"{login.host} cannot be used ({type(error).__name__}: {str(error)[:150]})"
        ) from None
    return client


async def check_sender(login: MailServerLogin, sender: str) -> None:
    """Raise if this login may not send as this address.

    A mail to itself is begun, and given up before its text. Servers that put off their answer give it with the
    recipient.
    """
    client = await open_smtp(login)
    try:
        await client.mail(sender)
        await client.rcpt(sender)
        await client.rset()
    except SMTPResponseException as error:
        if error.code < 500:
            return  # greylisted, or busy: not a matter of rights
        words = " ".join(error.message.split())[:150]
        why = f"{login.host} does not let {login.user} send as {sender} ({error.code} {words})"
        remedy = "let the mail server allow it, or set the address and the user of one mailbox"
        raise ChannelEnded(EndReason.RIGHTS, why, remedy) from None
    except (SMTPException, OSError) as error:
        raise Unavailable(PLATFORM, f"{login.host} broke the connection ({type(error).__name__})") from None
    finally:
        client.close()


async def send_mail(login: MailServerLogin, mail: EmailMessage, sender: str, to: str, copy: str = "") -> None:
    """`copy`: a second recipient, whom the mail does not name. Raise as `Channel.send` does. Once the text is on its
    way, a lost answer leaves open what happened."""
    raw = mail.as_bytes(policy=SMTP_POLICY)
    client = await open_smtp(login)
    handed_over = False
    try:
        await client.mail(sender)
        await client.rcpt(to)
        if copy:
            with suppress(SMTPResponseException):  # without it the mail goes out all the same
                await client.rcpt(copy)
        handed_over = True
        await client.data(raw)
    except SMTPResponseException as error:
        if error.code < 500:
            raise Unavailable(PLATFORM, f"it answers {error.code} {error.message[:200]}") from None
        if error.code in NO_LOGIN:
            raise _make_token_error(login.host, error.code) from None
        raise Refused("this bot", "send a mail", to, f"{error.code} {error.message[:200]}") from None
    except (SMTPException, OSError) as error:
        why = f"the connection broke ({type(error).__name__})"
        raise Unavailable(PLATFORM, why, uncertain=handed_over) from None
    finally:
        client.close()
