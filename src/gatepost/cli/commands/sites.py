"""`gatepost site`: pages of groups."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.sites import (
    BindWebHostArgs,
    GroupSite,
    ListSitesArgs,
    ListWebHostsArgs,
    ListWebRoutesArgs,
    RemoveWebRouteArgs,
    SetWebRouteArgs,
    SiteList,
    UnbindWebHostArgs,
)
from gatepost.store.web.web_routes import WebHost, WebRoute


@click.group()
def site_command() -> None:
    """Pages that agents make: list, routes, set, rm, hosts, bind, unbind. Works with the gateway up or down.

    A group's public_html/ is at /pub/FOLDER/ of the web page's address, its private_html/ at /priv/FOLDER/. Nothing is
    public unless a route says so.
    """


@site_command.command("list")
@from_operation(ListSitesArgs)
def list_sites(run: CommandRun, found: SiteList) -> None:
    own: dict[str, output.Show] = {"access": lambda each: each.access if each.public else ""}
    empty = "no group has pages yet: its agent puts files into public_html/ or private_html/"
    output.print_records(GroupSite, found.sites, own, empty=empty)
    if found.next:
        output.print_line(f"there may be more: --after {found.next}")
    if found.elsewhere:
        output.print_line(f"not listed, because other gateways have them: {', '.join(found.elsewhere)}")


@site_command.command()
@from_operation(ListWebRoutesArgs)
def routes(run: CommandRun, found: list[WebRoute]) -> None:
    empty = "nothing is said: people see pages who are signed in and may see the group"
    output.print_records(WebRoute, found, empty=empty)


@site_command.command("set")
@from_operation(SetWebRouteArgs)
def set_route(run: CommandRun, made: WebRoute) -> None:
    to = f" → {made.redirect_to}" if made.redirect_to else ""
    output.print_line(f"{made.path} (of {made.folder}): {made.access}{to}")


@site_command.command()
@from_operation(RemoveWebRouteArgs)
def rm(run: CommandRun, gone: WebRoute) -> None:
    output.print_line(f"{gone.path} is no longer {gone.access}; what is said above it decides")


@site_command.command()
@from_operation(ListWebHostsArgs)
def hosts(run: CommandRun, found: list[WebHost]) -> None:
    output.print_records(WebHost, found, empty="no host name leads to a group's pages")


@site_command.command()
@from_operation(BindWebHostArgs)
def bind(run: CommandRun, made: WebHost) -> None:
    output.print_line(f"{made.hostname} shows public_html/ of {made.folder} to everybody")


@site_command.command()
@from_operation(UnbindWebHostArgs)
def unbind(run: CommandRun, gone: WebHost) -> None:
    output.print_line(f"{gone.hostname} leads to {gone.folder} no more")
