"""Values that a form offers and shows: agents and rooms to pick, and the settings of an agent as they are now.

People who may not see them fill in the form without.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from msgspec import to_builtins

from gatepost.core.errors import GatepostError
from gatepost.core.money import render_usd
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.flow.people.personal_routes import list_own_rooms
from gatepost.flow.schedule.firing import schedule_of
from gatepost.flow.schedule.task_rooms import list_offered
from gatepost.flow.schedule.times import render_schedule
from gatepost.serve.control.arguments.groups import ShowGroupArgs
from gatepost.serve.control.arguments.memory import ExplainMemoryArgs
from gatepost.serve.control.arguments.spending import ListedPrice, ListPricesArgs
from gatepost.serve.control.arguments.tasks import ShowTaskArgs
from gatepost.serve.web.dashboard.contract import PageRequest
from gatepost.serve.web.dashboard.form_words import CHOICES
from gatepost.serve.web.dashboard.operation_form import OperationForm
from gatepost.serve.web.dashboard.tables import shorten
from gatepost.serve.web.dashboard.view import FormInput, InputKind
from gatepost.store.people import users
from gatepost.store.rooms import rooms
from gatepost.store.sessions import groups
from gatepost.tools.contract import TOOLS, Tool

MOST_OFFERED = 200
LONGEST_SHOWN = 80  # characters of what holds now
AGENTS = frozenset({"folder", "target", "group"})  # inputs that name an agent by its folder
ROOMS = frozenset({"room", "address"})
# By operation: inputs in which one of what there is is picked, and nothing else can be typed.
PICKED: Mapping[str, tuple[str, ...]] = {
    "budget.set": ("folder", "user"),
    "egress.allow": ("folder",),
    "egress.deny": ("folder",),
    "memory.add": ("folder",),
    "task.add": ("folder",),
}
OWN_ROOM = "your own chat on this page"
USUAL_ROOM, STAYS = "its usual room", "where it goes now"
NOBODY = "–"  # the choice of none
ANY_AGENT = {"egress.allow": "all agents", "egress.deny": "all agents"}
TASK_ROOMS = ("task.add", "task.set")
SETTING = "values."  # what the inputs of a change begin with


async def fill_form(request: PageRequest, form: OperationForm, given: Mapping[str, str]) -> OperationForm:
    names = {each.name for each in form.inputs}
    offers = {name: found for kind in (AGENTS, ROOMS) if names & kind for name, found in await _offer(request, kind)}
    now = await _read_settings(request, form, given)
    inputs = [_fill(each, offers.get(each.name, ()), now.get(each.name, "")) for each in form.inputs]
    if form.operation == "memory.edit":
        inputs = await _fill_words(request, inputs, given.get("id", ""))
    inputs = [await _offer_choice(request, form.operation, each) for each in inputs]
    if form.operation in TASK_ROOMS:
        inputs = await _offer_task_rooms(request, form.operation, inputs, given)
    inputs = [await _offer_kind(request, each) for each in inputs]
    return replace(form, inputs=inputs, fixed=[await _name_agent(request, each) for each in form.fixed])


async def _name_agent(request: PageRequest, field: FormInput) -> FormInput:
    """Call an agent that is known already by its name."""
    if field.name not in AGENTS or not await request.may("group.show", scope=field.value):
        return field
    found = await request.operation_deps.store.read(groups.get, field.value)
    return replace(field, shown=(found.name,)) if found is not None and found.name else field


async def _fill_words(request: PageRequest, inputs: list[FormInput], entry: str) -> list[FormInput]:
    """A correction of an entry begins with its words."""
    try:
        found = await request.ask(ExplainMemoryArgs(id=int(entry) if entry.isascii() and entry.isdigit() else 0))
    except GatepostError:
        return inputs
    return [
        replace(each, value=found.entry.text) if each.name == "text" and not each.value else each for each in inputs
    ]


async def _offer_choice(request: PageRequest, operation: str, field: FormInput) -> FormInput:
    """Let an agent or a person be picked by name, where few enough are there to be read."""
    if field.choices and (shown := CHOICES.get((operation, field.name))):
        return replace(field, shown=tuple(shown.get(each, each) for each in field.choices))
    if field.name not in PICKED.get(operation, ()):
        return field
    store, folders = request.operation_deps.store, field.name in AGENTS
    if not await request.may("group.list" if folders else "user.list"):
        return field
    if folders:
        named = [(each.folder, each.name) for each in await store.read(groups.list_first, MOST_OFFERED + 1)]
    else:
        named = [(each.id, each.name) for each in await store.read(users.list_first, MOST_OFFERED + 1)]
    if len(named) > MOST_OFFERED or not named:
        return field
    return _make_choice(field, named, "" if field.required else ANY_AGENT.get(operation, NOBODY))


def _make_choice(field: FormInput, named: Sequence[tuple[str, str]], none: str) -> FormInput:
    """`none`: how it is called to choose nothing; '': something must be chosen. Two of one name are told apart."""
    names = Counter(name for _, name in named)
    shown = [name if name and names[name] == 1 else f"{name} ({value})" if name else value for value, name in named]
    values = [value for value, _ in named]
    if none:
        values, shown = ["", *values], [none, *shown]
    return replace(field, kind=InputKind.CHOICE, choices=tuple(values), shown=tuple(shown), offered=())


async def _offer_task_rooms(
    request: PageRequest, operation: str, inputs: list[FormInput], given: Mapping[str, str]
) -> list[FormInput]:
    """The rooms in which the agent may speak, the person's own first. Before the agent is known, its usual one."""
    folder = given.get("folder", "")
    if not await request.may("room.list"):
        return inputs
    if operation == "task.set":
        try:
            folder = (await request.ask(ShowTaskArgs(id=given.get("id", ""), runs=1))).folder
        except GatepostError:
            return inputs
    found = await request.operation_deps.store.read(list_offered, folder, request.person) if folder else {}
    if folder and not found:
        return inputs
    own = await request.operation_deps.store.read(list_own_rooms, request.person)
    found = {address: f"{OWN_ROOM} ({name})" if address in own else name for address, name in found.items()}
    none = STAYS if operation == "task.set" else "" if folder else USUAL_ROOM
    return [_make_choice(each, [*found.items()], none) if each.name == "room" else each for each in inputs]


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
    """The present value stands where an example would."""
    return replace(field, offered=offered, example=now or field.example)


async def _offer(request: PageRequest, kind: frozenset[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return a bounded part of what there is: each dialog asks for it."""
    store = request.operation_deps.store
    if not await request.may("group.list" if kind is AGENTS else "room.list"):
        return []
    if kind is AGENTS:
        found = tuple(each.folder for each in await store.read(groups.list_first, MOST_OFFERED))
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
