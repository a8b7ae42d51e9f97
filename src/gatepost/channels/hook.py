"""hook: the rooms of webhook links, `hook:<group>/<label>`. Programs post there by a link's address; what an agent says
there is in the ledger, and goes to a program that waits for it."""

from gatepost.channels.contract import channel
from gatepost.channels.local_channel import LocalChannel
from gatepost.messages.outbound import Feature
from gatepost.store.rooms.rooms import RoomPolicy

FEATURES = frozenset({Feature.MARKDOWN, Feature.TYPING, Feature.KEYED})


@channel("hook", always=True, features=FEATURES, policy=RoomPolicy.STRICT)
class HookChannel(LocalChannel):
    platform = "hook"
