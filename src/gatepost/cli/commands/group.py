"""`gatepost group`: the agents and their folders."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation
from gatepost.core import settings
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.home import Home
from gatepost.core.records import asdict
from gatepost.core.terminal_text import one_line
from gatepost.store import groups

WIDE = 24  # of the names in `group show`


@click.group()
def command() -> None:
    """The agents and their folders: add, list, show, set, rm. Works with the gateway up or down."""


@command.command()
@click.argument("folder")
@click.option("--name", default="", help="How people call it (default: the last part of FOLDER).")
@click.option("--provider", default="", help="What drives it (default: the setting sessions.provider).")
@click.option("--json", "as_json", is_flag=True, help="Print the new group as JSON.")
@click.pass_obj
def add(home: str | None, folder: str, name: str, provider: str, as_json: bool) -> None:
    """Add a group, with AGENTS.md, work.md and skills/ in its folder. FOLDER is its place, like acme/eng."""
    place = home_of(home)
    made = run_operation(place, "group.add", {"folder": folder, "name": name, "provider": provider})
    if as_json:
        output.print_json(made)
    else:
        output.print_line(
            f"group {made['folder']} (tier {made['tier']}) is in {place.group(folder)}; a route brings it messages"
        )


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="A list of objects, one a group.")
@click.pass_obj
def list_groups(home: str | None, as_json: bool) -> None:
    """All groups, by folder."""
    from gatepost.serve.control.operations.groups import group_to_json

    place = home_of(home)
    found = [group_to_json(group) for group in read_store(place, groups.list_all)]
    if as_json:
        output.print_json(found)
        return
    defaults = _defaults(place)
    output.print_table(
        ("folder", "tier", "name", "provider", "model", "sandbox"),
        [
            (
                each["folder"],
                each["tier"],
                each["name"],
                *_effective_values(_with_inherited_provider(place, each), defaults),
            )
            for each in found
        ],
    )


def _effective_values(group: dict[str, Any], defaults: dict[str, str]) -> list[str]:
    return [_effective_value(group, key, defaults) for key in ("provider", "model", "sandbox")]


def _effective_value(group: dict[str, Any], key: str, defaults: dict[str, str]) -> str:
    """What holds for a group: its own value, or the gateway's with a word that it is that."""
    own = group[key]
    return str(own) if own not in ("", None) else f"{defaults[key]} (default)" if key in defaults else "-"


def _with_inherited_provider(home: Home, group: dict[str, Any]) -> dict[str, Any]:
    """The agents' own group goes by another, until it has a provider."""
    from gatepost.flow.groups import WORLD
    from gatepost.flow.sessions.effective_group import FOLDER, load_effective_group
    from gatepost.flow.sessions.session_deps import PROVIDER

    config = settings.load_declared(home.path, PROVIDER, FOLDER)
    lender = read_store(home, groups.get, WORLD)
    run = read_store(home, load_effective_group, config, group["folder"])
    if group["provider"] or group["folder"] != config[FOLDER] or run is None or lender is None or not lender.provider:
        return group
    model = f"{run.model} (as {WORLD})" if run.model and not group["model"] else group["model"]
    return {**group, "provider": f"{run.provider} (as {WORLD})", "model": model}


def _defaults(home: Home) -> dict[str, str]:
    from gatepost.flow.sessions.sandbox_plan import KIND
    from gatepost.flow.sessions.session_deps import PROVIDER, WINDOW, WINDOW_CHARS

    config = settings.load_declared(home.path, PROVIDER, WINDOW, WINDOW_CHARS, KIND)
    return {
        "provider": config[PROVIDER],
        "model": "the provider's own",
        "sandbox": config[KIND],
        "window_messages": str(config[WINDOW]),
        "window_chars": str(config[WINDOW_CHARS]),
    }


@command.command("show")
@click.argument("folder")
@click.option("--json", "as_json", is_flag=True, help="The group with its routes, destinations and live sessions.")
@click.pass_obj
def show_group(home: str | None, folder: str, as_json: bool) -> None:
    """One group with what leads to it and what it has going on."""
    from gatepost.serve.control.operations.groups import read_group_details

    place = home_of(home)
    group = read_store(place, read_group_details, folder)
    if as_json:
        output.print_json(group)
        return
    defaults = _defaults(place)
    for key in ("folder", "name", "tier", "provider", "model", "sandbox", "window_messages", "window_chars"):
        output.print_line(
            f"{key:<{WIDE}} {one_line(_effective_value(_with_inherited_provider(place, group), key, defaults))}"
        )
    for key, value in _limits(place, folder).items():
        own = group["limits"].get(key)
        output.print_line(f"{'limits.' + key:<{WIDE}} {value}" + (_inherited(own, value) if value != "none" else ""))
    for each in group["mounts"]:
        output.print_line(f"{'mount':<{WIDE}} {one_line(_render_mount(place, each))}")
    for key, value in group["options"].items():
        output.print_line(f"{'options.' + key:<{WIDE}} {one_line(str(value))}")
    output.print_line(f"{'files':<{WIDE}} {place.group(folder)}")
    for route in group["routes"]:
        output.print_line(
            f"{'route ' + str(route['id']):<{WIDE}} {one_line(route['match']) or '(everything)'} → {route['target']}"
        )
    for each in group["destinations"]:
        output.print_line(
            f"{'may send to':<{WIDE}} {one_line(each['name'])} ({each['address'] or each['target_folder']})"
        )
    for session in group["sessions"]:
        where = one_line(f"{session['address']} {session['thread']}")
        output.print_line(f"{'session':<{WIDE}} {session['id']} {session['state']} {where}")
        if (sockets := place.sockets_of(session["id"])).is_dir():
            output.print_line(f"{'':<{WIDE}} {sockets}/router.sock, for processes of its sandbox alone")


def _limits(home: Home, folder: str) -> dict[str, str]:
    """Those in force, with the words of the groups above it."""
    from gatepost.flow.sessions.group_limits import (
        CPU_PERCENT,
        DISK_MB,
        MAY_EXCEED,
        MEMORY_MB,
        PROCESSES,
        TURN_S,
        limits_of,
    )

    group = read_store(home, groups.get, folder)
    if group is None:
        return {}
    config = settings.load_declared(home.path, MEMORY_MB, CPU_PERCENT, PROCESSES, TURN_S, DISK_MB, MAY_EXCEED)
    found = asdict(limits_of(config, group, read_store(home, groups.list_ancestors, folder)))
    return {name: f"{value:g}" if value else "none" for name, value in found.items()}


def _inherited(own: int | None, in_force: str) -> str:
    if own is None:
        return " (not its own)"
    return "" if f"{own:g}" == in_force else f" (its own {own} is above the gateway's)"


def _render_mount(home: Home, wish: str) -> str:
    """A mount as it would come about now."""
    from gatepost.flow.sessions.extra_mounts import ALLOWED, grant_mount, parse_mount_request

    try:
        granted = grant_mount(settings.load_declared(home.path, ALLOWED), home, parse_mount_request(wish)).mount
    except GatepostError as error:
        return f"{wish}, refused: {error}"
    return f"{granted.source} at {granted.target}, {'to read and write' if granted.writable else 'read-only'}"


@command.command("set")
@click.argument("folder")
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE…")
@click.option("--json", "as_json", is_flag=True, help="Print the changed group as JSON, with notes.")
@click.pass_obj
def set_values(home: str | None, folder: str, values: tuple[str, ...], as_json: bool) -> None:
    """Change a group: name, provider, model, sandbox, window_messages, window_chars, mounts, limits.NAME, options.KEY.

    An empty value is the default. Sandboxes that are awake take it up when they start anew. Another provider clears the
    model, unless the same command names one.

    limits.memory_mb, limits.cpu_percent (of one processor), limits.processes, limits.turn_s, limits.disk_mb and
    limits.files hold for the group and those below it that say nothing else, up to what the gateway's settings give.

    mounts=/host/path:/workspace/extra/name[:rw],… shows host folders, as far as sandbox.mounts_allowed lets it.
    """
    place, pairs = home_of(home), _parse_pairs(values)
    changed = run_operation(place, "group.set", {"folder": folder, "values": pairs})
    if as_json:
        output.print_json(changed)
        return
    for key in pairs:
        output.print_line(f"group {folder}: {key} is now {one_line(_render_value(place, changed, key))}")
    for note in changed["notes"]:
        output.print_line(f"group {folder}: {one_line(note)}")


def _render_value(home: Home, changed: dict[str, Any], key: str) -> str:
    kind, _, bare = key.partition(".")
    if kind == "limits":
        value = _limits(home, changed["folder"])[bare]
        return value + (_inherited(changed["limits"].get(bare), value) if value != "none" else "")
    if key == "mounts":
        return "; ".join(_render_mount(home, each) for each in changed["mounts"]) or "none"
    if kind == "options":
        return str(changed["options"].get(bare, "not set"))
    return _effective_value(changed, key, _defaults(home))


def _parse_pairs(values: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in values:
        key, equals, value = each.partition("=")
        if not equals:
            raise Invalid(each, "is not KEY=VALUE")
        pairs[key] = value
    return pairs


@command.command()
@click.argument("folder")
@click.option("--yes", is_flag=True, help="Really.")
@click.pass_obj
def rm(home: str | None, folder: str, yes: bool) -> None:
    """Remove a group with its routes, sessions, secrets, their folders and media. Its own folder stays, and its
    messages in the ledger."""
    from gatepost.serve.control.operations.groups import check_removable

    check_removable(folder)
    if not yes:
        raise Invalid("", f"removing {folder!r} ends its sessions and takes its routes away; say --yes to do it")
    gone: dict[str, Any] = run_operation(home_of(home), "group.rm", {"folder": folder})
    removed = gone["removed"]
    output.print_line(
        f"group {folder} is removed, {gone['closed']} sessions closed;"
        f" with it went {removed['sessions']} session folders, {removed['media']} folders of media"
        f" and {removed['worktrees']} records of worktrees"
    )
    output.print_line(f"its own files stay in {gone['kept']}, its messages in the ledger")
    for each in gone["left"]:
        output.print_line(f"gatepost: {each} could not be removed; remove it by hand", error=True)
