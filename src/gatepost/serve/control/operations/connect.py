"""Connect: try an agent in a session of its own, and put in force what was tried. Two operations, because only whoever
asked can say that the answer still matters.

Two checks stand beside them. One tells whether the endpoints that groups use can be reached and take their keys; it
spends nothing. The other tells which sandbox a group's agents get, as the gateway itself sees this machine.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from gatepost.core import ids, settings
from gatepost.core.errors import GatepostError, Invalid, NotFound, SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.record_changes import parse_texts
from gatepost.core.settings import Config
from gatepost.egress import prices
from gatepost.egress.contract import Spender
from gatepost.egress.endpoints import (
    BASES,
    KEYS,
    OPTIONS,
    EndpointVerdict,
    base_in_force,
    probe_endpoint,
    read_own_base,
)
from gatepost.egress.http import HttpRefusal
from gatepost.egress.model_proxy import find_key
from gatepost.egress.prices import FILE
from gatepost.egress.upstream import NO_KEY, Upstream, VendorBaseUrl, VendorKey
from gatepost.flow.group_egress import SpenderSecrets
from gatepost.flow.groups import WORLD
from gatepost.flow.reports import SandboxIsolation, TrialOutcome
from gatepost.flow.sessions.sandbox.effective_group import FOLDER, load_effective_group
from gatepost.flow.sessions.sandbox.isolation import ANYBODY, find_isolation
from gatepost.flow.sessions.sandbox.provider_specs import find_spec
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.flow.sessions.trial import TrialRequest
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.serve.control.agent_installer import install_agent
from gatepost.serve.control.arguments.connect import (
    CancelTrialArgs,
    CheckConnectArgs,
    CheckModelsArgs,
    ConnectableAgent,
    ConnectArgs,
    ConnectCheck,
    ConnectResult,
    EndpointCheck,
    FindLocalModelsArgs,
    InstallAgentArgs,
    IsolationArgs,
    KeepConnectionArgs,
    ListConnectableArgs,
    LocalFindings,
    ModelProbe,
    ProbeModelArgs,
    TrialCancellation,
    TryConnectArgs,
)
from gatepost.serve.control.arguments.groups import GroupChange, SetGroupArgs
from gatepost.serve.control.arguments.secrets import SetSecretArgs
from gatepost.serve.control.connectable_agents import (
    get_agent,
    get_secret_name,
    has_command,
    has_library,
    has_program,
    list_agents,
    list_key_names,
)
from gatepost.serve.control.contract import OperationDeps, operation, run_within
from gatepost.serve.control.local_models import find_local, probe_model
from gatepost.serve.control.operations import groups as group_operations
from gatepost.serve.control.operations import secrets as secret_operations
from gatepost.serve.control.operations.gateways import get_doctor_runs
from gatepost.serve.control.operations.spending import put_price
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rights.secrets import ANTHROPIC_AUTH_TOKEN, SecretReader
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session

MOST_GROUPS = 20  # that are named for an agent
MOST_CHECKS_AT_ONCE = 8
CHECK_PURPOSE = "doctor"


def _agent_of(deps: OperationDeps, args: ConnectArgs) -> ProviderSpec:
    return get_agent(deps.home, args.provider, args.vendor)


@operation
async def list_connectable(deps: OperationDeps, args: ListConnectableArgs) -> list[ConnectableAgent]:
    specs = await asyncio.to_thread(list_agents, deps.home)
    installed = await asyncio.to_thread(_list_installed, deps.home, specs)
    found = await deps.store.read(_read_keys_and_groups, tuple(specs.values()), deps.config)
    return [
        ConnectableAgent(
            agent=name,
            title=spec.title,
            model=spec.model,
            vendor=spec.vendor,
            installed=name in installed,
            needs_command=bool(spec.command_options),
            key=found[name][0],
            groups=found[name][1],
            can_install=bool(spec.package) or not spec.programs,
        )
        for name, spec in specs.items()
    ]


def _list_installed(home: Home, specs: dict[str, ProviderSpec]) -> set[str]:
    return {name for name, spec in specs.items() if has_library(spec) and has_program(home, spec)}


def _read_keys_and_groups(
    db: Db, specs: tuple[ProviderSpec, ...], config: Config
) -> dict[str, tuple[str, tuple[str, ...]]]:
    every = groups.list_all(db)
    lent = next((each.provider for each in every if each.folder == WORLD), "")
    runs_on = [
        (each.folder, each.provider or (lent if each.folder == config[FOLDER] else "") or config[PROVIDER])
        for each in every
    ]
    found = {}
    for spec in specs:
        key = next((name for name in list_key_names(spec) if find_nearest_owner(db, WORLD, name) is not None), "")
        on_it = [folder for folder, provider in runs_on if provider == spec.name]
        found[spec.name] = (key, tuple(on_it[:MOST_GROUPS]))
    return found


@operation
async def find_local_models(deps: OperationDeps, args: FindLocalModelsArgs) -> LocalFindings:
    bases = (read_own_base("openai", args.base_url).url,) if args.base_url else ()
    upstream = Upstream()
    try:
        return await find_local(upstream, bases)
    finally:
        await upstream.close()


@operation
async def probe_local_model(deps: OperationDeps, args: ProbeModelArgs) -> ModelProbe:
    upstream = Upstream()
    try:
        return await probe_model(upstream, read_own_base("openai", args.base_url).url, args.model)
    finally:
        await upstream.close()


@operation
async def install(deps: OperationDeps, args: InstallAgentArgs) -> ConnectCheck:
    chosen, said = _agent_of(deps, args), list[str]()
    try:
        lacked = await asyncio.to_thread(install_agent, deps.home, chosen, said.append)
    except SetupError as error:
        return ConnectCheck(trouble="install", reason=str(error))
    get_doctor_runs(deps).forget()
    return ConnectCheck(text=f"{chosen.title} was installed." if lacked else f"{chosen.title} is installed.")


@operation
async def check_agent(deps: OperationDeps, args: CheckConnectArgs) -> ConnectCheck:
    group_operations.check_provider(deps.home, args.provider)
    chosen, group = _agent_of(deps, args), await deps.store.read(groups.get, args.folder)
    if group is None:
        raise NotFound("group", args.folder, "`gatepost group list` shows them")
    walls = await asyncio.to_thread(find_isolation, deps.config, group, args.provider)
    if not walls.kind:
        return ConnectCheck(trouble="sandbox", reason=walls.trouble)
    if not has_command(chosen, group) and not args.options:
        return ConnectCheck(trouble="command", reason=f"{chosen.name} is any program, and none is named")
    if not has_library(chosen):
        return ConnectCheck(trouble="library", reason=f"{chosen.name} needs {chosen.library}, which is not installed")
    if not await asyncio.to_thread(has_program, deps.home, chosen):
        return ConnectCheck(trouble="program", reason=f"the program {chosen.programs[0]} is not on this machine")
    if args.base_url and chosen.model and not args.model:
        return ConnectCheck(trouble="model", reason=f"{args.base_url} has models of its own; say which it is to be")
    return await _check_key(deps, args, chosen, walls.kind)


async def _check_key(deps: OperationDeps, args: ConnectArgs, chosen: ProviderSpec, sandbox: str) -> ConnectCheck:
    """One that is given, or is stored for this endpoint. An endpoint of one's own may need none."""
    base = await find_base(deps, args)
    if args.key:
        if not args.key.isascii() or not args.key.isprintable() or " " in args.key:
            raise Invalid("key", "it has signs in it that no key has: spaces, lines, or letters beyond ASCII")
        name = get_secret_name(chosen, secret_operations.check_key("the key", args.key))
        rival = await deps.store.read(find_overriding_secret, args.folder, name, base.origins)
        if rival:
            why = f"{rival} is stored, and would be used before {name}; remove it first"
            return ConnectCheck(trouble="key", reason=why)
        return ConnectCheck(text=f"It runs in {sandbox}, with the key as given now.")
    for name in list_key_names(chosen):
        if await deps.store.read(find_nearest_owner, args.folder, name, base.origins) is not None:
            return ConnectCheck(text=f"It runs in {sandbox}, with the stored key {name}.")
    if base.default:
        return ConnectCheck(trouble="key", reason=f"{chosen.name} needs a key, and none is stored")
    return ConnectCheck(text=f"It runs in {sandbox}, without a key.")


@operation
async def try_agent(deps: OperationDeps, args: TryConnectArgs) -> TrialOutcome:
    """Run one turn with an agent and report its outcome. Nothing is changed."""
    if deps.try_out is None:
        raise Unavailable("a trial", "no gateway is there to run it")
    group_operations.check_provider(deps.home, args.provider)
    wish = TrialRequest(
        id=args.id or ids.new("trial"),
        folder=args.folder,
        provider=args.provider,
        model=args.model,
        options={**_agent_of(deps, args).trial, **_options(args.options), **_endpoint_option(deps, args)},
        secrets=_trial_secrets(deps, args),
        settings=_model_settings(deps),
        price=prices.parse_price(args.price) if args.price else None,
        limit_s=args.limit_s,
    )
    return await deps.try_out(wish)


def _trial_secrets(deps: OperationDeps, args: ConnectArgs) -> dict[str, str | None]:
    """The key that is tried, and no other in its place."""
    if not args.key:
        return {}
    chosen = _agent_of(deps, args)
    name = get_secret_name(chosen, secret_operations.check_key("the key", args.key))
    return {KEYS[chosen.vendor]: None, name: args.key}


def _options(given: Mapping[str, str]) -> dict[str, Any]:
    return group_operations.check_options(_parse_options(given))


def _parse_options(given: Mapping[str, str]) -> dict[str, Any]:
    texts = {f"options.{name}": text for name, text in given.items()}
    found: dict[str, Any] = parse_texts(GroupChange, texts, "group").get("options", {})
    return found


def _model_settings(deps: OperationDeps) -> dict[str, str]:
    """Return where the gateway's models and their prices are, by what the settings say now."""
    now = settings.load_declared(deps.home.path, *BASES.values(), FILE)
    return {each.name: now[each] for each in (*BASES.values(), FILE)}


def _endpoint_option(deps: OperationDeps, args: ConnectArgs) -> dict[str, str]:
    """The group's own endpoint, where one was named: nobody else's models move."""
    vendor = _agent_of(deps, args).vendor
    return {OPTIONS[vendor]: read_own_base(vendor, args.base_url).url} if args.base_url else {}


@operation
async def cancel_trial(deps: OperationDeps, args: CancelTrialArgs) -> TrialCancellation:
    session = await deps.store.read(_find_trial_session, args.id)
    stopped = session is not None and deps.stop_session is not None
    if session is not None and deps.stop_session is not None:
        await deps.stop_session(session.id, deps.caller_name)
    return TrialCancellation(args.id, stopped)


def _find_trial_session(db: Db, trial_id: str) -> Session | None:
    return next((each for each in sessions.list_open(db) if each.address == f"{sessions.TRIAL_ROOMS}{trial_id}"), None)


@operation
async def apply_connection(deps: OperationDeps, args: KeepConnectionArgs) -> ConnectResult:
    base = await find_base(deps, args)
    stored = await store_key(deps, args, base) if args.key else ""
    if args.price:
        await put_price(deps, args.model, args.price)
    options = _parse_options(args.options) | _endpoint_option(deps, args)
    values = GroupChange(provider=args.provider, model=args.model, options=options)
    changes = SetGroupArgs(folder=args.folder, values=values)
    return ConnectResult(await run_within(deps, group_operations.set_values, changes), stored)


async def find_base(deps: OperationDeps, args: ConnectArgs) -> VendorBaseUrl:
    """The endpoint that the group asks once this is in force."""
    vendor = _agent_of(deps, args).vendor
    if args.base_url:
        return read_own_base(vendor, args.base_url)
    return await deps.store.read(base_in_force, deps.home, args.folder, vendor)


async def store_key(deps: OperationDeps, args: ConnectArgs, base: VendorBaseUrl) -> str:
    """In the place where the group finds one for this endpoint today, else for the whole gateway: it goes to this
    endpoint alone, whoever asks there. The secret's name."""
    name = get_secret_name(_agent_of(deps, args), args.key)
    held = await deps.store.read(find_nearest_owner, args.folder, name, base.origins)
    place = held or SecretOwner()
    new = SetSecretArgs(name=name, value=args.key, folder=place.folder, origin=base.origin)
    await run_within(deps, secret_operations.set_secret, new)
    return name


def find_nearest_owner(db: Db, folder: str, name: str, origins: tuple[str, ...] | None = None) -> SecretOwner | None:
    """Return whose secret of that name holds for a group, of those that were given for these endpoints; None:
    nobody's."""
    parts = folder.split("/")
    places = [SecretOwner("/".join(parts[:depth])) for depth in range(len(parts), 0, -1)]
    return next(
        (place for place in (*places, SecretOwner()) if secrets.get(db, place, name, origins) is not None), None
    )


def find_overriding_secret(db: Db, folder: str, name: str, origins: tuple[str, ...] | None = None) -> str:
    """The secret that would be used in the place of this one; '' if none would."""
    rival = KEYS["anthropic"]
    return rival if name == ANTHROPIC_AUTH_TOKEN and find_nearest_owner(db, folder, rival, origins) is not None else ""


class ModelUse(Struct, frozen=True):
    """A group that asks a vendor's models."""

    folder: str
    provider: str
    vendor: str
    base: VendorBaseUrl


def list_model_uses(db: Db, home: Home, config: Config) -> list[ModelUse]:
    """List every group on a real agent whose vendor is known. ACP programs are left out: their own files name the
    model."""
    found = []
    for each in groups.list_all(db):
        run = load_effective_group(db, config, each.folder)
        known = find_spec(home, run.provider) if run is not None else None
        if run is None or known is None or not known.vendor or known.command_options:
            continue
        vendor = _get_vendor(known, run)
        base = base_in_force(db, home, each.folder, vendor, run.options)
        found.append(ModelUse(each.folder, known.name, vendor, base))
    return found


def _get_vendor(known: ProviderSpec, run: Group) -> str:
    return "anthropic" if known.any_vendor and run.model.startswith("claude") else known.vendor


async def check_endpoints(found: Iterable[tuple[ModelUse, VendorKey | str]]) -> list[EndpointCheck]:
    """Each endpoint once for each key. A str in the place of a key: why there is none."""
    asked: dict[tuple[str, str, str], tuple[list[ModelUse], VendorKey | str]] = {}
    for use, key in found:
        mark = key if isinstance(key, str) else f"key {key.value}"
        asked.setdefault((use.vendor, use.base.url, mark), ([], key))[0].append(use)
    upstream, gate = Upstream(), asyncio.Semaphore(MOST_CHECKS_AT_ONCE)

    async def one(those: list[ModelUse], key: VendorKey | str) -> EndpointCheck:
        use = those[0]
        async with gate:
            shown = NO_KEY if isinstance(key, str) else key
            verdict = await probe_endpoint(upstream, use.vendor, use.base, shown)
        if isinstance(key, str):
            verdict = EndpointVerdict(verdict.reachable, None, key if verdict.reachable else verdict.reason)
        folders = tuple(each.folder for each in those)
        return EndpointCheck(
            folders, use.provider, use.vendor, use.base.url, *_get_verdict_fields(verdict, shown), verdict.reason
        )

    try:
        return list(await asyncio.gather(*(one(*each) for each in asked.values())))
    finally:
        await upstream.close()


def _get_verdict_fields(verdict: EndpointVerdict, shown: VendorKey) -> tuple[bool, bool | None, bool]:
    return verdict.reachable, verdict.accepted, bool(shown.value)


@operation
async def check_models(deps: OperationDeps, args: CheckModelsArgs) -> list[EndpointCheck]:
    """The keys are used as for a turn of the group that nobody in particular began, and recorded as used."""
    keys = SpenderSecrets(deps.store, SecretReader(deps.store, Keyring(deps.home), deps.clock))
    found: list[tuple[ModelUse, VendorKey | str]] = []
    for use in await deps.store.read(list_model_uses, deps.home, deps.config):
        try:
            key: VendorKey | str = await find_key(
                keys, use.vendor, Spender(use.folder, "", None), use.base, CHECK_PURPOSE
            )
        except HttpRefusal as no:
            key = no.reason
        except GatepostError as error:
            key = str(error)
        found.append((use, key))
    return await check_endpoints(found)


@operation
async def get_isolation(deps: OperationDeps, args: IsolationArgs) -> SandboxIsolation:
    group = await deps.store.read(groups.get, args.folder) if args.folder else None
    return await asyncio.to_thread(find_isolation, deps.config, group or ANYBODY, args.provider)
