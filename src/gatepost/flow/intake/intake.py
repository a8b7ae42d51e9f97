"""Intake: channels hand in everything that people do. When `receive` returns, it is durable.

A channel's own mistakes (a malformed address, a missing id) are raised as Invalid; a full disk or a store that is away
as Unavailable, with nothing half done. Everything else is accepted, and its outcome is in the ledger. Strangers who are
refused have only their first messages of an hour accepted: the rest is counted, so that nobody fills the store from
outside.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import HOUR, SECOND, Clock, find_moment, iso, to_microseconds
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.records import replace
from gatepost.core.repeat_counter import RepeatCounter
from gatepost.core.settings import Config, setting
from gatepost.flow.codes import mask_message, may_hold_code
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import attachments, file_streams, late_files, slash_commands
from gatepost.flow.intake.accepted_message import Arrival, CommandFacts, FilesWanted, IntakeResult, UnrecordedSender
from gatepost.flow.intake.admission import sessions_to_stop, wants_files
from gatepost.flow.intake.engagement import TTL_S
from gatepost.flow.intake.file_streams import EventKey, FetchedFiles, FilesTooLarge, FileStreams
from gatepost.flow.intake.followed_threads import FollowedThreads
from gatepost.flow.intake.late_files import LateFiles, PassedAttachments
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.intake.received_codes import MASKS, find_code
from gatepost.flow.intake.slash_commands import COMMANDS, CommandAction, SlashCommand
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.requests.decide import follow_decision
from gatepost.flow.sessions.sandbox.cheaper_models import CheaperModels
from gatepost.flow.sessions.sandbox.effective_group import ProviderChoices, read_choices
from gatepost.messages import address as addresses
from gatepost.messages.inbound import (
    Attachment,
    Inbound,
    MessageKind,
    Receipt,
    UnrecordedState,
    Verb,
    is_person,
    is_untrusted,
    mark_untrusted,
)
from gatepost.messages.text import clean
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import outbox
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Store
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions

MAX_TEXT = setting("intake.max_text", 65536, help="The longest text of one incoming message, in bytes.")
MAX_ATTACHMENTS = setting("intake.max_attachment_mb", 20, help="How much may come with one message, in megabytes.")
STALE_S = setting(
    "intake.stale_s",
    86400.0,
    help="A message that arrives later than this after it was written is not answered (0: always answered).",
)

FIRST_OF_A_STRANGER = 20  # refused messages of one sender in an hour that are written down; the rest is counted
FIRST_OF_STRANGERS = 1000  # the same for all senders of a channel together
ANYBODY = "*"
LONGEST_NAME = 200
LONGEST_ID = 512  # bytes
RECORDED = 2000  # characters of a text that was too long to be taken
MEGABYTE = 1024 * 1024

WAIT_WINDOW_S = 60.0  # in which a room waits for files once
MOST_WAITED = 10_000  # rooms of which it is known how long they have waited
CHOICES_KEPT = 5 * SECOND  # how long it is remembered which providers and models there are
URGENT_S = 0.3  # a store that has not taken a /stop by then does not keep the agent running

_log = log.get("intake")

Stop = Callable[[str, str], Awaitable[bool]]
Kill = Callable[[str, str], None]


Renew = Callable[[str], None]
End = Callable[[str, str], Awaitable[None]]


def _nobody(session_id: str, by: str) -> None:
    return None


async def _nothing_runs(session_id: str, reason: str) -> None:
    return None


class IntakeLimits(Struct, frozen=True, kw_only=True):
    """The settings by which each event is judged, read once."""

    max_text: int = MAX_TEXT.default  # bytes
    max_attachments: int = MAX_ATTACHMENTS.default  # megabytes
    stale: int = to_microseconds(STALE_S.default)  # microseconds; 0: no message is too old
    engages_s: int = TTL_S.default


def read_limits(config: Config) -> IntakeLimits:
    return IntakeLimits(
        max_text=config[MAX_TEXT],
        max_attachments=config[MAX_ATTACHMENTS],
        stale=to_microseconds(config[STALE_S]),
        engages_s=config[TTL_S],
    )


class Intake:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        config: Config,
        events: EventBus,
        channels: ChannelInstances,
        home: Home,
        stop: Stop,
        kill: Kill = _nobody,
        end: End = _nothing_runs,
        renew: Renew = lambda session_id: None,
        page: Callable[[], str] = lambda: "",
        ring_forks: Callable[[], None] = lambda: None,
        passing: FilePassing | None = None,
    ) -> None:
        """`end` stops a session's sandbox; queued messages stay. `renew` restarts it after the current turn. `page`:
        the web page's address, '' if it is not served. `passing`: of files to other gateways, if there may be some."""
        self._store, self._clock, self._config = store, clock, config
        self._limits = read_limits(config)
        self._asking = replace(read_rules(config), find_cheaper=CheaperModels(home, config).find)
        self._rules = RuleCache()  # the writers' alone
        self._events, self._channels, self._home, self._stop, self._kill = events, channels, home, stop, kill
        self._end, self._renew, self._page, self._ring_forks = end, renew, page, ring_forks
        self._choices, self._choices_until = ProviderChoices(), 0
        self._strangers = RepeatCounter[tuple[str, str]](HOUR)  # (instance, sender): whose messages are refused
        self._threads = FairThreadPool(share=1)  # by room
        self._streams = FileStreams(home.media, self._threads, clock)
        self._fetching: dict[EventKey, asyncio.Task[FetchedFiles]] = {}  # of messages that are not accepted yet
        self._waited: dict[tuple[str, str], tuple[float, float]] = {}  # by room: since when, and how long, for files
        self._followed = FollowedThreads(channels)
        self._passed = PassedAttachments(store, channels, passing)
        self.late_files = LateFiles(store, clock, events, channels, self._passed, home.media)

    async def receive(self, instance: str, inbound: Inbound) -> Receipt:
        """Take one event. Handed in twice, it is accepted once."""
        if inbound.own:
            return Receipt(message_id=0, new=False, state=UnrecordedState.OWN)
        try:
            return await self._receive(instance, inbound)
        finally:  # files that nobody gets are not fetched any further
            if (fetching := self._pop_fetch(instance, inbound)) is not None:
                await _end_task(fetching)

    async def _receive(self, instance: str, inbound: Inbound) -> Receipt:
        now, names = self._clock.now(), self._channels.own_names(instance)
        oldest = self._clock.ago(self._limits.stale) if inbound.at is not None else 0
        arrival = make_arrival(instance, inbound, self._limits, now, oldest, names, self._page)
        if arrival.command is not None:
            arrival = replace(arrival, facts=await self._read_facts(arrival.command, inbound.address))
            now = self._clock.now()
        who = (instance, arrival.inbound.sender)
        skip_recording = self._strangers.is_full(who, now, FIRST_OF_A_STRANGER)
        skip_recording = skip_recording or self._strangers.is_full((instance, ANYBODY), now, FIRST_OF_STRANGERS)
        if arrival.inbound.attachments and not arrival.fault:
            arrival = await self._keep_files(arrival, now, skip_recording)
            now = self._clock.now()
        try:
            if arrival.kept:
                await self._passed.put(arrival, now)
            try:
                accepted = await self._accept(arrival, now, skip_recording)
            except FilesWanted:  # their sender was a stranger when the files were judged, and is let in by now
                arrival = await self._fetch_files(arrival)
                await self._passed.put(arrival, now)
                accepted = await self._accept(arrival, now, skip_recording)
        except UnrecordedSender as no:
            await self._forget_files(arrival)
            self._count(who, now)
            return Receipt(message_id=0, new=True, state="refused", reason=no.reason)
        except GatepostError:
            await self._forget_files(arrival)
            raise
        if accepted.stranger:
            self._count(who, now)
        if not accepted.delivered:
            await self._forget_files(arrival)
        elif accepted.receipt.new and (fetching := self._pop_fetch(instance, inbound)) is not None:
            self.late_files.follow(fetching, arrival, accepted.receipt.message_id)
        if arrival.kept:
            await self._passed.record(arrival, accepted.receipt.message_id)
        if arrival.inbound.thread and accepted.delivered and accepted.receipt.state != InboxState.HELD:
            self._followed.follow(instance, arrival.inbound.address, arrival.inbound.thread)
        await self._follow(arrival, accepted)
        return accepted.receipt

    def _pop_fetch(self, instance: str, inbound: Inbound) -> asyncio.Task[FetchedFiles] | None:
        return self._fetching.pop(_get_key(instance, inbound), None) if self._fetching else None

    async def _keep_files(self, arrival: Arrival, now: int, skip_recording: bool) -> Arrival:
        """Write files to the disk before the message is committed. Those that the platform still has are fetched only
        if somebody would get the message: a stranger must not make us download anything."""
        given = arrival.inbound.attachments
        if all(each.open is None for each in given):
            room, media = arrival.inbound.address, self._home.media
            return replace(arrival, kept=await self._threads.run(room, attachments.write_attachments, media, given))
        if slash_commands.is_urgent(arrival.command):
            return replace(arrival, unfetched=True)  # it waits for no file, unless somebody gets it as a message
        if skip_recording or not await self._store.read(wants_files, self._channels, arrival, now):
            return replace(arrival, unfetched=True)
        return await self._fetch_files(arrival)

    async def _fetch_files(self, arrival: Arrival) -> Arrival:
        inbound, most = arrival.inbound, self._limits.max_attachments
        event = _get_key(arrival.instance, inbound)
        try:
            fetched = await self._wait_for_files(event, inbound.attachments, most * MEGABYTE)
        except FilesTooLarge:
            fault, complaint = _complain_of_size("more than they should have", most)
            shortened = replace(inbound, text=inbound.text[:RECORDED], attachments=())
            return replace(arrival, inbound=shortened, fault=fault, complaint=complaint, command=None, unfetched=False)
        if isinstance(fetched, FetchedFiles):
            text = "\n".join(filter(None, (inbound.text, *fetched.missing)))
            said = replace(inbound, text=text)
            return replace(arrival, inbound=said, kept=fetched.kept, missing=fetched.missing, unfetched=False)
        names = tuple(attachments.make_safe_names(inbound.attachments))
        self._fetching[event] = fetched
        coming = f"[{len(names)} {'file is' if len(names) == 1 else 'files are'} still coming: {', '.join(names)}]"
        text = "\n".join(filter(None, (inbound.text, coming)))
        return replace(arrival, inbound=replace(inbound, text=text), awaited=names, unfetched=False)

    async def _wait_for_files(
        self, event: EventKey, given: Sequence[Attachment], most_bytes: int
    ) -> FetchedFiles | asyncio.Task[FetchedFiles]:
        """Return the files, or the task that fetches them if that takes long. A room waits a bounded time in a minute,
        and not while it waits for others already. Many files would hold up the room, and in some channels everybody."""
        room, now = event[:2], asyncio.get_running_loop().time()
        since, waited = self._waited.get(room, (now, 0.0))
        if now - since >= WAIT_WINDOW_S:
            since, waited = now, 0.0
        wait = 0.0 if self._streams.count(*room) else max(self._config[late_files.WAIT_S] - waited, 0.0)
        fetching = asyncio.create_task(
            self._streams.fetch(event, given, most_bytes, self._config[file_streams.TIMEOUT_S])
        )
        try:
            done, _ = await asyncio.wait((fetching,), timeout=wait)
        except asyncio.CancelledError:  # the channel is stopped
            await _end_task(fetching)
            raise
        self._waited[room] = (since, waited + asyncio.get_running_loop().time() - now)
        if len(self._waited) > MOST_WAITED:
            del self._waited[next(iter(self._waited))]
        return fetching.result() if done else fetching

    async def _accept(self, arrival: Arrival, now: int, skip_recording: bool) -> IntakeResult:
        lane = f"{arrival.instance} {arrival.address}"
        writing = self._store.write(
            accept, self._channels, arrival, now, skip_recording, self._rules, self._asking, durable=True, lane=lane
        )
        if arrival.command is None or not slash_commands.is_urgent(arrival.command):
            return await writing
        task = asyncio.ensure_future(writing)
        done, _ = await asyncio.wait((task,), timeout=URGENT_S)
        if not done:  # judged by a read, which needs no writer: what is to end, ends; the rest follows with the commit
            for session_id in await self._store.read(sessions_to_stop, self._channels, arrival):
                self._kill(session_id, arrival.inbound.sender)
        return await task

    async def _read_facts(self, command: SlashCommand, room: str) -> CommandFacts:
        """Return the facts for a command. Files are read off the loop, and seldom: anybody may give commands."""
        spec, moment = COMMANDS.get(command.name), self._clock.monotonic()
        if spec is not None and spec.needs_choices and moment >= self._choices_until:
            try:
                self._choices = await self._threads.run(room, read_choices, self._home, self._config)
            except GatepostError as error:  # a file of the operator's is broken: what was known before still holds
                _log.warning("providers and models cannot be read", error=str(error))
            self._choices_until = moment + CHOICES_KEPT
        return CommandFacts(config=self._config, page=self._page(), choices=self._choices)

    def _count(self, who: tuple[str, str], now: int) -> None:
        """Count a refused message. The number of those that were not recorded goes to the audit after an hour."""
        everybody = (who[0], ANYBODY)
        full = self._strangers.is_full(everybody, now, FIRST_OF_STRANGERS)
        if full or not self._strangers.add(who, now, FIRST_OF_A_STRANGER):
            self._strangers.add(everybody, now, FIRST_OF_STRANGERS)
        for each in self._strangers.pop_closed(now):
            instance, sender = each.key
            details = {
                "repeated": each.count,
                "sender": sender,
                "since": iso(each.since),
                "until": iso(each.until),
            }
            record = audit.AuditRecord(now, f"channel:{instance}", "intake", "refused", details)
            self._store.post(audit.append, record, lane=f"channel:{instance}")

    def discard_counts(self, senders: tuple[str, ...]) -> None:
        """Drop the counts of people who are forgotten: no later row of the audit names them."""
        self._strangers.discard(lambda who: who[1] in senders)

    async def _forget_files(self, arrival: Arrival) -> None:
        if arrival.kept:
            await self._threads.run(
                arrival.inbound.address, attachments.remove_attachments, self._home.media, arrival.kept
            )

    async def _follow(self, arrival: Arrival, accepted: IntakeResult) -> None:
        """Do what is due once the message is committed."""
        by = arrival.inbound.sender
        for session_id in accepted.end:
            await self._end(session_id, f"stopped by {by}")
        if arrival.command is not None:
            self._events.errands()  # one may have stopped some
        if accepted.end or accepted.clear:
            self._events.requests()  # what a conversation's limit stopped may go on in a new one
        for session_id in accepted.renew:
            self._renew(session_id)
        for session_id in accepted.wake:
            self._events.session(session_id)
        if accepted.forks:
            self._ring_forks()
        if accepted.notified:
            self._events.room(arrival.instance, str(arrival.address))
        for place in accepted.ring:
            self._events.room(*place)
        for asked in accepted.asked:
            self._events.requests()
            for room in asked.rooms:
                self._events.room(*room)
        if accepted.hurried:
            self._events.requests()
        if accepted.paired:
            self._events.tools()
        if accepted.joined:
            self._events.newcomers()
        for place in accepted.woken:
            self._events.room(*place)
        if accepted.decision is not None:
            for session_id in accepted.decision.renew:
                self._renew(session_id)
            follow_decision(self._events, accepted.decision)
            if files := accepted.decision.files:
                await self._threads.run(arrival.inbound.address, attachments.remove_refused, self._home.media, files)
        for session_id in accepted.clear:
            await self._stop(session_id, by)  # a provider that is awake would remember all the same
            now = self._clock.now()
            await self._store.write(sessions.remove_conversations, session_id, now, lane=session_id)
        for session_id in accepted.stop:
            await self._stop(session_id, by)
        if accepted.notices:
            ids = [notice.id for notice in accepted.notices]
            await self._store.write(outbox.set_send_time, ids, self._clock.now(), durable=False)
            for notice in accepted.notices:
                self._events.room(notice.instance, notice.address)


def _get_key(instance: str, inbound: Inbound) -> EventKey:
    return instance, inbound.address, clean(inbound.platform_id), clean(inbound.event)


async def _end_task(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def _read_command(cleaned: Inbound, own_names: frozenset[str]) -> SlashCommand | None:
    """Return the command that a message is. In a first mail it may stand below the subject, if it is one of ours."""
    found = slash_commands.parse_command(cleaned.text, own_names)
    if found is not None or not cleaned.heading:
        return found
    below = slash_commands.parse_command(cleaned.words, own_names)
    return below if below is not None and below.act is not CommandAction.PASS else None


def make_arrival(
    instance: str,
    inbound: Inbound,
    limits: IntakeLimits,
    now: int,
    oldest: int,
    own_names: frozenset[str] = frozenset(),
    page: Callable[[], str] = lambda: "",
) -> Arrival:
    """Clean and measure an event. Pure. `oldest`: an event from before this moment is stale. `own_names`: what we are
    called. `page`: the address of the web page."""
    address = _parse(inbound.address, "address")
    _parse(inbound.sender, "sender")
    for field, value in (("platform_id", inbound.platform_id), ("event", inbound.event)):
        if not value or addresses.is_longer(value, LONGEST_ID):
            raise Invalid(field, f"an event needs one of at most {LONGEST_ID} bytes; the channel gave {value[:40]!r}")
    cleaned = _clean(inbound)
    if cleaned.verb is Verb.UNTRUSTED:
        cleaned = mark_untrusted(cleaned)
    fault, complaint = _find_fault(cleaned, limits)
    if fault:
        cleaned = replace(cleaned, text=cleaned.text[:RECORDED], attachments=())
    written = inbound.kind is MessageKind.CHAT and is_person(cleaned.sender)
    spoken = written and inbound.event == "message" and not inbound.forwarded
    command = _read_command(cleaned, own_names) if written and not fault else None
    code = None
    if written and not fault and (command is not None or may_hold_code(cleaned.text)):
        code = find_code(cleaned.words, command, page, direct=inbound.direct, own_names=own_names)
    if code is not None:
        masked = MASKS.get(code.kind, cleaned.text)
        cleaned, command = replace(cleaned, text=masked, heading="", extra={}, attachments=()), None
    if written or is_untrusted(cleaned.sender):  # codes of the latter redeem nothing, but nobody is to read them
        cleaned, unmasked = mask_message(cleaned), cleaned
        command = _read_command(cleaned, own_names) if command is not None and cleaned is not unmasked else command
    at = find_moment(inbound.at, now)
    return Arrival(
        instance=instance,
        address=address,
        inbound=cleaned,
        at=at,
        own_names=own_names,
        command=command if spoken else None,
        code=code if spoken else None,
        fault=fault,
        complaint=complaint,
        stale=bool(limits.stale) and at < oldest,
        engages_s=limits.engages_s,
    )


_parse = lru_cache(maxsize=4096)(addresses.parse)  # the same rooms and people again and again


def _is_plain(inbound: Inbound) -> bool:
    """Return True if there is nothing to clean: the usual case, and it should cost nothing."""
    if inbound.reply_to or inbound.attachments or inbound.extra or inbound.click or inbound.heading:
        return False
    names = inbound.sender_name + inbound.thread + inbound.room_name + inbound.forward_from
    everything = names + inbound.platform_id + inbound.event + inbound.text + inbound.sender
    return len(names) <= LONGEST_NAME and clean(everything) == everything


def _clean(inbound: Inbound) -> Inbound:
    if _is_plain(inbound):
        return inbound
    quote = inbound.reply_to
    if quote is not None:
        quote = replace(
            quote,
            platform_id=clean(quote.platform_id),
            sender=clean(quote.sender)[:LONGEST_NAME],
            text=clean(quote.text)[:RECORDED],
        )
    return replace(
        inbound,
        platform_id=clean(inbound.platform_id),
        event=clean(inbound.event),
        text=clean(inbound.text),
        heading=clean(inbound.heading),
        sender=clean(inbound.sender),
        sender_name=clean(inbound.sender_name)[:LONGEST_NAME],
        thread=clean(inbound.thread).encode()[:LONGEST_ID].decode(errors="ignore"),
        room_name=clean(inbound.room_name)[:LONGEST_NAME],
        reply_to=quote,
        forward_from=clean(inbound.forward_from)[:LONGEST_NAME],
        click=clean(inbound.click)[:LONGEST_ID],
        attachments=tuple(
            replace(each, mime=clean(each.mime)[:100], kind=clean(each.kind)[:20]) for each in inbound.attachments
        ),
        extra=_cleaned_json(inbound.extra) if inbound.extra else {},
    )


def _cleaned_json(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned_json(each) for each in value]
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise Invalid("extra", f"the channel gave a {type(value).__name__}, which is not JSON")


def _find_fault(inbound: Inbound, limits: IntakeLimits) -> tuple[str, str]:
    """Return why an event is too large to be taken: (reason, words for the sender), both '' if it is not."""
    size, limit = len(inbound.text.encode()), limits.max_text
    if size > limit:
        return (
            "text_too_long",
            f"Your message is too long: {size:,} bytes, and at most {limit:,} are possible. Please shorten it.",
        )
    if not inbound.attachments:
        return "", ""
    size, most = sum(_get_size(each) for each in inbound.attachments), limits.max_attachments
    return _complain_of_size(f"{size / MEGABYTE:.1f} MB", most) if size > most * MEGABYTE else ("", "")


def _get_size(attachment: Attachment) -> int:
    """Return the size that its platform says, before one byte is fetched."""
    return max(attachment.size or 0, 0) if attachment.open is not None else len(attachment.data)


def _complain_of_size(size: str, most: int) -> tuple[str, str]:
    return "attachments_too_large", (
        f"Your files are too large: {size}, and at most {most} MB are possible in one message."
    )
