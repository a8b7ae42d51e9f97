"""The facts of a message that decide who gets it, and the reading that these need. The same for one that arrives, one
that was held and goes on, and one that somebody only asks about. Nothing is written here."""

from msgspec import Struct

from gatepost.access import senders
from gatepost.flow.intake import routing
from gatepost.flow.intake.routing import RouteTable
from gatepost.flow.intake.target_decision import PLAIN, RouteQuestion, Spoken, parse_address
from gatepost.messages.address import Address
from gatepost.messages.inbound import Direction, Inbound, MessageKind, Verb, is_person
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import messages
from gatepost.store.messages.messages import SYSTEM, Message
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rooms import engagements, routes
from gatepost.store.sessions import groups

NOTHING_SPOKEN = Spoken()
NEGATIVE = frozenset(("👎", "💩", "😡", "🤬", "💔", "🤮", "😢", "-1", "thumbsdown"))
_PROMOTED = frozenset((Verb.MESSAGE, Verb.REPLY, Verb.COMMENT, Verb.LIKE, Verb.DISLIKE))
_SHADES = dict.fromkeys((0xFE0F, *range(0x1F3FB, 0x1F400)))  # presentation and skin tone: the same emoji


class MessageRelation(Struct, frozen=True, kw_only=True):
    """The act of a person, and the message that it is about. Read once for each message."""

    act: Verb  # whoever wrote the message that it is about
    verb: Verb  # as routes see it: to answer or react to an agent's words is a mention
    thread: str = ""  # its own, else that of the message that it is about
    emoji: str = ""  # of a reaction
    quoted: str = ""  # the platform's id of the message that it answers or reacts to
    parent: Message | None = None  # the message that it is about


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
        return self.kind is MessageKind.CHAT and self.event == "message" and is_person(self.sender)


def read_relation(db: Db, instance: str, inbound: Inbound) -> MessageRelation:
    if inbound.event == "message" and inbound.reply_to is None and not inbound.thread:  # as mostly
        return MessageRelation(act=inbound.verb, verb=inbound.verb)
    quoted, act = find_quoted(inbound), find_act(inbound)
    by_thread = inbound.thread if inbound.event == "message" else ""
    parent = find_parent(db, instance, inbound.address, quoted, by_thread)
    verb = promote(act, parent)
    if verb is not act and by_thread and quoted in ("", by_thread):
        # In a thread below an agent's words everything is about these, but only what begins the thread is a reply to
        # them: people may go on among themselves.
        begun = messages.is_thread_begun(db, instance, inbound.address, inbound.thread)
        verb = act if begun else verb
    thread, emoji = find_thread(inbound, parent), find_reaction(inbound.event)
    return MessageRelation(act=act, verb=verb, thread=thread, emoji=emoji, quoted=quoted, parent=parent)


def find_parent(db: Db, instance: str, address: str, quoted: str, thread: str = "") -> Message | None:
    """Return the message that one is about: the agent's if there is one of that id, else somebody's. One that quotes
    nothing is about the agent's words that its thread began with: on most platforms a thread has the id of those."""
    if quoted:
        ours = messages.find(db, instance, address, Direction.OUT, quoted)
        return ours or messages.find(db, instance, address, Direction.IN, quoted)
    return messages.find(db, instance, address, Direction.OUT, thread) if thread else None


def find_reaction(event: str) -> str:
    """Return the emoji of `reaction:<emoji>:<sender>`, '' for another event. A name may have colons around it."""
    kind, _, rest = event.partition(":")
    if kind != "reaction":
        return ""
    return rest.lstrip(":").partition(":")[0]


def find_quoted(inbound: Inbound) -> str:
    """Return the platform's id of the message that this one answers or reacts to, '' if it stands alone."""
    if inbound.reply_to is not None:
        return inbound.reply_to.platform_id
    return inbound.platform_id if find_reaction(inbound.event) else ""


def find_act(inbound: Inbound) -> Verb:
    """Return what the person did, whoever wrote the message that it is about."""
    emoji = find_reaction(inbound.event)
    if not emoji or inbound.verb is Verb.UNTRUSTED:
        return inbound.verb
    return Verb.DISLIKE if emoji.translate(_SHADES) in NEGATIVE else Verb.LIKE


def find_thread(inbound: Inbound, parent: Message | None) -> str:
    """Return the thread of a message: its own, else that of the message that it is about."""
    return inbound.thread or (parent.thread if parent is not None else "")


def promote(act: Verb, parent: Message | None) -> Verb:
    """Return the verb that routes see of an act."""
    return Verb.MENTION if parent is not None and is_agents(parent) and act in _PROMOTED else act


def is_agents(message: Message) -> bool:
    """Return True if an agent said it, and not the gateway itself."""
    return message.direction == Direction.OUT and message.sender != SYSTEM


def read_route_table(db: Db) -> RouteTable:
    return routing.make_route_table(routes.list_all(db))


def make_question(db: Db, rules: RuleCache, said: RoutedMessage) -> RouteQuestion:
    table = rules.read(db, read_route_table)
    facts = routing.make_match_input(
        said.instance,
        said.address,
        sender=said.sender,
        verb=said.verb,
        text=said.text,
        thread=said.thread,
        names=rules.read(db, identities.list_names, said.sender) if said.sender and table.asks_sender else (),
    )
    return RouteQuestion(table, facts, lambda folder: rules.read(db, groups.get, folder) is not None)


def read_spoken(db: Db, rules: RuleCache, said: RoutedMessage, now: int) -> Spoken:
    """Return what a person says besides what routes ask for. It costs nothing where nobody is engaged and nobody
    chose."""
    if said.kind is not MessageKind.CHAT or said.verb is Verb.UNTRUSTED or not is_person(said.sender):
        return NOTHING_SPOKEN
    parent = said.parent
    wrote = parent.folder if parent is not None and said.verb is Verb.MENTION and is_agents(parent) else ""
    if said.event != "message":
        return Spoken(parent=wrote)
    address = parse_address(said.text, said.own_names) if not said.is_command else None
    if address is not None and not address.rest and said.with_files:
        address = None  # it is about the files
    choice = None
    if rules.read_place(db, engagements.has_any_choice):
        choice = rules.read_place(db, engagements.get_choice, *said.place, said.sender)
    if senders.is_program(said.sender):
        return Spoken(parent=wrote, address=address, choice=choice, plain=said.verb in PLAIN)
    engaged = (
        rules.read_place(db, engagements.list_at, *said.place) if rules.read_place(db, engagements.has_any) else ()
    )
    on = tuple(each for each in engaged if each.is_on(now)) if engaged else ()
    return Spoken(
        parent=wrote,
        address=address,
        choice=choice,
        engaged=on,
        plain=said.verb in PLAIN,
        can_engage=not said.is_command,
    )
