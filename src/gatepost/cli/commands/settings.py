"""`gatepost settings`: every setting, its value and where that came from."""

import sys
from typing import Any

import click
import msgspec

from gatepost import declarations
from gatepost.cli import output
from gatepost.cli.gateway_retry import post_operation
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.cli.operation_runner import control_of, home_of
from gatepost.core import settings
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.settings import SETTINGS, Config, Setting
from gatepost.serve.control.arguments.settings import (
    SetSettingArgs,
    SettingChange,
    SettingsInUseArgs,
    UnsetSettingArgs,
)
from gatepost.serve.control.operations.settings import TAKEN_UP, get_visible_value

RESTART = (
    "a running gateway uses what it read when it started: `gatepost down` and `gatepost up` take changes of the file up"
)


as_json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="A list of objects: name, value, in_use (null if no gateway runs), source, default, variable (null of a"
    " secret), help.",
)


@click.group(invoke_without_command=True)
@as_json_option
@click.option("--docs", is_flag=True, help="Print docs/settings.md: what can be set, without any home's values.")
@click.pass_context
def settings_command(context: click.Context, as_json: bool, docs: bool) -> None:
    """Every setting, its value and where that came from: list, set, unset. Secrets are not shown.

    Values come from, in rising order: the default, gatepost.toml in the home, the environment, the command line. A
    running gateway uses what it read when it started: where that is something else, it is said.
    """
    if context.invoked_subcommand is not None:
        return
    if docs:
        declarations.load_package()
        sys.stdout.write(render_markdown())
        return
    print_settings(home_of(context.obj), as_json)


@settings_command.command("list")
@as_json_option
@click.pass_obj
def list_settings(home: str | None, as_json: bool) -> None:
    """The same as `gatepost settings` alone."""
    print_settings(home_of(home), as_json)


def _load_declarations(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    """Without a gateway, this command is the one that must know every setting."""
    declarations.load_all(home)
    return args


@settings_command.command("set")
@from_operation(SetSettingArgs, prepare=_load_declarations)
def set_setting(run: CommandRun, change: SettingChange) -> None:
    _print_change(change)


@settings_command.command("unset")
@from_operation(UnsetSettingArgs, prepare=_load_declarations)
def unset_setting(run: CommandRun, change: SettingChange) -> None:
    _print_change(change)


def _print_change(change: SettingChange) -> None:
    for line in change.diff:
        output.print_line(line)
    output.print_line(change.text)


def print_settings(place: Home, as_json: bool) -> None:
    declarations.load_all(place)
    config = settings.load(place.path)
    if as_json:
        used = _read_running_settings(place) or {}
        output.print_json([_row(each, config, used.get(name)) for name, each in SETTINGS.items()])
        return
    rows = [
        (each.name, _render_value(get_visible_value(each, config)), config.source(each), each.help)
        for _, each in SETTINGS.items()
    ]
    output.print_table(("setting", "value", "from", "meaning"), rows)
    if home_lock.find_holder(place) is not None:
        for line in list_differences(config, _read_running_settings(place) or {}):
            output.print_line(line)


def _read_running_settings(home: Home) -> dict[str, Any] | None:
    """Return what the gateway that runs has; None: none does, or it does not answer."""
    if home_lock.find_holder(home) is None:
        return None
    try:
        return post_operation(control_of(home), SettingsInUseArgs, {}, timeout=5)
    except GatepostError:
        return None


def list_differences(config: Config, used: dict[str, Any]) -> list[str]:
    """Return what whoever changes a setting beside a running gateway must know."""
    out = []
    for name, each in SETTINGS.items():
        value = _json_roundtrip(get_visible_value(each, config))
        if name in used and name not in TAKEN_UP and used[name] != value:
            out.append(f"{name}: the running gateway uses {_render_value(used[name])!r}, not {_render_value(value)!r}")
    return [*out, RESTART]


def _json_roundtrip(value: Any) -> Any:
    """As it comes back from the gateway."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _render_value(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, tuple | list | dict) else value


def _row(each: Setting[Any], config: Config, used: Any) -> dict[str, Any]:
    return {
        "name": each.name,
        "value": get_visible_value(each, config),
        "in_use": used,
        "source": config.source(each),
        "default": each.default,
        "variable": None if each.secret else each.variable,
        "choices": list(each.choices),
        "help": each.help,
    }


def render_markdown() -> str:
    """The printed page. Everything that declares a setting must be loaded before."""
    out = [
        "# Settings",
        "",
        "Printed by `gatepost settings --docs`; do not edit. A setting's dotted name is its key in `gatepost.toml`",
        "(`log.level` is `level` in the table `[log]`). The environment wins over the file, a flag over both.",
        "",
        "A running gateway uses what it read when it started: after a change, `gatepost down` and `gatepost up`.",
        "`gatepost settings` says where the two differ.",
        "",
        "| setting | default | variable | meaning |",
        "|---|---|---|---|",
    ]
    for each in (SETTINGS[name] for name in SETTINGS):
        default = ", ".join(each.default) if isinstance(each.default, tuple | dict) else each.default
        text = "false" if default is False else "true" if default is True else str(default)
        meaning = each.help + (f" One of: {', '.join(each.choices)}." if each.choices else "")
        where = "a secret, kept in the store" if each.secret else f"`{each.variable}`"
        out.append(f"| `{each.name}` | {f'`{text}`' if text else ''} | {where} | {_cell(meaning)} |")
    return "\n".join(out) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
