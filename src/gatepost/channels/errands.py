"""errands: the rooms in which agents work for other agents, one for each pair. Nobody is in them; what is said there
returns to the agent that asked, as the result of an errand."""

from gatepost.channels.contract import channel
from gatepost.channels.local_channel import LocalChannel
from gatepost.messages.outbound import Feature
from gatepost.store.rooms.rooms import RoomPolicy

FEATURES = frozenset({Feature.FILES, Feature.MARKDOWN, Feature.TYPING, Feature.KEYED})


@channel("errands", always=True, features=FEATURES, policy=RoomPolicy.STRICT)
class ErrandsChannel(LocalChannel):
    platform = "errands"
