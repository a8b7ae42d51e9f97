"""`gatepost group`: the agents and their folders."""

from typing import Any

import click

from gatepost.cli import show
from gatepost.cli.operate import home_of, operate, reading
from gatepost.core.errors import Invalid
from gatepost.store import groups


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
    made = operate(place, "group.add", {"folder": folder, "name": name, "provider": provider})
    if as_json:
        show.as_json(made)
    else:
        print(f"group {made['folder']} (tier {made['tier']}) is in {place.group(folder)}; a route brings it messages")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="A list of objects, one a group.")
@click.pass_obj
def list_groups(home: str | None, as_json: bool) -> None:
    """All groups, by folder."""
    from gatepost.serve.control.operations.groups import as_shown

    found = [as_shown(group) for group in reading(home_of(home), groups.every)]
    if as_json:
        show.as_json(found)
        return
    show.table(
        ("folder", "tier", "name", "provider", "model", "sandbox"),
        [(each["folder"], each["tier"], each["name"], *(each[key] or "default" for key in _CHOSEN)) for each in found],
    )


_CHOSEN = ("provider", "model", "sandbox")


@command.command("show")
@click.argument("folder")
@click.option("--json", "as_json", is_flag=True, help="The group with its routes, destinations and live sessions.")
@click.pass_obj
def show_group(home: str | None, folder: str, as_json: bool) -> None:
    """One group with what leads to it and what it has going on."""
    from gatepost.serve.control.operations.groups import whole

    place = home_of(home)
    group = reading(place, whole, folder)
    if as_json:
        show.as_json(group)
        return
    for key in ("folder", "name", "tier", *_CHOSEN, "open", "window_messages", "window_chars"):
        print(f"{key:<16} {'default' if group[key] in ('', None) else group[key]}")
    for key, value in group["options"].items():
        print(f"options.{key:<8} {value}")
    print(f"{'files':<16} {place.group(folder)}")
    for route in group["routes"]:
        print(f"{'route ' + str(route['id']):<16} {route['match'] or '(everything)'} → {route['target']}")
    for each in group["destinations"]:
        print(f"{'may send to':<16} {each['name']} ({each['address'] or each['target_folder']})")
    for session in group["sessions"]:
        print(f"{'session':<16} {session['id']} {session['state']} {session['address']} {session['thread']}")


@command.command("set")
@click.argument("folder")
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE…")
@click.option("--json", "as_json", is_flag=True, help="Print the changed group as JSON.")
@click.pass_obj
def set_values(home: str | None, folder: str, values: tuple[str, ...], as_json: bool) -> None:
    """Change a group: name, provider, model, sandbox, open, window_messages, window_chars, options.KEY.

    An empty value is the default. Sandboxes that are awake take it up when they start anew.
    """
    changed = operate(home_of(home), "group.set", {"folder": folder, "values": _pairs(values)})
    if as_json:
        show.as_json(changed)
    else:
        print(f"group {folder}: " + ", ".join(values))


def _pairs(values: tuple[str, ...]) -> dict[str, str]:
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
    """Remove a group with its routes and sessions. Its files and its messages in the ledger stay."""
    if not yes:
        raise Invalid("", f"removing {folder!r} ends its sessions and takes its routes away; say --yes to do it")
    gone: dict[str, Any] = operate(home_of(home), "group.rm", {"folder": folder})
    print(f"group {folder} is removed, {gone['closed']} sessions closed; its files stay in {gone['kept']}")
