"""Questions of `gatepost channel add` and `set`: settings at a terminal, secrets hidden there or by lines of standard
input. No value of a secret is taken from the command line, where other users of the machine can see it."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from gatepost.channels.contract import ChannelKind
from gatepost.cli import output
from gatepost.core.errors import Invalid
from gatepost.core.settings import Setting
from gatepost.flow.channel_specs import get_last_name

STDIN = "-"


@contextmanager
def ending_with(words: str) -> Iterator[None]:
    """Print these words if the user breaks off a question, so that they know the outcome."""
    try:
        yield
    except (click.Abort, KeyboardInterrupt):
        print(f"\ngatepost: {words}" if sys.stdin.isatty() else f"gatepost: {words}", file=sys.stderr)
        raise click.Abort from None


def parse_secret_names(given: Iterable[str]) -> list[str]:
    """Parse the names of `--secret NAME` or `--secret NAME=-`."""
    names = []
    for each in given:
        name, equals, value = each.partition("=")
        if equals and value != STDIN:
            _hide_argument(each)
            raise Invalid(
                "--secret", f"{name}: others can see a value on the command line; write {name}=- and give it on stdin"
            )
        names.append(name)
    return names


def check_settings(kind: ChannelKind, given: Mapping[str, str]) -> None:
    """No secret is among them."""
    for name in list_secrets(kind):
        if name in given:
            _hide_argument(f"{name}={given[name]}")
            raise Invalid("--set", f"{name} is a secret; write --secret {name}=- and give it on stdin")


def _hide_argument(text: str) -> None:
    """Remove a secret from `sys.argv`: the holder of the home's lock writes its command line beside it, for people to
    see."""
    sys.argv[:] = ["…" if word.endswith(text) else word for word in sys.argv]


def list_secrets(kind: ChannelKind) -> list[str]:
    return [get_last_name(each) for each in kind.settings if each.secret]


def ask_for_new(
    kind: ChannelKind, given: Mapping[str, str], named: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Ask for the settings and secrets of a new channel; return both.

    The guide's values that were not given are asked for in its order, with the secrets that were named. Without a
    terminal only secrets are read.
    """
    wanted = _check_names(kind, named)
    if not sys.stdin.isatty():
        return {}, read_secrets(kind, [*wanted, *list_asked_secrets(kind)])
    values: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for each in kind.guide.ask:
        name = get_last_name(each)
        if each.secret:
            secrets |= read_secrets(kind, [name])
        elif name not in given:
            values[name] = _prompt(each, each in kind.guide.optional)
    return values, secrets | read_secrets(kind, [name for name in wanted if name not in secrets])


def _prompt(each: Setting[Any], is_optional: bool) -> str:
    output.print_line(each.help)
    default = ",".join(each.default) if isinstance(each.default, tuple) else each.default
    if default == "" and not is_optional and not isinstance(each.default, tuple):
        default = None  # asked again until there is an answer
    choice = click.Choice(each.choices) if each.choices else str
    return str(click.prompt(get_last_name(each), type=choice, default=default))


def read_secrets(kind: ChannelKind, names: Iterable[str]) -> dict[str, str]:
    """Each is asked for at a terminal, and else a line of standard input, in this order. One that is not given is left
    out: it may be in the store."""
    declared = {get_last_name(each): each for each in kind.settings if each.secret}
    values: dict[str, str] = {}
    for name in dict.fromkeys(_check_names(kind, names)):
        if value := _prompt_secret(kind, declared[name]) if sys.stdin.isatty() else _read_line():
            values[name] = value
    return values


def _prompt_secret(kind: ChannelKind, each: Setting[str]) -> str:
    output.print_line(each.help)
    default = "" if each in kind.guide.optional else None
    text = f"{get_last_name(each)} (not shown)"
    return str(click.prompt(text, hide_input=True, default=default, show_default=False))


def _check_names(kind: ChannelKind, names: Iterable[str]) -> list[str]:
    known, found = list_secrets(kind), list(names)
    for name in found:
        if name not in known:
            raise Invalid("--secret", f"{kind.name} has no secret {name!r}; it has: {', '.join(known) or 'none'}")
    return found


def _read_line() -> str:
    try:
        return sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Invalid("--secret", "standard input is not text") from None


def list_asked_secrets(kind: ChannelKind) -> list[str]:
    return [get_last_name(each) for each in kind.guide.ask if each.secret]
