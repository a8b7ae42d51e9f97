"""The e-mail channel. Mails are read one after another, in the order in which the server numbered them."""

import asyncio
import email
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.email import (
    ADDRESS,
    AUTHSERV_ID,
    CA_FILE,
    COPY,
    FOLDER,
    IMAP_HOST,
    IMAP_PORT,
    IMAP_SECURITY,
    LARGEST_MAIL,
    MOST_PER_HOUR,
    NAME,
    PASSWORD,
    SENT_FOLDER,
    SMTP_HOST,
    SMTP_PORT,
    SMTP_SECURITY,
    SUBJECT,
    USER,
    MailSecurity,
)
from gatepost.channels.email.imap import SEEN, FetchedMail, ImapSession, MailServerLogin
from gatepost.channels.email.render import render_forward, render_mail
from gatepost.channels.email.sender_proof import parse_address
from gatepost.channels.email.smtp import check_sender, send_mail
from gatepost.channels.email.wire import (
    ForwardedMail,
    MailHead,
    ReadMail,
    find_sender,
    get_address,
    get_message_id,
    is_meant,
    read_head,
    read_mail,
    read_room,
    render_message_id,
)
from gatepost.channels.kit.backoff import Backoff, retry_until_done
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.kit.send_attempts import SendAttempts
from gatepost.core import log
from gatepost.core.clock import HOUR
from gatepost.core.errors import GatepostError, NotFound, Refused, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.messages.inbound import Attachment, Verb
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("email")
NO_COPY = "without `copy` and `sent_folder` a mail whose sending broke off ends as uncertain"
IDLE_S = 120.0  # below what firewalls forget, and far below the half hour that servers allow
MOST_TRIES, READING = 2, "reading"  # of one mail; and the cursor that says which mail is being read
MOST_HEADS, MOST_ADDRESSES = 2000, 2000
MOST_COPIES = 10  # mails of one id that are looked at
T = TypeVar("T")


class Email:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._own = parse_address(deps.config[ADDRESS])
        self._begun = deps.clock.now() // 1_000_000
        self._heads = KnownHeads()
        self._sent_at: OrderedDict[str, deque[int]] = OrderedDict()  # to an address, within the last hour
        self._attempts = SendAttempts(deps.cursor, deps.clock)
        self.skipped = 0  # mails of programs and lists

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        backoff = Backoff()
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"imap {self._deps.instance}")
        try:
            while True:
                mailbox = ImapSession(await self._get_login(IMAP_SECURITY.name), self._config[FOLDER])
                try:
                    await self._run(thread, mailbox.open)
                    backoff.reset()
                    await self._follow(thread, mailbox, skip_invalid(receive))
                except Unavailable as error:
                    LOG.info("the mailbox was lost", instance=self._deps.instance, error=str(error))
                    await backoff.wait()
                finally:
                    mailbox.close()
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, work, *args)

    async def _follow(self, thread: ThreadPoolExecutor, mailbox: ImapSession, receive: Receive) -> None:
        last = await self._load_cursor(thread, mailbox)
        while True:
            self._deps.beat()
            uids = await self._run(thread, mailbox.list_after, last)
            for uid in uids:
                await self._receive_mail(thread, mailbox, uid, receive)
                last = uid
                await self._deps.cursor.save(f"{mailbox.validity}:{last}", acknowledged=True)
                self._deps.beat()
            if not uids:
                await self._run(thread, mailbox.wait, IDLE_S)

    async def _load_cursor(self, thread: ThreadPoolExecutor, mailbox: ImapSession) -> int:
        """Numbers hold within one life of a folder. In a new one, what is unread comes again; the ledger knows it."""
        validity, _, uid = (await self._deps.cursor.load()).partition(":")
        if uid and int(validity) == mailbox.validity:
            return int(uid)
        if uid:
            LOG.warning("the folder was made anew", instance=self._deps.instance, folder=self._config[FOLDER])
            unread = await self._run(thread, mailbox.list_uids, "UNSEEN")
            return unread[0] - 1 if unread else mailbox.next_uid - 1
        start = await self._run(thread, mailbox.find_start, self._begun)
        await self._deps.cursor.save(f"{mailbox.validity}:{start}", acknowledged=True)
        return start

    async def _receive_mail(self, thread: ThreadPoolExecutor, mailbox: ImapSession, uid: int, receive: Receive) -> None:
        fetched = await self._run(thread, mailbox.fetch, uid, self._config[LARGEST_MAIL])
        if fetched is None:
            return
        fallback = f"uid.{mailbox.validity}.{uid}"
        read = None
        if await self._begin_reading(fallback):
            read = await self._run(
                thread, read_safely, fetched.raw, self._own, self._config[AUTHSERV_ID], fallback, fetched.whole
            )
            await self._deps.cursor.save("", READING)
        if read is None or read.inbound is None:
            self.skipped += 1
            why = read.skipped if read else "it cannot be read"
            LOG.info("a mail is left alone", instance=self._deps.instance, uid=uid, why=why, count=self.skipped)
            return
        self._heads.keep(read.inbound.address, read.inbound.platform_id, read.head)
        if self._heads.find(read.inbound.address, read.head.message_id) is None:
            # As its conversation is named, though nobody proves its sender.
            self._heads.keep(read.inbound.address, read.head.message_id, read.head)
        if read.inbound.verb is not Verb.UNTRUSTED and not read.inbound.own:
            self._heads.set_newest(read.inbound.address, read.inbound.thread, read.head)
        await retry_until_done(partial(receive, read.inbound))
        await self._run(thread, mailbox.set_flag, uid, SEEN, True)

    async def _begin_reading(self, name: str) -> bool:
        """False if reading this mail never came to an end: it must not keep back those behind it. It stays unread."""
        begun, _, tries = (await self._deps.cursor.load(READING)).partition(" ")
        count = int(tries) if begun == name else 0
        if count >= MOST_TRIES:
            LOG.warning("reading a mail does not end", instance=self._deps.instance, mail=name, tries=count)
            return False
        await self._deps.cursor.save(f"{name} {count + 1}", READING, durable=True)
        return True

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        """To the person of the room alone, also where others were written to as well."""
        person = self._read_person(address)
        if message.op not in (Op.SEND, Op.FILE, Op.FORWARD):
            raise Unsupported(message.op.value, "email", "send a mail")
        self._check_pace(person)
        config, now = self._config, self._deps.clock.now()
        answered = None
        if message.op is Op.FORWARD:
            passed = await self._find_forwarded(message)
            mail = await asyncio.to_thread(render_forward, message, person, self._own, config[NAME], passed, now)
        else:
            answered = await self._find_answered(person, message)
            message = replace(message, reply_to=get_message_id(message.reply_to), thread=get_message_id(message.thread))
            mail = await asyncio.to_thread(
                render_mail, message, person, self._own, config[NAME], config[SUBJECT], answered, now
            )
        own_id = render_message_id(message.key, self._own)
        async with self._attempts.attempt(message.key):
            copy = self._own if config[COPY] else ""
            await send_mail(await self._get_login(SMTP_SECURITY.name), mail, self._own, person, copy)
        self._sent_at.setdefault(person, deque()).append(now)
        references = (*answered.references, answered.message_id) if answered else ()
        head = MailHead(message_id=own_id, subject=str(mail["Subject"]), references=references)
        self._heads.keep(get_address(person), own_id, head)
        return own_id

    async def open_direct(self, sender: str) -> str:
        return get_address(self._read_person(sender))

    async def look_up(self, address: str, key: str) -> str | None:
        """Return the id of a mail that was sent, or None if its send never began.

        A sent mail is in our own mailbox sooner or later. Until then its state is uncertain: the server may still have
        it in its queue.
        """
        attempt, own_id = await self._attempts.find(key), render_message_id(key, self._own)
        if attempt is None:
            return None
        if attempt.done_at:
            return own_id
        for folder in dict.fromkeys(filter(None, (self._config[FOLDER], self._config[SENT_FOLDER]))):
            if await self._use_mailbox(folder, lambda box: box.find(own_id)):
                return own_id
        raise Unavailable("e-mail", "it is not known yet whether the mail was sent", uncertain=True)

    async def check(self) -> BotIdentity:
        if not self._own:
            raise ChannelEnded(EndReason.SETTING, "`address` is not an address", "write it as bot@example.org")
        await self._use_mailbox(self._config[FOLDER], lambda box: box.next_uid)
        if self._config[SENT_FOLDER]:
            await self._use_mailbox(self._config[SENT_FOLDER], lambda box: box.next_uid)
        await check_sender(await self._get_login(SMTP_SECURITY.name), self._own)
        unproved = "`authserv_id` is not set: no sender can be proved, so all are untrusted"
        return BotIdentity(
            name=f"{self._config[NAME]} <{self._own}>" if self._config[NAME] else self._own,
            link=f"mailto:{self._own}",
            missing=() if self._config[AUTHSERV_ID] else (unproved,),
            notes=() if self._config[COPY] or self._config[SENT_FOLDER] else (NO_COPY,),
        )

    def _read_person(self, address: str) -> str:
        person = read_room(address)
        if not person:
            raise NotFound("room", address, "a room of e-mail is email:name@example.org")
        if person == self._own:
            raise Refused("this bot", "write to itself", address)
        return person

    def _check_pace(self, person: str) -> None:
        """Two programs that answer each other would go on for ever; this ends it, and loses nothing."""
        most, now = self._config[MOST_PER_HOUR], self._deps.clock.now()
        times = self._sent_at.get(person)
        while times and times[0] < now - HOUR:
            times.popleft()
        if most and times and len(times) >= most:
            wait = (times[0] + HOUR - now) / 1_000_000
            raise Unavailable("e-mail", f"{most} mails went to {person} in an hour", retry_after=max(wait, 1.0))
        while len(self._sent_at) > MOST_ADDRESSES:
            self._sent_at.popitem(last=False)

    async def _find_answered(self, person: str, message: Outbound) -> MailHead | None:
        """The mail answered, for its subject; from the mailbox if it came before this start. Only one of this person's
        or ours: whoever else uses its id has a say in nothing."""
        if (
            not message.reply_to
            and (newest := self._heads.find_newest(get_address(person), message.thread)) is not None
        ):
            return newest
        answered = message.reply_to or message.thread
        wanted = get_message_id(answered)
        known = self._heads.find(get_address(person), answered)
        if not wanted or known is not None:
            return known
        try:
            raw = await self._use_mailbox(self._config[FOLDER], lambda box: box.fetch_head(wanted))
        except GatepostError as error:  # a mail without the old subject is better than none
            LOG.info("the mail answered was not found", instance=self._deps.instance, error=str(error))
            return None
        if not raw:
            return None
        mail = email.message_from_bytes(raw)
        if find_sender(mail).address not in (person, self._own):
            return None
        head = read_head(mail, wanted)
        self._heads.keep(get_address(person), answered, head)
        return head

    async def _find_forwarded(self, message: Outbound) -> ForwardedMail:
        """The mail that is passed on, from the mailbox. The oldest that is meant is the one that the ledger has."""
        wanted, largest = get_message_id(message.target), self._config[LARGEST_MAIL]

        def fetch(box: ImapSession) -> list[FetchedMail | None]:
            return [box.fetch(uid, largest) for uid in box.find(wanted)[:MOST_COPIES]]

        for fetched in await self._use_mailbox(self._config[FOLDER], fetch):
            if fetched is None or not fetched.whole:
                continue
            read = await asyncio.to_thread(
                read_safely, fetched.raw, self._own, self._config[AUTHSERV_ID], wanted, fetched.whole
            )
            if read is not None and read.inbound is not None and is_meant(read, message.target, message.source):
                files = [(each, await _read_whole(each)) for each in read.inbound.attachments]
                return ForwardedMail(subject=read.head.subject, inbound=read.inbound, files=tuple(files))
        raise NotFound("mail", message.target, "it is no longer in the mailbox; use send with its text")

    async def _use_mailbox(self, folder: str, work: Callable[[ImapSession], T]) -> T:
        """A connection of its own, for one piece of work: the other one waits for mails."""
        mailbox = ImapSession(await self._get_login(IMAP_SECURITY.name), folder)

        def run() -> T:
            mailbox.open()
            return work(mailbox)

        try:
            return await asyncio.to_thread(run)
        finally:
            mailbox.close()

    async def _get_login(self, security: str) -> MailServerLogin:
        config, imap = self._config, security == IMAP_SECURITY.name
        if not self._own:
            raise ChannelEnded(EndReason.SETTING, "`address` is not an address", "write it as bot@example.org")
        return MailServerLogin(
            host=config[IMAP_HOST] if imap else config[SMTP_HOST],
            port=config[IMAP_PORT] if imap else config[SMTP_PORT],
            security=MailSecurity(config[IMAP_SECURITY] if imap else config[SMTP_SECURITY]),
            user=config[USER] or self._own,
            password=await self._deps.secret(PASSWORD),
            ca_file=config[CA_FILE],
        )


async def _read_whole(file: Attachment) -> bytes:
    """The mail was bounded by `largest_mail`, and so is a file of it."""
    return b"".join([chunk async for chunk in file.open()]) if file.open is not None else file.data


class KnownHeads:
    """The heads of recent mails, by room and id. The room counts because another recipient knows the id of a mail, and
    may reuse it."""

    def __init__(self) -> None:
        self._heads: OrderedDict[tuple[str, str], MailHead] = OrderedDict()
        self._newest: OrderedDict[tuple[str, str], MailHead] = OrderedDict()  # of a person, by room and thread

    def keep(self, room: str, platform_id: str, head: MailHead) -> None:
        self._heads[room, platform_id] = head
        self._heads.move_to_end((room, platform_id))
        if len(self._heads) > MOST_HEADS:
            self._heads.popitem(last=False)

    def set_newest(self, room: str, thread: str, head: MailHead) -> None:
        """Record the mail that an answer in this thread is a reply to."""
        self._newest[room, thread] = head
        self._newest.move_to_end((room, thread))
        if len(self._newest) > MOST_HEADS:
            self._newest.popitem(last=False)

    def find_newest(self, room: str, thread: str) -> MailHead | None:
        return self._newest.get((room, thread))

    def find(self, room: str, platform_id: str) -> MailHead | None:
        return self._heads.get((room, platform_id))


def read_safely(raw: bytes, own: str, authserv_id: str, fallback_id: str, whole: bool) -> ReadMail | None:
    try:
        return read_mail(raw, own, authserv_id, fallback_id, whole)
    except Exception as error:  # noqa: BLE001  a mail that breaks the library must not keep back those behind it
        LOG.error("a mail cannot be read", error=repr(error))
        return None
