"""The provider, model and options of a session's agent, and which others a conversation may be given.

A group that names no provider goes by the nearest group above it that does, so a child runs on what its parent runs on.
The agents' own group is made on the way and has nobody above it: it goes by `home`, which is what `gatepost connect`
connects. A model belongs to its provider: an agent of another one does without, and without what a group would lend,
but for what limits the choice of people. Rights are never lent: they are read of the group itself.

A conversation may be given a provider that the group could be connected to as it stands. That is so if its vendor's
endpoint is the operator's own, or a key for it is there. A model is one that the provider's vendor has and the gateway
has a price for. The group's options `chat_providers` and `chat_models` narrow both down.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gatepost.core import settings
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.egress.endpoints import BASES, KEYS, gateway_base, own_bases
from gatepost.egress.prices import FILE, Price, load_own_prices, load_shipped_prices
from gatepost.egress.upstream import VendorBaseUrl
from gatepost.flow.groups import WORLD
from gatepost.flow.sessions.sandbox.provider_specs import find_spec, list_provider_names
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rights.secrets import ANTHROPIC_AUTH_TOKEN
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.groups import Group

BEGINNINGS = {"claude-": "anthropic", "gemini-": "google"}  # of models' names; the others listed are OpenAI's
PROVIDERS_OPTION, MODELS_OPTION = "chat_providers", "chat_models"
FOLDER = setting(
    "agents.folder",
    "agents",
    help="The group of agents that are made without naming one. While it has no provider it goes by the group `home`.",
)
OWN_OPTIONS = frozenset({"mode", "permissions", "own_mcp"})  # what an agent may do without asking is nobody else's
LIMITING_OPTIONS = frozenset({PROVIDERS_OPTION, MODELS_OPTION})  # hold whatever provider a conversation has


def load_effective_group(db: Db, config: Config, folder: str, provider: str = "") -> Group | None:
    """Return a group with everything that it goes by, for an agent of this provider ('': the group's). None if it is
    not there."""
    group = groups.get(db, folder)
    if group is None:
        return None
    lender = find_lender(db, config, group)
    usual = (lender or group).provider or config[PROVIDER]
    wanted = provider or usual
    if lender is not None and wanted == usual:
        lent = {name: value for name, value in lender.options.items() if name not in OWN_OPTIONS}
        group = replace(group, model=group.model or lender.model, options={**lent, **group.options})
    elif wanted != usual:
        limits = lender.options if lender is not None else {}
        limits = {name: value for name, value in limits.items() if name in LIMITING_OPTIONS}
        group = replace(group, model="", options={**limits, **group.options})
    return replace(group, provider=wanted)


def find_model(db: Db, session_id: str, config: Config) -> str:
    """Return the model that a conversation was given: its own, or that of its group; '' if neither has one."""
    session = sessions.get(db, session_id)
    if session is None or session.model:
        return session.model if session is not None else ""
    group = load_effective_group(db, config, session.folder, session.provider)
    return group.model if group is not None else ""


def find_lender(db: Db, config: Config, group: Group) -> Group | None:
    """Return the group whose provider another one goes by; None if that has its own, or nobody above it has one."""
    if group.provider:
        return None
    above = groups.list_ancestors(db, group.folder)
    if group.folder == config[FOLDER] and (world := groups.get(db, WORLD)) is not None:
        above.append(world)
    return next((each for each in above if each.provider), None)


def is_affected_by(config: Config, folder: str, changed: str) -> bool:
    """Return True if a change of one group may be one for the other's agents."""
    return folder == changed or folder.startswith(f"{changed}/") or (changed == WORLD and folder == config[FOLDER])


class ProviderChoices(Struct, frozen=True, kw_only=True):
    """The words of the home's files, read off the loop."""

    specs: dict[str, ProviderSpec] = {}
    models: dict[str, tuple[str, ...]] = {}  # by provider, those with a price; the provider's usual one first
    bases: dict[str, VendorBaseUrl] = {}  # the gateway's endpoints, by vendor


def read_choices(home: Home, config: Config) -> ProviderChoices:
    specs = {name: find_spec(home, name) for name in list_provider_names(home)}
    priced = {**load_shipped_prices(), **load_own_prices(home, settings.load_declared(home.path, FILE))}
    texts = [name for name, price in priced.items() if is_text_model(price)]
    now = settings.load_declared(home.path, *BASES.values())
    moved = {vendor: each for each in (now, config) for vendor in BASES if each[BASES[vendor]] != BASES[vendor].default}
    return ProviderChoices(
        specs=specs,
        models={name: _list_models(spec, texts) for name, spec in specs.items() if spec.vendor},
        bases={vendor: gateway_base(moved.get(vendor, now), vendor) for vendor in BASES},
    )


def _list_models(spec: ProviderSpec, names: list[str]) -> tuple[str, ...]:
    fit = (name for name in names if spec.any_vendor or vendor_of(name, spec.vendor) == spec.vendor)
    return tuple(sorted(fit, key=lambda name: (name != spec.model, name)))


def is_text_model(price: Price) -> bool:
    """In text; others transcribe or speak."""
    return not price.minute and price.characters is None


def vendor_of(model: str, otherwise: str) -> str:
    """A model that only the operator lists can be anybody's: it is where the provider asks."""
    vendor = next((vendor for begins, vendor in BEGINNINGS.items() if model.startswith(begins)), "")
    return vendor or ("openai" if model in load_shipped_prices() else otherwise)


def list_providers(db: Db, choices: ProviderChoices, group: Group) -> list[str]:
    """Those that a conversation of this group may have. `group`: as it stands, with the provider that it goes by."""
    allowed = read_names(group.options.get(PROVIDERS_OPTION))
    bases = own_bases([group.options, *(each.options for each in groups.list_ancestors(db, group.folder))])
    found = [
        name
        for name, spec in choices.specs.items()
        if name == group.provider or (spec.vendor and _is_connected(db, choices, bases, spec, group))
    ]
    return [name for name in found if name == group.provider or allowed is None or name in allowed]


def list_models(choices: ProviderChoices, group: Group) -> list[str]:
    """Those that a conversation with this group's provider may have."""
    allowed = read_names(group.options.get(MODELS_OPTION))
    found = choices.models.get(group.provider, ())
    return [name for name in found if allowed is None or name in allowed]


def read_names(option: Any) -> frozenset[str] | None:
    """Return the names in a list, or in words with commas between them. None: everything is allowed.

    An option that cannot be read allows none.
    """
    if option is None:
        return None
    if isinstance(option, str):
        return frozenset(word.strip() for word in option.split(",") if word.strip())
    return frozenset(map(str, option)) if isinstance(option, list | tuple) else frozenset()


def _is_connected(
    db: Db, choices: ProviderChoices, own: Mapping[str, VendorBaseUrl], spec: ProviderSpec, group: Group
) -> bool:
    if spec.command_options and not any(group.options.get(name) for name in spec.command_options):
        return False
    base = own.get(spec.vendor) or choices.bases.get(spec.vendor)
    if base is None:
        return False
    if not base.default:
        return True
    names = (KEYS[spec.vendor], ANTHROPIC_AUTH_TOKEN) if spec.subscription else (KEYS[spec.vendor],)
    parts = group.folder.split("/")
    owners = [*(SecretOwner("/".join(parts[:depth])) for depth in range(len(parts), 0, -1)), SecretOwner()]
    return any(secrets.get(db, owner, name, base.origins) is not None for owner in owners for name in names)
