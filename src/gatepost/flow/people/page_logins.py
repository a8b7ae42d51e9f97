"""One-time addresses of the web page, each of which signs somebody in. A person has one identity on the page, made when
they first get an address. Only hashes of the tokens are kept."""

import re
from collections.abc import Iterator
from itertools import count

from gatepost.core.clock import MINUTE
from gatepost.core.errors import Invalid
from gatepost.flow.groups import WEB_PERSON, WEB_ROOM
from gatepost.flow.people.name_likeness import is_disguised, make_plain
from gatepost.flow.people.personal_routes import add_page_route
from gatepost.store.people import identities, logins, person_removal, users
from gatepost.store.people.person_scope import PersonScope
from gatepost.store.people.users import SenderRoles
from gatepost.store.port import Db
from gatepost.store.rights import acl

ONCE = 10 * MINUTE  # how long a one-time address may be redeemed
IDENTITY = WEB_PERSON
OUR_NAMES = frozenset({"gatepost", "the operator", "operator", "the gateway"})  # as we are called on the page
SHORTEST_NAME, LONGEST_NAME = 2, 30
_NO_NAME = re.compile(r"[^a-z0-9]+")
_NAME = re.compile(r"[^\s=,!]+")  # in the conditions of a row


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


def add_person(db: Db, called: str, now: int) -> str:
    """Make somebody known by the name that they chose, and return their identity on the page. Raises Invalid for a name
    that somebody else has, or that a right was given to before anybody bore it."""
    if not SHORTEST_NAME <= len(called) <= LONGEST_NAME:
        raise Invalid("name", f"write {SHORTEST_NAME} to {LONGEST_NAME} characters")
    name = _make_name(called)
    if _is_misleading(db, called) or (name and not _is_free(db, IDENTITY + name)):
        raise Invalid("name", f"“{called}” is taken; choose another one")
    identity = next(each for each in _list_names(name) if _is_free(db, each))
    users.add(db, identity, called, now)
    return identity


def _is_misleading(db: Db, called: str) -> bool:
    """Return True if somebody is called so, or looks as if they were."""
    plain = make_plain(called)
    if is_disguised(called) or plain in map(make_plain, OUR_NAMES):
        return True
    return any(make_plain(user.name) == plain for user in users.list_all(db))


def _is_free(db: Db, identity: str) -> bool:
    """Return True if nobody has this identity, and nothing was given, sent or written to it before somebody has."""
    if users.get_roles(db, identity) != SenderRoles(known=False) or identity in acl.list_members(db):
        return False
    if any(identity in (row.principal, *_NAME.findall(row.predicate)) for row in acl.list_rows(db)):
        return False
    room = WEB_ROOM + identity.removeprefix(IDENTITY)
    scope = PersonScope((identity,), (("web", room),))
    return not person_removal.list_named_routes(db, scope) and not any(person_removal.count(db, scope).values())


def _list_names(name: str) -> Iterator[str]:
    """Identities on the page that are like a name, '' for one in other letters."""
    like = IDENTITY + (name or "person")
    return (like if number == 1 else f"{like}-{number}" for number in count(1))


def _make_name(called: str) -> str:
    return _NO_NAME.sub("-", called.lower())[:LONGEST_NAME].strip("-")


def _add_identity(db: Db, person: str, now: int) -> str:
    """Add a person's identity on the page. It is named like them; nobody had that name before."""
    user = users.get(db, person)
    called = (user.name if user else "") or person.rpartition("/")[2]
    wanted = _list_names(_make_name(called))
    identity = next(each for each in wanted if _is_free(db, each))
    users.add(db, identity, called, now)
    identities.add(db, identity, person, "gatepost:system", now)
    add_page_route(db, identity, now)
    return identity
