"""Which providers agents can be made with, whether each would work now, and which models it can be asked for.

A model without a price is refused on its way out, so what is listed here is what the gateway has a price for.
"""

import asyncio
import shutil
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gatepost.access.budgets import in_usd
from gatepost.core import settings
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.home import Home
from gatepost.egress.endpoints import BASES, base_in_force
from gatepost.egress.prices import FILE, Price, own_prices, shipped
from gatepost.flow.groups import WORLD
from gatepost.flow.sessions.parts import Parts
from gatepost.flow.sessions.plan import DEMO, describe_sandbox
from gatepost.flow.sessions.programs import PROGRAMS, find_program, needs_of
from gatepost.serve.agents.modes import Mode, modes_of
from gatepost.serve.control.agents import AGENTS, Agent, has_library, names_of_keys
from gatepost.serve.control.operations.connect import nearest
from gatepost.serve.control.operations.groups import provider_names
from gatepost.store import groups
from gatepost.store.groups import Group
from gatepost.store.port import Db

ANTHROPICS = "claude-"  # how the names of one vendor's models begin; the shipped list has no third
NO_KEY = "there is no key for it; `gatepost connect {}` takes one"
NO_COMMAND = "no command is named for it; `gatepost connect {} --command 'PROGRAM …'` names one"
NO_MODELS = "{} asks no model of a vendor that the gateway knows; there are models for: {}"


class Provider(Struct, frozen=True, rename="camel", kw_only=True):
    id: str
    what: str
    modes: list[Mode]
    ready: bool
    reason: str | None = None  # why it is not ready, and the way out
    default_model: str | None = None  # None: its own choice


class Model(Struct, frozen=True, rename="camel", kw_only=True):
    """USD for a million tokens."""

    id: str
    vendor: str
    is_default: bool
    input: float
    output: float
    cache_read: float
    cache_write: float
    own_price: bool  # the operator's file has it


async def providers(parts: Parts) -> list[Provider]:
    """Each with the first thing that it lacks."""
    walls = await asyncio.to_thread(_walls, parts)
    return [await _provider(parts, name, walls) for name in provider_names(parts.home)]


def _walls(parts: Parts) -> str:
    """Why no sandbox works; '' if one does. May start one to see."""
    try:
        name, trouble = describe_sandbox(parts.config, parts.sandboxes)
    except GatepostError as error:
        return str(error)
    return f"no sandbox works: {trouble}" if name == "none" else ""


async def _provider(parts: Parts, name: str, walls: str) -> Provider:
    known = AGENTS.get(name)
    lacks = await asyncio.to_thread(_lacking, parts, name, known)
    if not lacks and known is not None:
        lacks = await parts.store.read(_unconnected, parts, known)
    lacks = lacks or ("" if name == DEMO else walls)
    return Provider(
        id=name,
        what=known.what if known else "",
        modes=list(modes_of(name)),
        ready=not lacks,
        reason=lacks or None,
        default_model=(known.model or None) if known else None,
    )


async def lacking_for(parts: Parts, group: Group) -> str:
    """Why an agent of this group, as it is run, could not do anything at all; '' unless that is certain. Whose key an
    agent of any vendor needs, its own files say."""
    known = AGENTS.get(group.provider)
    lacks = await asyncio.to_thread(_lacking, parts, group.provider, known)
    if lacks or known is None:
        return lacks
    if known.any_program and not group.options.get("command"):
        return NO_COMMAND.format(known.name)
    if known.any_vendor or _has_own_endpoint(parts, known):
        return ""
    return (
        "" if await parts.store.read(_can_ask, parts, known, group.folder, group.options) else NO_KEY.format(known.name)
    )


def _lacking(parts: Parts, name: str, known: Agent | None) -> str:
    """A library or a program that is not on this machine."""
    home = parts.home
    if known is not None and not has_library(known):
        return f"its library {known.module} is not installed; `gatepost connect {name}` installs it"
    try:
        read = (settings.peek(home.path, PROGRAMS), parts.config)  # as it stands, and as the gateway started
        for program in needs_of(home, name).programs:
            if not any(find_program(each, home, program) for each in read) and shutil.which(program) is None:
                way = f"`gatepost connect {name}` installs it" if known else "name it in `programs`"
                return f"the program {program} is not on this machine; {way}"
    except GatepostError as error:
        return str(error)
    return ""


def _unconnected(db: Db, parts: Parts, known: Agent) -> str:
    """Of no group at all, or of the first one."""
    if known.any_program and not any(
        each.provider == known.name and each.options.get("command") for each in groups.every(db)
    ):
        return NO_COMMAND.format(known.name)
    if _has_own_endpoint(parts, known) or _can_ask(db, parts, known, WORLD):
        return ""
    return NO_KEY.format(known.name)


def _has_own_endpoint(parts: Parts, known: Agent) -> bool:
    """That needs no key."""
    where = BASES[known.vendor]
    return any(each[where] != where.default for each in (settings.peek(parts.home.path, where), parts.config))


def _can_ask(db: Db, parts: Parts, known: Agent, folder: str, options: Mapping[str, Any] | None = None) -> bool:
    """Whether the group's endpoint needs no key, or one is there that was given for it."""
    base = base_in_force(db, parts.home, folder, known.vendor, options)
    return not base.default or any(nearest(db, folder, name, base.origins) is not None for name in names_of_keys(known))


def models(home: Home, provider: str) -> list[Model]:
    """The default first, then by name. Prices of the operator's own win."""
    known = AGENTS.get(provider)
    if known is None:
        raise Invalid("provider", NO_MODELS.format(repr(provider), ", ".join(AGENTS)))
    own = own_prices(home, settings.peek(home.path, FILE))
    priced = {name: price for name, price in {**shipped(), **own}.items() if _talks(price)}
    found = [
        _model(name, price, known, name in own)
        for name, price in priced.items()
        if known.any_vendor or vendor_of(name, known.vendor) == known.vendor
    ]
    return sorted(found, key=lambda each: (not each.is_default, each.vendor != known.vendor, each.id))


def _talks(price: Price) -> bool:
    """In text; others transcribe or speak."""
    return not price.minute and price.characters is None


def vendor_of(model: str, otherwise: str) -> str:
    """A model that only the operator lists can be anybody's: it is where the provider asks."""
    if model.startswith(ANTHROPICS):
        return "anthropic"
    return "openai" if model in shipped() else otherwise


def _model(name: str, price: Price, known: Agent, own: bool) -> Model:
    return Model(
        id=name,
        vendor=vendor_of(name, known.vendor),
        is_default=name == known.model,
        input=in_usd(price.input),
        output=in_usd(price.output),
        cache_read=in_usd(price.cache_read),
        cache_write=in_usd(price.cache_write),
        own_price=own,
    )
