"""web: the chat page of the gateway. Rooms are `web:<name>`; the site in `serve/web/` shows them."""

from gatepost.channels.contract import channel
from gatepost.channels.local_channel import LocalChannel
from gatepost.messages.card import fits_page
from gatepost.messages.outbound import Feature

FEATURES = frozenset(
    {
        Feature.EDIT,
        Feature.DELETE,
        Feature.REACT,
        Feature.REPLY,
        Feature.FILES,
        Feature.THREADS,
        Feature.MARKDOWN,
        Feature.TYPING,
        Feature.CARDS,
        Feature.KEYED,
    }
)


@channel("web", always=True, features=FEATURES, fits_card=fits_page)
class WebChannel(LocalChannel):
    platform = "web"
    main_room = "web:home"
    owner = "web:user/owner"
