"""Verbs: what a person did, as routes ask for it. Answering or reacting to the agent's own words is a `mention`."""

from gatepost.messages.inbound import Direction, Inbound, Verb
from gatepost.store.messages import SYSTEM, Message

NEGATIVE = frozenset(("👎", "💩", "😡", "🤬", "💔", "🤮", "😢", "-1", "thumbsdown"))
UNCHECKED = frozenset(("xmpp",))  # anybody in a room there may send a retraction of anything
_PROMOTED = frozenset((Verb.MESSAGE, Verb.REPLY, Verb.COMMENT, Verb.LIKE, Verb.DISLIKE))
_SHADES = dict.fromkeys((0xFE0F, *range(0x1F3FB, 0x1F400)))  # presentation and skin tone: the same emoji


def reaction_of(event: str) -> str:
    """The emoji of `reaction:<emoji>:<sender>`, '' for another event. A name may stand between colons of its own."""
    kind, _, rest = event.partition(":")
    if kind != "reaction":
        return ""
    return rest.lstrip(":").partition(":")[0]


def is_change(inbound: Inbound) -> bool:
    """Return True if an event changes what people see of an earlier message."""
    return inbound.verb in (Verb.EDIT, Verb.DELETE) and inbound.event != "message"


def may_change(inbound: Inbound, message: Message, platform: str) -> bool:
    """Return True if an edit or a deletion counts. Platforms let moderators delete; only authors edit."""
    if inbound.sender == message.sender:
        return True
    return inbound.verb is Verb.DELETE and platform not in UNCHECKED


def parent_of(inbound: Inbound) -> str:
    """The platform's id of the message that this one answers or reacts to, '' if it stands alone."""
    if inbound.reply_to is not None:
        return inbound.reply_to.platform_id
    return inbound.platform_id if reaction_of(inbound.event) else ""


def is_by_thread(inbound: Inbound) -> bool:
    """Return True if it is about another message only because both are of one thread."""
    return inbound.event == "message" and bool(inbound.thread) and parent_of(inbound) in ("", inbound.thread)


def find_verb(inbound: Inbound) -> Verb:
    """Return what the person did, whoever wrote the message it is about."""
    emoji = reaction_of(inbound.event)
    if not emoji or inbound.verb is Verb.UNTRUSTED:
        return inbound.verb
    return Verb.DISLIKE if emoji.translate(_SHADES) in NEGATIVE else Verb.LIKE


def promote(verb: Verb, parent: Message | None) -> Verb:
    """The verb that routes see."""
    return Verb.MENTION if parent is not None and is_agents(parent) and verb in _PROMOTED else verb


def is_agents(message: Message) -> bool:
    """Return True if an agent said it, and not the gateway itself."""
    return message.direction == Direction.OUT and message.sender != SYSTEM


def thread_of(inbound: Inbound, parent: Message | None) -> str:
    """Its own thread, else that of the message it is about."""
    return inbound.thread or (parent.thread if parent is not None else "")
