"""`gatepost egress`: which hosts agents may reach, and what they tried."""

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation, zone_of
from gatepost.core.errors import Invalid
from gatepost.egress import rules
from gatepost.store import egress


@click.group()
def command() -> None:
    """Which hosts agents may reach, and what they tried. Works with the gateway up or down.

    Nothing is allowed unless a rule says so. Rules of a group hold for the groups below it, too, and a denial wins over
    every allowance. An allowed host is a way out for data: whatever an agent can read, it can send there.
    """


def _add_rule(home: str | None, verdict: str, host: str, folder: str, as_json: bool) -> None:
    made = run_operation(home_of(home), f"egress.{verdict}", {"host": host, "folder": folder})
    if as_json:
        output.print_json(made)
        return
    which = made["host"] + (f":{made['port']}" if made["port"] else "")
    ports = "" if made["port"] else " on ports 80 and 443" if made["allow"] else " on every port"
    output.print_line(
        f"rule {made['id']}: {which} is {'allowed' if made['allow'] else 'denied'}{ports} for {_render_scope(made)}"
    )
    if made["allow"] and not made["port"] and (made["host"] == "localhost" or made["host"].endswith(".localhost")):
        output.print_line(
            f"it is this machine, which is reached on named ports alone: gatepost egress allow {made['host']}:PORT"
        )


def _render_scope(made: dict[str, object]) -> str:
    return f"{made['folder']} and below" if made["folder"] else "every group"


_FOLDER = click.option("--folder", default="", help="For this group and those below it (default: every group).")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the rule as JSON.")


@command.command()
@click.argument("host")
@_FOLDER
@_JSON
@click.pass_obj
def allow(home: str | None, host: str, folder: str, as_json: bool) -> None:
    """Allow HOST: example.com (with its sub-domains), *.example.com (these alone), example.com:8443 or *.

    Without a port: 80 and 443. A host of this machine or of a private network must be named exactly, with its port.
    """
    _add_rule(home, "allow", host, folder, as_json)


@command.command()
@click.argument("host")
@_FOLDER
@_JSON
@click.pass_obj
def deny(home: str | None, host: str, folder: str, as_json: bool) -> None:
    """Deny HOST, whatever else allows it; written as for allow. Without a port: every one."""
    _add_rule(home, "deny", host, folder, as_json)


@command.command()
@click.argument("rule")
@click.pass_obj
def rm(home: str | None, rule: str) -> None:
    """Remove a rule by the id that `gatepost egress list` shows."""
    if not (rule.isascii() and rule.isdigit()):
        raise Invalid("rule", f"{rule[:80]!r} is not a rule's id; `gatepost egress list` shows them")
    gone = run_operation(home_of(home), "egress.rm", {"id": int(rule)})
    output.print_line(f"rule {rule} for {gone['host']} is removed")


@command.command("list")
@click.option("--folder", default="", help="Only what holds for this group, inherited rules too.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects: id, folder, host, port, allow, local …")
@click.pass_obj
def list_rules(home: str | None, folder: str, as_json: bool) -> None:
    """Every rule."""
    from gatepost.serve.control.contract import to_json

    found = read_store(home_of(home), egress.list_rules)
    chosen = rules.list_folder_rules(found, folder) if folder else found
    if as_json:
        output.print_json([to_json(each) for each in chosen])
        return
    output.print_table(
        ("id", "folder", "host", "port", "verdict", "by"),
        [
            (
                each.id,
                each.folder or "(all)",
                each.host,
                each.port or "-",
                "allow" if each.allow else "deny",
                each.created_by,
            )
            for each in chosen
        ],
        empty="there are no rules: no host is allowed",
    )


@command.command("log")
@click.option("--folder", default="", help="Only of this group.")
@click.option("--denied", is_flag=True, help="Only what was denied.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The newest N.")
@click.option(
    "--json", "as_json", is_flag=True, help="A list of objects: at, last_at, times, folder, target, verdict …"
)
@click.pass_obj
def show_log(home: str | None, folder: str, denied: bool, limit: int, as_json: bool) -> None:
    """What agents tried to reach, oldest first; the same try of a session is counted."""
    from gatepost.serve.control.contract import to_json

    place = home_of(home)
    found = read_store(place, egress.list_attempts, limit, folder, "denied" if denied else "")[::-1]
    if as_json:
        output.print_json([to_json(each) for each in found])
        return
    zone, name = zone_of(place)
    output.print_table(
        (f"last ({name})", "times", "folder", "target", "verdict", "reason"),
        [
            (output.format_time(each.last_at, zone), each.times, each.folder, each.target, each.verdict, each.reason)
            for each in found
        ],
        empty="nothing was tried yet",
    )
