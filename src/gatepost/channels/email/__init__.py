"""E-mail: a mailbox read by IMAP, answers by SMTP. A person is a private room, a conversation of mails a thread.

The From of a mail proves nothing. A mail counts as the sender's only if our own mail server confirms it
(`authserv_id`); else its verb is `untrusted`.
"""

from enum import StrEnum

from gatepost.channels.contract import AddCheck, ChannelGuide, ChannelPace, declare_channel, make_ca_setting
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature


class MailSecurity(StrEnum):
    """How a connection to a mail server is protected."""

    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"  # to this machine only


ADDRESS = setting("channels.email.address", "", help="The bot's own address, bot@example.org.")
USER = setting("channels.email.user", "", help="The name to log in with; empty: the address.")
PASSWORD = setting("channels.email.password", "", help="The password of the mailbox.", secret=True)
NAME = setting("channels.email.name", "", help="The name that people see as the sender.")
IMAP_HOST = setting("channels.email.imap_host", "", help="The server that keeps the mailbox.")
IMAP_PORT = setting("channels.email.imap_port", 993, help="Its port.")
IMAP_SECURITY = setting(
    "channels.email.imap_security",
    MailSecurity.TLS.value,
    help="How the connection to it is protected; none is for this machine only.",
    choices=tuple(MailSecurity),
)
SMTP_HOST = setting("channels.email.smtp_host", "", help="The server that sends mail.")
SMTP_PORT = setting("channels.email.smtp_port", 465, help="Its port.")
SMTP_SECURITY = setting(
    "channels.email.smtp_security",
    MailSecurity.TLS.value,
    help="How the connection to it is protected; none is for this machine only.",
    choices=tuple(MailSecurity),
)
CA_FILE = make_ca_setting("email")
FOLDER = setting("channels.email.folder", "INBOX", help="The folder of the mailbox that is read.")
SENT_FOLDER = setting(
    "channels.email.sent_folder",
    "",
    help="The folder in which your mail server itself keeps what is sent through it, if it does.",
)
COPY = setting(
    "channels.email.copy",
    True,
    help="Each mail goes to the bot's own mailbox, too. By this copy a mail is found whose sending broke off.",
)
AUTHSERV_ID = setting(
    "channels.email.authserv_id",
    "",
    help="The name under which your mail server writes Authentication-Results; empty: no sender is trusted.",
)
LARGEST_MAIL = setting(
    "channels.email.largest_mail", 25 * 1024 * 1024, help="In bytes; only the head of a larger mail is read."
)
MOST_PER_HOUR = setting(
    "channels.email.most_per_hour", 60, help="So many mails go to one address in an hour; 0: no limit. It ends loops."
)
SUBJECT = setting("channels.email.subject", "A message for you", help="The subject of a mail that answers none.")

EMAIL = declare_channel(
    "email",
    "gatepost.channels.email.adapter:Email",
    features=frozenset(
        {
            Feature.REPLY,
            Feature.FILES,
            Feature.THREADS,
            Feature.MARKDOWN,
            Feature.LOOKUP,
            Feature.DIRECT,
            Feature.FORWARD,
        }
    ),
    settings=(
        ADDRESS,
        USER,
        PASSWORD,
        NAME,
        IMAP_HOST,
        IMAP_PORT,
        IMAP_SECURITY,
        SMTP_HOST,
        SMTP_PORT,
        SMTP_SECURITY,
        CA_FILE,
        FOLDER,
        SENT_FOLDER,
        COPY,
        AUTHSERV_ID,
        LARGEST_MAIL,
        MOST_PER_HOUR,
        SUBJECT,
    ),
    max_text=20_000,  # a longer mail is hard to read, and marked text is rendered up to here
    largest_file=15 * 1024 * 1024,  # as base64 it is a third larger, and many servers stop at 25 MB
    pace=ChannelPace(everywhere=1.0, room=0.2, burst=5),
    deaf_after_s=400.0,
    title="E-mail",
    verbs=frozenset({Verb.MESSAGE, Verb.REPLY, Verb.UNTRUSTED}),
    guide=ChannelGuide(
        before="Make a mailbox for the bot alone; it reads everything that comes there. For the name of your server "
        "in Authentication-Results, open the source of any mail in it.",
        after="Write a mail to the bot. Without `authserv_id` every sender is untrusted.",
        ask=(ADDRESS, PASSWORD, IMAP_HOST, SMTP_HOST, AUTHSERV_ID),
        optional=(AUTHSERV_ID,),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may read a mailbox",
    },
    tested_against="Postfix 3.7 with Dovecot 2.3, aiosmtpd 1.4",
    extra="email",
)
