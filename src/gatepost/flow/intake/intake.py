"""Intake: what channels call with everything that people do. When `receive` returns, it is durable.

A channel's own mistakes (a malformed address, a missing id) are raised as Invalid; a full disk or a store that is away
as Unavailable, with nothing half done. Everything else is accepted, and what became of it is in the ledger.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gatepost.access import senders
from gatepost.core.bells import Bells
from gatepost.core.clock import Clock, seconds
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting
from gatepost.flow.delivery.outgoing import Reach
from gatepost.flow.intake import attachments, commands
from gatepost.flow.intake.accept import Accepted, Arrival, accept
from gatepost.messages import address as addresses
from gatepost.messages.inbound import Inbound, Kind, Receipt
from gatepost.messages.text import clean
from gatepost.store import outbox, sessions
from gatepost.store.port import Store

MAX_TEXT = setting("intake.max_text", 65536, help="The longest text of one incoming message, in bytes.")
MAX_ATTACHMENTS = setting("intake.max_attachment_mb", 20, help="How much may come with one message, in megabytes.")
STALE_S = setting(
    "intake.stale_s",
    86400.0,
    help="A message that arrives later than this after it was written is not answered (0: always answered).",
)

LONGEST_NAME = 200
LONGEST_ID = 512
RECORDED = 2000  # characters of a text that was too long to be taken
MEGABYTE = 1024 * 1024

Stop = Callable[[str, str], Awaitable[bool]]


class Intake:
    def __init__(
        self, store: Store, clock: Clock, config: Config, bells: Bells, reach: Reach, home: Home, stop: Stop
    ) -> None:
        self._store, self._clock, self._config = store, clock, config
        self._bells, self._reach, self._home, self._stop = bells, reach, home, stop

    async def receive(self, instance: str, inbound: Inbound) -> Receipt:
        """Take one event. Told twice, it is accepted once."""
        arrival = read_arrival(instance, inbound, self._config, self._clock.now())
        if arrival.inbound.attachments and not arrival.fault:
            media, given = self._home.media, arrival.inbound.attachments
            arrival = replace(arrival, kept=await asyncio.to_thread(attachments.keep, media, given))
        try:
            accepted = await self._store.write(accept, self._reach, arrival, self._clock.now(), durable=True)
        except GatepostError:
            await self._forget_files(arrival)
            raise
        if not accepted.delivered:
            await self._forget_files(arrival)
        await self._follow(arrival, accepted)
        return accepted.receipt

    async def _forget_files(self, arrival: Arrival) -> None:
        if arrival.kept:
            await asyncio.to_thread(attachments.remove, self._home.media, arrival.kept)

    async def _follow(self, arrival: Arrival, accepted: Accepted) -> None:
        """What is due once the message is committed."""
        for session_id in accepted.wake:
            self._bells.session(session_id)
        if accepted.told:
            self._bells.room(arrival.instance, str(arrival.address))
        by = arrival.inbound.sender
        for session_id in accepted.clear:
            await self._stop(session_id, by)  # a provider that is awake would remember all the same
            await self._store.write(sessions.forget_conversations, session_id)
        for session_id in accepted.stop:
            await self._stop(session_id, by)
        if accepted.notices:
            ids = [notice.id for notice in accepted.notices]
            await self._store.write(outbox.release, ids, self._clock.now(), durable=False)
            for notice in accepted.notices:
                self._bells.room(notice.instance, notice.address)


def read_arrival(instance: str, inbound: Inbound, config: Config, now: int) -> Arrival:
    """Clean and measure an event. Pure."""
    address = _parse(inbound.address, "address")
    _parse(inbound.sender, "sender")
    for field, value in (("platform_id", inbound.platform_id), ("event", inbound.event)):
        if not value or len(value) > LONGEST_ID:
            raise Invalid(
                field, f"an event needs one of at most {LONGEST_ID} characters; the channel gave {value[:40]!r}"
            )
    cleaned = _cleaned(inbound)
    fault, complaint = _fault(cleaned, config)
    if fault:
        cleaned = replace(cleaned, text=cleaned.text[:RECORDED], attachments=())
    spoken = inbound.kind is Kind.CHAT and inbound.event == "message" and senders.is_person(inbound.sender)
    at = min(inbound.at or now, now)
    return Arrival(
        instance=instance,
        address=address,
        inbound=cleaned,
        at=at,
        command=commands.read(cleaned.text) if spoken and not fault else None,
        fault=fault,
        complaint=complaint,
        stale=bool(config[STALE_S]) and now - at > seconds(config[STALE_S]),
    )


_parse = lru_cache(maxsize=4096)(addresses.parse)  # the same rooms and people again and again


def _is_plain(inbound: Inbound) -> bool:
    """Whether there is nothing to clean: the usual case, and it should cost nothing."""
    if inbound.reply_to or inbound.attachments or inbound.extra:
        return False
    names = inbound.sender_name + inbound.thread + inbound.room_name
    everything = names + inbound.platform_id + inbound.event + inbound.text + inbound.sender
    return len(names) <= LONGEST_NAME and clean(everything) == everything


def _cleaned(inbound: Inbound) -> Inbound:
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
        sender=clean(inbound.sender),
        sender_name=clean(inbound.sender_name)[:LONGEST_NAME],
        thread=clean(inbound.thread)[:LONGEST_ID],
        room_name=clean(inbound.room_name)[:LONGEST_NAME],
        reply_to=quote,
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


def _fault(inbound: Inbound, config: Config) -> tuple[str, str]:
    """Why an event is too large to be taken: (reason, words for the sender)."""
    size, limit = len(inbound.text.encode()), config[MAX_TEXT]
    if size > limit:
        return (
            "text_too_long",
            f"Your message is too long: {size:,} bytes, and at most {limit:,} are possible. Please shorten it.",
        )
    size, most = sum(len(each.data) for each in inbound.attachments), config[MAX_ATTACHMENTS]
    if size > most * MEGABYTE:
        return "attachments_too_large", (
            f"Your files are too large: {size / MEGABYTE:.1f} MB, and at most {most} MB are possible in one message."
        )
    return "", ""
