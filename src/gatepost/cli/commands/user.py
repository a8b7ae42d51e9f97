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
    PairUserArgs,
    ShowUserArgs,
    UnpairUserArgs,
)


@click.group()
def command() -> None:
    """The people, and what each may do: add, list, show, role, member, pair, unpair. Works with the gateway up or down.

    ID is how a platform calls somebody, like telegram:user/9; `gatepost ledger list --json` shows it as `sender`.
    """


def print_user(run: CommandRun, user: dict[str, Any]) -> None:
    may = [_role(each) for each in user["roles"]] + [f"member of {folder}" for folder in user["member_of"]]
    called = f" ({user['name']})" if user["name"] else ""
    output.print_line(f"{user['id']}{called}: {', '.join(may) or 'known, a guest everywhere'}")


def print_details(run: CommandRun, user: dict[str, Any]) -> None:
    print_user(run, user)
    for each in user["identities"][1:]:
        output.print_line(f"  also {each}")
    for each in user["direct_rooms"]:
        output.print_line(f"  can be reached in {each}")


def print_code(run: CommandRun, issued: dict[str, Any]) -> None:
    if issued["link"]:
        output.print_line(issued["link"])
        output.print_line(f"Whoever is signed in there and confirms it gets the identity {issued['identity']}.")
        output.print_line("It works once, within ten minutes. Give it to nobody else.")
        return
    code, person = issued["code"], issued["person"]
    output.print_line(code)
    output.print_line(f"Send it from the chat identity that is to be {person}: alone, or as `/pair {code}`.")
    output.print_line("It works once, within ten minutes.")


def print_unpaired(run: CommandRun, done: dict[str, Any]) -> None:
    output.print_line(f"{done['identity']} is no identity of {done['person']} any more")


command.command("add")(from_operation(AddUserArgs)(print_user))
command.command("show")(from_operation(ShowUserArgs)(print_details))
command.command("pair")(from_operation(PairUserArgs)(print_code))
command.command("unpair")(from_operation(UnpairUserArgs)(print_unpaired))
command.command("role")(from_operation(GiveRoleArgs)(print_user))
command.command("member")(from_operation(AddMemberArgs)(print_user))


@command.command("list")
@from_operation(ListUsersArgs)
def list_users(run: CommandRun, found: list[dict[str, Any]]) -> None:
    output.print_table(
        ("id", "name", "roles", "member of", "also"),
        [
            (
                each["id"],
                each["name"],
                ", ".join(map(_role, each["roles"])),
                ", ".join(each["member_of"]),
                ", ".join(each["identities"][1:]),
            )
            for each in found
        ],
    )


def _role(held: list[str] | tuple[str, str]) -> str:
    role, folder = held
    return f"{role} of {folder}" if folder else f"{role} everywhere"
