"""`gatepost secret`: keys and passwords, sealed; set, list, rm, bind, unbind, rotate, log."""

import sys
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation, zone_of
from gatepost.core.errors import Invalid
from gatepost.serve.control.contract import to_json
from gatepost.store import bindings, secrets
from gatepost.store.bindings import Binding
from gatepost.store.secrets import SecretOwner, SecretUse, render_scope

_STDIN = ("-", "stdin")


@click.group()
def command() -> None:
    """Keys and passwords, sealed in the store: set, list, rm, bind, rotate, log. Works with the gateway up or down.

    A secret is the whole gateway's, or that of a FOLDER and those below it (the deepest wins), or a person's (who
    come first). The gateway itself uses ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN (a subscription's, from `claude
    setup-token`) and OPENAI_API_KEY. No command prints a value.
    """


@command.command("set")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--folder", default="", help="The group that it is for, with those below it.")
@click.option("--user", default="", metavar="ID", help="The person that it is for, like telegram:user/9.")
@click.option(
    "--for", "origin", default="", metavar="URL", help="Of a model's key: its endpoint (default: the one in force)."
)
@click.option("--json", "as_json", is_flag=True, help="Print what is known of it as JSON, without the value.")
@click.pass_obj
def set_secret(
    home: str | None, name: str, value: str | None, folder: str, user: str, origin: str, as_json: bool
) -> None:
    """Set a secret. Without VALUE (or with -) it is read from standard input, or asked for on a terminal.

    Better without: other users of the machine can see a VALUE on the command line while the command runs, and the shell
    may keep it in its history.

    A model's key belongs to one endpoint, and is sent to no other, whatever the settings say later.
    """
    from gatepost.serve.control.operations.secrets import check_name

    check_name(name)  # before anything is asked for
    if value is None or value in _STDIN:
        value = _read_value(name)
    else:
        _hide_argument(value)
    wish = {"name": name, "value": value, "folder": folder, "user": user, "origin": origin}
    made = run_operation(home_of(home), "secret.set", wish)
    if as_json:
        output.print_json(made)
    else:
        where = f"; it is sent to {made['origin']} alone" if made["origin"] else ""
        output.print_line(f"{name} is {'set' if made['new'] else 'replaced'} for {_render_owner(made)}{where}")


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
    """Whoever holds the home's lock writes its command line beside it, for people to see."""
    sys.argv[:] = ["…" if each == value else each for each in sys.argv]


@command.command("list")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="A list: name, folder, user_id, key_id, created_at, updated_at, used_at, origin, bound_to (a list).",
)
@click.pass_obj
def list_secrets(home: str | None, as_json: bool) -> None:
    """What there is, without the values, and to which hosts it is bound."""
    place = home_of(home)
    found, bound = read_store(place, secrets.list_all), read_store(place, bindings.list_all)
    if as_json:
        output.print_json([{**to_json(each), "bound_to": _bound_to(each.name, bound)} for each in found])
        return
    zone, called = zone_of(place)
    output.print_table(
        ("name", "for", f"set ({called})", "last used", "bound to", "key"),
        [
            (
                each.name,
                SecretOwner(each.folder, each.user_id),
                output.format_time(each.updated_at, zone),
                output.format_time(each.used_at, zone),
                ", ".join([*([each.origin] if each.origin else []), *_bound_to(each.name, bound)]),
                each.key_id,
            )
            for each in found
        ],
        empty="no secrets; `gatepost secret set NAME` makes one",
        gives=("key", "bound to"),
    )
    for name in sorted({each.name for each in bound} - {each.name for each in found}):
        output.print_line(f"{name} is bound to {', '.join(_bound_to(name, bound))}, and is not set")


def _bound_to(name: str, bound: list[Binding]) -> list[str]:
    return [
        f"{each.place} ({each.header}{f', {each.folder} and below' if each.folder else ''})"
        for each in bound
        if each.name == name
    ]


@command.command()
@click.argument("name")
@click.argument("host")
@click.option("--header", default="Authorization: Bearer {}", show_default=True, help="{} stands for the value.")
@click.option("--folder", default="", help="For this group and those below it (default: every group).")
@click.option("--json", "as_json", is_flag=True, help="Print the binding as JSON.")
@click.pass_obj
def bind(home: str | None, name: str, host: str, header: str, folder: str, as_json: bool) -> None:
    """Put a secret into requests that agents make to HOST, outside their sandbox.

    HOST is example.com or example.com:8443, asked over https, or http://box.lan:8080. Inside, https://HOST/path is
    asked for at $GATEPOST_TO/HOST/path. The host must also be allowed: gatepost egress allow HOST.
    """
    made = run_operation(home_of(home), "secret.bind", {"name": name, "host": host, "header": header, "folder": folder})
    if as_json:
        output.print_json(made)
        return
    place = f"{made['host']}:{made['port']}"
    whom = f"{folder} and below" if folder else "every group"
    output.print_line(f"{name} goes to {made['scheme']}://{place} as {made['header']} for {whom}")
    if not made["is_set"]:
        output.print_line(f"it is not set yet: gatepost secret set {name}")
    if not made["is_allowed"]:
        output.print_line(
            f"the host is not allowed yet: gatepost egress allow {place}{f' --folder {folder}' if folder else ''}"
        )


@command.command()
@click.argument("name")
@click.argument("host")
@click.option("--folder", default="", help="The group that it was bound for.")
@click.pass_obj
def unbind(home: str | None, name: str, host: str, folder: str) -> None:
    """Take back a binding; the secret itself stays."""
    run_operation(home_of(home), "secret.unbind", {"name": name, "host": host, "folder": folder})
    output.print_line(f"{name} no longer goes to {host}")


def _render_owner(secret: dict[str, Any]) -> str:
    return str(SecretOwner(secret["folder"], secret["user_id"]))


@command.command()
@click.argument("name")
@click.option("--folder", default="", help="The group whose it is.")
@click.option("--user", default="", metavar="ID", help="The person whose it is.")
@click.option("--for", "origin", default="", metavar="URL", help="Of a model's keys: the one for this endpoint alone.")
@click.pass_obj
def rm(home: str | None, name: str, folder: str, user: str, origin: str) -> None:
    """Remove a secret. One of the same name farther up holds from then on."""
    gone = run_operation(home_of(home), "secret.rm", {"name": name, "folder": folder, "user": user, "origin": origin})
    output.print_line(f"{name} is removed for {_render_owner(gone)}")


@command.command()
@click.option("--keep", is_flag=True, help="Keep the old keys in the ring, to read older copies of the store.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.pass_obj
def rotate(home: str | None, keep: bool, as_json: bool) -> None:
    """Seal every secret with a new key and drop the old one. The values stay what they are.

    If the key ring is kept outside the home (GATEPOST_KEYRING, a systemd credential): add a key there, make it
    current, restart; this then seals everything with it and says which keys can go.
    """
    done = run_operation(home_of(home), "secret.rotate", {"keep": keep})
    if as_json:
        output.print_json(done)
        return
    output.print_line(f"{done['resealed']} secrets are sealed with {done['key_id']} ({done['kept_in']})")
    if done["dropped"]:
        output.print_line(f"dropped: {', '.join(done['dropped'])}")
    if done["unused"]:
        output.print_line(f"no longer needed: {', '.join(done['unused'])}")
    elif not done["is_file"]:
        output.print_line(
            f"to change the key, add one in {done['kept_in']}, make it current, restart, and rotate again"
        )


@command.command()
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The newest N uses.")
@click.option("--json", "as_json", is_flag=True, help="A list: at, name, scope, folder, user_id, purpose, outcome.")
@click.pass_obj
def log(home: str | None, limit: int, as_json: bool) -> None:
    """Who used which secret, when and for what, and who asked in vain; oldest first."""
    place = home_of(home)
    found = list(reversed(read_store(place, secrets.list_uses, limit)))
    if as_json:
        output.print_json([to_json(each) for each in found])
        return
    zone, called = zone_of(place)
    output.print_table(
        (f"at ({called})", "name", "outcome", "of", "for group", "for user", "purpose"),
        [
            (
                output.format_time(each.at, zone),
                each.name,
                each.outcome,
                _render_use_scope(each),
                each.folder,
                each.user_id,
                each.purpose,
            )
            for each in found
        ],
        empty="no secret was used yet",
    )


def _render_use_scope(use: SecretUse) -> str | None:
    return None if use.scope is None else render_scope(use.scope)
