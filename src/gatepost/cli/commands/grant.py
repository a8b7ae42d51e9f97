"""`gatepost grant`: what groups, people and roles may do."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from gatepost.access import grants
from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.name_suggestions import did_you_mean
from gatepost.store import groups

if TYPE_CHECKING:
    from gatepost.tools.contract import Tool


@click.group()
def command() -> None:
    """What groups, people and roles may do. Works with the gateway up or down, and holds at once.

    \b
    gatepost grant add acme/eng 'schedule_task'            one more tool for this group
    gatepost grant add acme '!send(jid=discord:*)'         and one less, for it and all below
    gatepost grant allow role:ops mcp:reset_session --scope 'acme/**' --grant-option
    gatepost grant member telegram:user/9 role:ops

    A rule is [!]tool[(param=glob, !param, param)]; of a group's rules the last that matches wins, and a denial above
    binds everybody below. Rows (allow, deny) are a set in which deny wins. `gatepost policy explain` tells the whole.
    """


_ANYWAY = click.option("--anyway", is_flag=True, help="Also if no such tool, parameter or group is known (yet).")


@command.command()
@click.argument("folder")
@click.argument("rule")
@_ANYWAY
@click.pass_obj
def add(home: str | None, folder: str, rule: str, anyway: bool) -> None:
    """Append RULE to the rules of FOLDER."""
    if not anyway:
        _check_rule(home_of(home), rule)
    run_operation(home_of(home), "grant.add", {"folder": folder, "rule": rule})
    output.print_line(f"{folder}: {rule}")


def _check_rule(home: Home, text: str) -> None:
    """A misspelt rule matches nothing, and a denial that matches nothing protects nobody."""
    rule = grants.parse(text)
    if grants.find_syntax_error(text):
        return  # said by the one who writes it down
    tool = _check_tool(home, rule.action)
    known = {*tool.listed["inputSchema"]["properties"], "jid"} if tool is not None else set()
    for param in rule.params:
        if tool is not None and known and param.name not in known:
            raise Invalid(
                "rule", f"{rule.action} has no parameter {param.name!r}{_render_suggestion(param.name, known)}"
            )


def _check_tool(home: Home, name: str) -> "Tool | None":
    """None for a pattern, which may mean what is not there yet."""
    from gatepost.cli.policy import tools_of
    from gatepost.gate.aliases import ALIASES

    if "*" in name:
        return None
    if name in ALIASES:
        raise Invalid("tool", f"{name!r} is an older name; rules speak of {ALIASES[name].tool!r}")
    tools = tools_of(home)
    if name not in tools:
        raise Invalid("tool", f"there is no tool {name!r}{_render_suggestion(name, tools)}")
    return tools[name]


def _render_suggestion(name: str, known: Iterable[str]) -> str:
    return did_you_mean(name, known) + " (--anyway writes it down all the same)"


CLAIMS = ("folder", "tier", "provider", "platform", "room", "topic", "user")


def _check_row(home: Home, given: dict[str, Any]) -> None:
    principal, action = given["principal"], given["action"]
    tool = _check_tool(home, action.removeprefix("mcp:")) if action.startswith("mcp:") else None
    for param in grants.parse_params(given["predicate"]) or ():
        if param.name not in CLAIMS:
            raise Invalid("--when", f"nothing is called {param.name!r}{_render_suggestion(param.name, CLAIMS)}")
    if tool is not None:
        known = {*tool.listed["inputSchema"]["properties"], "jid"}
        for param in grants.parse_params(given["params"]) or ():
            if param.name not in known:
                raise Invalid(
                    "--params", f"{tool.name} has no parameter {param.name!r}{_render_suggestion(param.name, known)}"
                )
    space, colon, rest = principal.partition(":")
    if not colon and principal != "**":
        raise Invalid("principal", f"{principal!r}; write folder:acme/eng, role:ops or telegram:user/9")
    if rest == "*" and space not in ("folder", "role"):
        raise Invalid("principal", f"{principal!r} means no address with a slash in it; write {space}:** (or --anyway)")
    if space == "folder" and "*" not in rest:
        folders = [group.folder for group in read_store(home, groups.list_all)]
        if rest not in folders:
            raise Invalid("principal", f"there is no group {rest!r}{_render_suggestion(rest, folders)}")


@command.command()
@click.argument("what")
@click.argument("rule", required=False)
@click.pass_obj
def rm(home: str | None, what: str, rule: str | None) -> None:
    """Remove a rule (FOLDER RULE) or a row (its number)."""
    if rule is not None:
        run_operation(home_of(home), "grant.rm", {"folder": what, "rule": rule})
        output.print_line(f"{what}: {rule} is removed")
        return
    if not what.isdecimal():
        raise click.UsageError("say FOLDER RULE for a rule, or the number of a row (`gatepost grant list`)")
    gone = run_operation(home_of(home), "acl.rm", {"id": int(what)})
    output.print_line(
        f"row {what} is removed: {gone['effect']} {gone['principal']} {gone['action']} on {gone['scope']}"
    )


def _add_row(home: str | None, deny: bool, given: dict[str, Any], anyway: bool) -> None:
    if not anyway:
        _check_row(home_of(home), given)
    made = run_operation(home_of(home), "acl.add", {**given, "deny": deny})
    output.print_line(f"row {made['id']}: {made['effect']} {made['principal']} {made['action']} on {made['scope']}")


_PRINCIPAL = click.argument("principal")
_ACTION = click.argument("action")
_SCOPE = click.option("--scope", default="**", show_default=True, help="The groups that it is about, a glob: acme/**")
_PARAMS = click.option("--params", default="", help="Only for calls that carry this: jid=telegram:*, !topic")
_WHEN = click.option("--when", default="", help="Only when this is known of the caller: platform=slack, user=…")


@command.command()
@_PRINCIPAL
@_ACTION
@_SCOPE
@_PARAMS
@_WHEN
@click.option("--grant-option", is_flag=True, help="They may give it on.")
@click.option("--by", default="role:operator", show_default=True, help="Who gives it; they must be able to.")
@_ANYWAY
@click.pass_obj
def allow(
    home: str | None,
    principal: str,
    action: str,
    scope: str,
    params: str,
    when: str,
    grant_option: bool,
    by: str,
    anyway: bool,
) -> None:
    """Allow ACTION (mcp:<tool>, mcp:*, interact, admin, *) to PRINCIPAL (folder:…, role:…, telegram:user/9 …)."""
    given = {"principal": principal, "action": action, "scope": scope, "params": params, "predicate": when}
    _add_row(home, False, {**given, "grant_option": grant_option, "by": by}, anyway)


@command.command()
@_PRINCIPAL
@_ACTION
@_SCOPE
@_PARAMS
@_WHEN
@_ANYWAY
@click.pass_obj
def deny(home: str | None, principal: str, action: str, scope: str, params: str, when: str, anyway: bool) -> None:
    """Deny ACTION to PRINCIPAL, whatever else allows it."""
    given = {"principal": principal, "action": action, "scope": scope, "params": params, "predicate": when}
    _add_row(home, True, given, anyway)


@command.command()
@click.argument("child")
@click.argument("role")
@click.option("--rm", "remove", is_flag=True, help="End the membership.")
@click.pass_obj
def member(home: str | None, child: str, role: str, remove: bool) -> None:
    """Make CHILD (a principal, or a role) a member of ROLE, such as role:ops."""
    run_operation(home_of(home), "role.rm" if remove else "role.add", {"child": child, "role": role})
    output.print_line(f"{child} is {'no longer ' if remove else ''}a member of {role}")


@command.command("list")
@click.option("--folder", default="", help="Only the rules of this group.")
@click.option("--json", "as_json", is_flag=True, help="An object: rules, rows, members.")
@click.pass_obj
def list_grants(home: str | None, folder: str, as_json: bool) -> None:
    """Every rule, row and membership."""
    from gatepost.serve.control.operations.grants import read_grants

    found = read_store(home_of(home), read_grants, folder)
    if as_json:
        output.print_json(found)
        return
    output.print_table(
        ("folder", "rule", "by"),
        [(each["folder"], each["text"], each["added_by"]) for each in found["rules"]],
        empty="there are no rules: the tiers decide",
    )
    if found["rows"]:
        rows = [
            (
                each["id"],
                each["effect"],
                each["principal"],
                each["action"] + (f"({each['params']})" if each["params"] else ""),
                each["scope"],
                each["predicate"] or "-",
                each["granted_by"] + ("" if each["counts"] else " (void)"),
            )
            for each in found["rows"]
        ]
        output.print_line("")
        output.print_table(("row", "effect", "principal", "action", "scope", "when", "by"), rows)
    if not all(each["counts"] for each in found["rows"]):
        output.print_line("(void): who gave it cannot give it, so it does not count")
    if found["members"]:
        output.print_line("")
        output.print_table(("member", "of"), [(each["child"], each["role"]) for each in found["members"]])
