"""Secrets: set, list, remove, rotate, bind to hosts, and the record of their uses. A value comes in and never goes
out."""

import re
from typing import Any

from gatepost.access.tiers import check_folder
from gatepost.core import settings
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.egress import bound, rules, speech
from gatepost.egress.endpoints import BASES, VENDORS, base_in_force, key_origins, read_origin
from gatepost.egress.rules import Target
from gatepost.serve.control.contract import OPERATOR, Args, Nothing, Office, as_told, operation, write_down
from gatepost.store import bindings, egress, groups, secrets, users
from gatepost.store.port import Db
from gatepost.store.secrets import Place

LARGEST_VALUE = 64 * 1024  # bytes
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")


class Set(Args, frozen=True):
    name: str
    value: str
    folder: str = ""
    user: str = ""  # neither: the whole gateway's
    origin: str = ""  # of a model's key: the endpoint that it is for; '': the one in force

    def __repr__(self) -> str:
        return f"Set({self.name!r}, folder={self.folder!r}, user={self.user!r})"


class Named(Args, frozen=True):
    name: str
    folder: str = ""
    user: str = ""
    origin: str = ""  # '': those for every endpoint


class Bind(Args, frozen=True):
    name: str
    host: str  # host, host:port, or http://host[:port]
    header: str = "Authorization: Bearer {}"
    folder: str = ""  # '': every group


class Unbind(Args, frozen=True):
    name: str
    host: str
    folder: str = ""


class Rotate(Args, frozen=True):
    keep: bool = False  # keys that nothing in the store needs any more, for older backups


class Log(Args, frozen=True):
    limit: int = 50


def check_name(name: str) -> str:
    """Does not repeat what was given: it may be the value, in the wrong place."""
    if not _NAME.match(name):
        raise Invalid("name", "a secret is named in capitals, digits and `_`, at most 64, like ANTHROPIC_API_KEY")
    return name


def check_value(value: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise Invalid("value", "is not text") from None
    if not value.strip():
        raise Invalid("value", "is empty; `gatepost secret rm` removes a secret")
    if size > LARGEST_VALUE or "\x00" in value:
        raise Invalid("value", f"is longer than {LARGEST_VALUE} bytes, or no text")
    return value


def place_of(folder: str, user: str) -> Place:
    if folder and user:
        raise Invalid("user", "a secret is a folder's or a person's, not both")
    return Place(check_folder(folder) if folder else "", user)


def origin_in_force(db: Db, home: Home, folder: str, name: str) -> str:
    """The endpoint that a model's key set now is for; '' for every other secret."""
    if name == speech.TTS_API_KEY:
        base = speech.base_of(settings.peek(home.path, speech.BASE))
        return base.origin if base else ""
    vendor = VENDORS.get(name)
    return base_in_force(db, home, folder, vendor).origin if vendor else ""


def _check_known(db: Db, place: Place) -> None:
    """A secret goes with its group or its person, so these must be there."""
    if place.folder and groups.get(db, place.folder) is None:
        raise NotFound("group", place.folder, f"`gatepost group add {place.folder}` makes it")
    if place.user_id and users.get(db, place.user_id) is None:
        raise NotFound("user", place.user_id, f"`gatepost user add {place.user_id}` makes them known")


@operation("secret.set", Set)
async def put(office: Office, args: Set) -> dict[str, Any]:
    name, value, place = check_name(args.name), check_value(args.value), place_of(args.folder, args.user)
    keyring, now = Keyring(office.home), office.clock.now()
    given = read_origin(args.origin) if args.origin else ""
    if given and name != speech.TTS_API_KEY and name not in VENDORS:
        raise Invalid("for", f"{name} is no model's key; `gatepost secret bind {name} HOST` has it sent to a host")

    def insert(db: Db) -> dict[str, Any]:
        _check_known(db, place)
        secrets.bind_origins(db, key_origins(settings.peek(office.home.path, *BASES.values())))
        origin = given or origin_in_force(db, office.home, place.folder, name)
        new = secrets.get(db, place, name, (origin,)) is None
        return {**as_told(secrets.put(db, keyring, place, name, value, now, origin)), "new": new}

    return await write_down(office, "secret.set", {"name": name, "scope": place.scope}, insert)


@operation("secret.list", Nothing)
async def every(office: Office, args: Nothing) -> list[dict[str, Any]]:
    return [as_told(secret) for secret in await office.store.read(secrets.every)]


@operation("secret.log", Log)
async def uses(office: Office, args: Log) -> list[dict[str, Any]]:
    return [as_told(use) for use in await office.store.read(secrets.uses, max(0, args.limit))]


@operation("secret.rm", Named)
async def remove(office: Office, args: Named) -> dict[str, Any]:
    """Needs no key ring: what cannot be read any more can still be removed."""
    name, place = check_name(args.name), place_of(args.folder, args.user)
    origin = read_origin(args.origin) if args.origin else None

    def delete(db: Db) -> dict[str, Any]:
        if not secrets.remove(db, place, name, origin):
            raise NotFound("secret", name, f"{place} has none of its own; `gatepost secret list` shows them")
        return {"name": name, "folder": place.folder, "user_id": place.user_id}

    return await write_down(office, "secret.rm", {"name": name, "scope": place.scope}, delete)


@operation("secret.bind", Bind)
async def bind(office: Office, args: Bind) -> dict[str, Any]:
    name, place, (header, template) = check_name(args.name), bound.read_place(args.host), bound.read_header(args.header)
    holder, now = place_of(args.folder, "").folder, office.clock.now()

    def put(db: Db) -> dict[str, Any]:
        _check_known(db, Place(holder))
        made = bindings.put(db, holder or None, name, place, header, template, OPERATOR, now)
        verdict = rules.judge(egress.rules(db), holder, Target(*place[1:]))
        there = any(secret.name == name for secret in secrets.every(db))
        return {**as_told(made), "is_set": there, "is_allowed": verdict.allowed}

    details = {"name": name, "place": args.host, "header": header, "folder": holder}
    return await write_down(office, "secret.bind", details, put)


@operation("secret.unbind", Unbind)
async def unbind(office: Office, args: Unbind) -> list[dict[str, Any]]:
    name, place = check_name(args.name), bound.read_place(args.host)

    def delete(db: Db) -> list[dict[str, Any]]:
        gone = bindings.remove(db, args.folder or None, name, place)
        if not gone:
            raise NotFound("binding", f"{name} to {args.host}", "`gatepost secret list` shows what is bound to what")
        return [as_told(each) for each in gone]

    details = {"name": name, "place": args.host, "folder": args.folder}
    return await write_down(office, "secret.unbind", details, delete)


@operation("secret.bindings", Nothing)
async def every_binding(office: Office, args: Nothing) -> list[dict[str, Any]]:
    return [as_told(each) for each in await office.store.read(bindings.every)]


@operation("secret.rotate", Rotate)
async def rotate(office: Office, args: Rotate) -> dict[str, Any]:
    """In two transactions: the old key goes when what it sealed is sealed anew on the disk."""
    keyring = Keyring(office.home)
    details = {"keep": args.keep}
    key_id, count = await write_down(office, "secret.rotate", details, lambda db: secrets.reseal(db, keyring))
    dropped: list[str] = []
    if keyring.is_file and not args.keep:
        dropped = await office.store.write(secrets.drop_unused_keys, keyring)
    unused = await office.store.read(secrets.unused_keys, keyring)
    return {
        "key_id": key_id,
        "resealed": count,
        "dropped": dropped,
        "unused": unused,
        "kept_in": keyring.where,
        "is_file": keyring.is_file,
    }
