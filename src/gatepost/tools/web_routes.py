"""Pages of the caller's part of the tree: who sees them, and under which host names."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import ROOT_FOLDER, Tier, TreeScope, may_act_on
from gatepost.core.clock import iso
from gatepost.flow import web_routes
from gatepost.flow.intake.routing import MADE_BY
from gatepost.flow.web_routes import NewWebRoute, RouteMaker, parse_site_path, read_hostname
from gatepost.gate.tool_answers import fitting
from gatepost.store.port import Db
from gatepost.store.web import web_routes as rows
from gatepost.store.web.web_routes import WebAccess, WebHost, WebRoute
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool

MOST_LISTED = 1000
Path = Annotated[str, Meta(description="The path and all below it: /pub/FOLDER/docs or /priv/FOLDER/docs.")]


class WebRouteInfo(Struct, frozen=True):
    path_prefix: str
    access: WebAccess
    redirect_to: str
    folder: str
    created_at: str | None


class WebRouteList(Struct, frozen=True):
    """`more`: there are others, which do not fit; give the last path as `after`."""

    routes: list[WebRouteInfo]
    more: bool


class WebHostInfo(Struct, frozen=True):
    """`hostname`: '' if none leads there."""

    hostname: str
    folder: str


class WebHostMap(Struct, frozen=True):
    """The host names that lead to the caller's group and those below it, by name."""

    hosts: dict[str, str]


def _about_path(arguments: Mapping[str, Any]) -> Iterable[str]:
    return [parse_site_path(arguments["path"]).place] if "path" in arguments else []


def _make_maker(call: ToolCall) -> RouteMaker:
    own = call.caller.folder

    def reaches(folder: str) -> bool:
        return may_act_on(TreeScope.SUBTREE, own, folder) and call.allows(folder)

    return RouteMaker(folder=own, name=f"{MADE_BY}{own}", now=call.now, reaches=reaches)


@tool(tier=Tier.WORLD, about=_about_path, group="web", effects=(Subject.PUBLISH,), idempotent=True)
async def set_web_route(
    call: ToolCall,
    path: Path,
    access: Annotated[WebAccess, Meta(description="auth: people who are signed in and may see your group.")],
    redirect_to: Annotated[str, Meta(description="With access=redirect: another path of the same group.")] = "",
) -> str:
    """Publish a web page, or files for people in a browser: `public_html/` of your folder is at /pub/FOLDER/,
    `private_html/` at /priv/FOLDER/. Without a route only people who are signed in and may see your group get them.

    Pages cannot load anything from other hosts: keep scripts, styles and pictures beside them, by relative links. To
    undo one use del_web_route.
    """
    new = NewWebRoute(path=path, access=access, redirect_to=redirect_to)

    def write(db: Db) -> WebRoute:
        return web_routes.set_route(db, new, _make_maker(call))

    await call.write(write)
    return "ok"


@tool(
    tier=Tier.WORLD,
    about=_about_path,
    group="web",
    effects=(Subject.PUBLISH, Subject.ERASE),
    destructive=True,
    idempotent=True,
)
async def del_web_route(call: ToolCall, path: Path) -> str:
    """Take back what set_web_route said about a path. The rule above it decides then."""

    def remove(db: Db) -> WebRoute:
        return web_routes.remove_route(db, path, _make_maker(call))

    await call.write(remove)
    return "ok"


@tool(tier=Tier.WORLD, group="web", read_only=True, idempotent=True)
async def list_web_routes(
    call: ToolCall,
    after: Annotated[str, Meta(description="Only those behind this path, if the last answer said `more`.")] = "",
) -> WebRouteList:
    """See who sees which pages of your group and those below it. To change it use set_web_route."""

    def read(db: Db) -> list[WebRoute]:
        own = call.caller.folder
        if own == ROOT_FOLDER:
            return rows.list_routes(db, after, MOST_LISTED)
        return [each for each in rows.list_routes_below(db, own, after) if call.allows(each.folder)]

    found = await call.read(read)
    listed, more = fitting(map(_render, found))
    return WebRouteList(listed, more or len(found) == MOST_LISTED)


@tool(
    tier=Tier.ROOT, scoped_by="folder", group="web", effects=(Subject.PUBLISH, Subject.CHANGE_RIGHTS), idempotent=True
)
async def set_web_host(
    call: ToolCall,
    hostname: Annotated[str, Meta(description="Like docs.example.com: its DNS must lead to this gateway.")],
    folder: Annotated[str, Meta(description="The group whose public_html/ is shown there, to everybody.")],
) -> WebHostMap:
    """Show the public pages of a group under a host name of their own. To see which it has use get_web_host."""
    name = read_hostname(hostname, call.deps.config)

    def bind(db: Db) -> list[WebHost]:
        web_routes.bind_host(db, name, folder, _make_maker(call))
        own = call.caller.folder
        return rows.list_hosts(db, "", MOST_LISTED) if own == ROOT_FOLDER else rows.list_hosts_below(db, own)

    bound = await call.write(bind)
    return WebHostMap({each.hostname: each.folder for each in bound})


@tool(tier=Tier.WORLD, scoped_by="folder", group="web", read_only=True, idempotent=True)
async def get_web_host(
    call: ToolCall, folder: Annotated[str | None, Meta(description="The group. Leave it out for your own.")] = None
) -> WebHostInfo:
    """Which host name leads to the public pages of a group. Without one they are at /pub/FOLDER/."""
    asked = folder or call.caller.folder
    found = await call.read(rows.list_hosts_of, asked)
    return WebHostInfo(found[0].hostname if found else "", asked)


def _render(route: WebRoute) -> WebRouteInfo:
    return WebRouteInfo(route.path, route.access, route.redirect_to, route.folder, iso(route.created_at))
