"""One message on its way through intake: as it arrived, in its transaction, and what became of it."""

from enum import StrEnum

from msgspec import Struct

from gatepost.access.senders import COMMANDING, Rights
from gatepost.core.errors import GatepostError
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.intake.attachments import StoredAttachment
from gatepost.flow.intake.command_facts import CommandFacts
from gatepost.flow.intake.room_records import SeenRoom
from gatepost.flow.intake.routing import RouteChoice
from gatepost.flow.intake.slash_commands import SlashCommand
from gatepost.flow.requests.asking import AskedRequest
from gatepost.flow.requests.deciding import Decision
from gatepost.messages.address import Address
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.store import inbox, sessions
from gatepost.store.inbox import InboxState
from gatepost.store.messages import Message
from gatepost.store.outbox import EffectOrigin, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.rule_cache import RuleCache
from gatepost.store.sessions import Session


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


class Arrival(Struct, frozen=True, kw_only=True):
    """A cleaned event, with what was found out about it before the transaction."""

    instance: str
    address: Address
    inbound: Inbound
    at: int
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
    told: bool = False
    decision: Decision | None = None  # of a request
    paired: bool = False  # the sender was bound to a person
    joined: bool = False  # the sender is to get a group of their own
    rung: tuple[tuple[str, str], ...] = ()  # other rooms (instance, address) in which something is said
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
    reach: ChannelInstances
    arrival: Arrival
    id: int
    thread: str
    now: int
    parent: Message | None = None  # what it replies or reacts to

    def end(
        self, state: InboxState, reason: str, rights: Rights, folder: str = "", *, told: bool = False
    ) -> IntakeResult:
        inbox.refuse(self.db, self.id, folder, rights, reason, self.now, state)
        return IntakeResult(receipt=Receipt(message_id=self.id, new=True, state=state, reason=reason), told=told)

    def add_notice(self, text: str, key: str = "", secret: str = "") -> None:
        told = OutgoingMessage(
            key=key or f"notice:{self.id}",
            origin=EffectOrigin.NOTICE,
            instance=self.arrival.instance,
            address=self.arrival.inbound.address,
            thread=self.thread,
            text=text,
            reply_to_id=None if key else self.id,
            secret=secret,
        )
        add_outgoing_message(self.db, self.reach, told, self.now)


class TargetAccess(Struct, frozen=True):
    chosen: RouteChoice
    rights: Rights
    reason: str = ""  # '' if the sender may speak there

    @property
    def folder(self) -> str:
        return self.chosen.folder

    @property
    def may_end_all(self) -> bool:
        """True if the sender may end work for others: owners and admins may, in the thread that they see."""
        return self.rights in COMMANDING and not self.chosen.elsewhere


def find_session(case: MessageContext, chosen: RouteChoice) -> Session | None:
    """The session that a message here would go to, if there is one. Never made for a command."""
    if chosen.session:
        return sessions.get(case.db, chosen.session)
    key = sessions.key_of(chosen.mode, chosen.folder, case.arrival.instance, *place_of(case, chosen))
    return sessions.find_by_key(case.db, key)


def place_of(case: MessageContext, chosen: RouteChoice) -> tuple[str, str]:
    return case.arrival.inbound.address, case.thread if chosen.topic is None else chosen.topic
