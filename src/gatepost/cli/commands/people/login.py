"""`gatepost login`: a new one-time address of the web page; and the browsers that are signed in."""

from urllib.parse import urlencode

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.errors import Unavailable
from gatepost.core.home import find
from gatepost.core.process.listen_address import find_control_path, render_open_help
from gatepost.serve.control.arguments.credentials import (
    BrowserLoginView,
    EndAllLoginsArgs,
    EndedLogins,
    EndLoginArgs,
    ListLoginsArgs,
    RemovePasswordArgs,
    SignInState,
)
from gatepost.serve.control.client import STRANGE, ControlClient, get_result


@click.group("login", invoke_without_command=True)
@click.option("--user", default="", metavar="ID", help="Sign in as this person, by one of their identities.")
@click.pass_context
def command(ctx: click.Context, user: str) -> None:
    """Print a new address that signs one browser in as the owner, once, within ten minutes.

    With --user it signs in somebody else, with the rights that they have. They see one room of their own. `gatepost
    login list` shows the browsers that are signed in; `end` and `end-all` sign them out.
    """
    if ctx.invoked_subcommand is not None:
        return
    home = find(ctx.obj)
    path = f"/v1/login?{urlencode({'user': user})}" if user else "/v1/login"
    answer = ControlClient(find_control_path(home), home.path).post(path)
    found = get_result(answer)
    if not isinstance(found, dict) or not isinstance(found.get("url"), str):
        raise Unavailable("the gateway", STRANGE)
    output.print_line(render_open_help(found["url"]))


@command.command("list")
@from_operation(ListLoginsArgs)
def list_logins(run: CommandRun, found: list[BrowserLoginView]) -> None:
    own: dict[str, output.Show] = {"person": _render_person}
    output.print_records(BrowserLoginView, found, own, empty="no browser is signed in", without=("is_this",))


def _render_person(login: BrowserLoginView) -> str:
    return f"{login.user_id} ({login.person})" if login.person not in ("", login.user_id) else login.user_id


@command.command()
@from_operation(EndLoginArgs)
def end(run: CommandRun, ended: BrowserLoginView) -> None:
    output.print_line(f"{ended.id} ({ended.device or 'unknown device'}) of {ended.user_id} is signed out")


@command.command("end-all")
@from_operation(EndAllLoginsArgs)
def end_all(run: CommandRun, done: EndedLogins) -> None:
    output.print_line(f"{done.person} is signed out everywhere: {done.ended} browsers and addresses ended")


@command.command("remove-password")
@from_operation(RemovePasswordArgs)
def remove_password(run: CommandRun, state: SignInState) -> None:
    output.print_line(f"{state.name} has no password any more, and is signed out; `gatepost login` lets them in")
