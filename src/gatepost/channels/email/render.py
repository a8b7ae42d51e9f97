"""An answer as a mail. Pure but for reading its files."""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr
from pathlib import Path

from gatepost.channels.email.wire import (
    ANSWER_PREFIX,
    MESSAGE_ID,
    MOST_REFERENCES,
    ForwardedMail,
    MailHead,
    make_line,
    render_message_id,
)
from gatepost.messages.markdown.markup import MAIL_HTML, PLAIN, render
from gatepost.messages.outbound import Outbound, OutboundFile

LONGEST_SUBJECT = 200


def render_mail(
    message: Outbound, to: str, own: str, name: str, subject: str, answered: MailHead | None, now: int
) -> EmailMessage:
    """One recipient: the person of the room."""
    mail = _begin_mail(message, to, own, name, now)
    mail["Subject"] = render_subject(subject, answered)
    mail["Auto-Submitted"] = "auto-replied" if answered else "auto-generated"
    if references := render_references(message, answered):
        mail["In-Reply-To"] = f"<{references[-1]}>"
        mail["References"] = " ".join(f"<{each}>" for each in references)
    mail.set_content(render(message.text, PLAIN) or "\n", charset="utf-8", cte="quoted-printable")
    if message.text:
        mail.add_alternative(f"<html><body>{render(message.text, MAIL_HTML)}</body></html>", subtype="html")
    for file in message.files:
        _attach(mail, file)
    return mail


def render_forward(message: Outbound, to: str, own: str, name: str, passed: ForwardedMail, now: int) -> EmailMessage:
    """A mail passed on: the comment, who wrote what and when, and its words as they were, with its files."""
    mail, inbound = _begin_mail(message, to, own, name, now), passed.inbound
    subject = ANSWER_PREFIX.sub("", make_line(passed.subject), count=1)[:LONGEST_SUBJECT]
    mail["Subject"] = f"Fwd: {subject}".strip()
    mail["Auto-Submitted"] = "auto-generated"
    at = format_datetime(datetime.fromtimestamp(inbound.at / 1_000_000, UTC)) if inbound.at else ""
    author = formataddr((make_line(inbound.sender_name), inbound.sender.partition(":")[2]))
    lines = ["---------- Forwarded message ----------", f"From: {author}", f"Date: {at}", f"Subject: {subject}"]
    comment = render(message.text, PLAIN) if message.text else ""
    words = "\n\n".join(filter(None, (comment, "\n".join(lines), inbound.words)))
    mail.set_content(words, charset="utf-8", cte="quoted-printable")
    for file, data in passed.files:
        main, sub = _split_type(file.mime)
        mail.add_attachment(data, maintype=main, subtype=sub, filename=make_line(file.name) or "file")
    return mail


def _begin_mail(message: Outbound, to: str, own: str, name: str, now: int) -> EmailMessage:
    """It says that a program sent it, so that no other answers it."""
    mail = EmailMessage(policy=SMTP.clone(max_line_length=200))
    mail["Message-ID"] = f"<{render_message_id(message.key, own)}>"
    mail["Date"] = format_datetime(datetime.fromtimestamp(now / 1_000_000, UTC))
    mail["From"] = formataddr((make_line(name), own))
    mail["To"] = to
    mail["X-Auto-Response-Suppress"] = "All"
    return mail


def render_subject(subject: str, answered: MailHead | None) -> str:
    """That of the mail answered, with one `Re:`, however many it had."""
    if answered is None or not answered.subject:
        return make_line(subject)[:LONGEST_SUBJECT]
    return f"Re: {ANSWER_PREFIX.sub('', make_line(answered.subject), count=1)[:LONGEST_SUBJECT]}"


def render_references(message: Outbound, answered: MailHead | None) -> list[str]:
    """Oldest first; the last one is the mail answered. The first is kept, since it names the conversation."""
    last = message.reply_to or message.thread
    chain: Sequence[str] = (*answered.references, answered.message_id) if answered else (message.thread, last)
    known = [each for each in dict.fromkeys(chain) if each and MESSAGE_ID.match(each) and "@" in each]
    return known if len(known) <= MOST_REFERENCES else [known[0], *known[1 - MOST_REFERENCES :]]


def _split_type(mime: str) -> tuple[str, str]:
    main, _, sub = mime.partition("/")
    known = sub and (main + sub).replace("-", "").replace(".", "").replace("+", "").isalnum()
    return (main, sub) if known and main not in ("multipart", "message") else ("application", "octet-stream")


def _attach(mail: EmailMessage, file: OutboundFile) -> None:
    main, sub = _split_type(file.mime)
    name = make_line(file.name) or "file"
    mail.add_attachment(Path(file.path).read_bytes(), maintype=main, subtype=sub, filename=name)
