"""Messages that programs post by a webhook link: the link's row says to which group they go. No route is asked.

Invariants: a post is committed with the use of its link, as the link is at that moment. A post that was stored before
changes nothing. The sender is a guest, whatever the text says. Instructions come from the link's row alone.
"""

from typing import Any

from msgspec import Struct

from gatepost.access import senders
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.event_bus import EventBus
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.accepted_message import Arrival, IntakeResult, MessageContext, TargetAccess, deliver
from gatepost.flow.intake.admission import BUDGET, find_spent_budget
from gatepost.flow.intake.intake import make_arrival, read_limits
from gatepost.flow.intake.message_acceptance import make_message
from gatepost.flow.intake.routed_message import MessageRelation
from gatepost.flow.intake.routing import RouteChoice
from gatepost.messages.inbound import Direction, Inbound, MessageKind, Receipt, Verb
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db, Store
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import TIMED_SCHEMES, Token, TokenKind
from gatepost.store.rooms import rooms
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.web import links

INSTANCE = "hook"
INSTRUCTIONS = "instructions"  # in a message's content
RIGHTS: senders.Rights = "guest"


class LinkEnded(GatepostError):
    """The link was revoked, or its time was over, before the post was committed."""


class RepeatedSignature(GatepostError):
    """A post with this signature was accepted before, under another id."""


class LinkPost(Struct, frozen=True, kw_only=True):
    """A post that came by a link. `delivery`: the sender's own id of it, or a new one. `signature`: the hash of what
    proved it, '' if the link asks for no proof. `secret`: the link's token, which goes nowhere but into its hash."""

    secret: str
    delivery: str
    text: str
    event: str = ""
    signature: str = ""


class LinkInbox:
    """When `receive` returns, the post is durable."""

    def __init__(
        self, store: Store, clock: Clock, config: Config, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._bells, self._channels = store, clock, events, channels
        self._limits = read_limits(config)
        self._rules = RuleCache()  # the writers' alone

    async def receive(self, link: Token, post: LinkPost) -> Receipt:
        """Raises LinkEnded, RepeatedSignature, and Invalid for a text that is too long."""
        now = self._clock.now()
        arrival = make_arrival(INSTANCE, make_inbound(link, post), self._limits, now, 0)
        if arrival.fault:
            raise Invalid("body", arrival.complaint)
        lane = f"{INSTANCE} {arrival.address}"
        done = await self._store.write(
            accept_post, self._channels, arrival, post, now, self._rules, durable=True, lane=lane
        )
        for session_id in done.wake:
            self._bells.session(session_id)
        if done.notified:
            self._bells.room(INSTANCE, str(arrival.address))
        return done.receipt


def make_sender(link: Token) -> str:
    """`hook:acme/eng/webhook/github`: of one group, and a program's."""
    return f"{INSTANCE}:{link.folder}/webhook/{link.label}"


def make_inbound(link: Token, post: LinkPost) -> Inbound:
    return Inbound(
        address=link.address,
        platform_id=post.delivery,
        sender=make_sender(link),
        sender_name=link.label,
        text=post.text,
        kind=MessageKind.WEBHOOK,
        room_name=link.address.removeprefix(f"{INSTANCE}:"),
    )


def accept_post(
    db: Db, channels: ChannelInstances, arrival: Arrival, post: LinkPost, now: int, rules: RuleCache | None = None
) -> IntakeResult:
    """The one transaction of a post."""
    link = tokens.use(db, TokenKind.WEBHOOK, post.secret, now)
    if link is None or link.folder is None:
        raise LinkEnded("the link has ended")
    inbound = arrival.inbound
    known = messages.find(db, INSTANCE, inbound.address, Direction.IN, inbound.platform_id)
    if known is not None:
        return IntakeResult(receipt=_find_receipt(db, known.id))
    timed = link.signature in TIMED_SCHEMES
    if post.signature and not links.add_signature(db, link.id, post.signature, now, timed=timed):
        raise RepeatedSignature("this signature was used before")
    arrival = replace(arrival, inbound=replace(inbound, extra=_make_extra(link, post)))
    message_id = messages.accept(db, make_message(arrival, MessageRelation(act=Verb.MESSAGE, verb=Verb.MESSAGE)), now)
    assert message_id is not None  # it was not there a moment ago, in this transaction
    rules = rules or RuleCache()
    rules.renew(db)
    case = MessageContext(db, rules, channels, arrival, message_id, "", now)
    return _give_to_group(case, link.folder)


def _give_to_group(case: MessageContext, folder: str) -> IntakeResult:
    db, inbound = case.db, case.arrival.inbound
    if sender_rights.find_rights(db, inbound.sender, folder) is None:
        return case.end(InboxState.REFUSED, senders.SHUT_OUT.reason, RIGHTS, folder)
    if find_spent_budget(db, case.rules, inbound.kind, inbound.sender, folder, case.now) is not None:
        return case.end(InboxState.REFUSED, BUDGET, RIGHTS, folder)
    route = Route(match="", target=folder, created_by=INSTANCE, created_at=case.now, folder=folder)
    choice = RouteChoice(route, folder, observe=False, topic=None, mode=SessionMode.PER_THREAD)
    room = rooms.get(db, INSTANCE, inbound.address)
    return deliver(case, [TargetAccess(choice, RIGHTS)], room)


def _make_extra(link: Token, post: LinkPost) -> dict[str, Any]:
    """Return what the agent is told besides the text, by whom it is known."""
    extra = {"source": link.label, "event": post.event, INSTRUCTIONS: link.instructions}
    return {name: value for name, value in extra.items() if value}


def _find_receipt(db: Db, message_id: int) -> Receipt:
    entries = inbox.list_for_message(db, message_id)
    state, reason = (entries[0].state, entries[0].reason) if entries else ("", "")
    return Receipt(message_id=message_id, new=False, state=state, reason=reason)
