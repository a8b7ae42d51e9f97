"""One-time addresses of the web page, each of which signs somebody in. A person has one identity on the page, made when
they first get an address. Only hashes of the tokens are kept."""

import re
from itertools import count

from gatepost.core.clock import MINUTE
from gatepost.flow.groups import WEB_PERSON
from gatepost.flow.people.personal_routes import add_page_route
from gatepost.store.people import identities, logins, users
from gatepost.store.port import Db

ONCE = 10 * MINUTE  # how long a one-time address may be redeemed
IDENTITY = WEB_PERSON
LONGEST_NAME = 30
_NO_NAME = re.compile(r"[^a-z0-9]+")


def issue_for_person(db: Db, named: str, now: int) -> tuple[str, str]:
    """Return a person's identity on the page, and a token that signs one browser in as it. `named`: any identity of
    theirs."""
    identity = get_page_identity(db, named, now)
    add_page_route(db, identity, now)
    return identity, logins.issue_once(db, identity, now + ONCE, now)


def get_page_identity(db: Db, named: str, now: int) -> str:
    """Return the page's identity of a person who is known. It is made if they have none."""
    names = identities.list_names(db, named)
    known = next((each for each in names if each.startswith(IDENTITY)), None)
    return known or _add_identity(db, names[0], now)


def _add_identity(db: Db, person: str, now: int) -> str:
    """Add a person's identity on the page. It is named like them; nobody had that name before."""
    user = users.get(db, person)
    called = (user.name if user else "") or person.rpartition("/")[2]
    name = _NO_NAME.sub("-", called.lower())[:LONGEST_NAME].strip("-") or "person"
    wanted = (IDENTITY + (name if number == 1 else f"{name}-{number}") for number in count(1))
    identity = next(each for each in wanted if users.get(db, each) is None and identities.get(db, each) is None)
    users.add(db, identity, called, now)
    identities.add(db, identity, person, "gatepost:system", now)
    add_page_route(db, identity, now)
    return identity
