"""`gatepost channel`: the platforms that people write on; what it can do stands in its help.

Settings are asked for at a terminal, secrets hidden there or by lines of standard input. No value of a secret is taken
from the command line, where other users of the machine can see it.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from gatepost.channels.contract import CHANNELS, ChannelKind, ChannelState
from gatepost.cli import output
from gatepost.cli.channel_emulation import emulate
from gatepost.cli.commands.logs import read_lines, readable
from gatepost.cli.operation_command import CommandRun, NumberRange, call_operation, from_operation
from gatepost.cli.operation_runner import home_of, zone_of
from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.errors import Invalid, NotFound, SetupError, did_you_mean
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.settings import Setting
from gatepost.core.terminal_text import make_json_visible
from gatepost.flow import channel_specs
from gatepost.flow.channel_specs import get_last_name
from gatepost.serve.control.arguments.channels import (
    AddChannelArgs,
    AddChannelTokenArgs,
    ChannelAnswer,
    ChannelKindItem,
    ChannelListItem,
    ChannelRemoval,
    ChannelTokenView,
    CheckChannelArgs,
    ListChannelKindsArgs,
    ListChannelsArgs,
    RemoveChannelArgs,
    RestartChannelArgs,
    SetChannelArgs,
)
from gatepost.store.engine.place import has_store


@click.command()
@from_operation(AddChannelTokenArgs)
def token(run: CommandRun, made: ChannelTokenView) -> None:
    output.print_line(made.secret)
    output.print_line(f"It is the token of the program of {made.instance}, and is shown only now.")
    output.print_line(f"The program calls {made.url}; docs/extend/adapter-protocol.md has every field.")
    longest = f", at most {made.max_text} characters at once" if made.max_text else ""
    output.print_line(f"It can do: {', '.join(made.features) or 'plain text'}{longest}.")
    if made.revoked:
        output.print_line("The token before it works no longer.")


STDIN = "-"
SECRET_HELP = "A key or password, by its name. It is asked for, or read as a line of stdin; may be repeated."


@click.group()
def channel_command() -> None:
    """The platforms that people write on: list, kinds, add, set, rm, restart, test, token, logs, emulate.

    Works with the gateway up or down; a running one acts at once. Channels of gatepost.toml are listed, too, and are
    changed there.
    """


channel_command.add_command(token)


@channel_command.command("list")
@from_operation(ListChannelsArgs)
def list_channels(run: CommandRun, found: list[ChannelListItem]) -> None:
    zone, below = zone_of(run.home), ("error", "remedy", "next_at", "note")
    own: dict[str, output.Show] = {
        "beat_at": lambda each: _render_age(each.beat_at),
        "event_at": lambda each: _render_age(each.event_at),
    }
    output.print_records(ChannelListItem, found, own, empty="no channels", without=below, zone=zone)
    for each in found:
        if each.error:
            again = f"; the next try is at {output.format_time(each.next_at, zone[0])}" if each.next_at else ""
            output.print_line(f"{each.instance}: {_render_trouble(each)}{again}")
        if each.note:
            output.print_line(f"{each.instance}: {each.note}")
    if home_lock.find_holder(run.home) is None:
        output.print_line("no gateway runs; `gatepost up` starts it with its channels")


def _render_age(at: int | None) -> str:
    if at is None:
        return "-"
    return f"{output.format_duration(max((SystemClock().now() - at) / SECOND, 0.0))} ago"


def _render_trouble(each: ChannelListItem) -> str:
    return f"{each.error}; {each.remedy}" if each.remedy else each.error


@channel_command.command()
@from_operation(ListChannelKindsArgs)
def kinds(run: CommandRun, found: list[ChannelKindItem]) -> None:
    empty = "there is none but those of the gateway itself"
    output.print_records(ChannelKindItem, found, empty=empty, gives=("tested against",), without=("before",))


def _complete_new(home: Home, args: dict[str, Any], secret: tuple[str, ...]) -> dict[str, Any]:
    """Ask for exactly what the kind's guide names and was not given."""
    channel_specs.find_kinds(home)
    kind = channel_specs.get_kind(args["kind"], "channel add")
    named = _parse_secret_names(secret)
    _check_settings(kind, args["settings"])
    _check_free(home, args["instance"] or kind.name)
    if kind.guide.before and sys.stdin.isatty():
        output.print_line(kind.guide.before)
    with _ending_with("nothing was added"):
        asked, secrets = _ask_for_new(kind, args["settings"], named)
    return {**args, "settings": {**args["settings"], **asked}, "secrets": secrets}


def _check_free(home: Home, instance: str) -> None:
    """Before anybody looks for a token in vain."""
    if instance in _list_instances(home):
        raise Invalid("name", f"there is a channel {instance!r}; --name gives this one another name")


def _list_instances(home: Home) -> dict[str, str]:
    """The instances, with their kinds."""
    if not has_store(home):
        return {}
    return {each.instance: each.kind for each in call_operation(home, ListChannelsArgs, {})}


@channel_command.command()
@from_operation(AddChannelArgs, prepare=_complete_new)
@click.option("--secret", multiple=True, metavar="NAME=-", help=SECRET_HELP)
def add(run: CommandRun, made: ChannelAnswer, secret: tuple[str, ...]) -> None:
    _print_bot(made)
    if made.link:
        output.print_line(f"invite it: {made.link}")
    if made.after:
        output.print_line(made.after)
    output.print_line("to be known there as the owner: `gatepost pair` prints a code, which you send to the bot")
    if not made.is_running:
        output.print_line("it starts with the gateway: `gatepost up`")


def _print_bot(made: ChannelAnswer) -> None:
    instance = made.instance
    if made.is_checked:
        output.print_line(f"{instance}: {made.kind} accepts us: {made.bot}")
    else:
        output.print_line(f"{instance}: {made.kind} cannot be asked whether it accepts us; `gatepost status` tells")
    for each in made.missing:
        output.print_line(output.colored(f"  it lacks: {each}", "warn"))
    for each in made.notes:
        output.print_line(f"  {each}")


def _complete_change(home: Home, args: dict[str, Any], secret: tuple[str, ...]) -> dict[str, Any]:
    """With nothing given, somebody at a terminal is asked for the secrets anew: that is what mends a revoked key."""
    named = _parse_secret_names(secret)
    nothing = not any(args[name] for name in ("settings", "unset", "on", "off"))
    if not named and not (nothing and sys.stdin.isatty()):
        return {**args, "secrets": {}}
    channel_specs.find_kinds(home)
    known = {each.instance: each.kind for each in call_operation(home, ListChannelsArgs, {})}
    kind = CHANNELS.get(known.get(args["instance"], ""))
    if kind is None:
        return {**args, "secrets": {}}  # the operation says what is wrong
    wanted = named or _list_asked_secrets(kind)
    return {**args, "secrets": _read_secrets(kind, wanted)}


@channel_command.command("set")
@from_operation(SetChannelArgs, prepare=_complete_change)
@click.option("--secret", multiple=True, metavar="NAME=-", help=SECRET_HELP)
def set_channel(run: CommandRun, made: ChannelAnswer, secret: tuple[str, ...]) -> None:
    if run.args["off"]:
        output.print_line(f"{made.instance} is off; `gatepost channel set {made.instance} --on` starts it again")
        return
    _print_bot(made)
    if not made.is_running:
        output.print_line("it starts with the gateway: `gatepost up`")


def _confirm_removal(home: Home, args: dict[str, Any], yes: bool) -> dict[str, Any]:
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("--yes", "is needed where nobody can be asked")
        with _ending_with("nothing was removed"):
            click.confirm(f"Remove {args['instance']} with its settings, secrets and cursor?", abort=True)
    return args


@channel_command.command()
@from_operation(RemoveChannelArgs, prepare=_confirm_removal)
@click.option("--yes", is_flag=True, help="Do not ask.")
def rm(run: CommandRun, gone: ChannelRemoval, yes: bool) -> None:
    also = f", with {', '.join(gone.secrets)}" if gone.secrets else ""
    output.print_line(f"{gone.instance} is removed{also}")
    if gone.waiting:
        left = f"{gone.waiting} message{'' if gone.waiting == 1 else 's'}"
        output.print_line(
            f"{left} for it stay in the outbox: a channel of the same name sends them while they are young"
        )


@channel_command.command()
@from_operation(RestartChannelArgs, exit_code=lambda made: int(bool(made.error)))
def restart(run: CommandRun, made: ChannelListItem) -> None:
    output.print_line(render_restarted(made))


def render_restarted(made: ChannelListItem) -> str:
    trouble = f": {_render_trouble(made)}" if made.error else ""
    if made.state == ChannelState.OFF:
        trouble = f"; `gatepost channel set {made.instance} --on` switches it on"
    return f"{made.instance} is {made.state}{trouble}"


@channel_command.command()
@from_operation(CheckChannelArgs)
def test(run: CommandRun, made: ChannelAnswer) -> None:
    _print_bot(made)
    if made.link:
        output.print_line(f"  invite it: {made.link}")


@channel_command.command()
@click.argument("instance")
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added.")
@click.option("-n", "lines", type=NumberRange(0), default=50, show_default=True, help="How many lines to begin with.")
@click.option("--json", "raw", is_flag=True, help="The lines as they are: one JSON object each.")
@click.pass_obj
def logs(home: str | None, instance: str, follow: bool, lines: int, raw: bool) -> None:
    """Print the log lines about one instance, oldest first. Times are UTC."""
    place = home_of(home)
    path, count = place.logs / "gatepost.log", 0
    if not path.is_file() and not follow:
        raise SetupError(f"there is no log at {path}; `gatepost up` begins one")
    for line in read_lines(path, lines, follow, lambda text: is_about(text, instance)):
        count += 1
        output.print_line(make_json_visible(line) if raw else readable(line), flush=follow)
    if not count and lines:  # one that was removed may still have lines
        known = _list_instances(place)
        if instance not in known:
            raise NotFound("channel", instance, f"`gatepost channel list` shows them{did_you_mean(instance, known)}")
        output.print_line(f"the log says nothing about {instance}", error=True)


def is_about(line: str, instance: str) -> bool:
    """Return True if a line of the log names this instance as what it is about."""
    try:
        facts = json.loads(line)
    except ValueError:
        return False
    return isinstance(facts, dict) and instance in (facts.get("channel"), facts.get("instance"))


channel_command.add_command(emulate)


@contextmanager
def _ending_with(words: str) -> Iterator[None]:
    """Print these words if the user breaks off a question, so that they know the outcome."""
    try:
        yield
    except (click.Abort, KeyboardInterrupt):
        print(f"\ngatepost: {words}" if sys.stdin.isatty() else f"gatepost: {words}", file=sys.stderr)
        raise click.Abort from None


def _parse_secret_names(given: Iterable[str]) -> list[str]:
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


def _check_settings(kind: ChannelKind, given: Mapping[str, str]) -> None:
    """No secret is among them."""
    for name in _list_secrets(kind):
        if name in given:
            _hide_argument(f"{name}={given[name]}")
            raise Invalid("--set", f"{name} is a secret; write --secret {name}=- and give it on stdin")


def _hide_argument(text: str) -> None:
    """Remove a secret from `sys.argv`: the holder of the home's lock writes its command line beside it, for people to
    see."""
    sys.argv[:] = ["…" if word.endswith(text) else word for word in sys.argv]


def _list_secrets(kind: ChannelKind) -> list[str]:
    return [get_last_name(each) for each in kind.settings if each.secret]


def _ask_for_new(
    kind: ChannelKind, given: Mapping[str, str], named: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Ask for the settings and secrets of a new channel; return both.

    The guide's values that were not given are asked for in its order, with the secrets that were named. Without a
    terminal only secrets are read.
    """
    wanted = _check_names(kind, named)
    if not sys.stdin.isatty():
        return {}, _read_secrets(kind, [*wanted, *_list_asked_secrets(kind)])
    values: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for each in kind.guide.ask:
        name = get_last_name(each)
        if each.secret:
            secrets |= _read_secrets(kind, [name])
        elif name not in given:
            values[name] = _prompt(each, each in kind.guide.optional)
    return values, secrets | _read_secrets(kind, [name for name in wanted if name not in secrets])


def _prompt(each: Setting[Any], is_optional: bool) -> str:
    output.print_line(each.help)
    default = ",".join(each.default) if isinstance(each.default, tuple) else each.default
    if default == "" and not is_optional and not isinstance(each.default, tuple):
        default = None  # asked again until there is an answer
    choice = click.Choice(each.choices) if each.choices else str
    return str(click.prompt(get_last_name(each), type=choice, default=default))


def _read_secrets(kind: ChannelKind, names: Iterable[str]) -> dict[str, str]:
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
    known, found = _list_secrets(kind), list(names)
    for name in found:
        if name not in known:
            raise Invalid("--secret", f"{kind.name} has no secret {name!r}; it has: {', '.join(known) or 'none'}")
    return found


def _read_line() -> str:
    try:
        return sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Invalid("--secret", "standard input is not text") from None


def _list_asked_secrets(kind: ChannelKind) -> list[str]:
    return [get_last_name(each) for each in kind.guide.ask if each.secret]
