"""What `gatepost channel add` and `set` ask for: settings at a terminal, secrets hidden there or by lines of standard
input. No value of a secret is taken from the command line, where other users of the machine can see it."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click

from gatepost.channels.contract import ChannelKind
from gatepost.cli import output
from gatepost.core.errors import Invalid
from gatepost.core.settings import Setting
from gatepost.flow.channel_specs import get_last_name

STDIN = "-"


def parse_secret_names(given: Iterable[str]) -> list[str]:
    """Of `--secret NAME` or `--secret NAME=-`."""
    names = []
    for each in given:
        name, equals, value = each.partition("=")
        if equals and value != STDIN:
            sys.argv[:] = ["…" if word.endswith(each) else word for word in sys.argv]  # the lock file shows them
            raise Invalid(
                "--secret", f"{name}: others can see a value on the command line; write {name}=- and give it on stdin"
            )
        names.append(name)
    return names


def ask_settings(kind: ChannelKind, given: Mapping[str, str]) -> dict[str, str]:
    """What the guide asks for and was not given; nothing where nobody can be asked."""
    if not sys.stdin.isatty():
        return {}
    wanted = [each for each in kind.guide.ask if not each.secret and get_last_name(each) not in given]
    return {get_last_name(each): _prompt(each) for each in wanted}


def _prompt(each: Setting[Any]) -> str:
    output.print_line(each.help)
    default = ",".join(each.default) if isinstance(each.default, tuple) else each.default or None
    choice = click.Choice(each.choices) if each.choices else str
    return str(click.prompt(get_last_name(each), type=choice, default=default))


def read_secrets(kind: ChannelKind, names: Iterable[str]) -> dict[str, str]:
    """Each is asked for at a terminal, and else a line of standard input, in this order. A line that is not there is
    left out: it may be in the store."""
    helps = {get_last_name(each): each.help for each in kind.settings if each.secret}
    values: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if name not in helps:
            raise Invalid("--secret", f"{kind.name} has no secret {name!r}; it has: {', '.join(helps) or 'none'}")
        if sys.stdin.isatty():
            output.print_line(helps[name])
            values[name] = str(click.prompt(f"{name} (not shown)", hide_input=True))
        elif line := _read_line():
            values[name] = line
    return values


def _read_line() -> str:
    try:
        return sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Invalid("--secret", "standard input is not text") from None


def list_asked_secrets(kind: ChannelKind) -> list[str]:
    return [get_last_name(each) for each in kind.guide.ask if each.secret]
