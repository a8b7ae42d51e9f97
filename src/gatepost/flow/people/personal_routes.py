"""The route by which the words of one person in their own chat reach a group that they were let into."""

from msgspec import Struct

from gatepost.flow import sender_rights
from gatepost.flow.groups import OWNER, OWNERS_IDENTITIES, OWNERS_ROOM, WEB_PERSON, WEB_ROOM
from gatepost.flow.intake import routing
from gatepost.flow.intake.routing import RouteDecision
from gatepost.messages import address as addresses
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups

SEQ = 0  # a room that was given to a group by name comes before every pattern


class PersonalChat(Struct, frozen=True):
    """A direct chat of one person."""

    instance: str
    address: str
    sender: str


def list_reached(db: Db, chat: PersonalChat) -> list[str]:
    """List the groups that get what the person writes there."""
    return [each.folder for each in _decide(db, chat).chosen if not each.observe]


def _decide(db: Db, chat: PersonalChat) -> RouteDecision:
    facts = routing.make_match_input(chat.instance, addresses.parse(chat.address), sender=chat.sender)
    return routing.decide(routes.list_all(db), facts, lambda each: groups.get(db, each) is not None)


def list_own_rooms(db: Db, person: str) -> list[str]:
    """List the rooms of the web page that are this person's own."""
    names = identities.list_names(db, person)
    own = [WEB_ROOM + each.removeprefix(WEB_PERSON) for each in names if each.startswith(WEB_PERSON)]
    return [OWNERS_ROOM, *own] if set(names) & {OWNER, *OWNERS_IDENTITIES} else own


def is_known(db: Db, chat: PersonalChat) -> bool:
    """Return True if a group that the person reaches there knows them: it keeps the chat."""
    rights = (sender_rights.find_rights(db, chat.sender, each) for each in list_reached(db, chat))
    return any(each not in (None, "guest") for each in rights)


def add_route(db: Db, chat: PersonalChat, folder: str, by: str, now: int) -> Route:
    """Add a route for one person alone, in their room alone."""
    return routes.add(
        db,
        Route(seq=SEQ, match=render_match(chat), target=folder, folder=folder, created_by=by, created_at=now),
    )


def add_page_route(db: Db, named: str, now: int) -> None:
    """Lead a person's own room of the web page to the only group that they belong to: they have no other room there.
    A room in which some group knows them, or which a route drops, stays as it is. `named`: any identity of theirs."""
    names = identities.list_names(db, named)
    roles = users.get_roles(db, names[0])
    known_in = {*roles.member_of, *(folder for _, folder in roles.roles if folder)}
    if len(known_in) != 1:
        return
    (folder,) = known_in
    for name in (each for each in names if each.startswith(WEB_PERSON)):
        chat = PersonalChat("web", WEB_ROOM + name.removeprefix(WEB_PERSON), name)
        if _decide(db, chat).dropped_by is None and not is_known(db, chat):
            add_route(db, chat, folder, "gatepost", now)


def render_match(chat: PersonalChat) -> str:
    return f'channel="{chat.instance}" chat_jid="{chat.address}" sender="{chat.sender}"'
