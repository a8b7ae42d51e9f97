"""`gatepost route`: which group gets a message."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation
from gatepost.store import routes
from gatepost.store.sessions import MODES


@click.group()
def command() -> None:
    """Which group gets a message: ordered rows of match → target. Works with the gateway up or down.

    The first match by (seq, id) wins; a route with --also delivers and lets the next ones match, too. The default
    route has seq 1000.
    """


@command.command()
@click.option(
    "--match",
    required=True,
    help="Conditions, all of which must hold: platform channel room chat_jid"
    " sender verb text thread, as key=glob, key!=glob, key=a|b, key= (absent); '' holds always.",
)
@click.option("--target", required=True, help="folder, folder#observe, folder#topic, acme/{sender} or drop.")
@click.option("--seq", type=int, default=100, show_default=True, help="Its place in the order.")
@click.option(
    "--session", type=click.Choice(MODES), default="per-thread", show_default=True, help="What shares one conversation."
)
@click.option("--also", is_flag=True, help="Deliver here, and go on matching.")
@click.option(
    "--window",
    default="",
    metavar="N/C",
    help="At most N observed messages, C characters, in a turn: 20/8000, 20/ or /8000.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the new route as JSON.")
@click.pass_obj
def add(home: str | None, /, as_json: bool, **args: Any) -> None:
    """Add a route. Unknown keys and groups that do not exist are refused."""
    made = run_operation(home_of(home), "route.add", args)
    if as_json:
        output.print_json(made)
    else:
        output.print_line(
            f"route {made['id']} (seq {made['seq']}): {made['match'] or '(everything)'} → {made['target']}"
        )


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="A list of objects, in the order of matching.")
@click.pass_obj
def list_routes(home: str | None, as_json: bool) -> None:
    """All routes, in the order in which they are asked."""
    from gatepost.serve.control.operations.routes import route_to_json

    found = read_store(home_of(home), routes.list_all)
    faults = {each.id: fault for each in found if (fault := route_to_json(each)["fault"])}
    if as_json:
        output.print_json([route_to_json(each) for each in found])
        return
    output.print_table(
        ("id", "seq", "match", "target", "session", "also"),
        [(each.id, each.seq, each.match or "(everything)", each.target, each.mode, each.also) for each in found],
        empty="there are no routes: every message is refused",
    )
    for number, fault in faults.items():
        output.print_line(output.colored(f"route {number} matches nothing: {fault}; remove it and add it anew", "warn"))


@command.command()
@click.argument("route", type=int)
@click.pass_obj
def rm(home: str | None, route: int) -> None:
    """Remove a route by its id."""
    gone = run_operation(home_of(home), "route.rm", {"id": route})
    output.print_line(f"route {route} ({gone['match'] or '(everything)'} → {gone['target']}) is removed")


@command.command()
@click.argument("address")
@click.option("--sender", default="", help="Who says it, like telegram:user/9.")
@click.option("--verb", default="message", show_default=True, help="What they do: message, mention, reply, like …")
@click.option("--text", default="", help="What they say.")
@click.option("--instance", default="", help="The channel's instance (default: named like the platform).")
@click.option("--thread", default="", help="The thread.")
@click.option("--json", "as_json", is_flag=True, help="Print why, dropped, groups and every route's verdict as JSON.")
@click.pass_obj
def test(home: str | None, /, as_json: bool, **args: str) -> int:
    """Explain which route wins for a message in the room ADDRESS, and why. Exit 1 if nobody would get it."""
    from gatepost.serve.control.operations.routes import RouteTestArgs, explain_routing

    answer = read_store(home_of(home), explain_routing, RouteTestArgs(**args))
    if as_json:
        output.print_json(answer)
    else:
        _print_explanation(answer)
    return 0 if answer["groups"] or answer["dropped"] else 1


def _print_explanation(answer: dict[str, Any]) -> None:
    for each in answer["groups"]:
        how = " (observes)" if each["observe"] else f" (topic {each['topic']})" if each["topic"] else ""
        output.print_line(
            output.colored(f"→ {each['folder']}", "ok"), f"{how}, by route {each['route']}, session {each['session']}"
        )
    if answer["dropped"] or not answer["groups"]:
        output.print_line(output.colored(f"→ nobody: {answer['why']}", "warn"))
    output.print_line()
    output.print_table(
        ("", "id", "seq", "match", "target", "why"),
        [
            (
                "✓" if each["held"] else "·",
                each["id"],
                each["seq"],
                each["match"] or "(everything)",
                each["target"],
                each["why"],
            )
            for each in answer["routes"]
        ],
        empty="there are no routes",
    )
