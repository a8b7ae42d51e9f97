"""`gatepost secret` and `egress`: keys and passwords, sealed; and which hosts agents may reach."""

import sys
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation
from gatepost.cli.operation_runner import zone_of
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.control.arguments.secrets import (
    AllowHostArgs,
    BindSecretArgs,
    BindSecretResult,
    DenyHostArgs,
    EgressLogArgs,
    ListBindingsArgs,
    ListEgressRulesArgs,
    ListSecretsArgs,
    RemoveEgressRuleArgs,
    RemoveSecretArgs,
    RotateKeysArgs,
    RotateKeysResult,
    SecretListItem,
    SecretLogArgs,
    SecretRemoval,
    SetSecretArgs,
    SetSecretResult,
    UnbindSecretArgs,
)
from gatepost.store.engine.place import find_place
from gatepost.store.rights.egress import EgressAttempt, EgressRule
from gatepost.store.rights.secret_rows import Binding, Secret, SecretOwner, SecretUse, check_name

_STDIN = ("-", "stdin")


@click.group()
def secret_command() -> None:
    """Keys and passwords, sealed in the store: set, list, rm, bind, rotate, log. Works with the gateway up or down.

    A secret is the whole gateway's, or that of a FOLDER and those below it (the deepest wins), or a person's (who
    come first). The gateway itself uses ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN (a subscription's, from `claude
    setup-token`), OPENAI_API_KEY and GEMINI_API_KEY. No command prints a value.
    """


def _add_value(home: Home, args: dict[str, Any], value: str | None) -> dict[str, Any]:
    check_name(args["name"])  # before anything is asked for
    if value is None or value in _STDIN:
        value = _read_value(args["name"])
    else:
        _hide_argument(value)
    return {**args, "value": value}


@secret_command.command("set")
@from_operation(SetSecretArgs, prepare=_add_value)
@click.argument("value", required=False)
def set_secret(run: CommandRun, made: SetSecretResult, value: str | None) -> None:
    where = f"; it is sent to {made.origin} alone" if made.origin else ""
    done = "set" if made.new else "replaced"
    output.print_line(f"{made.name} is {done} for {_render_owner(made)}{where}")


def _read_value(name: str) -> str:
    """One newline at the end belongs to whoever wrote it there, not to the secret."""
    if sys.stdin.isatty():
        return str(click.prompt(f"{name} (not shown)", hide_input=True))
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Invalid("value", "is not text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _hide_argument(value: str) -> None:
    """Remove a secret from `sys.argv`: the holder of the home's lock writes its command line beside it, for people to
    see."""
    sys.argv[:] = ["…" if each == value else each for each in sys.argv]


@secret_command.command("list")
@from_operation(ListSecretsArgs)
def list_secrets(run: CommandRun, found: list[SecretListItem]) -> None:
    output.print_records(
        SecretListItem,
        found,
        {"folder": _render_owner},
        empty="no secrets; `gatepost secret set NAME` makes one",
        gives=("key", "bound to"),
        zone=zone_of(run.home),
    )
    known = {each.name for each in found}
    for bound in call_operation(run.home, ListBindingsArgs, {}):
        if bound.name not in known:
            whom = f", {bound.folder} and below" if bound.folder else ""
            output.print_line(f"{bound.name} is bound to {bound.place} ({bound.header}{whom}), and is not set")


@secret_command.command("bind")
@from_operation(BindSecretArgs)
def bind_secret(run: CommandRun, made: BindSecretResult) -> None:
    place, folder = f"{made.host}:{made.port}", made.folder
    whom = f"{folder} and below" if folder else "every group"
    output.print_line(f"{made.name} goes to {made.scheme}://{place} as {made.header} for {whom}")
    if not made.is_set:
        output.print_line(f"it is not set yet: gatepost secret set {made.name}")
    if not made.is_allowed:
        output.print_line(
            f"the host is not allowed yet: gatepost egress allow {place}{f' --folder {folder}' if folder else ''}"
        )


@secret_command.command("unbind")
@from_operation(UnbindSecretArgs)
def unbind_secret(run: CommandRun, gone: list[Binding]) -> None:
    output.print_line(f"{run.args['name']} no longer goes to {run.args['host']}")


def _render_owner(secret: Secret | SecretRemoval) -> str:
    return str(SecretOwner(secret.folder, secret.user_id))


@secret_command.command("rm")
@from_operation(RemoveSecretArgs)
def remove_secret(run: CommandRun, gone: SecretRemoval) -> None:
    output.print_line(f"{gone.name} is removed for {_render_owner(gone)}")


@secret_command.command("rotate")
@from_operation(RotateKeysArgs)
def rotate_keys(run: CommandRun, done: RotateKeysResult) -> None:
    if done.is_new:
        others = "; copy it to the other gateways" if find_place(run.home).url else ""
        output.print_line(f"the key ring is made: {done.kept_in}{others}")
        return
    output.print_line(f"{done.resealed} secrets are sealed with {done.key_id} ({done.kept_in})")
    if done.dropped:
        output.print_line(f"dropped: {', '.join(done.dropped)}")
    if done.unused:
        output.print_line(f"no longer needed: {', '.join(done.unused)}")
    elif not done.is_file:
        output.print_line(f"to change the key, add one in {done.kept_in}, make it current, restart, and rotate again")


@secret_command.command("log")
@from_operation(SecretLogArgs)
def show_secret_log(run: CommandRun, found: list[SecretUse]) -> None:
    output.print_records(SecretUse, found, empty="no secret was used yet", zone=zone_of(run.home))


@click.group()
def egress_command() -> None:
    """Which hosts agents may reach, and what they tried. Works with the gateway up or down.

    Nothing is allowed unless a rule says so. Rules of a group hold for the groups below it, too, and a denial wins over
    every allowance. An allowed host is a way out for data: whatever an agent can read, it can send there.
    """


def print_egress_rule(run: CommandRun, made: EgressRule) -> None:
    which = made.host + (f":{made.port}" if made.port else "")
    ports = "" if made.port else " on ports 80 and 443" if made.allow else " on every port"
    whom = f"{made.folder} and below" if made.folder else "every group"
    output.print_line(f"rule {made.id}: {which} is {'allowed' if made.allow else 'denied'}{ports} for {whom}")
    if made.allow and not made.port and (made.host == "localhost" or made.host.endswith(".localhost")):
        output.print_line(
            f"it is this machine, which is reached on named ports alone: gatepost egress allow {made.host}:PORT"
        )


egress_command.command("allow")(from_operation(AllowHostArgs)(print_egress_rule))
egress_command.command("deny")(from_operation(DenyHostArgs)(print_egress_rule))


@egress_command.command("rm")
@from_operation(RemoveEgressRuleArgs)
def remove_egress_rule(run: CommandRun, gone: EgressRule) -> None:
    output.print_line(f"rule {gone.id} for {gone.host} is removed")


@egress_command.command("list")
@from_operation(ListEgressRulesArgs)
def list_egress_rules(run: CommandRun, found: list[EgressRule]) -> None:
    output.print_records(EgressRule, found, empty="there are no rules: no host is allowed")


@egress_command.command("log")
@from_operation(EgressLogArgs)
def show_egress_log(run: CommandRun, found: list[EgressAttempt]) -> None:
    output.print_records(EgressAttempt, found, empty="nothing was tried yet", zone=zone_of(run.home))
