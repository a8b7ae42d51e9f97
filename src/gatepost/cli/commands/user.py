"""`gatepost user`: the people, and what each may do."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.users import (
    AddMemberArgs,
    AddUserArgs,
    GiveRoleArgs,
    ListUsersArgs,
    ShowUserArgs,
)


@click.group()
def command() -> None:
    """The people, and what each may do: add, list, show, role, member. Works with the gateway up or down.

    ID is how a platform calls somebody, like telegram:user/9; `gatepost ledger list --json` shows it as `sender`.
    """


def print_user(run: CommandRun, user: dict[str, Any]) -> None:
    may = [_role(each) for each in user["roles"]] + [f"member of {folder}" for folder in user["member_of"]]
    called = f" ({user['name']})" if user["name"] else ""
    output.print_line(f"{user['id']}{called}: {', '.join(may) or 'known, a guest everywhere'}")


command.command("add")(from_operation(AddUserArgs)(print_user))
command.command("show")(from_operation(ShowUserArgs)(print_user))
command.command("role")(from_operation(GiveRoleArgs)(print_user))
command.command("member")(from_operation(AddMemberArgs)(print_user))


@command.command("list")
@from_operation(ListUsersArgs)
def list_users(run: CommandRun, found: list[dict[str, Any]]) -> None:
    output.print_table(
        ("id", "name", "roles", "member of"),
        [
            (each["id"], each["name"], ", ".join(map(_role, each["roles"])), ", ".join(each["member_of"]))
            for each in found
        ],
    )


def _role(held: list[str] | tuple[str, str]) -> str:
    role, folder = held
    return f"{role} of {folder}" if folder else f"{role} everywhere"
