"""Secrets: set, list, remove, rotate, bind to hosts, and the record of their uses. Egress: which hosts sandboxes may
reach, and what they tried.

A secret's value comes in and never goes out.
"""

import asyncio

from gatepost.access.tiers import check_folder
from gatepost.core import settings
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.records import extend
from gatepost.core.secret_scrubber import SHORTEST_SECRET, render_too_short
from gatepost.egress import audio, embeddings, rules, secret_bindings, speech
from gatepost.egress.endpoints import BASES, VENDORS, base_in_force, key_origins, read_origin
from gatepost.egress.rules import EgressTarget
from gatepost.serve.control.arguments.secrets import (
    AllowHostArgs,
    BindSecretArgs,
    BindSecretResult,
    DenyHostArgs,
    EgressLogArgs,
    EgressRuleArgs,
    ListBindingsArgs,
    ListEgressRulesArgs,
    ListSecretsArgs,
    RemoveEgressRuleArgs,
    RemoveSecretArgs,
    RotateKeysArgs,
    RotateKeysResult,
    SecretListItem,
    SecretLogArgs,
    SecretRemoval,
    SetSecretArgs,
    SetSecretResult,
    UnbindSecretArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateway_checks import check_rotation
from gatepost.store.gateways.gateway_identity import find_mark, render_keys
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights import egress, secret_rows, secrets
from gatepost.store.rights.egress import EgressAttempt, EgressRule
from gatepost.store.rights.secret_rows import Binding, SecretOwner, SecretUse, check_name, is_channel_secret
from gatepost.store.sessions import groups

LARGEST_VALUE = 64 * 1024  # bytes


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


def check_key(name: str, value: str) -> str:
    """The same for a secret that is struck out of answers: a short one would be struck out of ordinary words."""
    if len(check_value(value)) < SHORTEST_SECRET and not is_channel_secret(name):
        raise Invalid("value", render_too_short(name))
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
    if name == embeddings.EMBEDDING_API_KEY:
        endpoint = embeddings.find_embedding_endpoint(settings.load_declared(home.path, *embeddings.SETTINGS))
        return endpoint.base.origin if endpoint else ""
    if name == audio.TRANSCRIBE_API_KEY:
        found = audio.find_transcription_endpoint(
            settings.load_declared(home.path, audio.BASE, audio.MODEL, audio.PRICE)
        )
        if found is None:
            raise Invalid(
                "name", f"{name} is for an endpoint: set {audio.BASE.name} first, or name the endpoint (--for)"
            )
        return found.base.origin
    vendor = VENDORS.get(name)
    return base_in_force(db, home, folder, vendor).origin if vendor else ""


def _check_owner_exists(db: Db, place: SecretOwner) -> None:
    """A secret goes with its group or its person, so these must be there."""
    if place.folder and groups.get(db, place.folder) is None:
        raise NotFound("group", place.folder, f"`gatepost group add {place.folder}` makes it")
    if place.user_id and users.get(db, place.user_id) is None:
        if (person := identities.get_person(db, place.user_id)) != place.user_id:
            raise NotFound("user", place.user_id, f"it is an identity of {person}: set the secret for that")
        raise NotFound("user", place.user_id, f"`gatepost user add {place.user_id}` makes them known")


@operation
async def set_secret(deps: OperationDeps, args: SetSecretArgs) -> SetSecretResult:
    name, value, place = check_name(args.name), check_key(args.name, args.value), parse_owner(args.folder, args.user)
    keyring, now = Keyring(deps.home), deps.clock.now()
    given = read_origin(args.origin) if args.origin else ""
    if given and name not in (speech.TTS_API_KEY, audio.TRANSCRIBE_API_KEY, embeddings.EMBEDDING_API_KEY, *VENDORS):
        raise Invalid("for", f"{name} is no model's key; `gatepost secret bind {name} HOST` has it sent to a host")

    def insert(db: Db) -> SetSecretResult:
        _check_owner_exists(db, place)
        secrets.bind_origins(db, key_origins(settings.load_declared(deps.home.path, *BASES.values())))
        origin = given or find_key_origin(db, deps.home, place.folder, name)
        new = secrets.get(db, place, name, (origin,)) is None
        return extend(SetSecretResult, secrets.put(db, keyring, place, name, value, now, origin), new=new)

    return await deps.write(insert)


@read_operation
def list_secrets(db: Db, args: ListSecretsArgs, now: int) -> list[SecretListItem]:
    bound = secret_rows.list_bindings(db)
    return [
        extend(SecretListItem, each, bound_to=[render_binding(to) for to in bound if to.name == each.name])
        for each in secrets.list_all(db)
    ]


def render_binding(each: Binding) -> str:
    return f"{each.place} ({each.header}{f', {each.folder} and below' if each.folder else ''})"


@read_operation
def list_uses(db: Db, args: SecretLogArgs, now: int) -> list[SecretUse]:
    return secrets.list_uses(db, max(0, args.limit))[::-1]


@operation
async def remove_secret(deps: OperationDeps, args: RemoveSecretArgs) -> SecretRemoval:
    """Needs no key ring: what cannot be read any more can still be removed."""
    name, place = check_name(args.name), parse_owner(args.folder, args.user)
    origin = read_origin(args.origin) if args.origin else None

    def delete(db: Db) -> SecretRemoval:
        if not secrets.remove(db, place, name, origin):
            raise NotFound("secret", name, f"{place} has none of its own; `gatepost secret list` shows them")
        return SecretRemoval(name, place.folder, place.user_id)

    return await deps.write(delete)


@operation
async def bind_secret(deps: OperationDeps, args: BindSecretArgs) -> BindSecretResult:
    name, place = check_name(args.name), secret_bindings.parse_binding_host(args.host)
    if is_channel_secret(name):
        raise Invalid("name", f"{name} is a channel's, for its platform alone; no agent's request may carry it")
    header, template = secret_bindings.parse_binding_header(args.header)
    holder, now = parse_owner(args.folder, "").folder, deps.clock.now()

    def put(db: Db) -> BindSecretResult:
        _check_owner_exists(db, SecretOwner(holder))
        made = secret_rows.put_binding(db, holder or None, name, place, header, template, deps.caller, now)
        verdict = rules.check_target(egress.list_rules(db), holder, EgressTarget(*place[1:]))
        there = any(secret.name == name for secret in secrets.list_all(db))
        return extend(BindSecretResult, made, is_set=there, is_allowed=verdict.allowed)

    return await deps.write(put, header=header)  # without the template


@operation
async def unbind_secret(deps: OperationDeps, args: UnbindSecretArgs) -> list[Binding]:
    name, place = check_name(args.name), secret_bindings.parse_binding_host(args.host)

    def delete(db: Db) -> list[Binding]:
        gone = secret_rows.remove_binding(db, args.folder or None, name, place)
        if not gone:
            raise NotFound("binding", f"{name} to {args.host}", "`gatepost secret list` shows what is bound to what")
        return gone

    return await deps.write(delete)


@read_operation
def list_bindings(db: Db, args: ListBindingsArgs, now: int) -> list[Binding]:
    return secret_rows.list_bindings(db)


@operation
async def rotate_keys(deps: OperationDeps, args: RotateKeysArgs) -> RotateKeysResult:
    """Seal every secret with a new key. No gateway may be left without that key.

    The new key is in the ring before anything is sealed with it. The old keys go when all is sealed anew on the disk.
    So a crash leaves every secret readable.
    """
    keyring = Keyring(deps.home)
    await _check_others(deps, keyring)
    await deps.store.read(secrets.open_all, keyring)
    is_new = await asyncio.to_thread(keyring.read) is None
    if keyring.is_file:
        await deps.store.write(secrets.check_new_key)
        await asyncio.to_thread(keyring.add_key)
    key_id, count = await deps.write(lambda db: secrets.reseal(db, keyring))
    dropped: list[str] = []
    if keyring.is_file and not args.keep:
        dropped = await deps.store.read(secrets.list_unused_keys, keyring)
        if dropped:
            await asyncio.to_thread(keyring.remove_keys, dropped)
    await _record_keys(deps)
    return RotateKeysResult(
        key_id=key_id,
        resealed=count,
        dropped=dropped,
        unused=await deps.store.read(secrets.list_unused_keys, keyring),
        kept_in=keyring.where,
        is_file=keyring.is_file,
        is_new=is_new,
    )


async def _check_others(deps: OperationDeps, keyring: Keyring) -> None:
    known = await deps.store.read(gateways.list_all)
    if known:
        ring = None if keyring.is_file else await asyncio.to_thread(keyring.read)
        mark = await asyncio.to_thread(find_mark, deps.home)
        check_rotation(mark, ring.current if ring is not None else "", known, deps.clock.now())


async def _record_keys(deps: OperationDeps) -> None:
    """Record the present keys: a gateway that joins later must have them, too."""
    if await deps.store.read(gateways.count):
        mark, keys = await asyncio.to_thread(find_mark, deps.home), await asyncio.to_thread(render_keys, deps.home)
        await deps.store.write(gateways.set_keys, mark, keys)


async def _add_egress_rule(deps: OperationDeps, args: EgressRuleArgs, *, allow: bool) -> EgressRule:
    host, port = rules.read_pattern(args.host)
    now = deps.clock.now()

    def put(db: Db) -> EgressRule:
        if args.folder and groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        local = allow and rules.is_one_host(host, port)
        return egress.put(db, args.folder or None, host, port, allow=allow, local=local, by=deps.caller, now=now)

    return await deps.write(put, host=host, port=port)


@operation
async def allow_host(deps: OperationDeps, args: AllowHostArgs) -> EgressRule:
    return await _add_egress_rule(deps, args, allow=True)


@operation
async def deny_host(deps: OperationDeps, args: DenyHostArgs) -> EgressRule:
    return await _add_egress_rule(deps, args, allow=False)


@operation
async def remove_egress_rule(deps: OperationDeps, args: RemoveEgressRuleArgs) -> EgressRule:
    def delete(db: Db) -> EgressRule:
        gone = egress.remove(db, args.id)
        if gone is None:
            raise NotFound("egress rule", str(args.id), "`gatepost egress list` shows them")
        return gone

    return await deps.write(delete)


@read_operation
def list_egress_rules(db: Db, args: ListEgressRulesArgs, now: int) -> list[EgressRule]:
    found = egress.list_rules(db)
    return rules.list_folder_rules(found, args.folder) if args.folder else found


@read_operation
def list_egress_attempts(db: Db, args: EgressLogArgs, now: int) -> list[EgressAttempt]:
    return egress.list_attempts(db, args.limit, args.folder, "denied" if args.denied else "")[::-1]
