"""terminal: `gatepost chat`. Rooms are `terminal:<name>`, reached over control.sock: whoever may open it is the owner,
and speaks there under any name that they vouch for.

Text on a terminal cannot be taken back, so messages are not deleted here.
"""

from gatepost.channels.contract import channel
from gatepost.channels.local_channel import LocalChannel
from gatepost.messages.outbound import Feature
from gatepost.store.rooms.rooms import RoomPolicy

FEATURES = frozenset(
    {
        Feature.EDIT,
        Feature.REACT,
        Feature.REPLY,
        Feature.THREADS,
        Feature.MARKDOWN,
        Feature.TYPING,
        Feature.KEYED,
    }
)


@channel("terminal", always=True, features=FEATURES, policy=RoomPolicy.PUBLIC)
class TerminalChannel(LocalChannel):
    platform = "terminal"
    main_room = "terminal:main"
    owner = "terminal:owner"
