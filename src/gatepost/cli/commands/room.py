"""`gatepost room`: the chats, and who may speak in each."""

import click

from gatepost.access.senders import POLICIES
from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation
from gatepost.store import rooms

_MEANING = {
    "strict": "guests are refused",
    "request_approval": "guests are refused until somebody can be asked",
    "public": "everybody may speak",
}


@click.group()
def command() -> None:
    """The chats, and who may speak in each: list, policy. Works with the gateway up or down."""


@command.command("list")
@click.option(
    "--json", "as_json", is_flag=True, help="A list of objects: instance, address, name, direct, policy, created_at."
)
@click.pass_obj
def list_rooms(home: str | None, as_json: bool) -> None:
    """Every room that is known: a room is, once somebody was let in there or its policy was set."""
    from gatepost.serve.control.contract import to_json

    found = read_store(home_of(home), rooms.list_all)
    if as_json:
        output.print_json([to_json(each) for each in found])
        return
    output.print_table(
        ("address", "channel", "name", "policy"),
        [(each.address, each.instance, each.name, each.policy) for each in found],
        empty="no room is known yet",
    )


@command.command()
@click.argument("address")
@click.argument("policy", type=click.Choice(POLICIES))
@click.option("--instance", default="", help="The channel's instance (default: named like the platform).")
@click.option("--json", "as_json", is_flag=True, help="Print instance, address, policy and new as JSON.")
@click.pass_obj
def policy(home: str | None, address: str, policy: str, instance: str, as_json: bool) -> None:
    """Say who may speak in the room ADDRESS, like spool:office. It may be one where nothing was said yet.

    strict: nobody but owners, admins and members. public: everybody. request_approval: as strict, until there are
    approvals.
    """
    told = run_operation(home_of(home), "room.policy", {"address": address, "policy": policy, "instance": instance})
    if as_json:
        output.print_json(told)
        return
    new = "; nothing was said there yet" if told["new"] else ""
    output.print_line(f"room {told['address']} (channel {told['instance']}) is {policy}: {_MEANING[policy]}{new}")
