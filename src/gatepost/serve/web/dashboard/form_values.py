"""Values that a form offers and shows: agents and rooms to pick, and the settings of an agent as they are now.

Whoever may not see them fills in the form without.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from msgspec import to_builtins

from gatepost.core.errors import GatepostError
from gatepost.core.money import render_usd
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.flow.schedule.firing import schedule_of
from gatepost.flow.schedule.times import render_schedule
from gatepost.serve.control.arguments.groups import ShowGroupArgs
from gatepost.serve.control.arguments.memory import ExplainMemoryArgs
from gatepost.serve.control.arguments.spending import ListedPrice, ListPricesArgs
from gatepost.serve.control.arguments.tasks import ShowTaskArgs
from gatepost.serve.web.dashboard.contract import PageRequest
from gatepost.serve.web.dashboard.operation_form import OperationForm
from gatepost.serve.web.dashboard.tables import shorten
from gatepost.serve.web.dashboard.view import FormInput, InputKind
from gatepost.store.rooms import rooms
from gatepost.store.sessions import groups
from gatepost.tools.contract import TOOLS, Tool

MOST_OFFERED = 200
LONGEST_SHOWN = 80  # characters of what holds now
AGENTS = frozenset({"folder", "target", "group"})  # inputs that name an agent by its folder
ROOMS = frozenset({"room", "address"})
SETTING = "values."  # what the inputs of a change begin with


async def fill_form(request: PageRequest, form: OperationForm, given: Mapping[str, str]) -> OperationForm:
    names = {each.name for each in form.inputs}
    offers = {name: found for kind in (AGENTS, ROOMS) if names & kind for name, found in await _offer(request, kind)}
    now = await _read_settings(request, form, given)
    inputs = [_fill(each, offers.get(each.name, ()), now.get(each.name, "")) for each in form.inputs]
    if form.operation == "memory.edit":
        inputs = await _fill_words(request, inputs, given.get("id", ""))
    return replace(form, inputs=[await _offer_kind(request, each) for each in inputs])


async def _fill_words(request: PageRequest, inputs: list[FormInput], entry: str) -> list[FormInput]:
    """Whoever corrects an entry begins with its words."""
    try:
        found = await request.ask(ExplainMemoryArgs(id=int(entry) if entry.isascii() and entry.isdigit() else 0))
    except GatepostError:
        return inputs
    return [
        replace(each, value=found.entry.text) if each.name == "text" and not each.value else each for each in inputs
    ]


async def _offer_kind(request: PageRequest, field: FormInput) -> FormInput:
    """Offer what there is of this kind, and what to know of each: a model's price, what a tool is for."""
    offered: list[tuple[str, str]] = []
    if field.kind is InputKind.ZONE:
        return replace(field, offered=list_zones())
    if field.kind is InputKind.MODEL and await request.may("price.list"):
        offered = [(each.model, render_model_price(each)) for each in await request.ask(ListPricesArgs())]
    if field.kind is InputKind.TOOL and await request.may("policy.tools"):
        tools: Registry[Tool] = request.operation_deps.extra.get("tools", TOOLS)
        offered = [(name, shorten(each.description, LONGEST_SHOWN)) for name, each in sorted(tools.items())]
    if not offered:
        return field
    names, said = zip(*offered[:MOST_OFFERED], strict=True)
    return replace(field, offered=names, said=said)


def render_model_price(price: ListedPrice) -> str:
    """Return what a model costs, in words."""
    if price.minute:
        return f"{render_usd(price.minute)} for a minute of sound"
    if price.characters:
        return f"{render_usd(price.characters)} for a million characters"
    if not price.input and not price.output:
        return "free"
    return f"{render_usd(price.input)} in, {render_usd(price.output)} out, for a million tokens"


@cache
def list_zones() -> tuple[str, ...]:
    """Return the time zones that this machine knows by the name of a place."""
    return ("UTC", *sorted(each for each in available_timezones() if "/" in each and not each.startswith("Etc/")))


def _fill(field: FormInput, offered: tuple[str, ...], now: str) -> FormInput:
    """What holds now stands where an example would."""
    return replace(field, offered=offered, example=now or field.example)


async def _offer(request: PageRequest, kind: frozenset[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return a bounded part of what there is: each dialog asks for it."""
    store = request.operation_deps.store
    if not await request.may("group.list" if kind is AGENTS else "room.list"):
        return []
    if kind is AGENTS:
        found = tuple(await store.read(groups.list_folders, MOST_OFFERED))
    else:
        found = tuple(each.address for each in await store.read(rooms.list_first, MOST_OFFERED))
    return [(name, found) for name in kind]


async def _read_settings(request: PageRequest, form: OperationForm, given: Mapping[str, str]) -> dict[str, str]:
    """Return what an agent's settings or a task's are now, by their inputs."""
    if form.operation == "task.set" and (task_id := given.get("id")):
        return await _read_task(request, task_id)
    folder = given.get("folder", "")
    if form.operation != "group.set" or not folder:
        return {}
    try:
        group = await request.ask(ShowGroupArgs(folder=folder))
    except GatepostError:
        return {}
    return {f"{SETTING}{name}": _render(value) for name, value in to_builtins(group).items()}


async def _read_task(request: PageRequest, task_id: str) -> dict[str, str]:
    try:
        task = await request.ask(ShowTaskArgs(id=task_id, runs=1))
    except GatepostError:
        return {}
    words = render_schedule(schedule_of(task), task.next_at)
    shown = {"prompt": task.prompt, "text": task.text, "title": task.title, "script": task.script}
    return {name: _render(text) for name, text in shown.items()} | {
        "when": words,
        "room": task.address,
        "tz": task.zone,
    }


def _render(value: Any) -> str:
    """Return a value on one line; '' for what is not set."""
    if isinstance(value, dict):
        value = "\n".join(f"{name}={each}" for name, each in value.items() if each is not None)
    elif isinstance(value, list):
        value = "\n".join(map(str, value))
    return "" if value is None or isinstance(value, bool) else str(value)[:LONGEST_SHOWN]
