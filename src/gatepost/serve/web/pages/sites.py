"""Sites: the pages that agents make, who sees which, and the host names that lead to them."""

from collections.abc import Sequence
from urllib.parse import urlencode

from gatepost.flow.web_routes import SiteKind, render_url
from gatepost.serve.control.arguments.sites import (
    GroupSite,
    ListSitesArgs,
    ListWebHostsArgs,
    ListWebRoutesArgs,
    SiteList,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, made, make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, Badge, Block, Cell, EmptyState, Link, Note, PageView, Tone
from gatepost.store.web.web_routes import WebAccess, WebHost, WebRoute

PAGE = 100
NEW_ROUTE = Action(label="Say who sees a page", operation="site.set", asks=True, tone=Tone.GOOD)
NEW_HOST = Action(label="Add a host name", operation="site.bind", asks=True)
TONES = {WebAccess.PUBLIC: Tone.WARN, WebAccess.AUTH: Tone.GOOD, WebAccess.DENY: Tone.BAD}
AUDIENCES = {
    WebAccess.PUBLIC: "everybody",
    WebAccess.AUTH: "people of the group",
    WebAccess.DENY: "nobody",
    WebAccess.REDIRECT: "leads elsewhere",
}
NO_PAGES = EmptyState(
    text="No agent has made pages yet. Ask one to put files into public_html or private_html of its folder."
)
NO_ROUTES = EmptyState(
    text="No path has a rule of its own: people who are signed in and may see a group see its pages."
)
NO_HOSTS = EmptyState(text="No host name leads to a group's pages. Add one whose DNS leads to this gateway.")


def _show_address(site: GroupSite, kind: SiteKind, has_pages: bool) -> Cell:
    address = render_url(kind, *site.folder.split("/"), slash=True)
    return Link(address, address) if has_pages else None


def _show_audience(site: GroupSite) -> Cell:
    return Badge(AUDIENCES[site.access], TONES.get(site.access, Tone.PLAIN)) if site.public else None


def _show_access(route: WebRoute) -> Cell:
    return Badge(route.access, TONES.get(route.access, Tone.PLAIN))


def _show_path(route: WebRoute) -> Cell:
    """A link only where it is one of ours: a path begins with a slash and one of two words."""
    path = route.path
    known = path.startswith(tuple(f"/{kind}/" for kind in SiteKind))
    return Link(path, render_url(*path.split("/")[1:])) if known else path


GROUP = link("folder", "Group", "/groups/{folder}")
SITE = make_columns(
    GroupSite,
    {
        "folder": GROUP,
        "public": made("public", "public_html", lambda row: _show_address(row, SiteKind.PUBLIC, bool(row.public))),
        "access": made("access", "Who sees it", _show_audience),
        "private": made("private", "private_html", lambda row: _show_address(row, SiteKind.PRIVATE, bool(row.private))),
    },
)
ROUTE = make_columns(
    WebRoute,
    {
        "folder": GROUP,
        "path": made("path", "Path", _show_path),
        "access": made("access", "Who sees it", _show_access),
    },
)
HOST = make_columns(WebHost, {"folder": GROUP})


@page("/sites", "Pages", Section.AGENTS, "site.list", order=70)
async def show_sites(request: PageRequest) -> PageView:
    after = {name: request.query.get(name, "") for name in ("after", "after_path", "after_host")}
    found = await request.ask(ListSitesArgs(after=after["after"], limit=PAGE))
    blocks: list[Block] = [make_site_table(found), *make_notes(found)]
    if not await request.may("site.routes"):
        return PageView(lead=LEAD, blocks=blocks)
    routes = await request.ask(ListWebRoutesArgs(after=after["after_path"], limit=PAGE))
    hosts = await request.ask(ListWebHostsArgs(after=after["after_host"], limit=PAGE))
    changes = await request.may("site.set")
    return PageView(
        lead=LEAD,
        blocks=[*blocks, *make_rules(routes, hosts, changes=changes)],
        actions=(NEW_ROUTE, NEW_HOST) if changes else (),
    )


LEAD = "Web pages that agents put into their folders. Scripts in them have nobody's rights."


def make_site_table(found: SiteList) -> Block:
    more = f"?{urlencode({'after': found.next})}" if found.next else ""
    return make_table(found.sites, SITE, NO_PAGES, more=more)


def make_notes(found: SiteList) -> list[Block]:
    if not found.elsewhere:
        return []
    return [Note(text=f"Not listed, because other gateways have their folders: {', '.join(found.elsewhere)}.")]


def make_rules(routes: Sequence[WebRoute], hosts: Sequence[WebHost], *, changes: bool) -> list[Block]:
    def list_actions(route: WebRoute) -> tuple[Action, ...]:
        given = {"folder": route.folder, "path": route.path}
        change = Action(label="Change", operation="site.set", args=given, asks=True)
        remove = Action(label="Remove", operation="site.rm", args=given, asks=True, tone=Tone.BAD)
        return (change, remove) if changes else ()

    def list_host_actions(host: WebHost) -> tuple[Action, ...]:
        given = {"hostname": host.hostname}
        return (
            (Action(label="Remove", operation="site.unbind", args=given, asks=True, tone=Tone.BAD),) if changes else ()
        )

    more_routes = f"?{urlencode({'after_path': routes[-1].path})}" if len(routes) == PAGE else ""
    more_hosts = f"?{urlencode({'after_host': hosts[-1].hostname})}" if len(hosts) == PAGE else ""
    return [
        make_table(routes, ROUTE, NO_ROUTES, actions=list_actions, title="Who sees what", more=more_routes),
        make_table(hosts, HOST, NO_HOSTS, actions=list_host_actions, title="Host names", more=more_hosts),
    ]
