"""Refusals of mail servers: replies of SMTP by their code, and of IMAP by NO or BAD, with the words of Dovecot."""

from typing import Any

from gatepost.testing.platforms.rules import PlatformRule, index_rules

RFC = "https://www.rfc-editor.org/rfc"
POSTFIX = "https://www.postfix.org/SMTPD_ACCESS_README.html"
SMTP = "channels/email/smtp.py"
IMAP = "channels/email/imap.py"
FROM, TO = "MAIL FROM:<bot@mail.test>", "RCPT TO:<ann@mail.test>"


def _rule(name: str, status: int, refusal: str, source: str, *lines: str | bytes, **more: Any) -> PlatformRule:
    """`lines`: those of SMTP after the log-in; the last is refused."""
    given = {"$lines": list(lines), **{f"${each}": more.pop(each) for each in ("bare", "faults") if each in more}}
    return PlatformRule(name=name, status=status, refusal=refusal, source=source, call=("SMTP", given), **more)


def _ask(name: str, refusal: str, source: str, *words: str, **more: Any) -> PlatformRule:
    """`words`: a command of IMAP in a mailbox that is selected. IMAP has no statuses."""
    given = {"$words": list(words), **{f"${each}": more.pop(each) for each in ("password",) if each in more}}
    return PlatformRule(name=name, status=0, refusal=refusal, source=source, call=("IMAP", given), **more)


RULES = (
    _rule(
        "log-in before mails",
        530,
        "5.7.0 Authentication required",
        f"{RFC}/rfc4954#section-6",
        FROM,
        bare=True,
        adapter=f"{SMTP}: NO_LOGIN",
    ),
    _rule(
        "password",
        535,
        "5.7.8 Authentication credentials invalid",
        f"{RFC}/rfc4954#section-6",
        "AUTH PLAIN AGJvdAB3cm9uZw==",
        bare=True,
        adapter=f"{SMTP}: _make_token_error",
    ),
    _rule(
        "known mechanism",
        504,
        "5.5.4 Unrecognized authentication type",
        f"{RFC}/rfc4954#section-4",
        "AUTH NTLM",
        bare=True,
    ),
    _rule(
        "owner of an address",
        553,
        "5.7.1 <bot@mail.test>: Sender address rejected: not owned by user bot",
        "https://www.postfix.org/postconf.5.html#reject_sender_login_mismatch",
        FROM,
        faults=["no_rights"],
        adapter=f"{SMTP}: check_sender",
    ),
    _rule("sender before recipients", 503, "Error: need MAIL command", f"{RFC}/rfc5321#section-3.3", TO),
    _rule("one sender", 503, "Error: nested MAIL command", f"{RFC}/rfc5321#section-3.3", FROM, FROM),
    _rule("some recipient", 503, "Error: need RCPT command", f"{RFC}/rfc5321#section-3.3", FROM, "DATA"),
    _rule(
        "known mailbox",
        550,
        "5.1.1 <nobody@mail.test>: Recipient address rejected: User unknown in local recipient table",
        f"{RFC}/rfc5321#section-3.3; the words are those of {POSTFIX}",
        FROM,
        "RCPT TO:<nobody@mail.test>",
        adapter=f"{SMTP}: Refused",
    ),
    _rule(
        "way to a domain",
        554,
        "5.7.1 <ann@elsewhere.test>: Relay access denied",
        f"{POSTFIX}: reject_unauth_destination",
        FROM,
        "RCPT TO:<ann@elsewhere.test>",
        adapter=f"{SMTP}: Refused",
    ),
    _rule(
        "mail size",
        552,
        "Error: message size exceeds fixed maximum message size",
        f"{RFC}/rfc1870#section-6",
        f"{FROM} SIZE=33554433",
        limit=33_554_432,
        adapter=f"{SMTP}: Refused; channels/email/__init__.py: largest_file",
    ),
    _rule(
        "length of a line",
        500,
        "Line too long (see RFC5321 4.5.3.1.6)",
        f"{RFC}/rfc5321#section-4.5.3.1.6: 1,000 bytes with CR LF",
        FROM,
        TO,
        "DATA",
        b"x" * 1001 + b"\r\n.\r\n",
        limit=1000,
        adapter=f"{SMTP}: SMTP_POLICY",
    ),
    _rule(
        "length of a command",
        500,
        "Command line too long",
        f"{RFC}/rfc5321#section-4.5.3.1.4: 512 bytes",
        f"MAIL FROM:<{'x' * 600}@mail.test>",
        limit=512,
    ),
    _rule("known command", 500, 'Error: command "SHOUT" not recognized', f"{RFC}/rfc5321#section-4.2.4", "SHOUT"),
    _rule(
        "policy of a server",
        550,
        "5.7.1 not allowed",
        f"{RFC}/rfc3463#section-3.8",
        FROM,
        TO,
        "DATA",
        b"x: y\r\n\r\nz\r\n.\r\n",
        faults=["forbidden"],
        adapter=f"{SMTP}: Refused",
    ),
    _rule(
        "pace",
        450,
        "4.7.1 slow down",
        f"{RFC}/rfc3463#section-3.8: 4 in the first place is for later",
        FROM,
        TO,
        "DATA",
        b"x: y\r\n\r\nz\r\n.\r\n",
        faults=["rate_limit"],
        adapter=f"{SMTP}: Unavailable",
    ),
    _rule(
        "a server that is busy",
        451,
        "4.3.0 try again later",
        f"{RFC}/rfc3463#section-3.4",
        FROM,
        TO,
        "DATA",
        b"x: y\r\n\r\nz\r\n.\r\n",
        faults=["busy"],
        adapter=f"{SMTP}: Unavailable",
    ),
    _ask(
        "password of a mailbox",
        "NO [AUTHENTICATIONFAILED] Authentication failed.",
        f"{RFC}/rfc5530#section-3",
        "NOOP",
        password="wrong",
        adapter=f"{IMAP}: ChannelEnded",
    ),
    _ask(
        "known folder",
        "NO Mailbox doesn't exist: Nothing",
        f"{RFC}/rfc3501#section-6.3.1",
        "SELECT",
        "Nothing",
        adapter=IMAP,
    ),
    _ask(
        "folder of a copy",
        "NO [TRYCREATE] Mailbox doesn't exist: Nothing",
        f"{RFC}/rfc3501#section-6.3.11",
        "APPEND",
        "Nothing",
        "{0}",
    ),
    _ask(
        "form of a number",
        "BAD Error in IMAP command UID FETCH: Invalid uidset",
        f"{RFC}/rfc3501#section-9",
        "UID",
        "FETCH",
        "x",
        "(FLAGS)",
        adapter=IMAP,
    ),
    _ask(
        "number of a mail",
        "BAD Error in IMAP command FETCH: Invalid messageset",
        f"{RFC}/rfc3501#section-2.3.1.2",
        "FETCH",
        "99",
        "(FLAGS)",
        adapter=f"{IMAP}: by UID",
    ),
)
BY_NAME = index_rules(RULES)
