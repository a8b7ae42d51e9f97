"""The person who uses a browser that is signed in. An owner sees every room of the page; everybody else sees one of
their own."""

from msgspec import Struct

from gatepost.flow.groups import WEB_PERSON, WEB_ROOM
from gatepost.store.people import identities, logins, users
from gatepost.store.people.logins import BrowserLogin
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db, inline_read

OWN_ROOM = WEB_ROOM


class WebVisitor(Struct, frozen=True):
    """`room`: the only one that the visitor sees; '' for an owner. `login`: the id of their browser."""

    user: str
    room: str
    names: tuple[str, ...] = ()  # all of their identities
    called: str = ""  # how people call them
    login: str = ""
    language: str = ""  # that they chose

    @property
    def person(self) -> str:
        """Return whom they are, whatever identity they signed in by."""
        return self.names[0] if self.names else self.user

    def is_direct(self, room: str, main_room: str) -> bool:
        """Return True if a room of the page is the visitor's alone. An owner writes in other people's rooms, too: what
        is meant for their eyes must not be shown there."""
        return room == (self.room or main_room) or room == OWN_ROOM + self.user.removeprefix(WEB_PERSON)


@inline_read
def find_visitor(db: Db, token: str, now: int) -> WebVisitor | None:
    """By the cookie of a browser. Judged anew with each request, by the rights of now."""
    found = find_browser_visitor(db, token, now)
    return found[0] if found else None


@inline_read
def find_browser_visitor(db: Db, token: str, now: int) -> tuple[WebVisitor, BrowserLogin] | None:
    browser = logins.find_browser(db, token, now)
    if browser is None:
        return None
    user = browser.user_id
    owner = (UserRole.OWNER, "") in users.get_roles(db, user).roles
    room = "" if owner else OWN_ROOM + user.removeprefix(WEB_PERSON)
    names = identities.list_names(db, user)
    known = users.get(db, names[0])
    called = (known.name if known else "") or user.rpartition("/")[2]
    return WebVisitor(user, room, names, called, browser.id, known.language if known else ""), browser
