"""Visits by a chat link: a stranger gets an identity, a secret and a room of their own below the link's.

The room leads to the link's group alone. That is a route, so everything that asks where a room leads sees the same; it
comes before what operators write for other rooms. A second route drops what no link's own route holds for: a room whose
link is gone must not fall to whoever gets all the rest.
"""

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.errors import Refused
from gatepost.flow.links.link_tokens import PREFIXES
from gatepost.store.port import Db, inline_read
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import Token, TokenKind
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups
from gatepost.store.web import links
from gatepost.store.web.links import LinkVisitor, NewLinkVisitor

ROOMS = PREFIXES[TokenKind.CHAT_LINK]  # what the addresses of all these rooms begin with
IDENTITY = "web:visitor/"  # what the identities of visitors begin with; nobody signs in as one
SEQ, DROP_SEQ = 0, 1  # of the routes
MADE_BY = "gatepost:links"
DROP_MATCH = f"chat_jid={ROOMS}**"


class LinkFacts(Struct, frozen=True):
    """Facts that whoever holds a link is told before they say anything."""

    token: Token
    name: str  # of the group


class StartedVisit(Struct, frozen=True):
    """`secret`: it is shown once."""

    visitor: LinkVisitor
    secret: str


class TooManyVisitors(Refused):
    def __init__(self) -> None:
        super().__init__("a visitor", "come in", why="too many use this link; try again tomorrow")


@inline_read
def find_link(db: Db, secret: str, now: int) -> LinkFacts | None:
    """Unknown, revoked and too old look alike."""
    token = tokens.find_valid(db, TokenKind.CHAT_LINK, secret, now)
    group = groups.get(db, token.folder) if token is not None and token.folder is not None else None
    return LinkFacts(token, group.name or "Chat") if token is not None and group is not None else None


def start_visit(db: Db, instance: str, secret: str, now: int) -> StartedVisit | None:
    """None if the link is not valid."""
    token = tokens.use(db, TokenKind.CHAT_LINK, secret, now)
    if token is None or token.folder is None:
        return None
    _ensure_routes(db, token, now)
    visitor_id, visitor_secret = links.make_visitor_id(), ids.token()
    new = NewLinkVisitor(
        id=visitor_id,
        token_id=token.id,
        identity=f"{IDENTITY}{visitor_id}",
        address=f"{make_base(token)}/{visitor_id}",
    )
    made = links.add_visitor(db, new, visitor_secret, now)
    if made is None:
        raise TooManyVisitors
    rooms.add(db, instance, made.address, make_room_name(token, made), True, RoomPolicy.PUBLIC, now)
    return StartedVisit(made, visitor_secret)


def has_routes(db: Db, visitor: LinkVisitor) -> bool:
    """Return True if the visitor's room still leads to the link's group. Somebody may have set other routes in the
    place of all."""
    matches = {each.match for each in routes.list_all(db)}
    token = tokens.get(db, visitor.token_id)
    return token is not None and {render_match(token), DROP_MATCH} <= matches


def restore_routes(db: Db, visitor: LinkVisitor, now: int) -> None:
    """Restore the routes that the visitor came by: what they say must fall to nobody else."""
    token = tokens.get(db, visitor.token_id)
    if token is not None and token.folder is not None:
        _ensure_routes(db, token, now)


def make_base(token: Token) -> str:
    """The link's rooms are below it. The token's id tells two links apart whose addresses are written alike."""
    return f"{token.address}/{token.id}"


def make_room_name(token: Token, visitor: LinkVisitor) -> str:
    return f"{token.label or token.folder} visitor {visitor.id[-4:]}"


def is_link_room(address: str) -> bool:
    return address.startswith(ROOMS)


def _ensure_routes(db: Db, token: Token, now: int) -> None:
    known = routes.list_all(db)
    _remove_old_routes(db, known)
    assert token.folder is not None
    link = Route(
        seq=SEQ,
        match=render_match(token),
        target=f"folder:{token.folder}",
        folder=token.folder,
        created_by=MADE_BY,
        created_at=now,
    )
    rest = Route(seq=DROP_SEQ, match=DROP_MATCH, target="drop", created_by=MADE_BY, created_at=now)
    matches = {each.match for each in known}
    for each in (link, rest):
        if each.match not in matches:
            routes.add(db, each)


def render_match(token: Token) -> str:
    return f'chat_jid="{make_base(token)}/*"'


def _remove_old_routes(db: Db, known: list[Route]) -> None:
    """Remove the routes of links that are not even listed any more."""
    for each in known:
        if each.created_by == MADE_BY and each.match != DROP_MATCH:
            token_id = each.match.rpartition("/")[0].rpartition("/")[2]
            if tokens.get(db, token_id) is None:
                routes.remove(db, each.id)
