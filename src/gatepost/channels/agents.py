"""agents: the rooms of agents that somebody manages, one each. Nobody is in them but who made them; what an agent says
there is read from the ledger and its timeline."""

from gatepost.channels.contract import channel
from gatepost.channels.local_channel import LocalChannel
from gatepost.messages.outbound import Feature
from gatepost.store.rooms.rooms import RoomPolicy

FEATURES = frozenset({Feature.FILES, Feature.MARKDOWN, Feature.TYPING, Feature.KEYED})


@channel("agents", always=True, features=FEATURES, policy=RoomPolicy.STRICT)
class AgentsChannel(LocalChannel):
    platform = "agents"
