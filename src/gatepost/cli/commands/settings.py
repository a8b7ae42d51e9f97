"""`gatepost settings`: every setting, its value and where that came from."""

import sys
from typing import Any

import click
import msgspec

from gatepost import declared
from gatepost.cli import show
from gatepost.cli.operate import home_of
from gatepost.core import settings
from gatepost.core.settings import SETTINGS, Config, Setting


@click.command()
@click.option(
    "--json", "as_json", is_flag=True, help="A list of objects: name, value, source, default, variable, help."
)
@click.option("--docs", is_flag=True, help="Print docs/settings.md: what can be set, without any home's values.")
@click.pass_obj
def command(home: str | None, as_json: bool, docs: bool) -> None:
    """Every setting, its value and where that came from. Secrets are not shown.

    Values come from, in rising order: the default, gatepost.toml in the home, the environment, the command line.
    """
    if docs:
        declared.load_package()
        sys.stdout.write(as_markdown())
        return
    place = home_of(home)
    declared.load_all(place)
    config = settings.load(place.path)
    if as_json:
        show.as_json([_row(each, config) for _, each in SETTINGS.items()])
        return
    rows = [(each.name, _words(_value(each, config)), config.source(each), each.help) for _, each in SETTINGS.items()]
    show.table(("setting", "value", "from", "meaning"), rows)


def _value(each: Setting[Any], config: Config) -> Any:
    value = config[each]
    if each.whole:
        return msgspec.to_builtins(value)
    return "(set)" if each.secret and value else value


def _words(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, tuple | dict) else value


def _row(each: Setting[Any], config: Config) -> dict[str, Any]:
    return {
        "name": each.name,
        "value": _value(each, config),
        "source": config.source(each),
        "default": each.default,
        "variable": each.variable,
        "choices": list(each.choices),
        "help": each.help,
    }


def as_markdown() -> str:
    """The printed page. Everything that declares a setting must be loaded before."""
    out = [
        "# Settings",
        "",
        "Printed by `gatepost settings --docs`; do not edit. A setting's dotted name is its key in `gatepost.toml`",
        "(`log.level` is `level` in the table `[log]`). The environment wins over the file, a flag over both.",
        "",
        "| setting | default | variable | meaning |",
        "|---|---|---|---|",
    ]
    for each in (SETTINGS[name] for name in SETTINGS):
        default = ", ".join(each.default) if isinstance(each.default, tuple | dict) else each.default
        text = "false" if default is False else "true" if default is True else str(default)
        meaning = each.help + (f" One of: {', '.join(each.choices)}." if each.choices else "")
        out.append(f"| `{each.name}` | {f'`{text}`' if text else ''} | `{each.variable}` | {_cell(meaning)} |")
    return "\n".join(out) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
