"""`gatepost user`: the people, and what each may do."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation


@click.group()
def command() -> None:
    """The people, and what each may do: add, list, show, role, member. Works with the gateway up or down.

    ID is how a platform calls somebody, like telegram:user/9; `gatepost ledger list --json` shows it as `sender`.
    """


@command.command()
@click.argument("user", metavar="ID")
@click.option("--name", default="", help="How people call them.")
@click.option("--json", "as_json", is_flag=True, help="Print the user as JSON.")
@click.pass_obj
def add(home: str | None, user: str, name: str, as_json: bool) -> None:
    """Make somebody known. That alone lets nobody in: `role` and `member` do."""
    _print_user(run_operation(home_of(home), "user.add", {"id": user, "name": name}), as_json)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="A list of objects: id, name, created_at, roles, member_of.")
@click.pass_obj
def list_users(home: str | None, as_json: bool) -> None:
    """Everybody who is known."""
    from gatepost.serve.control.operations.users import list_user_details

    found = read_store(home_of(home), list_user_details)
    if as_json:
        output.print_json(found)
        return
    output.print_table(
        ("id", "name", "roles", "member of"),
        [
            (each["id"], each["name"], ", ".join(map(_role, each["roles"])), ", ".join(each["member_of"]))
            for each in found
        ],
    )


@command.command("show")
@click.argument("user", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print the user as JSON.")
@click.pass_obj
def show_user(home: str | None, user: str, as_json: bool) -> None:
    """One of them."""
    from gatepost.serve.control.operations.users import read_user

    _print_user(read_store(home_of(home), read_user, user), as_json)


@command.command()
@click.argument("user", metavar="ID")
@click.argument("role", type=click.Choice(["owner", "admin"]))
@click.option("--folder", default="", help="For that group and all below it (default: everywhere).")
@click.option("--json", "as_json", is_flag=True, help="Print the user as JSON.")
@click.pass_obj
def role(home: str | None, user: str, role: str, folder: str, as_json: bool) -> None:
    """Give somebody a role. Owners and admins speak in every room of those groups and give commands there."""
    _print_user(run_operation(home_of(home), "user.role", {"id": user, "role": role, "folder": folder}), as_json)


@command.command()
@click.argument("user", metavar="ID")
@click.argument("folder")
@click.option("--json", "as_json", is_flag=True, help="Print the user as JSON.")
@click.pass_obj
def member(home: str | None, user: str, folder: str, as_json: bool) -> None:
    """Let somebody into one group: they may speak to it wherever a route leads there."""
    _print_user(run_operation(home_of(home), "user.member", {"id": user, "folder": folder}), as_json)


def _print_user(user: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.print_json(user)
        return
    may = [_role(each) for each in user["roles"]] + [f"member of {folder}" for folder in user["member_of"]]
    called = f" ({user['name']})" if user["name"] else ""
    output.print_line(f"{user['id']}{called}: {', '.join(may) or 'known, a guest everywhere'}")


def _role(held: list[str] | tuple[str, str]) -> str:
    role, folder = held
    return f"{role} of {folder}" if folder else f"{role} everywhere"
