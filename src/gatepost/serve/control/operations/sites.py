"""Pages of groups: list them, say who sees which, and give them host names."""

import asyncio
import stat
from collections.abc import Sequence
from contextlib import suppress

from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.flow import web_routes
from gatepost.flow.gateways.folder_check import find_elsewhere
from gatepost.flow.web_routes import (
    NewWebRoute,
    RouteMaker,
    SiteKind,
    SitePath,
    normalize_host,
    parse_site_path,
    read_hostname,
    render_url,
)
from gatepost.messages.inbound import OPERATOR
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
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.gateways import group_places
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.store.web import web_routes as rows
from gatepost.store.web.web_routes import WebHost, WebRoute

MOST_SEEN = 2000  # folders that one call opens


@operation
async def list_sites(deps: OperationDeps, args: ListSitesArgs) -> SiteList:
    folders = await deps.store.read(_list_visible, deps.caller, args.after)
    elsewhere = await deps.store.read(_list_elsewhere, deps.home, folders) if deps.home.gateway else []
    here = [each for each in folders if group_places.get_world(each) not in elsewhere]
    found = await asyncio.to_thread(_find_sites, deps.home, here, args.limit)
    return SiteList(await deps.store.read(_add_access, found.sites), found.next, elsewhere)


def _list_elsewhere(db: Db, home: Home, folders: Sequence[str]) -> list[str]:
    """The worlds of these groups that are on other gateways."""
    return [each for each in sorted(set(map(group_places.get_world, folders))) if find_elsewhere(db, home, each)]


def _add_access(db: Db, found: Sequence[GroupSite]) -> list[GroupSite]:
    pages = [web_routes.find_page(db, SitePath(SiteKind.PUBLIC, tuple(each.folder.split("/")))) for each in found]
    return [replace(each, access=page.access) if page else each for each, page in zip(found, pages, strict=True)]


def _list_visible(db: Db, caller: str, after: str) -> list[str]:
    folders = [each.folder for each in groups.list_all(db) if each.folder > after]
    sees = web_routes.read_sight(db, caller) if caller != OPERATOR else None
    return folders if sees is None else [each for each in folders if sees(each)]


def _find_sites(home: Home, folders: Sequence[str], limit: int) -> SiteList:
    found: list[GroupSite] = []
    with open_untrusted(home.groups) as root:
        for folder in folders[:MOST_SEEN]:
            public, private = (_find_address(root, folder, kind) for kind in SiteKind)
            found += [GroupSite(folder=folder, public=public, private=private)] if public or private else []
            if len(found) == limit:
                return SiteList(found, folder)
    return SiteList(found, folders[MOST_SEEN - 1] if len(folders) > MOST_SEEN else "")


def _find_address(root: UntrustedFolder, folder: str, kind: SiteKind) -> str:
    with suppress(GatepostError):
        if stat.S_ISDIR(root.stat(f"{folder}/{kind.folder}").st_mode):
            return render_url(kind, *folder.split("/"), slash=True)
    return ""


@read_operation
def list_web_routes(db: Db, args: ListWebRoutesArgs, now: int) -> list[WebRoute]:
    return rows.list_routes(db, args.after, args.limit)


@operation
async def set_web_route(deps: OperationDeps, args: SetWebRouteArgs) -> WebRoute:
    new, maker = NewWebRoute(path=args.path, access=args.access, redirect_to=args.redirect_to), _make_maker(deps)

    def change(db: Db) -> WebRoute:
        _check_folder(db, args.folder, args.path, maker)
        return web_routes.set_route(db, new, maker)

    return await deps.write(change)


@operation
async def remove_web_route(deps: OperationDeps, args: RemoveWebRouteArgs) -> WebRoute:
    def remove(db: Db) -> WebRoute:
        known = rows.get_route(db, parse_site_path(args.path).text)
        if known is None or known.folder != args.folder:
            raise NotFound("web route", args.path[:80], "`gatepost site routes` shows them")
        return web_routes.remove_route(db, args.path, _make_maker(deps))

    return await deps.write(remove)


@read_operation
def list_web_hosts(db: Db, args: ListWebHostsArgs, now: int) -> list[WebHost]:
    return rows.list_hosts(db, args.after, args.limit)


@operation
async def bind_web_host(deps: OperationDeps, args: BindWebHostArgs) -> WebHost:
    name, maker = read_hostname(args.hostname, deps.config), _make_maker(deps)
    return await deps.write(lambda db: web_routes.bind_host(db, name, args.folder, maker))


@operation
async def unbind_web_host(deps: OperationDeps, args: UnbindWebHostArgs) -> WebHost:
    def remove(db: Db) -> WebHost:
        known = rows.get_host(db, normalize_host(args.hostname))
        if known is None:
            raise NotFound("host name", args.hostname[:80], "`gatepost site hosts` shows them")
        rows.remove_host(db, known.hostname)
        return known

    return await deps.write(remove)


def _make_maker(deps: OperationDeps) -> RouteMaker:
    """A person. The reach of their right was judged by the group that they named."""
    return RouteMaker(folder="", name=deps.caller, now=deps.clock.now(), reaches=lambda folder: True)


def _check_folder(db: Db, folder: str, path: str, maker: RouteMaker) -> None:
    found = web_routes.get_slot(db, parse_site_path(path), maker)
    if found != folder and groups.get(db, folder) is None:
        raise NotFound("group", folder[:80], "`gatepost group list` shows which there are")
    if found != folder:
        raise Invalid("path", f"{path[:80]!r} is among the pages of {found}, not of {folder[:80]}")
