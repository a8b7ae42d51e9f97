"""What people hear while the operator has stopped everything: each room once, however much is said there."""

from gatepost.flow.delivery.outgoing import Reach, Say, say
from gatepost.store.port import Db
from gatepost.store.switches import Switch

TOLD = (
    "Whoever runs this gateway has stopped everything for now. Messages are kept, and are worked on when it goes on"
    " again."
)


def tell(db: Db, reach: Reach, switch: Switch, instance: str, address: str, thread: str, now: int) -> None:
    """The key is the room's and this panic's: the second time it is there already."""
    notice = Say(
        key=f"notice:panic:{switch.since}:{instance}:{address}",
        origin="notice",
        instance=instance,
        address=address,
        thread=thread,
        text=TOLD,
    )
    say(db, reach, notice, now)
