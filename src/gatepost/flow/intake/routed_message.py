"""The facts of a message that decide who gets it, and the reading that these need. The same for one that arrives, one
that was held and goes on, and one that somebody only asks about. Nothing is written here."""

from msgspec import Struct

from gatepost.access import senders
from gatepost.flow.intake import routing, verbs
from gatepost.flow.intake.addressing import may_be_addressed, parse_address
from gatepost.flow.intake.engagement import PLAIN
from gatepost.flow.intake.route_question import RouteQuestion
from gatepost.flow.intake.target_decision import Spoken
from gatepost.messages.address import Address
from gatepost.messages.inbound import Direction, Inbound, MessageKind, Verb
from gatepost.store import engagements, groups, identities, messages, routes, sticky_choices
from gatepost.store.engagements import Engagement
from gatepost.store.messages import Message
from gatepost.store.port import Db
from gatepost.store.rule_cache import RuleCache

NOTHING_SPOKEN = Spoken()


class RoutedMessage(Struct, frozen=True, kw_only=True):
    """`verb`, `thread`: as routes see them. `parent`: the message that it is about. `own_names`: what we are called
    there."""

    instance: str
    address: Address
    sender: str
    text: str
    verb: Verb
    thread: str = ""
    event: str = "message"
    kind: MessageKind = MessageKind.CHAT
    direct: bool = False
    parent: Message | None = None
    is_command: bool = False
    ends_work: bool = False  # it is a command for whatever runs in the room
    with_files: bool = False
    own_names: frozenset[str] = frozenset()

    @property
    def place(self) -> tuple[str, str, str]:
        return self.instance, str(self.address), self.thread

    @property
    def is_spoken(self) -> bool:
        """Return True if a person said it: an edit, a reaction or what a task says is none."""
        return self.kind is MessageKind.CHAT and self.event == "message" and senders.is_person(self.sender)


def find_parent(db: Db, instance: str, address: str, quoted: str, thread: str = "") -> Message | None:
    """The message that one is about: the agent's if there is one of that id, else somebody's. What quotes nothing is
    about the agent's words that its thread began with, if it did: on most platforms a thread has the id of those."""
    if quoted:
        ours = messages.find(db, instance, address, Direction.OUT, quoted)
        return ours or messages.find(db, instance, address, Direction.IN, quoted)
    return messages.find(db, instance, address, Direction.OUT, thread) if thread else None


def find_parent_of(db: Db, instance: str, inbound: Inbound) -> Message | None:
    thread = inbound.thread if inbound.event == "message" else ""
    return find_parent(db, instance, inbound.address, verbs.parent_of(inbound), thread)


def read_verb(db: Db, instance: str, inbound: Inbound, parent: Message | None) -> Verb:
    """The verb that routes see. In a thread below an agent's words everything is about these, but only what begins the
    thread is a reply to them: people may go on among themselves."""
    verb = verbs.find_verb(inbound)
    found = verbs.promote(verb, parent)
    if found is verb or not verbs.is_by_thread(inbound):
        return found
    begun = messages.is_thread_begun(db, instance, inbound.address, inbound.thread)
    return verb if begun else found


def make_question(db: Db, rules: RuleCache, said: RoutedMessage) -> RouteQuestion:
    known = rules.read(db, routes.list_all)
    facts = routing.make_match_input(
        said.instance,
        said.address,
        sender=said.sender,
        verb=said.verb,
        text=said.text,
        thread=said.thread,
        names=rules.read(db, identities.list_names, said.sender) if said.sender and routing.asks_sender(known) else (),
    )
    return RouteQuestion(known, facts, lambda folder: rules.read(db, groups.get, folder) is not None)


def read_spoken(db: Db, rules: RuleCache, said: RoutedMessage, now: int) -> Spoken:
    """Return what a person says besides what routes ask for. It costs nothing where nobody is engaged and nobody
    chose."""
    if said.kind is not MessageKind.CHAT or said.verb is Verb.UNTRUSTED or not senders.is_person(said.sender):
        return NOTHING_SPOKEN
    parent = said.parent
    wrote = parent.folder if parent is not None and said.verb is Verb.MENTION and verbs.is_agents(parent) else ""
    if said.event != "message":
        return Spoken(parent=wrote)
    address = None
    if not said.is_command and may_be_addressed(said.text):
        address = parse_address(said.text, said.own_names)
    if address is not None and not address.rest and said.with_files:
        address = None  # it is about the files
    choice, engaged = None, list[Engagement]()
    if rules.read_place(db, sticky_choices.has_any):
        choice = rules.read_place(db, sticky_choices.get, *said.place, said.sender)
    if not senders.is_program(said.sender) and rules.read_place(db, engagements.has_any):
        engaged = rules.read_place(db, engagements.list_at, *said.place)
    on = tuple(each for each in engaged if each.is_on(now))
    return Spoken(parent=wrote, address=address, choice=choice, engaged=on, plain=said.verb in PLAIN)
