"""The route by which what one person writes in her own chat reaches a group that she was let into."""

from msgspec import Struct

from gatepost.flow import sender_rights
from gatepost.flow.intake import routing
from gatepost.messages import address as addresses
from gatepost.store import groups, routes
from gatepost.store.port import Db
from gatepost.store.routes import Route

SEQ = 0  # a room that was given to a group by name comes before every pattern


class PersonalChat(Struct, frozen=True):
    """A direct chat of one person."""

    instance: str
    address: str
    sender: str


def list_reached(db: Db, chat: PersonalChat) -> list[str]:
    """The groups that what she writes there is for."""
    facts = routing.make_match_input(chat.instance, addresses.parse(chat.address), sender=chat.sender)
    decision = routing.decide(routes.list_all(db), facts, lambda each: groups.get(db, each) is not None)
    return [each.folder for each in decision.chosen if not each.observe]


def is_known(db: Db, chat: PersonalChat) -> bool:
    """Whether a group that she reaches there knows her: it keeps the chat."""
    rights = (sender_rights.find_rights(db, chat.sender, each) for each in list_reached(db, chat))
    return any(each not in (None, "guest") for each in rights)


def add_route(db: Db, chat: PersonalChat, folder: str, by: str, now: int) -> Route:
    """For her alone, in her room alone."""
    return routes.add(
        db,
        Route(seq=SEQ, match=render_match(chat), target=folder, folder=folder, created_by=by, created_at=now),
    )


def render_match(chat: PersonalChat) -> str:
    return f'channel="{chat.instance}" chat_jid="{chat.address}" sender="{chat.sender}"'
