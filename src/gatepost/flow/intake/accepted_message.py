"""One message on its way through intake: as it arrived, in its transaction, what became of it, and the rows by which
sessions get it."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct, field

from gatepost.access.senders import COMMANDING, Rights
from gatepost.access.tiers import is_sibling, may_watch
from gatepost.core.errors import GatepostError
from gatepost.core.settings import Config
from gatepost.flow import notices
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.intake.attachments import StoredAttachment
from gatepost.flow.intake.room_records import SeenRoom, add_destination
from gatepost.flow.intake.routing import RouteChoice
from gatepost.flow.intake.slash_commands import SlashCommand
from gatepost.flow.requests.ask_approver import AskedRequest
from gatepost.flow.requests.decide import Decision
from gatepost.flow.sessions.sandbox.effective_group import ProviderChoices
from gatepost.messages.address import Address
from gatepost.messages.inbound import Inbound, Receipt, is_person
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import Room
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import Session, SessionMode

MOST_WATCHING = 5  # conversations of one group that are shown what it watches: the busiest


class CodeKind(StrEnum):
    """The wish of somebody who sends a code, or asks for what it would give."""

    PAIR = "pair"
    PAIRING_LINK = "pairing_link"  # without a code
    INVITE = "invite"
    JOIN = "join"  # without a code


class ReceivedCode(Struct, frozen=True):
    """`text`: the code in the form in which codes are kept, or the page's address for a link."""

    kind: CodeKind
    text: str = ""


class CommandFacts(Struct, frozen=True, kw_only=True):
    """Facts that a command may need and that no transaction reads: settings, files of the home, the address of the web
    page ('' if it is not served)."""

    config: Config = field(default_factory=Config)
    page: str = ""
    choices: ProviderChoices = field(default_factory=ProviderChoices)


class Arrival(Struct, frozen=True, kw_only=True):
    """A cleaned event, with what was found out about it before the transaction."""

    instance: str
    address: Address
    inbound: Inbound
    at: int
    own_names: frozenset[str] = frozenset()  # what we are called there, in lower case
    kept: tuple[StoredAttachment, ...] = ()
    unfetched: bool = False  # its files are still on the platform: nobody was expected to get them
    awaited: tuple[str, ...] = ()  # names of its files that are still coming
    missing: tuple[str, ...] = ()  # lines about files that will not come
    command: SlashCommand | None = None
    facts: CommandFacts | None = None  # what the command needs to know
    code: ReceivedCode | None = None  # it is one, which is nowhere else in here
    fault: str = ""  # why it cannot be taken, as a reason for the ledger …
    complaint: str = ""  # … and as words for the sender
    stale: bool = False
    engages_s: int = 0  # how long a group stays in the conversation that it speaks to, where its route says nothing


def make_seen_room(arrival: Arrival) -> SeenRoom:
    inbound = arrival.inbound
    return SeenRoom(arrival.instance, inbound.address, inbound.room_name, inbound.direct)


class IntakeResult(Struct, frozen=True, kw_only=True):
    """The outcome of a message, and what is to be done once it is committed."""

    receipt: Receipt
    delivered: bool = False  # some session has it
    wake: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()  # sessions whose turn was ended in this transaction, and whose sandbox is to follow
    clear: tuple[str, ...] = ()
    end: tuple[str, ...] = ()  # sessions whose sandbox is to end; what waits for them goes on
    renew: tuple[str, ...] = ()  # sessions of which something was changed: they start anew, after their turn
    forks: bool = False  # a conversation is to be forked
    ring: tuple[tuple[str, str], ...] = ()  # rooms, besides that of the message, that have something to go out
    passes: bool = False  # of a command: what follows its name goes to the agent all the same
    notices: tuple[OutboxEffect, ...] = ()  # of what was stopped: they wait until nothing of it runs any more
    notified: bool = False
    decision: Decision | None = None  # of a request
    paired: bool = False  # the sender was bound to a person
    joined: bool = False  # the sender is to get a group of their own
    hurried: bool = False  # what people were asked about the sender is to be looked at now
    woken: tuple[tuple[str, str], ...] = ()  # other rooms (instance, address) in which something is said
    asked: tuple[AskedRequest, ...] = ()  # whom people are asked about
    stranger: bool = False  # somebody who may not speak here, or whom nobody listens to; nobody answers them


class UnrecordedSender(GatepostError):
    """A stranger whose messages are only counted by now. Raised within the transaction: nothing of it stays."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a message is not written down: {reason}")
        self.reason = reason


class FilesWanted(GatepostError):
    """Somebody gets a message whose files were not fetched. Raised within the transaction: nothing of it stays."""


class MessageContext(Struct, frozen=True):
    """One accepted message on its way to its targets."""

    db: Db
    rules: RuleCache
    channels: ChannelInstances
    arrival: Arrival
    id: int
    thread: str
    now: int
    parent: Message | None = None  # what it replies or reacts to

    def end(
        self, state: InboxState, reason: str, rights: Rights, folder: str = "", *, notified: bool = False
    ) -> IntakeResult:
        inbox.refuse(self.db, self.id, folder, rights, reason, self.now, state)
        return IntakeResult(
            receipt=Receipt(message_id=self.id, new=True, state=state, reason=reason), notified=notified
        )

    def add_notice(self, text: str, key: str = "", secret: str = "") -> None:
        notice = OutgoingMessage(
            key=key or f"notice:{self.id}",
            origin=EffectOrigin.NOTICE,
            instance=self.arrival.instance,
            address=self.arrival.inbound.address,
            thread=self.thread,
            text=text,
            reply_to_id=None if key else self.id,
            secret=secret,
        )
        add_outgoing_message(self.db, self.channels, notice, self.now)


class TargetAccess(Struct, frozen=True):
    chosen: RouteChoice
    rights: Rights
    reason: str = ""  # '' if the sender may speak there

    @property
    def folder(self) -> str:
        return self.chosen.folder

    @property
    def may_end_all(self) -> bool:
        """Return True if the sender may end work for others: owners and admins may, in the thread that they see."""
        return self.rights in COMMANDING and not self.chosen.elsewhere


def find_session(context: MessageContext, chosen: RouteChoice) -> Session | None:
    """Return the session that a message here would go to, None if there is none. Never made for a command."""
    if chosen.session:
        return sessions.get(context.db, chosen.session)
    key = sessions.key_of(chosen.mode, chosen.folder, context.arrival.instance, *place_of(context, chosen))
    return sessions.find_by_key(context.db, key)


def place_of(context: MessageContext, chosen: RouteChoice) -> tuple[str, str]:
    return context.arrival.inbound.address, context.thread if chosen.topic is None else chosen.topic


def deliver(context: MessageContext, targets: Sequence[TargetAccess], room: Room | None) -> IntakeResult:
    """Write one inbox row per session; of two routes to the same one, that which wakes it counts."""
    arrival, db = context.arrival, context.db
    if room is None:
        _add_room(context)
    if arrival.inbound.direct and is_person(arrival.inbound.sender):
        _record_direct_room(context)
    if topic := next((each.chosen.topic for each in targets if each.chosen.topic), ""):
        messages.set_topic(db, context.id, topic)
    queued: dict[str, bool] = {}  # by session: whether it is woken
    keys: set[str] = set()
    for target in sorted(targets, key=lambda each: each.chosen.observe):
        chosen = target.chosen
        place = (chosen.mode, chosen.folder, arrival.instance, *place_of(context, chosen))
        if (key := sessions.key_of(*place)) in keys:
            continue
        keys.add(key)
        claimed = sessions.claim_seq_by_key(db, key, context.now)
        if claimed is None:
            sessions.find_or_add(db, *place, context.now)
            claimed = sessions.claim_seq_by_key(db, key, context.now)
            assert claimed is not None
        queued[claimed.session_id] = not chosen.observe
        if claimed.created_at == context.now or chosen.mode == SessionMode.AGENT_SHARED:
            _add_destination(context, chosen)
        window = chosen.route.window_messages, chosen.route.window_chars
        speaks_of_it = chosen.observe or window != (None, None)
        if speaks_of_it and window != claimed.window:
            sessions.set_window(db, claimed.session_id, *window)
        record = inbox.observe if chosen.observe else inbox.enqueue
        record(db, context.id, claimed.session_id, chosen.folder, target.rights, context.now, seq=claimed.seq)
    for session, rights, source in _find_watchers(context, targets):
        if session.id not in queued:
            queued[session.id] = False
            inbox.observe(db, context.id, session.id, session.folder, rights, context.now, watched=source)
    wake = tuple(session_id for session_id, triggers in queued.items() if triggers)
    state = InboxState.QUEUED if wake else InboxState.OBSERVED
    working = dict.fromkeys(each.chosen.folder for each in targets if not each.chosen.observe)
    stops = [stop for folder in working if (stop := context.rules.read(db, switches.find_stop, folder)) is not None]
    for stop in stops:
        address = arrival.inbound.address
        notices.add_stop_notice(db, context.channels, stop, arrival.instance, address, context.thread, context.now)
    receipt = Receipt(message_id=context.id, new=True, state=state)
    return IntakeResult(receipt=receipt, delivered=True, wake=wake, notified=bool(stops))


def find_or_add_session(context: MessageContext, chosen: RouteChoice) -> Session:
    """Return the conversation that a message here would go to, made as such a message would make it."""
    arrival, db = context.arrival, context.db
    if context.rules.read(db, rooms.get, arrival.instance, arrival.inbound.address) is None:
        _add_room(context)
    place = (chosen.mode, chosen.folder, arrival.instance, *place_of(context, chosen))
    session = sessions.find_or_add(db, *place, context.now)
    if session.created_at == context.now:
        _add_destination(context, chosen)
    return session


def record_room(context: MessageContext) -> None:
    """Record the room of a member whose command may be the first thing that is said there."""
    arrival = context.arrival
    if context.rules.read(context.db, rooms.get, arrival.instance, arrival.inbound.address) is None:
        _add_room(context)
    if arrival.inbound.direct and is_person(arrival.inbound.sender):
        _record_direct_room(context)


def _add_room(context: MessageContext) -> None:
    arrival = context.arrival
    name, direct, policy = arrival.inbound.room_name, arrival.inbound.direct, context.channels.policy(arrival.instance)
    rooms.add(context.db, arrival.instance, arrival.inbound.address, name, direct, policy, context.now)
    context.rules.renew(context.db)  # nothing that is read behind this write may be kept if it is undone


def _find_watchers(context: MessageContext, targets: Sequence[TargetAccess]) -> list[tuple[Session, Rights, str]]:
    """Return the conversations of groups that watch one of these: it is context for each that is going on. A group that
    was sealed since is watched no more. A message that a group only observes is shown to siblings alone, to whom the
    group opened itself."""
    found = []
    for target in targets:
        folder = target.chosen.folder
        for observer in context.rules.read(context.db, groups.list_observers, folder):
            source = context.rules.read(context.db, groups.get, folder)
            if source is None or not may_watch(observer, folder, open=source.open):
                continue
            if not target.chosen.observe or is_sibling(observer, folder):
                open_ones = sessions.list_open(context.db, observer, MOST_WATCHING)
                found += [(each, target.rights, folder) for each in open_ones]
    return found


def _add_destination(context: MessageContext, chosen: RouteChoice) -> None:
    add_destination(
        context.db, chosen.folder, chosen.mode, make_seen_room(context.arrival), context.thread, context.now
    )


def _record_direct_room(context: MessageContext) -> None:
    """Record where the sender can be reached alone: the room of the channel in which they wrote last."""
    sender, instance, address = (
        context.arrival.inbound.sender,
        context.arrival.instance,
        context.arrival.inbound.address,
    )
    if context.rules.read(context.db, direct_rooms.find_address, sender, instance) != address:
        direct_rooms.add(context.db, sender, instance, address, context.now)
        context.rules.renew(context.db)
