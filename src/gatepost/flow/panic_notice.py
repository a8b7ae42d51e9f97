"""Notices while the operator has stopped everything: each room once, however much is said there."""

from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost.store.rights.switches import Switch

NOTICE = (
    "Whoever runs this gateway has stopped everything for now. Messages are kept, and are worked on when it goes on"
    " again."
)


def key_of(switch: Switch, instance: str, address: str) -> str:
    """The room's and this panic's: said a second time, it is there already."""
    return f"notice:panic:{switch.since}:{instance}:{address}"


def add_panic_notice(
    db: Db, channels: ChannelInstances, switch: Switch, instance: str, address: str, thread: str, now: int
) -> None:
    notice = OutgoingMessage(
        key=key_of(switch, instance, address),
        origin=EffectOrigin.NOTICE,
        instance=instance,
        address=address,
        thread=thread,
        text=NOTICE,
    )
    add_outgoing_message(db, channels, notice, now)
