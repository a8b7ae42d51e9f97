"""Secrets: set, list, remove, rotate, bind to hosts, and the record of their uses. A value comes in and never goes
out."""

import re
from typing import Any

from gatepost.access.tiers import check_folder
from gatepost.core import settings
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.egress import rules, secret_bindings, speech
from gatepost.egress.endpoints import BASES, VENDORS, base_in_force, key_origins, read_origin
from gatepost.egress.rules import EgressTarget
from gatepost.serve.control.contract import (
    OPERATOR,
    NoArgs,
    OperationArgs,
    OperationDeps,
    operation,
    run_audited,
    to_json,
)
from gatepost.store import bindings, egress, groups, secrets, users
from gatepost.store.port import Db
from gatepost.store.secrets import SecretOwner

LARGEST_VALUE = 64 * 1024  # bytes
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")


class SetSecretArgs(OperationArgs, frozen=True):
    name: str
    value: str
    folder: str = ""
    user: str = ""  # neither: the whole gateway's
    origin: str = ""  # of a model's key: the endpoint that it is for; '': the one in force

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, folder={self.folder!r}, user={self.user!r})"


class SecretArgs(OperationArgs, frozen=True):
    name: str
    folder: str = ""
    user: str = ""
    origin: str = ""  # '': those for every endpoint


class BindSecretArgs(OperationArgs, frozen=True):
    name: str
    host: str  # host, host:port, or http://host[:port]
    header: str = "Authorization: Bearer {}"
    folder: str = ""  # '': every group


class UnbindSecretArgs(OperationArgs, frozen=True):
    name: str
    host: str
    folder: str = ""


class RotateKeysArgs(OperationArgs, frozen=True):
    keep: bool = False  # keys that nothing in the store needs any more, for older backups


class SecretLogArgs(OperationArgs, frozen=True):
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


def parse_owner(folder: str, user: str) -> SecretOwner:
    if folder and user:
        raise Invalid("user", "a secret is a folder's or a person's, not both")
    return SecretOwner(check_folder(folder) if folder else "", user)


def find_key_origin(db: Db, home: Home, folder: str, name: str) -> str:
    """The endpoint that a model's key set now is for; '' for every other secret."""
    if name == speech.TTS_API_KEY:
        base = speech.find_speech_base(settings.load_declared(home.path, speech.BASE))
        return base.origin if base else ""
    vendor = VENDORS.get(name)
    return base_in_force(db, home, folder, vendor).origin if vendor else ""


def _check_owner_exists(db: Db, place: SecretOwner) -> None:
    """A secret goes with its group or its person, so these must be there."""
    if place.folder and groups.get(db, place.folder) is None:
        raise NotFound("group", place.folder, f"`gatepost group add {place.folder}` makes it")
    if place.user_id and users.get(db, place.user_id) is None:
        raise NotFound("user", place.user_id, f"`gatepost user add {place.user_id}` makes them known")


@operation("secret.set", SetSecretArgs)
async def set_secret(office: OperationDeps, args: SetSecretArgs) -> dict[str, Any]:
    name, value, place = check_name(args.name), check_value(args.value), parse_owner(args.folder, args.user)
    keyring, now = Keyring(office.home), office.clock.now()
    given = read_origin(args.origin) if args.origin else ""
    if given and name != speech.TTS_API_KEY and name not in VENDORS:
        raise Invalid("for", f"{name} is no model's key; `gatepost secret bind {name} HOST` has it sent to a host")

    def insert(db: Db) -> dict[str, Any]:
        _check_owner_exists(db, place)
        secrets.bind_origins(db, key_origins(settings.load_declared(office.home.path, *BASES.values())))
        origin = given or find_key_origin(db, office.home, place.folder, name)
        new = secrets.get(db, place, name, (origin,)) is None
        return {**to_json(secrets.put(db, keyring, place, name, value, now, origin)), "new": new}

    return await run_audited(office, "secret.set", {"name": name, "scope": place.scope}, insert)


@operation("secret.list", NoArgs)
async def list_secrets(office: OperationDeps, args: NoArgs) -> list[dict[str, Any]]:
    return [to_json(secret) for secret in await office.store.read(secrets.list_all)]


@operation("secret.log", SecretLogArgs)
async def list_uses(office: OperationDeps, args: SecretLogArgs) -> list[dict[str, Any]]:
    return [to_json(use) for use in await office.store.read(secrets.list_uses, max(0, args.limit))]


@operation("secret.rm", SecretArgs)
async def remove(office: OperationDeps, args: SecretArgs) -> dict[str, Any]:
    """Needs no key ring: what cannot be read any more can still be removed."""
    name, place = check_name(args.name), parse_owner(args.folder, args.user)
    origin = read_origin(args.origin) if args.origin else None

    def delete(db: Db) -> dict[str, Any]:
        if not secrets.remove(db, place, name, origin):
            raise NotFound("secret", name, f"{place} has none of its own; `gatepost secret list` shows them")
        return {"name": name, "folder": place.folder, "user_id": place.user_id}

    return await run_audited(office, "secret.rm", {"name": name, "scope": place.scope}, delete)


@operation("secret.bind", BindSecretArgs)
async def bind(office: OperationDeps, args: BindSecretArgs) -> dict[str, Any]:
    name, place, (header, template) = (
        check_name(args.name),
        secret_bindings.parse_binding_host(args.host),
        secret_bindings.parse_binding_header(args.header),
    )
    holder, now = parse_owner(args.folder, "").folder, office.clock.now()

    def put(db: Db) -> dict[str, Any]:
        _check_owner_exists(db, SecretOwner(holder))
        made = bindings.put(db, holder or None, name, place, header, template, OPERATOR, now)
        verdict = rules.check_target(egress.list_rules(db), holder, EgressTarget(*place[1:]))
        there = any(secret.name == name for secret in secrets.list_all(db))
        return {**to_json(made), "is_set": there, "is_allowed": verdict.allowed}

    details = {"name": name, "place": args.host, "header": header, "folder": holder}
    return await run_audited(office, "secret.bind", details, put)


@operation("secret.unbind", UnbindSecretArgs)
async def unbind(office: OperationDeps, args: UnbindSecretArgs) -> list[dict[str, Any]]:
    name, place = check_name(args.name), secret_bindings.parse_binding_host(args.host)

    def delete(db: Db) -> list[dict[str, Any]]:
        gone = bindings.remove(db, args.folder or None, name, place)
        if not gone:
            raise NotFound("binding", f"{name} to {args.host}", "`gatepost secret list` shows what is bound to what")
        return [to_json(each) for each in gone]

    details = {"name": name, "place": args.host, "folder": args.folder}
    return await run_audited(office, "secret.unbind", details, delete)


@operation("secret.bindings", NoArgs)
async def list_bindings(office: OperationDeps, args: NoArgs) -> list[dict[str, Any]]:
    return [to_json(each) for each in await office.store.read(bindings.list_all)]


@operation("secret.rotate", RotateKeysArgs)
async def rotate(office: OperationDeps, args: RotateKeysArgs) -> dict[str, Any]:
    """In two transactions: the old key goes when what it sealed is sealed anew on the disk."""
    keyring = Keyring(office.home)
    details = {"keep": args.keep}
    key_id, count = await run_audited(office, "secret.rotate", details, lambda db: secrets.reseal(db, keyring))
    dropped: list[str] = []
    if keyring.is_file and not args.keep:
        dropped = await office.store.write(secrets.remove_unused_keys, keyring)
    unused = await office.store.read(secrets.list_unused_keys, keyring)
    return {
        "key_id": key_id,
        "resealed": count,
        "dropped": dropped,
        "unused": unused,
        "kept_in": keyring.where,
        "is_file": keyring.is_file,
    }
