"""Who may see the page: a one-time address lets one browser in, as one person. Even on loopback nobody else gets in.

The token stands in the fragment of the address, which no server log and no referrer ever sees; the page redeems it by
POST. Only hashes are kept. An owner sees every room of the page. Everybody else sees one room of her own.
"""

from msgspec import Struct

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import DAY, Clock
from gatepost.core.errors import NotFound
from gatepost.core.settings import setting
from gatepost.flow.groups import WEB_ROOM
from gatepost.flow.page_logins import IDENTITY, ONCE, issue_for_person
from gatepost.store import audit, identities, logins, users
from gatepost.store.port import Db, Store, quick
from gatepost.store.users import UserRole

BROWSER_DAYS = setting("web.login_days", 30, help="How long a browser stays signed in to the web page, in days.")
OWN_ROOM = WEB_ROOM


class WebVisitor(Struct, frozen=True):
    """Who uses a browser that is signed in. `room`: the only one that she sees; '' for an owner."""

    user: str
    room: str
    names: tuple[str, ...] = ()  # all of her identities
    called: str = ""  # how people call her

    def is_direct(self, room: str, main_room: str) -> bool:
        """Whether a room of the page is hers alone. An owner writes in other people's rooms, too: what is meant for her
        eyes must not be shown there."""
        return room == (self.room or main_room) or room == OWN_ROOM + self.user.removeprefix(IDENTITY)


@quick
def find_visitor(db: Db, token: str, now: int) -> WebVisitor | None:
    """By the cookie of a browser. Judged anew with each request, by the rights of now."""
    user = logins.find_browser_user(db, token, now)
    if user is None:
        return None
    owner = (UserRole.OWNER, "") in users.get_roles(db, user).roles
    room = "" if owner else OWN_ROOM + user.removeprefix(IDENTITY)
    names = identities.list_names(db, user)
    known = users.get(db, names[0])
    return WebVisitor(user, room, names, (known.name if known else "") or user.rpartition("/")[2])


def _issue_for_owner(db: Db, user: str, now: int) -> str:
    users.add(db, user, "owner", now)
    users.add_role(db, identities.get_person(db, user), UserRole.OWNER, "", "gatepost:system", now)
    return logins.issue(db, "once", user, now + ONCE, now)


def _issue_for_person(db: Db, named: str, now: int) -> str:
    names = identities.list_names(db, named)
    if users.get(db, names[0]) is None:
        raise NotFound("user", named, f"`gatepost user add {named}` makes them known")
    identity, token = issue_for_person(db, names[0], now)
    audit.append(db, audit.AuditRecord(now, "operator", "login", "done", {"person": names[0], "identity": identity}))
    return token


async def make_login_url(store: Store, clock: Clock, hub: LocalChannel, base: str, person: str = "") -> str:
    """An address that signs the first browser that opens it in as a person, for ten minutes. '': the owner."""
    issue, user = (_issue_for_person, person) if person else (_issue_for_owner, hub.owner)
    token = await store.write(issue, user, clock.now())
    return f"{base.rstrip('/')}/#token={token}"


def redeem(db: Db, token: str, now: int, days: int) -> str | None:
    """A browser's own token for a one-time one, in one transaction; None if that is unknown, used or too old."""
    user = logins.redeem(db, token, now)
    return logins.issue(db, "browser", user, now + days * DAY, now) if user else None
