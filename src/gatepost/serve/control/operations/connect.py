"""Connect: try an agent in a session of its own, and put in force what was tried. Two operations, because only whoever
asked can say that the answer still matters."""

from typing import Any

import msgspec

from gatepost.core import settings, settings_file
from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.core.records import asdict
from gatepost.egress import price_list
from gatepost.egress.endpoints import BASES, OPTIONS, base_in_force, read_own_base
from gatepost.egress.prices import FILE
from gatepost.egress.upstream import VendorBaseUrl
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.serve.control.connectable_agents import KEYS, get_agent, get_secret_name
from gatepost.serve.control.contract import OperationArgs, OperationDeps, operation, run_audited
from gatepost.serve.control.operations import groups as group_operations
from gatepost.serve.control.operations import secrets as secret_operations
from gatepost.store import secrets, sessions
from gatepost.store.port import Db
from gatepost.store.secrets import ANTHROPIC_AUTH_TOKEN, SecretOwner
from gatepost.store.sessions import Session


class ConnectArgs(OperationArgs, frozen=True, kw_only=True):
    """An agent for a group. '' everywhere: what is in force already."""

    folder: str
    provider: str
    model: str = ""
    key: str = ""
    base_url: str = ""
    price: str = ""  # IN/OUT of the model, or 0
    vendor: str = ""
    options: dict[str, str] = msgspec.field(default_factory=dict)

    def agent(self, home: Home) -> ProviderSpec:
        return get_agent(home, self.provider, self.vendor)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider!r}, folder={self.folder!r})"


class TryConnectArgs(ConnectArgs, frozen=True, kw_only=True):
    id: str  # names the trial, so that it can be cancelled
    limit_s: float = 120.0


class CancelTrialArgs(OperationArgs, frozen=True):
    id: str


@operation("connect.try", TryConnectArgs)
async def try_agent(office: OperationDeps, args: TryConnectArgs) -> dict[str, Any]:
    """One turn. What comes of it is told, and nothing is changed."""
    from gatepost.flow.sessions.trial import TrialRequest

    if office.try_out is None:
        raise Unavailable("a trial", "no gateway is there to run it")
    group_operations.check_provider(office.home, args.provider)
    wish = TrialRequest(
        id=args.id,
        folder=args.folder,
        provider=args.provider,
        model=args.model,
        options={**args.agent(office.home).trial, **_options(office, args.options), **_endpoint_option(office, args)},
        secrets=_trial_secrets(office, args),
        settings=_model_settings(office, args),
        price=price_list.parse_price(args.price) if args.price else None,
        limit_s=args.limit_s,
    )
    return asdict(await office.try_out(wish))


def _trial_secrets(office: OperationDeps, args: ConnectArgs) -> dict[str, str | None]:
    """The key that is tried, and no other in its place."""
    if not args.key:
        return {}
    chosen = args.agent(office.home)
    name = get_secret_name(chosen, secret_operations.check_value(args.key))
    return {KEYS[chosen.vendor]: None, name: args.key}


def _options(office: OperationDeps, given: dict[str, str]) -> dict[str, Any]:
    prefix = group_operations.OPTION
    return dict(group_operations.parse_value(office.home, prefix + name, raw) for name, raw in given.items())


def _model_settings(office: OperationDeps, args: ConnectArgs) -> dict[str, str]:
    """Where the gateway's models and their prices are, by what the settings say now."""
    now = settings.load_declared(office.home.path, *BASES.values(), FILE)
    return {each.name: now[each] for each in (*BASES.values(), FILE)}


def _endpoint_option(office: OperationDeps, args: ConnectArgs) -> dict[str, str]:
    """The group's own endpoint, where one was named: nobody else's models move."""
    vendor = args.agent(office.home).vendor
    return {OPTIONS[vendor]: read_own_base(vendor, args.base_url).url} if args.base_url else {}


@operation("connect.cancel", CancelTrialArgs)
async def cancel(office: OperationDeps, args: CancelTrialArgs) -> dict[str, Any]:
    """Whoever asked has left."""
    session = await office.store.read(_find_trial_session, args.id)
    stopped = session is not None and office.stop_session is not None
    if session is not None and office.stop_session is not None:
        await office.stop_session(session.id, "the operator")
    return {"id": args.id, "stopped": stopped}


def _find_trial_session(db: Db, trial_id: str) -> Session | None:
    return next((each for each in sessions.list_open(db) if each.address == f"terminal:{trial_id}"), None)


@operation("connect.keep", ConnectArgs)
async def apply_connection(office: OperationDeps, args: ConnectArgs) -> dict[str, Any]:
    """Put it in force: the key, the price, and last the group with its endpoint, which then begins to use them."""
    base = await find_base(office, args)
    stored = await store_key(office, args, base) if args.key else ""
    if args.price:
        await store_price(office, args)
        if office.move_models is not None:
            office.move_models(settings.load_declared(office.home.path, *BASES.values(), FILE))
    prefix = group_operations.OPTION
    values = {"provider": args.provider, "model": args.model}
    values |= {prefix + name: raw for name, raw in (args.options | _endpoint_option(office, args)).items()}
    group = await group_operations.set_values(office, group_operations.SetGroupArgs(folder=args.folder, values=values))
    return {"group": group, "secret": stored}


async def find_base(office: OperationDeps, args: ConnectArgs) -> VendorBaseUrl:
    """The endpoint that the group asks once this is in force."""
    vendor = args.agent(office.home).vendor
    if args.base_url:
        return read_own_base(vendor, args.base_url)
    return await office.store.read(base_in_force, office.home, args.folder, vendor)


async def store_price(office: OperationDeps, args: ConnectArgs) -> None:
    """In the operator's own file, which is made and named in the settings if there is none."""
    given, now = price_list.parse_price(args.price), settings.load_declared(office.home.path, FILE)[FILE]

    def put(db: Db) -> None:
        price_list.write_price(office.home.path / (now or price_list.NAME), args.model, given)
        if not now:
            settings_file.set_setting(office.home.path / "gatepost.toml", FILE.name, price_list.NAME)

    await run_audited(office, "prices.put", {"model": args.model, "price": args.price}, put)


async def store_key(office: OperationDeps, args: ConnectArgs, base: VendorBaseUrl) -> str:
    """In the place where the group finds one for this endpoint today, else for the whole gateway: it goes to this
    endpoint alone, whoever asks there. The secret's name."""
    name = get_secret_name(args.agent(office.home), args.key)
    held = await office.store.read(find_nearest_owner, args.folder, name, base.origins)
    place = held or SecretOwner()
    await secret_operations.set_secret(
        office, secret_operations.SetSecretArgs(name=name, value=args.key, folder=place.folder, origin=base.origin)
    )
    return name


def find_nearest_owner(db: Db, folder: str, name: str, origins: tuple[str, ...] | None = None) -> SecretOwner | None:
    """Whose secret of that name holds for a group, of those that were given for these endpoints; None: nobody's."""
    parts = folder.split("/")
    places = [SecretOwner("/".join(parts[:depth])) for depth in range(len(parts), 0, -1)]
    return next(
        (place for place in (*places, SecretOwner()) if secrets.get(db, place, name, origins) is not None), None
    )


def find_overriding_secret(db: Db, folder: str, name: str, origins: tuple[str, ...] | None = None) -> str:
    """The secret that would be used in the place of this one; '' if none would."""
    rival = KEYS["anthropic"]
    return rival if name == ANTHROPIC_AUTH_TOKEN and find_nearest_owner(db, folder, rival, origins) is not None else ""
