"""Notices of the gateway itself. People read why a message could not be answered: plain words, no internals, always a
way on. A room reads once that the operator has stopped everything. Owners read about trouble, once for each key."""

from collections.abc import Sequence

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.flow.delivery.outgoing_messages import (
    ChannelInstances,
    OutgoingMessage,
    add_outgoing_message,
    find_or_add,
)
from gatepost.flow.requests.ask_approver import list_approvers
from gatepost.mailbox.runner_frames import TurnErrorClass
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.rights.switches import Switch
from gatepost.store.rooms import direct_rooms

_BY_CLASS: dict[str, str] = {
    TurnErrorClass.AUTH: "the agent's account was not accepted. Whoever runs this gateway needs to renew its key.",
    TurnErrorClass.QUOTA: "the agent's account with the model's vendor has no quota left. Whoever runs this gateway"
    " can raise it; some come back alone.",
    TurnErrorClass.OVERLOAD: "the model has too much to do at the moment. Send it again in a few minutes.",
    TurnErrorClass.NETWORK: "the model cannot be reached at the moment. Send it again in a few minutes; if that does"
    " not help, whoever runs this gateway needs to look.",
    TurnErrorClass.REFUSAL: "the model declined to answer it. Say it in another way, or ask for something else.",
    TurnErrorClass.OVERFLOW: "this is more than the model can read at once. Send it in smaller parts.",
}
# Failures that a refused host cannot have caused.
_NOT_OF_HOSTS = frozenset(_BY_CLASS) - {TurnErrorClass.NETWORK} | {TurnErrorClass.BUDGET}
STOPPED = "Stopped."
ASLEEP = "Somebody has to decide about something before I can go on. I do as soon as they have; /stop ends it."
INTERRUPTED = "I was interrupted, and go on with your message."
NO_RESOURCES = (
    "This gateway lacks something for a while, such as space on its disk. Your message waits, and I begin with it as"
    " soon as I can."
)
NO_PLACE = "Other agents are at work, and all places are taken. I begin with your message as soon as one is free."
PANIC = (
    "Whoever runs this gateway has stopped everything for now. Messages are kept, and are worked on when it goes on"
    " again."
)
REST = "I am at rest. Your message is kept, and I answer it when somebody wakes me."
MOST_TOLD = 10  # owners who are told of one thing


def render_failure(reason: str, error_class: str, count: int) -> str:
    """One notice for a turn, however many messages were in it."""
    if error_class == TurnErrorClass.BUDGET:  # says which, until when, and what an operator can do
        return (
            f"Sorry, I could not answer {_count(count)}: {reason[:1].lower()}{_plain(reason)[1:]} Send it again then."
        )
    why = _BY_CLASS.get(error_class, _plain(reason))
    again = "" if error_class in _BY_CLASS else " You can send it again."
    return f"Sorry, I could not answer {_count(count)}: {why}{again}"


def render_refused_hosts(hosts: Sequence[str], error_class: str) -> str:
    """Render which hosts the turn was refused, as far as they can be why it failed; '' if none."""
    if not hosts or error_class in _NOT_OF_HOSTS:
        return ""
    named = ", ".join(f"`{each}`" for each in hosts)
    return f" Meanwhile I was refused {named}. Whoever runs this gateway can allow that."


def _count(count: int) -> str:
    return "your message" if count <= 1 else f"{count} messages"


def _plain(reason: str) -> str:
    sentence = reason.strip().splitlines()[0][:300] if reason.strip() else "the agent did not finish"
    return sentence if sentence.endswith((".", "!", "?")) else sentence + "."


def render_out_of_time(*, spoke: bool) -> str:
    """Render the notice of a turn that ran out of time. `spoke`: some of its words were delivered before."""
    so_far = "What I have so far is above" if spoke else "I had nothing to show yet"
    return f"My time for this ran out before I was done. {so_far}; write to me, and I go on from there."


def make_stop_key(switch: Switch, instance: str, address: str) -> str:
    """The room's and this stop's: said a second time, it is there already."""
    return f"notice:{switch.name}:{switch.since}:{instance}:{address}"


def render_way_out(switch: Switch) -> str:
    """Render the command by which it goes on."""
    return "gatepost panic --off" if switch.name == switches.PANIC else f"gatepost group wake {switch.folder}"


def add_stop_notice(
    db: Db, channels: ChannelInstances, switch: Switch, instance: str, address: str, thread: str, now: int
) -> None:
    notice = OutgoingMessage(
        key=make_stop_key(switch, instance, address),
        origin=EffectOrigin.NOTICE,
        instance=instance,
        address=address,
        thread=thread,
        text=PANIC if switch.name == switches.PANIC else REST,
    )
    add_outgoing_message(db, channels, notice, now)


def add_owner_notices(db: Db, channels: ChannelInstances, key: str, text: str, now: int) -> tuple[tuple[str, str], ...]:
    """The rooms to ring, once it is committed. A room of a channel that runs comes before others."""
    owners = tuple(list_approvers(db, ROOT_FOLDER)[:MOST_TOLD])
    found = direct_rooms.list_for_people(db, owners)
    found.sort(key=lambda room: channels.find_channel(room.instance) is None)
    places = dict[str, tuple[str, str]]()
    for room in found:
        places.setdefault(room.user_id, (room.instance, room.address))
    rooms = []
    for instance, address in dict.fromkeys(places.values()):
        notice = OutgoingMessage(
            key=f"notice:{key}:{instance}:{address}",
            origin=EffectOrigin.NOTICE,
            instance=instance,
            address=address,
            text=text,
        )
        if find_or_add(db, channels, notice, now)[1]:
            rooms.append((instance, address))
    return tuple(rooms)
