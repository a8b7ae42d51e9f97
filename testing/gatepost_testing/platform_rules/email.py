"""Refusals of mail servers: replies of SMTP by their code, and of IMAP by NO or BAD, with the words of Dovecot.

The words of SMTP are those of Postfix, or of the RFC where Postfix leaves a refusal to its settings.
"""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

RFC = "https://www.rfc-editor.org/rfc"
READ = "2026-11-18"
POSTFIX = "https://github.com/vdukhovni/postfix/blob/v3.7.9/postfix/src"  # a mirror of its releases
DOVECOT = "https://github.com/dovecot/core/blob/2.3.19.1/src"
SMTP = "channels/email/smtp.py"
IMAP = "channels/email/imap.py"
FROM, TO = "MAIL FROM:<bot@mail.test>", "RCPT TO:<ann@mail.test>"


def _rule(name: str, status: int, refusal: str, source: str, *lines: str | bytes, **more: Any) -> PlatformRule:
    """`lines`: those of SMTP after the log-in; the last is refused."""
    given = {"$lines": list(lines), **{f"${each}": more.pop(each) for each in ("bare", "faults") if each in more}}
    return PlatformRule(
        name=name, status=status, refusal=refusal, source=source, call=("SMTP", given), read_on=READ, **more
    )


def _ask(name: str, refusal: str, source: str, *words: str, **more: Any) -> PlatformRule:
    """`words`: a command of IMAP in a mailbox that is selected. IMAP has no statuses."""
    given = {"$words": list(words), **{f"${each}": more.pop(each) for each in ("password",) if each in more}}
    return PlatformRule(name=name, status=0, refusal=refusal, source=source, call=("IMAP", given), read_on=READ, **more)


RULES = (
    _rule(
        "log-in before mails",
        530,
        "5.7.0 Authentication required",
        f"{RFC}/rfc4954#section-6: for every command but those of a log-in",
        FROM,
        bare=True,
        adapter=f"{SMTP}: NO_LOGIN",
    ),
    _rule(
        "password",
        535,
        "5.7.8 Authentication credentials invalid",
        f"{RFC}/rfc4954#section-6; {POSTFIX}/smtpd/smtpd_sasl_glue.c: the same code",
        "AUTH PLAIN AGJvdAB3cm9uZw==",
        bare=True,
        adapter=f"{SMTP}: _make_token_error",
    ),
    _rule(
        "known mechanism",
        504,
        "5.5.4 Unrecognized authentication type",
        f"{RFC}/rfc4954#section-4: 504 and 5.5.4",
        "AUTH NTLM",
        bare=True,
    ),
    _rule(
        "a log-in for later",
        454,
        "4.7.0 Temporary authentication failure: Connection lost to authentication server",
        f"{RFC}/rfc4954#section-6: nobody is to be asked for another password; {POSTFIX}/smtpd/smtpd_sasl_glue.c",
        "AUTH PLAIN AGxhdGVyAHg=",
        bare=True,
        adapter=f"{SMTP}: open_smtp",
    ),
    _rule(
        "owner of an address",
        553,
        "5.7.1 <bot@mail.test>: Sender address rejected: not owned by user bot",
        f"{POSTFIX}/smtpd/smtpd_check.c: reject_sender_login_mismatch",
        FROM,
        faults=["no_rights"],
        adapter=f"{SMTP}: check_sender",
    ),
    _rule("sender before recipients", 503, "5.5.1 Error: need MAIL command", f"{POSTFIX}/smtpd/smtpd.c", TO),
    _rule("one sender", 503, "5.5.1 Error: nested MAIL command", f"{POSTFIX}/smtpd/smtpd.c", FROM, FROM),
    _rule("some recipient", 554, "5.5.1 Error: no valid recipients", f"{POSTFIX}/smtpd/smtpd.c", FROM, "DATA"),
    _rule(
        "known mailbox",
        550,
        "5.1.1 <nobody@mail.test>: Recipient address rejected: User unknown in local recipient table",
        f"{RFC}/rfc5321#section-4.2.3: 550; {POSTFIX}/smtpd/smtpd_check.c",
        FROM,
        "RCPT TO:<nobody@mail.test>",
        adapter=f"{SMTP}: Refused",
    ),
    _rule(
        "way to a domain",
        554,
        "5.7.1 <ann@elsewhere.test>: Relay access denied",
        f"{POSTFIX}/smtpd/smtpd_check.c: reject_unauth_destination",
        FROM,
        "RCPT TO:<ann@elsewhere.test>",
        adapter=f"{SMTP}: Refused",
    ),
    _rule(
        "mail size",
        552,
        "5.3.4 Message size exceeds fixed limit",
        f"{RFC}/rfc5321#section-4.5.3.1.9: 552; {POSTFIX}/smtpd/smtpd_check.c, whose limit is 10,240,000 if unset",
        f"{FROM} SIZE=33554433",
        limit=33_554_432,
        adapter=f"{SMTP}: Refused; channels/email/__init__.py: largest_file",
    ),
    _rule(
        "length of a line",
        500,
        "Line too long.",
        f"{RFC}/rfc5321#section-4.5.3.1.6: 1,000 bytes with CR LF; section 4.5.3.1.9 has the words; Postfix takes more",
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
        "Line too long.",
        f"{RFC}/rfc5321#section-4.5.3.1.4: 512 bytes; section 4.5.3.1.9 has the words; Postfix takes more",
        f"MAIL FROM:<{'x' * 600}@mail.test>",
        limit=512,
    ),
    _rule(
        "known command",
        500,
        "5.5.2 Error: command not recognized",
        f"{RFC}/rfc5321#section-4.2.4: 500; {POSTFIX}/smtpd/smtpd.c",
        "SHOUT",
    ),
    _rule(
        "policy of a server",
        550,
        "5.7.1 Error: message content rejected",
        f"{RFC}/rfc5321#section-4.3.2: 550 after DATA is of a policy; {POSTFIX}/global/cleanup_strerror.c",
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
        "4.7.1 Error: too much mail from 127.0.0.1",
        f"{POSTFIX}/smtpd/smtpd.c: smtpd_client_message_rate_limit",
        FROM,
        faults=["rate_limit"],
        adapter=f"{SMTP}: Unavailable",
    ),
    _rule(
        "a server that is busy",
        451,
        "4.3.0 Error: queue file write error",
        f"{RFC}/rfc5321#section-4.2.5: the mail is still ours to send; {POSTFIX}/global/cleanup_strerror.c",
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
        f"{DOVECOT}/imap-login/client-authenticate.c; a server that cannot tell now says UNAVAILABLE",
        "NOOP",
        password="wrong",
        adapter=f"{IMAP}: ChannelEnded",
    ),
    _ask(
        "known folder",
        "NO Mailbox doesn't exist: Nothing",
        f"{RFC}/rfc3501#section-6.3.1: NO; {DOVECOT}/lib-storage/mail-error.h",
        "SELECT",
        "Nothing",
        adapter=IMAP,
    ),
    _ask(
        "folder of a copy",
        "NO [TRYCREATE] Mailbox doesn't exist: Nothing",
        f"{DOVECOT}/imap/imap-commands-util.c",
        "APPEND",
        "Nothing",
        "{0}",
    ),
    _ask(
        "form of a number",
        "BAD Error in IMAP command UID FETCH: Invalid uidset",
        f"{DOVECOT}/imap/imap-search-args.c; imap/imap-client.c",
        "UID",
        "FETCH",
        "x",
        "(FLAGS)",
        adapter=IMAP,
    ),
    _ask(
        "number of a mail",
        "BAD Error in IMAP command FETCH: Invalid messageset",
        f"{DOVECOT}/imap/imap-search-args.c; imap/imap-client.c",
        "FETCH",
        "99",
        "(FLAGS)",
        adapter=f"{IMAP}: by UID",
    ),
)
BY_NAME = index_rules(RULES)
