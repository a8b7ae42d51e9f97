"""A mail as our own words. Pure: bytes in, values out. Runs in a thread, since a mail may be large."""

import asyncio
import email
import hashlib
import mimetypes
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Compat32
from email.utils import parsedate_to_datetime

from msgspec import Struct

from gatepost.channels.email.mail_text import read_html, split_quote, tidy
from gatepost.channels.email.sender_proof import LONGEST_HEADER, MailSender, is_proved, parse_address, read_sender
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, Quote, Verb

MESSAGE_ID = re.compile(r"[!-;=?-~]{1,240}\Z")  # printable, without angle brackets
MOST_PARTS, MOST_FILES, MOST_REFERENCES = 200, 50, 20
LONGEST_TEXT = 400_000
LONGEST_NAME = 200
LONGEST_CODED = 1000  # of a name or moment as it is written
MOST_PARAMETERS = 50  # of a header, such as charset and boundary
CHUNK = 256 * 1024
LARGEST_HEAD = 256 * 1024  # bytes
LARGEST_UNPROVED = 1024 * 1024  # bytes of a mail of which nobody proves the sender
MOST_BOUNDARIES = 1000  # lines that may part a mail: of a signature, a table or a patch, too
TOO_LARGE = "[The mail is too large to be read.]"
TOO_LARGE_UNPROVED = "[The mail is too large to be read from a sender whom no mail server proves.]"
TOO_MANY_PARTS = "[The mail has too many parts to be read.]"
_HEAD_END = re.compile(rb"\r?\n\r?\n")
MACHINES = re.compile(r"(mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)([+.-][^@]*)?@")
_ID = re.compile(r"<([^<>\s]{1,240})>")
ANSWER_PREFIX = re.compile(r"(?:(?:re|aw|sv|antw|fwd?|wg)(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)
FORWARD_PREFIX = re.compile(r"(?:fwd?|wg)(?:\[\d+\])?\s*:", re.IGNORECASE)
WORDS = frozenset({"text/plain", "text/html", "text/markdown", "text/enriched"})  # other text, such as csv, is a file


class BoundedHeaders(Compat32):
    """The library's usual reading, of headers with few parameters. It counts the quotation marks anew for each
    semicolon, so one mail with a long header, or many parts with shorter ones, would hold it up for minutes."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        if name.strip().lower().startswith("content-"):
            value = ";".join(value[:LONGEST_HEADER].split(";", MOST_PARAMETERS)[:MOST_PARAMETERS])
        return name, value


HEADERS = BoundedHeaders()


class MailHead(Struct, frozen=True, kw_only=True):
    """Facts of a mail that an answer needs."""

    message_id: str
    subject: str = ""
    references: tuple[str, ...] = ()  # oldest first, without the mail itself

    @property
    def thread(self) -> str:
        """The id of the mail with which the conversation began. Each first mail begins one."""
        return self.references[0] if self.references else self.message_id


class ReadMail(Struct, frozen=True, kw_only=True):
    """`skipped`: why it is not for us, '' if it is."""

    head: MailHead
    inbound: Inbound | None = None
    skipped: str = ""


class ForwardedMail(Struct, frozen=True, kw_only=True):
    """A mail that is passed on, with the bytes of its files."""

    subject: str
    inbound: Inbound
    files: tuple[tuple[Attachment, bytes], ...] = ()


def is_meant(read: ReadMail | None, target: str, room: str) -> bool:
    """Return True for the mail that the ledger knows by this id in this room. Others may bear the same id: a forged
    copy has words of its own, and so another id here."""
    inbound = read.inbound if read is not None else None
    return inbound is not None and (inbound.platform_id, inbound.address) == (target, room)


def get_address(person: str) -> str:
    return f"email:{person}"


def read_mail(raw: bytes, own: str, authserv_id: str, fallback_id: str, whole: bool = True) -> ReadMail:
    """`fallback_id`: for a mail without a usable id. `whole`: False if only its head was fetched.

    The head is read first: what a program sent is not read further, and what nobody proves is read up to a size.
    """
    mail = email.message_from_bytes(_cut_head(raw), policy=HEADERS)
    head = read_head(mail, fallback_id)
    sender = find_sender(mail)
    if not sender.address:
        return ReadMail(head=head, skipped="it has no sender that could be answered")
    if sender.address != own and (why := find_machine(mail, sender)):
        return ReadMail(head=head, skipped=why)
    proved = is_proved(sender, _list_headers(mail, "Authentication-Results"), authserv_id)
    text, files = _read_body(raw, proved=proved) if whole else (TOO_LARGE, ())
    answered = find_ids(_get_header(mail, "In-Reply-To"))
    answers = bool(answered or ANSWER_PREFIX.match(head.subject)) and not FORWARD_PREFIX.match(head.subject)
    text, quoted = split_quote(text) if answers else (text.strip(), "")  # else the quote is the matter itself
    quote = Quote(platform_id=answered[0], text=quoted) if answered else None
    heading = "" if quote else _get_heading(head, text)
    own_words = sender.address == own  # a copy of what we sent, or somebody who says so
    room = read_sender(_list_headers(mail, "To")).address if own_words else sender.address
    inbound = Inbound(
        address=get_address(room or own),
        platform_id=head.message_id if proved or own_words else mark_unproved(head.message_id, text),
        sender=get_address(sender.address),
        sender_name=decode_words(sender.name)[:LONGEST_NAME] or sender.address,
        text="\n\n".join(filter(None, (heading, text))),
        heading=heading,
        verb=Verb.UNTRUSTED if not proved else Verb.REPLY if quote else Verb.MESSAGE,
        thread=head.thread,
        direct=True,
        own=own_words,
        forwarded=FORWARD_PREFIX.match(head.subject) is not None,
        at=_read_moment(mail),
        reply_to=quote,
        attachments=files,
        extra={"subject": head.subject[:LONGEST_NAME]} if head.subject else {},
    )
    return ReadMail(head=head, inbound=inbound)


def mark_unproved(message_id: str, text: str) -> str:
    """Make the id of an unproved mail from its id and its text.

    Another recipient knows the id of a mail. Without the text in it, a forged copy that comes first would make the
    genuine mail look like a repetition.
    """
    return f"{message_id} {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"


def get_message_id(platform_id: str) -> str:
    """The id as it stands in the mail, which has no blank."""
    return platform_id.partition(" ")[0]


def _get_heading(head: MailHead, text: str) -> str:
    """Return the subject if it says something: people put half of what they want into it."""
    return "" if ANSWER_PREFIX.match(head.subject) or text.startswith(head.subject) else head.subject


def read_head(mail: Message, fallback_id: str) -> MailHead:
    own = find_ids(_get_header(mail, "Message-ID"))
    references = find_ids(_get_header(mail, "References")) or find_ids(_get_header(mail, "In-Reply-To"))[:1]
    return MailHead(
        message_id=own[0] if own else fallback_id,
        subject=make_line(decode_words(_get_header(mail, "Subject"))),
        references=tuple(dict.fromkeys(references)),
    )


def find_sender(mail: Message) -> MailSender:
    return read_sender(_list_headers(mail, "From"))


def find_ids(text: str) -> list[str]:
    return [each for each in _ID.findall(text[:LONGEST_HEADER]) if MESSAGE_ID.match(each)]


def find_machine(mail: Message, sender: MailSender) -> str:
    """Why a mail must not be answered: a program wrote it, and could answer the answer. '' if a person did."""
    submitted = _get_header(mail, "Auto-Submitted").strip().lower()
    if submitted and not submitted.startswith("no"):
        return "a program sent it (Auto-Submitted)"
    if _get_header(mail, "Precedence").strip().lower() in ("bulk", "junk", "list", "auto_reply"):
        return "it is sent to many (Precedence)"
    for name in ("List-Id", "List-Unsubscribe", "X-Autoreply", "X-Autorespond", "X-Failed-Recipients"):
        if name in mail:
            return f"a list or a program sent it ({name})"
    if "Return-Path" in mail and _get_header(mail, "Return-Path").strip() in ("<>", ""):
        return "it is a report of a mail server (empty return path)"
    if mail.get_content_type() == "multipart/report":
        return "it is a report of a mail server"
    return "a program sent it (its address)" if MACHINES.match(sender.address) else ""


def _list_headers(mail: Message, name: str) -> list[str]:
    return [_unfold(each) for each in mail.get_all(name, [])]


def _get_header(mail: Message, name: str) -> str:
    return _unfold(mail.get(name, ""))


def _unfold(value: object) -> str:
    return re.sub(r"\r?\n", "", str(value))


def decode_words(text: str) -> str:
    """`=?utf-8?q?…?=` as what it says."""
    text = text[:LONGEST_HEADER]
    if "=?" not in text:
        return text
    try:
        return str(make_header(decode_header(text)))
    except (HeaderParseError, LookupError, ValueError):
        return text


def make_line(text: str) -> str:
    """One line without signs that could end a header or turn the reading around."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def _read_moment(mail: Message) -> int | None:
    try:
        at = int(parsedate_to_datetime(_get_header(mail, "Date")[:LONGEST_CODED]).timestamp() * 1_000_000)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return at if 0 < at < 1 << 53 else None


def _cut_head(raw: bytes) -> bytes:
    """Return the head of a mail, up to its empty line or to a size."""
    found = _HEAD_END.search(raw, 0, LARGEST_HEAD)
    return raw[: found.end() if found is not None else LARGEST_HEAD]


def _read_body(raw: bytes, *, proved: bool) -> tuple[str, tuple[Attachment, ...]]:
    """Reading costs by the line and by the part, so that a small mail can be much work: what has too many parts is not
    read at all."""
    if not proved and len(raw) > LARGEST_UNPROVED:
        return TOO_LARGE_UNPROVED, ()
    if raw.count(b"\n--") > MOST_BOUNDARIES:
        return TOO_MANY_PARTS, ()
    return _read_content(email.message_from_bytes(raw, policy=HEADERS))


def _read_content(mail: Message) -> tuple[str, tuple[Attachment, ...]]:
    texts: list[str] = []
    files: list[Attachment] = []
    for part in _list_parts(mail):
        kind, name = part.get_content_type(), _get_file_name(part)
        if kind == "text/calendar":
            continue  # an invitation to a meeting; its words stand beside it
        if kind in WORDS and not name and part.get_content_disposition() != "attachment":
            text = _decode(part)
            texts.append(read_html(text) if kind == "text/html" else tidy(text))
        elif len(files) < MOST_FILES:
            files.append(_read_file(part, kind, name, len(files) + 1))
    return "\n\n".join(filter(None, texts))[:LONGEST_TEXT], tuple(files)


def _list_parts(mail: Message) -> list[Message]:
    """The leaves, of alternatives the one that is read: plain text if there is some."""
    found: list[Message] = []
    waiting: list[Message] = [mail]
    for _ in range(MOST_PARTS):
        if not waiting:
            break
        part = waiting.pop(0)
        if part.get_content_type() == "multipart/alternative":
            waiting[:0] = _choose(_list_children(part))
        elif part.is_multipart() and part.get_content_maintype() == "multipart":
            waiting[:0] = _list_children(part)
        else:
            found.append(part)
    return found


def _list_children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [each for each in payload if isinstance(each, Message)] if isinstance(payload, list) else []


def _choose(alternatives: Sequence[Message]) -> list[Message]:
    """Plain text that says something, else the richest; files that lie beside one come along."""
    plain = [each for each in alternatives if each.get_content_type() == "text/plain" and _decode(each).strip()]
    if not plain:
        rest = [each for each in alternatives if each.get_content_type() != "text/calendar"]
        return rest[-1:]
    return [plain[0], *(file for each in alternatives if each.is_multipart() for file in _list_inline(each))]


def _list_inline(part: Message) -> Iterator[Message]:
    return (each for each in _list_children(part) if each.get_content_maintype() == "image")


def _decode(part: Message) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = part.get_content_charset() or "utf-8"
    try:
        return data.decode(charset, errors="replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", errors="replace")


def _get_file_name(part: Message) -> str:
    try:
        name = part.get_filename() or ""
    except (LookupError, ValueError, TypeError):
        return ""
    return make_line(decode_words(name[:LONGEST_CODED]))[:LONGEST_NAME]


def _read_file(part: Message, kind: str, name: str, number: int) -> Attachment:
    whole_mail = part.get_content_maintype() == "message"
    main = kind.partition("/")[0]
    shown = AttachmentKind(main) if main in ("image", "audio", "video") else AttachmentKind.FILE
    suffix = (mimetypes.guess_extension(kind) or "") if main == "text" else ""
    given = name or (f"mail-{number}.eml" if whole_mail else f"file-{number}{suffix}")

    async def read() -> AsyncIterator[bytes]:
        """Decoded when somebody gets it. The mail itself was bounded by `largest_mail` when it was fetched."""
        data = await asyncio.to_thread(_decode_file, part, whole_mail)
        for at in range(0, len(data), CHUNK):
            yield data[at : at + CHUNK]

    return Attachment(name=given, mime=kind[:100], kind=shown, open=read)


def _decode_file(part: Message, whole_mail: bool) -> bytes:
    if whole_mail:
        return b"\n".join(each.as_bytes() for each in _list_children(part))
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def render_message_id(key: str, own: str) -> str:
    """The same key has the same id: a mail that was sent can be found by it."""
    return f"gp.{hashlib.sha256(key.encode()).hexdigest()[:40]}@{own.rpartition('@')[2]}"


def read_room(address: str) -> str:
    """The person's address; '' if it is none."""
    platform, _, person = address.partition(":")
    return parse_address(person) if platform == "email" else ""
