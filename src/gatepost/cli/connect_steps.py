"""The steps of `gatepost connect`: what is missing is installed, a key is found, one turn is tried, the group is
pointed at it. Each step says what it found; a step that fails leaves everything as it was.
"""

import json
import os
import shlex
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

import click
from msgspec import Struct

from gatepost.cli import output
from gatepost.cli.model_names import find_short_name
from gatepost.cli.operation_command import call_operation
from gatepost.cli.sandbox_isolation import get_isolation
from gatepost.core import ids, settings
from gatepost.core.errors import GatepostError, Invalid, NotFound, SetupError
from gatepost.core.home import Home
from gatepost.core.money import render_usd, to_usd_number
from gatepost.core.process import home_lock
from gatepost.core.record_fields import ShownAs, shown
from gatepost.core.records import asdict, replace
from gatepost.egress import prices
from gatepost.egress.endpoints import BASES, base_in_force, gateway_base, read_own_base
from gatepost.egress.model_services import ModelService, find_services, list_services
from gatepost.egress.prices import FILE
from gatepost.egress.upstream import VendorBaseUrl
from gatepost.flow.groups import WORLD
from gatepost.flow.reports import TrialOutcome
from gatepost.flow.sessions.sandbox.effective_group import FOLDER, load_effective_group
from gatepost.flow.sessions.sandbox.isolation import ANYBODY
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.flow.sessions.trial import NO_PRICE
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.serve.control.agent_installer import Tell, install_library, install_program
from gatepost.serve.control.agent_registry import find_command
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.connect import (
    CancelTrialArgs,
    ConnectArgs,
    KeepConnectionArgs,
    TryConnectArgs,
)
from gatepost.serve.control.arguments.secrets import SetSecretArgs
from gatepost.serve.control.connectable_agents import (
    TITLES,
    get_agent,
    get_secret_name,
    has_command,
    has_library,
    has_program,
    list_agents,
    list_key_names,
)
from gatepost.serve.control.operations.connect import find_nearest_owner, find_overriding_secret
from gatepost.serve.control.operations.groups import check_provider
from gatepost.store.engine.place import has_store
from gatepost.store.engine.readonly import read_store
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group

MARGIN_S = 30.0  # beyond the trial's own limit, for what comes before and after it
LARGEST_KEY = 64 * 1024
_WAYS_OUT = {
    "sandbox": "`gatepost doctor` says what each sandbox lacks",
    "auth": "nothing was changed; give another key: gatepost connect {agent}{where} --key-stdin < key.txt",
    "quota": "look at the vendor's page for the account",
    "budget": "`gatepost budget show` says what is left; `gatepost budget set` raises it",
    "network": "is {base} the right address, and can it be reached from here? --base-url names another",
    "busy": "try again in a while",
    "time": "try again, with --timeout for more patience; `gatepost logs` may say what it did",
    "agent": "`gatepost logs` may say more",
    "stopped": "nothing was changed",
    "price": "choose a model that has one (--model), or give it one, in USD for a million tokens:"
    " gatepost connect {agent}{where} --model {model} --price IN/OUT, or --price 0 for one that costs nothing",
}


@dataclass(frozen=True, slots=True)
class ConnectKey:
    """The key that is to be used. `value` is '' if it is stored already, or if none is needed."""

    name: str
    value: str = field(repr=False)
    description: str


def connect(
    home: Home,
    name: str,
    as_json: bool,
    *,
    folder: str,
    model: str,
    base_url: str,
    price: str,
    started_by: str,
    vendor: str,
    key_stdin: bool,
    no_install: bool,
    yes: bool,
    timeout: float,
) -> int:
    tell, ask = output.ProgressPrinter(as_json), not yes and sys.stdin.isatty()
    found = find_short_name(home, name, model, base_url, tell, ask=ask)
    if found is not None:
        name, model, base_url, price = found.agent, found.model, found.base_url, price or found.price
    name, _, listed = name.partition(":")
    chosen = get_agent(home, name, vendor)
    check_provider(home, name)
    if base_url:
        read_own_base(chosen.vendor, base_url)
    group = _group(home, folder)
    options = choose_command(home, chosen, group, started_by, listed, tell, ask=ask)
    options |= found.options if found is not None else {}
    model = model or _model(chosen, group, base_url)
    if price:
        prices.parse_price(price)
    if price and not model:
        raise Invalid("--price", "of which model? Say --model, too")
    if chosen.any_vendor and not vendor and model.startswith("claude"):
        chosen, vendor = get_agent(home, name, "anthropic"), "anthropic"
    tell.step("sandbox", f"{_sandbox(home, group, name)} works")  # first: without one, what is installed is of no use
    install_library(chosen, tell, allowed=not no_install)
    install_program(home, chosen, tell, allowed=not no_install)
    base = _base(home, chosen, folder, base_url)
    key = find_key(home, chosen, folder, base, from_stdin=key_stdin, ask=ask)
    tell.step("key", key.description)
    wish = ConnectArgs(
        folder=folder, provider=name, model=model, base_url=base_url, price=price, vendor=vendor, options=options
    )
    tell.step("trial", f"asking {name} for one word, on {_describe_model(home, model, price)} …")
    if not price and not base.default and _has_vendor_price(home, model):
        tell.step("price", f"{model} is booked at its vendor's price, wherever it runs; if it is free there: --price 0")
    outcome = _run_trial(home, {**asdict(wish), "key": key.value}, timeout)
    if outcome.trouble:
        return _report_failure(home, chosen, key, wish, outcome, as_json)
    kept = call_operation(home, KeepConnectionArgs, {**asdict(wish), "key": key.value})
    if as_json:
        group_json = to_json(kept.group)
        output.print_json(
            {"ok": True, "agent": name, "group": group_json, "secret": key.name, **outcome_to_json(outcome)}
        )
    else:
        _report_success(home, tell, wish, outcome)
    return 0


def _group(home: Home, folder: str) -> Group:
    found = read_store(home, groups.get, folder) if has_store(home) else None
    if found is None and (has_store(home) or folder != WORLD):
        raise NotFound("group", folder, f"`gatepost group add {folder}` makes it")
    return found or Group(folder=WORLD, name="Home", created_at=0)  # of a home that has not started yet


def _model(chosen: ProviderSpec, group: Group, base_url: str) -> str:
    if group.provider == chosen.name and group.model:
        return group.model
    if base_url and chosen.model:
        raise Invalid("--model", f"{base_url} has models of its own; say which one it is to be")
    return chosen.model


def _describe_model(home: Home, model: str, price: str) -> str:
    """The model of the trial, and what it will cost."""
    if not model:
        return "its own model"
    listed = settings.load_declared(home.path, FILE)
    found = prices.parse_price(price) if price else prices.PriceList(home, listed)(model)
    if found is None:
        return model
    return f"{model} ({render_usd(found.input)} in, {render_usd(found.output)} out for a million tokens)"


def _has_vendor_price(home: Home, model: str) -> bool:
    """Return True if a model is booked as its vendor lists it; prices go by names, whoever answers."""
    listed = prices.find_price(model) if model else None
    return listed is not None and prices.PriceList(home, settings.load_declared(home.path, FILE))(model) == listed


def _base(home: Home, chosen: ProviderSpec, folder: str, base_url: str) -> VendorBaseUrl:
    """The endpoint that will be asked: the one that was named, else the one in force for the group."""
    if base_url:
        return read_own_base(chosen.vendor, base_url)
    if has_store(home):
        return read_store(home, base_in_force, home, folder, chosen.vendor)
    return gateway_base(settings.load_declared(home.path, BASES[chosen.vendor]), chosen.vendor)


def _sandbox(home: Home, group: Group, provider: str) -> str:
    found = get_isolation(home, settings.load_declared(home.path), group, provider)
    if not found.kind:
        raise SetupError(found.trouble)
    return found.kind if found.isolated else f"{found.kind} (which has no walls)"


# The key.


def find_key(
    home: Home, chosen: ProviderSpec, folder: str, base: VendorBaseUrl, *, from_stdin: bool, ask: bool
) -> ConnectKey:
    """From standard input, the store, the environment, or whoever sits there. An endpoint of one's own needs none, and
    gets none that was given for another: neither a stored one, nor one of the environment, which is for the vendor."""
    if from_stdin:
        return _check_key(home, chosen, folder, base, _read_key(), "from standard input")
    names = list_key_names(chosen)
    for name in names:
        place = read_store(home, find_nearest_owner, folder, name, base.origins) if has_store(home) else None
        if place is not None:
            return ConnectKey(name, "", f"{name}, stored for {place}")
    for name in names:
        if base.default and os.environ.get(name, "").strip():
            return _check_key(home, chosen, folder, base, os.environ[name].strip(), "from the environment")
    if ask:
        return _prompt_for_key(home, chosen, folder, base)
    if not base.default:
        return ConnectKey("", "", f"none for {base.origin}; if it needs one: --key-stdin")
    raise SetupError(
        f"{chosen.name} needs a key and none is there; `gatepost connect {chosen.name} --key-stdin < key.txt`,"
        f" or set {' or '.join(names)} in the environment"
    )


def _read_key() -> str:
    try:
        value = sys.stdin.read(LARGEST_KEY + 1).strip()
    except UnicodeDecodeError:
        raise Invalid("key", "is not text") from None
    if len(value) > LARGEST_KEY:
        raise Invalid("key", f"is longer than {LARGEST_KEY} characters")
    return value


def _prompt_for_key(home: Home, chosen: ProviderSpec, folder: str, base: VendorBaseUrl) -> ConnectKey:
    own = not base.default
    what = f"Key for {base.origin}" if own else f"{TITLES[chosen.vendor]} API key"
    also = ", or a token from `claude setup-token`" if chosen.subscription else ""
    none = "; empty for none" if own else ""
    text = f"{what}{also} (not shown{none})"
    value = str(click.prompt(text, hide_input=True, default="" if own else None, show_default=False)).strip()
    if not value and own:
        return ConnectKey("", "", "none, for an endpoint of your own")
    return _check_key(home, chosen, folder, base, value, "as given now")


def _check_key(
    home: Home, chosen: ProviderSpec, folder: str, base: VendorBaseUrl, value: str, origin: str
) -> ConnectKey:
    if not value or not value.isprintable() or " " in value:
        raise Invalid("key", "there is none in it, or more than one line")
    if not value.isascii():
        raise Invalid("key", "has signs in it that no key has; it is ASCII alone")
    name = get_secret_name(chosen, value)
    rival = read_store(home, find_overriding_secret, folder, name, base.origins) if has_store(home) else ""
    if rival:
        raise SetupError(f"{rival} is stored, and would be used before {name}; `gatepost secret rm {rival}` first")
    return ConnectKey(name, value, f"{name}, {origin}")


# The trial.


def _run_trial(home: Home, wish: dict[str, Any], limit: float) -> TrialOutcome:
    trial = ids.new("trial")
    args = {**wish, "id": trial, "limit_s": limit}
    try:
        return call_operation(home, TryConnectArgs, args, limit + MARGIN_S, awake=True)
    except KeyboardInterrupt:
        if home_lock.find_holder(home) is not None:
            call_operation(home, CancelTrialArgs, {"id": trial})
        output.print_line("stopped; nothing was changed", error=True)
        raise


def outcome_to_json(outcome: TrialOutcome) -> dict[str, Any]:
    """As programs read it."""
    return {
        "trouble": outcome.trouble,
        "reason": outcome.reason,
        "answer": outcome.answer,
        "sandbox": outcome.sandbox,
        "tools": outcome.tools,
        "models": list(outcome.models),
        "cost_usd": to_usd_number(outcome.micro),
        "seconds": round(outcome.seconds, 2),
    }


def _report_failure(
    home: Home, chosen: ProviderSpec, key: ConnectKey, wish: ConnectArgs, outcome: TrialOutcome, as_json: bool
) -> int:
    """A new key that was not refused is kept: it need not be typed again."""
    base = _base(home, chosen, wish.folder, wish.base_url)
    new = bool(key.value) and not _is_stored(home, wish, key.name, base)
    keeps = new and outcome.trouble not in ("auth", "stopped")
    if keeps:
        call_operation(home, SetSecretArgs, {"name": key.name, "value": key.value, "origin": base.origin})
    facts = {
        "agent": chosen.name,
        "base": base.url,
        "where": _render_options(wish),
        "model": found[1] if (found := NO_PRICE.search(outcome.reason)) else wish.model,
    }
    remedy = _WAYS_OUT[outcome.trouble].format(**facts)
    if as_json:
        report = {"ok": False, "agent": chosen.name, "remedy": remedy, "secret": key.name if keeps else ""}
        output.print_json({**report, **outcome_to_json(outcome)})
        return 1
    output.print_line(f"gatepost: {chosen.name} is not connected ({outcome.trouble}): {outcome.reason}", error=True)
    output.print_line(f"→ {remedy}", error=True)
    if keeps:
        output.print_line(f"{key.name} was not refused, and is kept for the next try", error=True)
    return 1


def _render_options(wish: ConnectArgs) -> str:
    """The options that say what is connected to what, for a command that can be repeated as it is printed."""
    given = {"--folder": wish.folder if wish.folder != WORLD else "", "--vendor": wish.vendor}
    given |= {"--base-url": wish.base_url}
    return "".join(f" {name} {shlex.quote(value)}" for name, value in given.items() if value)


def _is_stored(home: Home, wish: ConnectArgs, name: str, base: VendorBaseUrl) -> bool:
    return has_store(home) and read_store(home, find_nearest_owner, wish.folder, name, base.origins) is not None


def _report_success(home: Home, tell: output.ProgressPrinter, wish: ConnectArgs, outcome: TrialOutcome) -> None:
    name, folder = wish.provider, wish.folder
    word = output.cut(" ".join(outcome.answer.split()), 60)
    used = f" on {', '.join(outcome.models)}" if outcome.models else ""
    tell.step(
        "trial",
        f"{name} answered {word!r} in {output.format_duration(outcome.seconds)}, with {outcome.tools} tools,"
        f" for {render_usd(outcome.micro)}{used}",
    )
    tell.step("done", f"{folder} now runs on {name}" + (f", model {wish.model}" if wish.model else ""))
    holder = home_lock.find_holder(home)
    next_ones = [("gatepost up", "starts the gateway, prints the web address")] if holder is None else []
    if folder == WORLD:
        if holder is not None:
            next_ones.append(("gatepost login", f"an address for the web page at {holder.listen}"))
        next_ones.append(("gatepost chat", "or from this terminal"))
    next_ones += _list_agent_commands(home, folder)
    next_ones.append((f"gatepost budget set {folder} --daily 5", "so that it cannot spend more"))
    width = max(len(command) for command, _ in next_ones)
    for number, (command, what) in enumerate(next_ones):
        tell.step("" if number else "next", f"{command:<{width}}  # {what}")


def _list_agent_commands(home: Home, folder: str) -> list[tuple[str, str]]:
    """How this group is put to work without a chat, or led to by one."""
    own = settings.load_declared(home.path, FOLDER)[FOLDER]
    if folder in (WORLD, own):
        lends = folder == own or not read_store(home, _provider_of, own)
        return [('gatepost agent run "…"', "an agent without a chat")] if lends else []
    return [
        (f'gatepost agent run "…" --folder {folder}', "an agent of it, without a chat"),
        ("gatepost route add --help", f"how a room is led to {folder}; `gatepost chat` talks to {WORLD}"),
    ]


def _provider_of(db: Db, folder: str) -> str:
    group = groups.get(db, folder)
    return group.provider if group else ""


# The agents and their states.


def show_services(word: str, as_json: bool) -> int:
    found = find_services(word)
    if as_json:
        output.print_json(to_json(found))
        return 0
    if not found:
        raise NotFound(
            "service", word, "any that speaks OpenAI's API: gatepost connect openai --base-url URL --model …"
        )
    output.print_records(ModelService, found)
    output.print_line("`gatepost connect NAME --model MODEL --price IN/OUT` connects one; it asks for the key")
    return 0


def show_states(home: Home, as_json: bool) -> int:
    try:
        sandbox = _sandbox(home, ANYBODY, "")
    except GatepostError:
        sandbox = ""
    found = [_state(home, each, sandbox) for each in list_agents(home).values()]
    if as_json:
        output.print_json(to_json(found))
        return 0
    output.print_records(AgentState, found)
    output.print_line("`gatepost connect AGENT` does what is missing, tries it, and points a group at it")
    output.print_line(
        "`gatepost connect local` finds a model on this machine;"
        f" `gatepost connect services` lists {len(list_services())} services that offer models"
    )
    return 0


class AgentState(Struct, frozen=True, kw_only=True):
    """`key`: the secret that would be used, '' if there is none; `sandbox`: '' if none works."""

    agent: Annotated[str, shown("Agent", ShownAs.ID)]
    what: Annotated[str, shown("What it is", head="what it is")]
    installed: Annotated[bool, shown("Installed")]
    key: Annotated[str, shown("Key", empty="no")]  # its name
    sandbox: Annotated[str, shown("Sandbox", empty="none works")]
    groups: Annotated[tuple[str, ...], shown("Groups on it", head="groups on it")]


def _state(home: Home, chosen: ProviderSpec, sandbox: str) -> AgentState:
    config = settings.load_declared(home.path, PROVIDER, FOLDER)
    key, on_it = read_store(home, _read_key_and_groups, chosen, config) if has_store(home) else ("", ())
    installed = has_library(chosen) and has_program(home, chosen)
    return AgentState(agent=chosen.name, what=chosen.title, installed=installed, key=key, sandbox=sandbox, groups=on_it)


def _read_key_and_groups(db: Db, chosen: ProviderSpec, config: settings.Config) -> tuple[str, tuple[str, ...]]:
    """Its key, and the groups that run on it."""
    key = next((name for name in list_key_names(chosen) if find_nearest_owner(db, WORLD, name) is not None), "")
    run = (load_effective_group(db, config, group.folder) for group in groups.list_all(db))
    return key, tuple(each.folder for each in run if each is not None and each.provider == chosen.name)


def choose_command(
    home: Home, chosen: ProviderSpec, group: Group, given: str, listed: str, tell: Tell, *, ask: bool
) -> dict[str, str]:
    """The provider's options that start it. `given`: the operator's command; `listed`: an id in the registry."""
    if (given or listed) and not chosen.command_options:
        those = ", ".join(each.name for each in list_agents(home).values() if each.command_options)
        raise Invalid("--command" if given else "agent", f"belongs to {those}; the others know their own")
    if given and listed:
        raise Invalid("--command", f"{listed} has one in the ACP registry; give one of the two")
    if listed:
        return _agree_to_command(home, chosen, listed, tell, ask=ask)
    if not given and not has_command(chosen, group):
        raise Invalid("--command", "which program is it to be? Like --command 'PROGRAM acp'")
    return {"command": given} if given else {}


def _agree_to_command(home: Home, chosen: ProviderSpec, listed: str, tell: Tell, *, ask: bool) -> dict[str, str]:
    found = find_command(home, listed, tell)
    program, command = found.words[0], shlex.join(found.words)
    tell(f"{found.title} of the ACP registry is started by: {command}")
    if found.variables:
        tell(f"with these variables: {shlex.join(map('='.join, found.variables.items()))}")
    if not has_program(home, replace(chosen, programs=(program,))):
        tell(f"{program} is not on this machine; install it first" + (f": {found.archive}" if found.archive else ""))
    if not ask:
        agreed = f"gatepost connect {chosen.name} --command {shlex.quote(command)}"
        raise Invalid("agent", f"nobody is here to agree to a command of the registry; if you do: {agreed}")
    if not click.confirm("Run this in the group's sandbox, now and in every session?", err=True):
        raise Invalid("agent", "nothing was changed")
    return {"command": command, **({"env": json.dumps(found.variables)} if found.variables else {})}
