"""`gatepost secret`: keys and passwords, sealed; set, list, rm, rotate, log."""

import sys
from typing import Any

import click

from gatepost.cli import show
from gatepost.cli.operate import home_of, operate, reading, zone_of
from gatepost.core.errors import Invalid
from gatepost.serve.control.contract import as_told
from gatepost.store import secrets
from gatepost.store.secrets import Place, Use, told

_STDIN = ("-", "stdin")


@click.group()
def command() -> None:
    """Keys and passwords, sealed in the store: set, list, rm, rotate, log. Works with the gateway up or down.

    A secret is the whole gateway's, or that of a FOLDER and those below it (the deepest wins), or a person's (who
    come first). The gateway itself uses ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN (a subscription's, from `claude
    setup-token`) and OPENAI_API_KEY. No command prints a value.
    """


@command.command("set")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--folder", default="", help="The group that it is for, with those below it.")
@click.option("--user", default="", metavar="ID", help="The person that it is for, like telegram:user/9.")
@click.option("--json", "as_json", is_flag=True, help="Print what is known of it as JSON, without the value.")
@click.pass_obj
def set_secret(home: str | None, name: str, value: str | None, folder: str, user: str, as_json: bool) -> None:
    """Set a secret. Without VALUE (or with -) it is read from standard input, or asked for on a terminal.

    That is the better way: other users of the machine can see a VALUE on the command line while the command runs, and
    the shell may keep it in its history.
    """
    from gatepost.serve.control.operations.secrets import check_name

    check_name(name)  # before anything is asked for
    if value is None or value in _STDIN:
        value = _read_value(name)
    else:
        _forget(value)
    made = operate(home_of(home), "secret.set", {"name": name, "value": value, "folder": folder, "user": user})
    if as_json:
        show.as_json(made)
    else:
        show.say(f"{name} is {'set' if made['new'] else 'replaced'} for {_whose(made)}")


def _read_value(name: str) -> str:
    """One newline at the end belongs to whoever wrote it there, not to the secret."""
    if sys.stdin.isatty():
        return str(click.prompt(f"{name} (not shown)", hide_input=True))
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Invalid("value", "is not text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _forget(value: str) -> None:
    """Whoever holds the home's lock writes its command line beside it, for people to see."""
    sys.argv[:] = ["…" if each == value else each for each in sys.argv]


@command.command("list")
@click.option(
    "--json", "as_json", is_flag=True, help="A list: name, folder, user_id, key_id, created_at, updated_at, used_at."
)
@click.pass_obj
def list_secrets(home: str | None, as_json: bool) -> None:
    """What there is, without the values."""
    place = home_of(home)
    found = reading(place, secrets.every)
    if as_json:
        show.as_json([as_told(each) for each in found])
        return
    zone, called = zone_of(place)
    show.table(
        ("name", "for", f"set ({called})", "last used", "key"),
        [
            (
                each.name,
                Place(each.folder, each.user_id),
                show.clock(each.updated_at, zone),
                show.clock(each.used_at, zone),
                each.key_id,
            )
            for each in found
        ],
        empty="no secrets; `gatepost secret set NAME` makes one",
    )


def _whose(secret: dict[str, Any]) -> str:
    return str(Place(secret["folder"], secret["user_id"]))


@command.command()
@click.argument("name")
@click.option("--folder", default="", help="The group whose it is.")
@click.option("--user", default="", metavar="ID", help="The person whose it is.")
@click.pass_obj
def rm(home: str | None, name: str, folder: str, user: str) -> None:
    """Remove a secret. One of the same name farther up holds from then on."""
    gone = operate(home_of(home), "secret.rm", {"name": name, "folder": folder, "user": user})
    show.say(f"{name} is removed for {_whose(gone)}")


@command.command()
@click.option("--keep", is_flag=True, help="Keep the old keys in the ring, to read older copies of the store.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.pass_obj
def rotate(home: str | None, keep: bool, as_json: bool) -> None:
    """Seal every secret with a new key and drop the old one. The values stay what they are.

    If the key ring is kept outside the home (GATEPOST_KEYRING, a systemd credential): add a key there, make it
    current, restart; this then seals everything with it and says which keys can go.
    """
    done = operate(home_of(home), "secret.rotate", {"keep": keep})
    if as_json:
        show.as_json(done)
        return
    show.say(f"{done['resealed']} secrets are sealed with {done['key_id']} ({done['kept_in']})")
    if done["dropped"]:
        show.say(f"dropped: {', '.join(done['dropped'])}")
    if done["unused"]:
        show.say(f"no longer needed: {', '.join(done['unused'])}")
    elif not done["is_file"]:
        show.say(f"to change the key, add one in {done['kept_in']}, make it current, restart, and rotate again")


@command.command()
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The newest N uses.")
@click.option("--json", "as_json", is_flag=True, help="A list: at, name, scope, folder, user_id, purpose, outcome.")
@click.pass_obj
def log(home: str | None, limit: int, as_json: bool) -> None:
    """Who used which secret, when and for what, and who asked in vain; oldest first."""
    place = home_of(home)
    found = list(reversed(reading(place, secrets.uses, limit)))
    if as_json:
        show.as_json([as_told(each) for each in found])
        return
    zone, called = zone_of(place)
    show.table(
        (f"at ({called})", "name", "outcome", "of", "for group", "for user", "purpose"),
        [
            (show.clock(each.at, zone), each.name, each.outcome, _of(each), each.folder, each.user_id, each.purpose)
            for each in found
        ],
        empty="no secret was used yet",
    )


def _of(use: Use) -> str | None:
    return None if use.scope is None else told(use.scope)
