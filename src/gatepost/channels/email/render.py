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
    MailHead,
    make_line,
    render_message_id,
)
from gatepost.channels.kit.markup import MAIL_HTML, PLAIN, render
from gatepost.messages.outbound import Outbound, OutboundFile

LONGEST_SUBJECT = 200


def render_mail(
    message: Outbound, to: str, own: str, name: str, subject: str, answered: MailHead | None, now: int
) -> EmailMessage:
    """One recipient: the person of the room. It says that a program sent it, so that no other answers it."""
    mail = EmailMessage(policy=SMTP.clone(max_line_length=200))
    mail["Message-ID"] = f"<{render_message_id(message.key, own)}>"
    mail["Date"] = format_datetime(datetime.fromtimestamp(now / 1_000_000, UTC))
    mail["From"] = formataddr((make_line(name), own))
    mail["To"] = to
    mail["Subject"] = render_subject(subject, answered)
    mail["Auto-Submitted"] = "auto-replied" if answered else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    if references := render_references(message, answered):
        mail["In-Reply-To"] = f"<{references[-1]}>"
        mail["References"] = " ".join(f"<{each}>" for each in references)
    mail.set_content(render(message.text, PLAIN) or "\n", charset="utf-8", cte="quoted-printable")
    if message.text:
        mail.add_alternative(f"<html><body>{render(message.text, MAIL_HTML)}</body></html>", subtype="html")
    for file in message.files:
        _attach(mail, file)
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


def _attach(mail: EmailMessage, file: OutboundFile) -> None:
    main, _, sub = file.mime.partition("/")
    if not sub or not (main + sub).replace("-", "").replace(".", "").replace("+", "").isalnum():
        main, sub = "application", "octet-stream"
    if main in ("multipart", "message"):
        main, sub = "application", "octet-stream"
    name = make_line(file.name) or "file"
    mail.add_attachment(Path(file.path).read_bytes(), maintype=main, subtype=sub, filename=name)
