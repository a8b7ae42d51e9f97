"""One effect and one channel: what is sent, and what became of it. Nothing is written here; the outcome is.

An effect that may have happened is never simply repeated. The platform is asked, if it can be. The effect is repeated
if the platform deduplicates by our key, or if doing it twice is the same. Else it ends as `uncertain`.
First words of an answer that grows are looked for in the room, where its channel can look back: the answer then takes
their place. They are never sent again.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from gatepost.channels.contract import MYSELF, Channel, ChannelEnded, SupportsHistory, SupportsLookup
from gatepost.core import log
from gatepost.core.clock import MINUTE, SECOND, Clock
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.process.fencing import FenceCheck, always, check_contact
from gatepost.core.records import replace
from gatepost.flow.delivery.content_fallback import degrade
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.delivery.pace import DeliveryPace
from gatepost.flow.delivery.retry import DeliveryRetryPolicy, GiveUp, next_try
from gatepost.messages.card import Card
from gatepost.messages.inbound import Direction
from gatepost.messages.outbound import (
    REPEATABLE,
    TARGETED,
    Feature,
    Op,
    Outbound,
    OutboundFile,
    PassedMessage,
    PromptButton,
)
from gatepost.messages.text import one_line
from gatepost.store.messages import growing_drafts
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.messages.messages import Message, Revision
from gatepost.store.messages.outbox import REFUSAL, EffectOrigin, EffectState, OutboxEffect, is_removal

LOG = log.get("delivery")
REPLIES = frozenset({Op.SEND, Op.FILE, Op.CARD})  # their target is what they answer
MOST_SEEN = 20  # messages of a room among which first words are looked for
SOURCED = frozenset({Op.FORWARD, Op.QUOTE, Op.REPOST})  # their target may lie in another room
LONGEST_AUTHOR = 100


class SendJob(Struct, frozen=True):
    """A row that is ours to send. `found`: it was already being sent when we came, so it may have happened. `draft`:
    the message whose place it takes, by an edit. `known`: the platform's ids of what else we said in the room, of a
    draft that was found."""

    effect: OutboxEffect
    target: Message | None = None
    found: bool = False
    draft: Message | None = None
    known: frozenset[str] = frozenset()

    @property
    def edited_id(self) -> str:
        """The platform's id of that message; '' if it was never sent, and this is a message of its own."""
        return (self.draft.platform_id or "") if self.draft is not None else ""

    @property
    def is_repeatable(self) -> bool:
        return self.effect.op in REPEATABLE or bool(self.edited_id)


class SendOutcome(Struct, frozen=True):
    """The outcome of a try. `sending` with `next_at`: it may have happened, look it up then. `place`: the message whose
    place it has taken, or, if it was not sent, cannot take."""

    effect: OutboxEffect
    state: EffectState
    reason: str = ""
    platform_id: str = ""
    next_at: int | None = None
    place: int | None = None


class ChannelSender:
    def __init__(
        self,
        adapters: Mapping[str, Channel],
        channels: ChannelInstances,
        clock: Clock,
        policy: DeliveryRetryPolicy,
        timeout: float,
        pace: DeliveryPace | None = None,
    ) -> None:
        self._adapters, self._channels, self._clock, self._policy, self._timeout = (
            adapters,
            channels,
            clock,
            policy,
            timeout,
        )
        self._pace = pace or DeliveryPace(channels, clock, policy.most_age)
        self.on_ended: Callable[[str, ChannelEnded], None] = lambda instance, error: None
        self.why_away: Callable[[str], str] = lambda instance: ""  # '' if nobody knows
        self.may_act: FenceCheck = always
        self.media: Path | None = None  # the folder of files that came in
        self.passing: FilePassing | None = None  # of files that another gateway has

    async def send(self, job: SendJob) -> SendOutcome:
        effect = job.effect
        channel = self._adapters.get(effect.instance)
        if channel is None:
            reason = self.why_away(effect.instance) or "it is not switched on; `gatepost channel list` shows what is"
            why = Unavailable(f"the channel {effect.instance!r}", reason)
            return self._retry_lookup(effect, why) if job.found else self._again(effect, why, EffectState.FAILED)
        if job.found:
            return await self._look_up_effect(channel, job)
        try:
            message = self._render(job)
        except GatepostError as error:
            return SendOutcome(effect, EffectState.FAILED, str(error))
        if message is None:
            return SendOutcome(effect, EffectState.CANCELLED, "the channel cannot show it")
        if effect.op in TARGETED and (job.target is None or not job.target.platform_id):
            return SendOutcome(effect, EffectState.FAILED, f"the message to {effect.op} is not known to the platform")
        return await self._send(channel, job, message)

    async def _send(self, channel: Channel, job: SendJob, message: Outbound) -> SendOutcome:
        effect = job.effect
        if message.op is Op.FORWARD and job.target is not None:
            message = replace(message, passed=await self._load_passed(job.target))
        if self.passing is not None and message.files:
            try:
                message = replace(message, files=await self.passing.fetch_sent(message.files))
            except Unavailable as error:
                return self._again(effect, error, EffectState.FAILED)
        try:
            check_contact(self.may_act)
            async with asyncio.timeout(self._timeout):
                platform_id = await channel.send(effect.address, message)
            if job.draft is not None and job.edited_id:
                return SendOutcome(effect, EffectState.SENT, platform_id=job.edited_id, place=job.draft.id)
            return SendOutcome(effect, EffectState.SENT, platform_id=platform_id)
        except TimeoutError:
            return self._uncertain(job, self._late())
        except Unavailable as error:
            self._pause(effect, error)
            if error.lasting and message.files:  # of words it is hoped that somebody mends the server
                return SendOutcome(effect, EffectState.FAILED, str(error))
            is_line = effect.origin == EffectOrigin.STATUS and not is_removal(effect)
            if is_line and not (error.uncertain and is_draft(effect)):
                # Worth nothing later, and nothing should wait for it: but an answer waits to know where its draft is.
                return SendOutcome(effect, EffectState.FAILED, str(error))
            return self._uncertain(job, error) if error.uncertain else self._again(effect, error, EffectState.FAILED)
        except ChannelEnded as error:  # it did not happen, and waits until somebody has mended the channel
            self.on_ended(effect.instance, error)
            return self._again(effect, Unavailable(f"the channel {effect.instance!r}", str(error)), EffectState.FAILED)
        except GatepostError as error:
            if job.draft is not None and job.edited_id:  # somebody has deleted the draft: nothing of it is left to edit
                return SendOutcome(
                    effect, EffectState.PENDING, str(error), next_at=self._clock.now(), place=job.draft.id
                )
            return SendOutcome(effect, EffectState.FAILED, str(error))
        except Exception as error:  # noqa: BLE001  an adapter's mistake must not stop the room; it may have sent
            LOG.error("a channel broke while sending", instance=effect.instance, key=effect.key, error=repr(error))
            return self._uncertain(job, self._broke(error))

    def _render(self, job: SendJob) -> Outbound | None:
        effect, payload, target = job.effect, job.effect.payload, job.target
        op = Op.STATUS if effect.origin == EffectOrigin.STATUS and not is_removal(effect) else Op(effect.op)
        platform_id = (target.platform_id or "") if target else ""
        answers = effect.op in REPLIES
        if job.draft is not None and job.edited_id:
            op, platform_id, answers = Op.EDIT, job.edited_id, False
        message = Outbound(
            key=effect.key,
            op=op,
            text=payload.get("text", ""),
            thread=effect.thread,
            reply_to=platform_id if answers else "",
            target="" if answers else platform_id,
            source=target.address if target and op in SOURCED else "",
            reaction=payload.get("reaction", ""),
            files=tuple(OutboundFile(**file) for file in payload.get("files", ())),
            prompts=tuple(PromptButton(**prompt) for prompt in payload.get("prompts", ())),
            card=convert(payload["card"], Card) if payload.get("card") else None,
            refusal=payload.get(REFUSAL, ""),
        )
        # A result answers what came last, which everybody sees; only a reply that was asked for is worth a quote.
        quote = target.text if target and answers and effect.origin == EffectOrigin.TOOL else ""
        kind = self._channels.get_kind(effect.instance)
        return degrade(
            message,
            kind.features,
            kind.name,
            quote,
            kind.max_text,
            unit=kind.text_unit,
            largest_file=kind.largest_file,
        )

    async def _load_passed(self, source: Message) -> PassedMessage | None:
        """Return a message as its platform shows it. None if it shows none: it was deleted, is no message, or is itself
        one that was passed on by us, whose words stand elsewhere in the ledger."""
        own = source.direction == Direction.OUT
        if source.event != "message" or source.revision is Revision.DELETED or (own and source.verb in SOURCED):
            return None
        files = _list_own_files(source) if own else _list_came_files(source, self.media)
        if self.passing is not None and not own:
            with suppress(Unavailable):
                await self.passing.fetch([str(each["path"]) for each in source.content.get("attachments", ())])
        kept = await asyncio.to_thread(lambda: tuple(each for each in files if Path(each.path).is_file()))
        return PassedMessage(
            author="this bot" if own else _name_author(source),
            own=own,
            text=source.text,
            files=kept,
            lost=tuple(each.name for each in files if each not in kept),
        )

    async def _look_up_effect(self, channel: Channel, job: SendJob) -> SendOutcome:
        """It was being sent when somebody stopped, or the platform never answered: is it there?"""
        effect = job.effect
        features = self._channels.get_kind(effect.instance).features
        if job.is_repeatable or (Feature.LOOKUP not in features and Feature.KEYED in features):
            return self._now(effect, "it may not have arrived, and arrives once")
        unknown = SendOutcome(
            effect, EffectState.UNCERTAIN, effect.reason or "the gateway stopped while it was being sent"
        )
        can_ask = Feature.LOOKUP in features and isinstance(channel, SupportsLookup)
        if not can_ask and not self._may_be_seen(effect):
            return unknown
        try:
            async with asyncio.timeout(self._timeout):
                if isinstance(channel, SupportsLookup) and can_ask:
                    platform_id = await channel.look_up(effect.address, effect.key)
                else:
                    platform_id = await _find_draft(channel, job)
        except TimeoutError:
            return self._retry_lookup(effect, self._late())
        except Unavailable as error:
            self._pause(effect, error)
            return self._retry_lookup(effect, error)
        except ChannelEnded as error:
            self.on_ended(effect.instance, error)
            return self._retry_lookup(effect, Unavailable(f"the channel {effect.instance!r}", str(error)))
        except GatepostError as error:
            return SendOutcome(effect, EffectState.UNCERTAIN, str(error))
        except Exception as error:  # noqa: BLE001  as above: the room must go on
            LOG.error("a channel broke while looking up", instance=effect.instance, key=effect.key, error=repr(error))
            return self._retry_lookup(effect, self._broke(error))
        if platform_id is not None:
            return SendOutcome(effect, EffectState.SENT, "found on the platform", platform_id)
        return self._now(effect, "not on the platform") if can_ask else unknown

    def _may_be_seen(self, effect: OutboxEffect) -> bool:
        """Return True for first words of an answer in a room whose channel can look back."""
        return is_draft(effect) and isinstance(self._adapters.get(effect.instance), SupportsHistory)

    def _pause(self, effect: OutboxEffect, error: Unavailable) -> None:
        """A limit that holds for the whole channel stops its other rooms, too. One that the deletion of an interim line
        met may be of deletions alone (Mastodon: 30 in half an hour), so it stops none."""
        if error.everywhere and not is_removal(effect):
            seconds = error.retry_after if error.retry_after is not None else self._policy.base / SECOND
            self._pace.pause(effect.instance, seconds)
            LOG.warning("a channel pauses", instance=effect.instance, seconds=seconds, reason=str(error))

    def _uncertain(self, job: SendJob, error: Unavailable) -> SendOutcome:
        effect = job.effect
        features = self._channels.get_kind(effect.instance).features
        if effect.origin == EffectOrigin.STATUS and effect.op is Op.EDIT:  # what stands behind it in the room is newer
            return SendOutcome(effect, EffectState.FAILED, str(error))
        if job.is_repeatable:
            return self._again(effect, error, EffectState.FAILED)
        if Feature.LOOKUP in features:
            return self._retry_lookup(effect, error)
        if Feature.KEYED in features:
            return self._again(effect, error, EffectState.UNCERTAIN)
        if self._may_be_seen(effect):
            return self._retry_lookup(effect, error)
        return SendOutcome(effect, EffectState.UNCERTAIN, str(error))

    def _again(self, effect: OutboxEffect, error: Unavailable, end: EffectState) -> SendOutcome:
        return self._by_policy(effect, error, EffectState.PENDING, end)

    def _retry_lookup(self, effect: OutboxEffect, error: Unavailable) -> SendOutcome:
        return self._by_policy(effect, error, EffectState.SENDING, EffectState.UNCERTAIN)

    def _by_policy(self, effect: OutboxEffect, error: Unavailable, state: EffectState, end: EffectState) -> SendOutcome:
        now = self._clock.now()
        verdict = next_try(effect.tries + 1, error, now, self._policy)
        if isinstance(verdict, GiveUp):
            return SendOutcome(effect, end, verdict.reason)
        # The lane ends what is too old as a plain failure, but for its notices. What may have happened ends here.
        too_old = effect.created_at < self._clock.ago(self._policy.most_age) + (verdict.at - now)
        if too_old and (end == EffectState.UNCERTAIN or effect.origin == EffectOrigin.NOTICE):
            return SendOutcome(effect, end, f"{error} (given up after {effect.tries + 1} tries)")
        return SendOutcome(effect, state, str(error), next_at=verdict.at)

    def _now(self, effect: OutboxEffect, reason: str) -> SendOutcome:
        """Send it (again) at once: whatever there was to wait for has been waited for."""
        if 0 < self._policy.most_tries <= effect.tries:
            return SendOutcome(effect, EffectState.FAILED, f"{reason}; given up after {effect.tries} tries")
        return SendOutcome(effect, EffectState.PENDING, reason, next_at=self._clock.now())

    def _late(self) -> Unavailable:
        return Unavailable("the platform", f"it did not answer within {self._timeout:g} s", uncertain=True)

    def _broke(self, error: Exception) -> Unavailable:
        return Unavailable("the channel", f"it broke with {type(error).__name__}", uncertain=True)


async def _find_draft(channel: Channel, job: SendJob) -> str | None:
    """Return the platform's id of first words that were being sent, None if they are not seen for certain. Nothing else
    of ours goes out in this room meanwhile, so the one message that has this text and that nobody knows is theirs."""
    if not isinstance(channel, SupportsHistory):
        return None
    effect = job.effect
    found = [
        each.platform_id
        for each in await channel.history(effect.address, None, MOST_SEEN)
        if each.sender == MYSELF and each.thread == effect.thread and each.platform_id not in job.known
        if each.text.strip() == str(effect.payload.get("text", "")).strip()
        if (each.at or 0) >= effect.created_at - MINUTE  # the clock of the platform is another
    ]
    return found[0] if len(found) == 1 else None


def is_draft(effect: OutboxEffect) -> bool:
    return effect.op is Op.SEND and bool(effect.payload.get(growing_drafts.GROWS))


def _name_author(source: Message) -> str:
    """Return whose words a message has that came in: its sender's, unless they passed them on."""
    sender = one_line(source.sender_name)[:LONGEST_AUTHOR] or source.sender.partition("/")[2] or source.sender
    if source.forward_from is None:
        return sender
    return f"{one_line(source.forward_from)[:LONGEST_AUTHOR] or 'somebody'}, passed on by {sender}"


def _list_own_files(source: Message) -> list[OutboundFile]:
    """List the files that we sent: the copies of their delivery, which are removed after it."""
    return [OutboundFile(**each) for each in source.content.get("files", ())]


def _list_came_files(source: Message, media: Path | None) -> list[OutboundFile]:
    given: list[dict[str, Any]] = source.content.get("attachments", [])
    return [
        OutboundFile(
            name=str(each["name"]),
            mime=str(each["mimeType"]),
            path=str(media / each["path"]) if media is not None else "",
            size=int(each["size"]),
        )
        for each in given
    ]
