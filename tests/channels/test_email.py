"""E-mail: mails as our words, our words as mails, and who a mail is really from. Without a server."""

import email
import email.policy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imap_tools import MailboxLoginError

from gatepost.channels.contract import ChannelDeps, ChannelEnded
from gatepost.channels.email.adapter import Email
from gatepost.channels.email.imap import FetchedMail, read_errors
from gatepost.channels.email.mail_text import read_html, split_quote
from gatepost.channels.email.render import render_forward, render_mail
from gatepost.channels.email.sender_proof import is_proved, parse_address, read_sender
from gatepost.channels.email.wire import (
    HEADERS,
    MOST_PARAMETERS,
    ForwardedMail,
    MailHead,
    ReadMail,
    get_message_id,
    is_meant,
    read_mail,
    read_room,
    render_message_id,
)
from gatepost.core.errors import Unavailable
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.messages.inbound import Attachment, Inbound, Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.clock import FixedClock

BOT, US = "bot@example.org", "mx.example.org"
PROOF = "Authentication-Results: mx.example.org; dmarc=pass header.from=example.com\r\n"
HEAD = "From: Ann <ann@example.com>\r\nMessage-ID: <1@example.com>\r\n"


def read(raw: str | bytes, whole: bool = True) -> ReadMail:
    return read_mail(raw if isinstance(raw, bytes) else raw.encode(), BOT, US, "uid.1.1", whole)


def get(raw: str | bytes) -> Inbound:
    got = read(raw).inbound
    assert got is not None
    return got


def test_a_command_in_the_body_of_a_first_mail_stands_without_the_subject() -> None:
    mail = get(PROOF + HEAD + "Subject: enough\r\n\r\n/stop\r\n")
    assert (mail.heading, mail.words) == ("enough", "/stop")
    assert get(PROOF + HEAD + "Subject: paths\r\n\r\n/usr/bin is full\r\n").text == "paths\n\n/usr/bin is full"


def test_a_forwarded_mail_is_known_as_such() -> None:
    assert [get(PROOF + HEAD + f"Subject: {each}\r\n\r\n/stop\r\n").forwarded for each in ("Fwd: x", "Re: x")] == [
        True,
        False,
    ]


def test_a_mail_is_read() -> None:
    got = get(PROOF + HEAD + "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nhello\r\n")
    assert (got.address, got.sender, got.sender_name) == ("email:ann@example.com", "email:ann@example.com", "Ann")
    assert (got.platform_id, got.text, got.verb) == ("1@example.com", "Grüße\n\nhello", Verb.MESSAGE)
    assert (got.heading, got.words) == ("Grüße", "hello")
    assert got.direct and not got.own


def test_a_thread_is_named_by_the_mail_that_began_it() -> None:
    answer = "References: <root@x> <2@x>\r\nIn-Reply-To: <2@x>\r\nSubject: Re: it\r\n\r\nyes\r\n"
    got = get(PROOF + HEAD + answer)
    assert (got.thread, got.verb, got.text) == ("root@x", Verb.REPLY, "yes")
    assert got.reply_to is not None and got.reply_to.platform_id == "2@x"
    short = get(PROOF + HEAD + "In-Reply-To: <2@x>\r\n\r\nyes\r\n")
    assert short.thread == "2@x"


def test_each_first_mail_begins_a_conversation_of_its_own_that_its_answers_share() -> None:
    first = get(PROOF + HEAD + "Subject: one\r\n\r\nhello\r\n")
    other = get(PROOF + HEAD.replace("<1@", "<2@") + "Subject: two\r\n\r\nhello\r\n")
    assert (first.thread, other.thread) == ("1@example.com", "2@example.com")
    answer = get(PROOF + HEAD.replace("<1@", "<3@") + "In-Reply-To: <1@example.com>\r\n\r\nmore\r\n")
    assert answer.thread == first.thread


def results(*headers: str, sender: str = "Ann <ann@example.com>", more: tuple[str, ...] = ()) -> bool:
    return is_proved(read_sender([sender, *more]), headers, US)


@pytest.mark.parametrize(
    ("proved", "headers"),
    [
        (True, ("mx.example.org; dmarc=pass header.from=example.com",)),
        (True, ("mx.example.org 1; spf=pass smtp.mailfrom=ann@example.com; dkim=none",)),
        (True, ("MX.example.org; dkim=pass (good) header.d=example.com header.s=s",)),
        (True, ("mx.example.org; dkim=fail header.d=example.com; dkim=pass header.i=@example.com",)),
        (False, ()),
        (False, ("mx.example.org; none",)),
        (False, ("mx.example.org; dmarc=fail header.from=example.com; spf=pass smtp.mailfrom=example.com",)),
        (False, ("mx.example.org; dmarc=pass header.from=evil.test",)),
        (False, ("mx.example.org; dkim=pass header.d=evil.test; spf=pass smtp.mailfrom=x@evil.test",)),
        (False, ("mx.example.org; dkim=pass header.d=com",)),
        (False, ("mx.example.org; dkim=pass header.d=ample.com",)),
        (False, ("mx.evil.test; dmarc=pass header.from=example.com",)),
        (False, ("mx.evil.test; dmarc=pass", "mx.example.org; dmarc=pass header.from=example.com")),
        (False, ("mx.example.org; dmarc=fail", "mx.example.org; dmarc=pass header.from=example.com")),
        (False, ('mx.example.org; spf=fail smtp.mailfrom="x; dmarc=pass header.from=example.com"',)),
        (False, ("mx.example.org; spf=fail (x; dmarc=pass header.from=example.com)",)),
        (False, ("mx.example.org; dmarc=fail header.from=example.com; dmarc=pass header.from=example.com",)),
        (False, ("mx.example.org.evil.test; dmarc=pass header.from=example.com",)),
        (False, ("mx.example.org; x=" + "y" * 9000 + "; dmarc=pass",)),
    ],
)
def test_a_sender_is_proved_by_our_own_server_alone(proved: bool, headers: tuple[str, ...]) -> None:
    assert results(*headers) is proved


@pytest.mark.parametrize(
    "sender",
    [
        "ann@example.com, bob@evil.test",
        "ann@example.com <bob@evil.test>",
        "<ann@example.com> <bob@evil.test>",
        "<ann@example.com> bob@evil.test",
        "group: ann@example.com;",
    ],
)
def test_a_sender_that_can_be_read_in_two_ways_proves_nothing(sender: str) -> None:
    assert not results("mx.example.org; dmarc=pass", sender=sender)
    assert not results("mx.example.org; dmarc=pass header.from=example.com", more=("bob@evil.test",))


def test_without_the_servers_name_nobody_is_proved() -> None:
    mail = PROOF + HEAD + "\r\nhello\r\n"
    untold = read_mail(mail.encode(), BOT, "", "x").inbound
    assert untold is not None and untold.verb is Verb.UNTRUSTED


@pytest.mark.parametrize(
    "header",
    [
        "Auto-Submitted: auto-replied",
        "Precedence: bulk",
        "List-Id: <all.example.com>",
        "Return-Path: <>",
        'Content-Type: multipart/report; boundary="x"',
        "X-Autoreply: yes",
    ],
)
def test_what_a_program_sent_is_not_answered(header: str) -> None:
    got = read(f"{PROOF}{HEAD}{header}\r\n\r\nI am away\r\n")
    assert got.inbound is None and got.skipped


def test_a_report_of_a_mail_server_is_not_answered_and_a_person_is() -> None:
    assert read("From: MAILER-DAEMON@example.com\r\n\r\nfailed\r\n").inbound is None
    assert read(HEAD + "Auto-Submitted: no\r\n\r\nhello\r\n").inbound is not None
    assert read("Subject: nobody\r\n\r\nhello\r\n").skipped


def test_our_own_mails_are_known_as_ours() -> None:
    copy = get(f"From: {BOT}\r\nTo: ann@example.com\r\nAuto-Submitted: auto-replied\r\n\r\nhello\r\n")
    assert copy.own and copy.address == "email:ann@example.com"


def make_mail(*parts: tuple[str, str], kind: str = "mixed") -> str:
    body = "".join(f"--b\r\n{head}\r\n\r\n{text}\r\n" for head, text in parts)
    return f'{PROOF}{HEAD}Content-Type: multipart/{kind}; boundary="b"\r\n\r\n{body}--b--\r\n'


def test_of_alternatives_the_plain_text_is_read_and_html_where_there_is_no_other() -> None:
    both = make_mail(
        ("Content-Type: text/plain", "plain"), ("Content-Type: text/html", "<b>rich</b>"), kind="alternative"
    )
    assert get(both).text == "plain"
    rich = make_mail(
        ("Content-Type: text/plain", " "), ("Content-Type: text/html", "<b>rich</b> text"), kind="alternative"
    )
    assert get(rich).text == "rich text"


async def fetch(attachment: Attachment) -> bytes:
    assert attachment.open is not None
    return b"".join([chunk async for chunk in attachment.open()])


async def test_files_have_names_and_calendars_are_left_out() -> None:
    got = get(
        make_mail(
            ("Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable", "sch=F6n"),
            ("Content-Type: image/png\r\nContent-ID: <pic>\r\nContent-Transfer-Encoding: base64", "AAEC"),
            ('Content-Type: text/csv\r\nContent-Disposition: attachment; filename="=?utf-8?b?w6QuY3N2?="', "1,2"),
            ("Content-Type: text/calendar", "BEGIN:VCALENDAR"),
            ("Content-Type: message/rfc822", "Subject: inner\r\n\r\nwords"),
        )
    )
    assert got.text == "schön"
    assert [(each.name, each.mime) for each in got.attachments] == [
        ("file-1", "image/png"),
        ("ä.csv", "text/csv"),
        ("mail-3.eml", "message/rfc822"),
    ]
    assert await fetch(got.attachments[0]) == b"\x00\x01\x02" and b"inner" in await fetch(got.attachments[2])


async def test_a_table_that_lies_beside_the_words_is_a_file_and_no_text() -> None:
    got = get(make_mail(("Content-Type: text/plain", "see the figures"), ("Content-Type: text/csv", "a;b\r\n1;2")))
    assert got.text == "see the figures"
    (table,) = got.attachments
    assert (table.name, table.mime) == ("file-1.csv", "text/csv") and (await fetch(table)).startswith(b"a;b")


def test_an_unknown_charset_and_a_deep_mail_do_no_harm() -> None:
    assert get(HEAD + "Content-Type: text/plain; charset=nonsense\r\n\r\nhello\r\n").text == "hello"
    deep = HEAD + "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\r\n\r\n--b{n}\r\n' for n in range(60))
    assert get(deep + "\r\nend\r\n") is not None


def test_a_mail_of_very_many_parts_is_not_taken_apart() -> None:
    parts = "".join("--b\r\n\r\nx\r\n" for _ in range(50_000))
    got = get(PROOF + HEAD + "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + parts)
    assert "too many parts" in got.text and got.attachments == ()


def test_a_large_mail_of_a_sender_whom_nobody_proves_is_read_by_its_head_alone() -> None:
    words = "Subject: hello\r\n\r\n" + "word " * 300_000
    stranger, known = get(HEAD + words), get(PROOF + HEAD + words)
    assert stranger.verb is Verb.UNTRUSTED and "no mail server proves" in stranger.text
    assert stranger.text.startswith("hello") and known.text.count("word") > 50_000


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("[AUTHENTICATIONFAILED] Authentication failed.", ChannelEnded),
        ("[ALERT] Application-specific password required (Failure)", ChannelEnded),
        ("[UNAVAILABLE] Temporary authentication failure.", Unavailable),
        ("[ALERT] Too many simultaneous connections. (Failure)", Unavailable),
        ("[LIMIT] Too many logins from here", Unavailable),
        ("[INUSE] the mailbox is locked", Unavailable),
    ],
)
def test_a_log_in_that_is_refused_for_a_while_is_no_wrong_password(said: str, expected: type[Exception]) -> None:
    with pytest.raises(expected), read_errors("mail.test"):
        raise MailboxLoginError(("NO", [said.encode()]), "OK")


def test_html_becomes_what_people_read() -> None:
    page = "<html><head><title>x</title></head><body><p>One &amp; two</p><script>evil()</script>"
    page += "<ul><li>a<li>b</ul>1 < 2<!-- no --></body>"
    assert read_html(page) == "One & two\n\n- a\n- b\n1 < 2"


@pytest.mark.parametrize("piece", ["<", "<!--", "<script>", "<a ", "<p>", "&", "</", "<!"])
def test_html_without_end_is_read_in_linear_steps(piece: str) -> None:
    """A search that began anew for each piece would take minutes here."""
    read_html(piece * 200_000)


@pytest.mark.parametrize("name", ["Content-Type: text/plain; charset", "Content-Disposition: inline; filename"])
def test_a_header_keeps_few_parameters_however_many_were_written(name: str) -> None:
    """The library's time grows with the square of their number."""
    raw = f'{HEAD}{name}="{";" * 2_000_000}"\r\n\r\nhello'
    mail = email.message_from_bytes(raw.encode(), policy=HEADERS)
    assert all(str(value).count(";") < MOST_PARAMETERS for value in mail.values())
    assert get(raw).text or get(raw).attachments


def test_a_boundary_and_a_name_are_still_read() -> None:
    raw = make_mail(
        ('Content-Type: text/plain; charset="utf-8"', "hello"), ('Content-Type: image/png; name="a;b.png"', "x")
    )
    got = get(raw)
    assert (got.text, [each.name for each in got.attachments]) == ("hello", ["a;b.png"])


def test_words_behind_a_hidden_element_are_whole_whatever_letters_stand_before_it() -> None:
    """`İ`.lower() has two signs, so places in the lowered text are not those of the text."""
    assert read_html("<p>" + "İ" * 20 + "</p><style>p {}</STYLE>pay 100 to Ann") == "İ" * 20 + "\npay 100 to Ann"


def test_a_forged_copy_of_a_mail_that_comes_first_does_not_hide_the_genuine_one() -> None:
    """Whoever was written to as well knows the Message-ID. A repetition of a copy is still one."""
    forged, genuine = get(HEAD + "\r\npay Eve"), get(PROOF + HEAD + "\r\nplease deploy")
    assert (forged.verb, genuine.verb, genuine.platform_id) == (Verb.UNTRUSTED, Verb.MESSAGE, "1@example.com")
    unproved = get(HEAD + "\r\nplease deploy")
    ids = {each.platform_id for each in (forged, genuine, unproved)}
    assert len(ids) == 3 and {get_message_id(each) for each in ids} == {"1@example.com"}
    assert get(HEAD + "\r\npay Eve").platform_id == forged.platform_id


def test_what_a_mail_quotes_is_taken_off_and_an_answer_between_the_lines_stays() -> None:
    mail = "Yes.\n\nOn Mon, 2 Nov 2026, Bot <bot@example.org> wrote:\n> Shall I?\n> Now?\n"
    assert split_quote(mail) == ("Yes.", "Shall I?\nNow?")
    between = "> Shall I?\nYes.\n> Now?\nNo."
    assert split_quote(between) == (between, "")
    assert split_quote("> only a quote") == ("> only a quote", "")


@pytest.mark.parametrize(
    "introduction",
    [
        "On Mon, Nov 2, 2026 at 10:15 AM The Bot With A Long Name\n<bot@example.org> wrote:",
        "On Mon, 2 Nov 2026 at 10:15,\nThe Bot With A Long Name\n<bot@example.org> wrote:",
        "Am Mo., 2. Nov. 2026 um 10:15 Uhr schrieb The Bot <\nbot@example.org>:",
        "The Bot wrote:",
        "The Bot schrieb:",
        "Le lun. 2 nov. 2026 à 10:15, Bot <bot@example.org> a écrit :",
    ],
)
def test_the_line_that_introduces_a_quote_is_taken_off_whole(introduction: str) -> None:
    assert split_quote(f"Yes: do it.\n\n{introduction}\n> Shall I?") == ("Yes: do it.", "Shall I?")
    assert split_quote(f"Yes.\n{introduction}\n\n> Shall I?") == ("Yes.", "Shall I?")


def test_a_line_that_only_ends_like_an_introduction_stays() -> None:
    assert split_quote("Two things, as you said:\n> a\n> b") == ("Two things, as you said:", "a\nb")


@pytest.mark.parametrize(
    "divider",
    [
        "-----Original Message-----\nFrom: Bot\nSent: Monday\n",
        "________________________________\nFrom: Bot <bot@example.org>\nSent: Monday\nTo: Ann\nSubject: it\n",
        "-------- Ursprüngliche Nachricht --------\nVon: Bot\n",
    ],
)
def test_what_outlook_quotes_below_a_divider_is_taken_off(divider: str) -> None:
    new, quoted = split_quote(f"Yes.\n\n{divider}\nShall I?")
    assert new == "Yes." and quoted.endswith("Shall I?")


@given(st.binary(max_size=400))
def test_no_mail_breaks_the_reading(raw: bytes) -> None:
    got = read(b"From: ann@example.com\r\n" + raw).inbound
    assert got is None or got.address.startswith("email:")


@pytest.mark.parametrize(
    "bad", ["", "ann", "a b@x.org", "a@x.org\nBcc: b@x.org", "a/b@x.org", "ä@x.org", "a@-x.org", "a@b..c"]
)
def test_what_is_no_address_is_none(bad: str) -> None:
    assert parse_address(bad) == "" and read_room(f"email:{bad}") == ""


def render(message: Outbound, answered: MailHead | None = None, name: str = "Bot", subject: str = "News") -> Any:
    mail = render_mail(message, "ann@example.com", BOT, name, subject, answered, 1_700_000_000_000_000)
    return email.message_from_bytes(mail.as_bytes(), policy=email.policy.default)


def test_an_answer_keeps_subject_and_thread() -> None:
    head = MailHead(message_id="2@x", subject="Re: AW: the plan", references=("root@x",))
    mail = render(Outbound(key="k", text="yes", reply_to="2@x", thread="root@x"), head)
    assert (mail["Subject"], mail["In-Reply-To"], mail["References"]) == ("Re: the plan", "<2@x>", "<root@x> <2@x>")
    assert mail["Message-ID"] == f"<{render_message_id('k', BOT)}>" and mail["Auto-Submitted"] == "auto-replied"
    long = MailHead(message_id="z@x", references=tuple(f"{n}@x" for n in range(100)))
    chain = render(Outbound(key="k", text="yes", reply_to="z@x"), long)["References"].split()
    assert (chain[0], chain[-1], len(chain)) == ("<0@x>", "<z@x>", 20)


def test_no_word_of_anybody_becomes_a_header() -> None:
    evil = "x\r\nBcc: victim@example.net\r\n\r\nbody"
    head = MailHead(message_id="2@x", subject=evil, references=("a@x>\r\nBcc: v@x",))
    mail = render(Outbound(key=evil, text="hi", reply_to=evil, thread=evil), head, name=evil, subject=evil)
    assert "Bcc" not in mail and mail["To"] == "ann@example.com" and mail["References"] == "<2@x>"


def test_a_file_goes_along_under_a_safe_name(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"\x00\x01")
    file = OutboundFile(name='a"\r\nX: y.bin', mime="text/html\r\nX: y", path=str(tmp_path / "0"), size=2)
    mail = render(Outbound(key="k", text="see", files=(file,)))
    (part,) = mail.iter_attachments()
    assert part.get_payload(decode=True) == b"\x00\x01" and part.get_content_type() == "application/octet-stream"
    assert "X" not in part and "X" not in mail


async def test_a_mail_is_passed_on_with_its_author_its_words_and_its_files() -> None:
    raw = make_mail(("Content-Type: text/plain", "see *these*"), ("Content-Type: text/csv", "a;b"))
    read_in = read(raw.replace("Content-Type: multipart", "Subject: Re: The plan\r\nContent-Type: multipart"))
    assert read_in.inbound is not None
    (table,) = read_in.inbound.attachments
    passed = ForwardedMail(subject=read_in.head.subject, inbound=read_in.inbound, files=((table, await fetch(table)),))
    message = Outbound(key="k", op=Op.FORWARD, text="**look**", target="1@example.com")
    made = render_forward(message, "bob@example.com", BOT, "Bot", passed, 1_700_000_000_000_000)
    mail = email.message_from_bytes(made.as_bytes(), policy=email.policy.default)
    assert (mail["Subject"], mail["To"], mail["In-Reply-To"]) == ("Fwd: The plan", "bob@example.com", None)
    words = mail.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert words.startswith("look") and "From: Ann <ann@example.com>" in words and "see *these*" in words
    (part,) = mail.iter_attachments()
    assert part.get_filename() == "file-1.csv"


def test_a_forged_mail_with_the_id_of_another_is_not_passed_on_in_its_place() -> None:
    genuine, forged = read(PROOF + HEAD + "\r\nplease deploy"), read(HEAD + "\r\npay Eve")
    assert is_meant(genuine, "1@example.com", "email:ann@example.com")
    assert not is_meant(forged, "1@example.com", "email:ann@example.com")
    assert not is_meant(genuine, "1@example.com", "email:bob@example.com")


class Folder:
    """A mailbox with one mail, that which is delivered next."""

    validity = 1

    def __init__(self, raw: str) -> None:
        self.raw = raw

    def fetch(self, uid: int, largest: int) -> FetchedMail:
        return FetchedMail(self.raw.encode(), True)

    def set_flag(self, uid: int, flag: str, on: bool) -> None:
        """It is read."""


async def test_nobody_words_the_subject_of_an_answer_to_somebody_else_by_the_id_of_their_mail() -> None:
    """Whoever was written to as well knows the id, and may write a mail of their own under it."""
    config = Config({"channels.email.address": BOT, "channels.email.authserv_id": US})
    channel = Email(ChannelDeps(instance="email", config=config, clock=FixedClock()))

    async def receive(event: Inbound) -> None:
        assert event.sender

    genuine = PROOF + HEAD + "Subject: The plan\r\n\r\nhello\r\n"
    other = genuine.replace("Ann <ann@", "Mal <mal@").replace("The plan", "Your account is locked")
    with ThreadPoolExecutor(1) as thread:
        for raw in (genuine, other, other.removeprefix(PROOF)):
            await channel._receive_mail(thread, Folder(raw), 1, receive)  # type: ignore[arg-type]
    answered = await channel._find_answered("ann@example.com", Outbound(key="k", text="x", thread="1@example.com"))
    assert answered is not None and answered.subject == "The plan"


async def test_an_answer_in_a_thread_is_a_reply_to_the_persons_newest_mail_there() -> None:
    config = Config({"channels.email.address": BOT, "channels.email.authserv_id": US})
    channel = Email(ChannelDeps(instance="email", config=config, clock=FixedClock()))

    async def receive(event: Inbound) -> None:
        assert event.sender

    first = PROOF + HEAD + "Subject: The plan\r\n\r\nhello\r\n"
    second = first.replace("<1@", "<2@").replace("Subject: ", "In-Reply-To: <1@example.com>\r\nSubject: Re: ")
    forged = second.replace("<2@", "<3@").removeprefix(PROOF)
    with ThreadPoolExecutor(1) as thread:
        for raw in (first, second, forged):
            await channel._receive_mail(thread, Folder(raw), 1, receive)  # type: ignore[arg-type]
    message = Outbound(key="k", text="x", thread="1@example.com")
    answered = await channel._find_answered("ann@example.com", message)
    assert answered is not None and answered.message_id == "2@example.com"
    earlier = await channel._find_answered("ann@example.com", replace(message, reply_to="1@example.com"))
    assert earlier is not None and earlier.message_id == "1@example.com"
