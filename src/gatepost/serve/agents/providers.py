"""Which providers agents can be made with, whether each would work now, and which models and modes it has.

A model without a price is refused on its way out, so what is listed here is what the gateway has a price for. A mode
says when an agent asks before it acts. Modes are a courtesy: the walls are the sandbox and the gate.
"""

import asyncio
import shutil
from collections.abc import Mapping
from typing import Any

from gatepost.core import settings
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.home import Home
from gatepost.core.money import to_usd_number
from gatepost.egress.endpoints import BASES, base_in_force
from gatepost.egress.prices import FILE, Price, load_own_prices, load_shipped_prices
from gatepost.flow.groups import WORLD
from gatepost.flow.sessions.sandbox.effective_group import is_text_model, vendor_of
from gatepost.flow.sessions.sandbox.provider_specs import find_spec, list_provider_names, load_spec
from gatepost.flow.sessions.sandbox.sandbox_plan import DEMO, describe_sandbox
from gatepost.flow.sessions.sandbox.sandbox_requirements import PROGRAMS, find_program
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.inside.provider_spec import Mode, ProviderSpec
from gatepost.serve.control.arguments.agents import ModelInfo, ProviderInfo
from gatepost.serve.control.connectable_agents import has_command, has_library, list_agents, list_key_names
from gatepost.serve.control.operations.connect import find_nearest_owner
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group

NO_KEY = "there is no key for it; `gatepost connect {}` takes one"
NO_COMMAND = "no command is named for it; `gatepost connect {} --command 'PROGRAM …'` names one"
NO_MODELS = "{} asks no model of a vendor that the gateway knows; there are models for: {}"
_ANY = (Mode("default", "Default", "As the provider is set up."),)


async def list_providers(deps: SessionDeps) -> list[ProviderInfo]:
    """Each with the first thing that it lacks."""
    walls = await asyncio.to_thread(_find_sandbox_trouble, deps)
    return [await _provider(deps, name, walls) for name in list_provider_names(deps.home)]


def _find_sandbox_trouble(deps: SessionDeps) -> str:
    """Why no sandbox works; '' if one does. May start one to see."""
    try:
        name, trouble = describe_sandbox(deps.config, deps.sandboxes)
    except GatepostError as error:
        return str(error)
    return f"no sandbox works: {trouble}" if name == "none" else ""


async def _provider(deps: SessionDeps, name: str, walls: str) -> ProviderInfo:
    known = find_spec(deps.home, name)
    lacks = await asyncio.to_thread(_find_missing_program, deps, known)
    if not lacks and known.vendor:
        lacks = await deps.store.read(_find_missing_connection, deps, known)
    lacks = lacks or ("" if name == DEMO else walls)
    return ProviderInfo(
        id=name,
        what=known.title,
        modes=list(modes_of(deps.home, name)),
        ready=not lacks,
        reason=lacks or None,
        default_model=known.model or None,
    )


async def find_missing_requirement(deps: SessionDeps, group: Group) -> str:
    """Return the reason why an agent of this group cannot work at all, or '' unless that is certain.

    For a program of any vendor no key is demanded: its own files name the vendor.
    """
    known = find_spec(deps.home, group.provider)
    lacks = await asyncio.to_thread(_find_missing_program, deps, known)
    if lacks or not known.vendor:
        return lacks
    if not has_command(known, group):
        return NO_COMMAND.format(known.name)
    ready = known.any_vendor or await deps.store.read(_has_endpoint, deps, known, group.folder, group.options)
    return "" if ready else NO_KEY.format(known.name)


def _find_missing_program(deps: SessionDeps, known: ProviderSpec) -> str:
    """A library or a program that is not on this machine."""
    home, name = deps.home, known.name
    if not has_library(known):
        return f"its library {known.library} is not installed; `gatepost connect {name}` installs it"
    try:
        read = (settings.load_declared(home.path, PROGRAMS), deps.config)  # as it stands, and as the gateway started
        for program in load_spec(home, name).programs:
            if not any(find_program(each, home, program) for each in read) and shutil.which(program) is None:
                way = f"`gatepost connect {name}` installs it" if known.package else "name it in `programs`"
                return f"the program {program} is not on this machine; {way}"
    except GatepostError as error:
        return str(error)
    return ""


def _find_missing_connection(db: Db, deps: SessionDeps, known: ProviderSpec) -> str:
    """Return the reason why no group has a command for this provider, or why the group `home` has no key; '' if
    none."""
    if known.command_options and not any(
        each.provider == known.name and has_command(known, each) for each in groups.list_all(db)
    ):
        return NO_COMMAND.format(known.name)
    return "" if _has_endpoint(db, deps, known, WORLD) else NO_KEY.format(known.name)


def _has_endpoint(
    db: Db, deps: SessionDeps, known: ProviderSpec, folder: str, options: Mapping[str, Any] | None = None
) -> bool:
    """Return True if the endpoint is the operator's own and needs no key, or a key is there that was given for it."""
    where = BASES[known.vendor]
    if any(each[where] != where.default for each in (settings.load_declared(deps.home.path, where), deps.config)):
        return True
    base = base_in_force(db, deps.home, folder, known.vendor, options)
    return not base.default or any(
        find_nearest_owner(db, folder, name, base.origins) is not None for name in list_key_names(known)
    )


def list_models(home: Home, provider: str) -> list[ModelInfo]:
    """The default first, then by name. Prices of the operator's own win."""
    agents = list_agents(home)
    if provider not in agents:
        raise Invalid("provider", NO_MODELS.format(repr(provider), ", ".join(agents)))
    known = agents[provider]
    own = load_own_prices(home, settings.load_declared(home.path, FILE))
    priced = {name: price for name, price in {**load_shipped_prices(), **own}.items() if is_text_model(price)}
    found = [
        _model(name, price, known, name in own)
        for name, price in priced.items()
        if known.any_vendor or vendor_of(name, known.vendor) == known.vendor
    ]
    return sorted(found, key=lambda each: (not each.is_default, each.vendor != known.vendor, each.id))


def _model(name: str, price: Price, known: ProviderSpec, own: bool) -> ModelInfo:
    return ModelInfo(
        id=name,
        vendor=vendor_of(name, known.vendor),
        is_default=name == known.model,
        input=to_usd_number(price.input),
        output=to_usd_number(price.output),
        cache_read=to_usd_number(price.cache_read),
        cache_write=to_usd_number(price.cache_write),
        own_price=own,
    )


def modes_of(home: Home, provider: str) -> tuple[Mode, ...]:
    """The first is what a provider is in if nobody says anything."""
    return find_spec(home, provider).modes or _ANY


def check_mode(home: Home, provider: str, mode: str) -> str:
    """'' for the one that it is in anyway."""
    modes = modes_of(home, provider)
    known = [each.id for each in modes]
    if mode and mode not in known:
        raise Invalid("modeId", f"{provider} has no mode {mode!r}; there are: {', '.join(known)}")
    return "" if mode == _ANY[0].id and modes is _ANY else mode
