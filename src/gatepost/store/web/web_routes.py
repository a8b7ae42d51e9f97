"""Pages of groups: who sees which path, and which host names lead to a group's `public_html`. `flow/web_routes.py`
decides the meaning of a row."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

MOST_IN_WORLD = 200  # routes for the groups of one world
MOST_HOSTS_IN_WORLD = 20


class WebAccess(StrEnum):
    AUTH = "auth"  # people who are signed in and may see the group; first, because forms offer the first
    PUBLIC = "public"
    DENY = "deny"
    REDIRECT = "redirect"


class WebRouteKey(Struct, frozen=True, kw_only=True):
    """`folder`: in whose part the path lies."""

    folder: Annotated[
        str,
        shown("Group", head="group"),
        argument("The group whose pages they are.", scope=True, examples=("acme/eng",)),
    ]
    path: Annotated[
        str,
        shown("Path"),
        argument("The path and all below it.", examples=("/pub/acme/eng/docs", "/priv/acme/eng")),
        Meta(max_length=1000),
    ]


class WebRouteFields(WebRouteKey, frozen=True, kw_only=True):
    """The columns that whoever makes a row sets."""

    access: Annotated[
        WebAccess, shown("Who sees it", ShownAs.BADGE, head="who sees it"), argument("The people who see it.")
    ]
    redirect_to: Annotated[
        str,
        shown("Leads to", ShownAs.CODE, head="leads to"),
        option("With redirect: where to.", examples=("/pub/acme/eng/new/",)),
    ] = ""


class WebRoute(WebRouteFields, frozen=True, kw_only=True):
    """`owner`: the group whose agent made it; '': a person."""

    owner: str
    created_by: Annotated[str, shown("By", head="by")]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]


class WebHost(Struct, frozen=True):
    hostname: Annotated[str, shown("Host name", ShownAs.CODE, head="host name")]
    folder: Annotated[str, shown("Group", head="group")]
    owner: str
    created_by: Annotated[str, shown("By", head="by")]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]


WEB_ROUTES = Table("web_routes", WebRoute)
WEB_HOSTS = Table("web_hosts", WebHost)
_BELOW = "(folder = ? OR (folder > ? AND folder < ?))"  # see `_get_range`


@inline_read
def get_route(db: Db, path: str) -> WebRoute | None:
    return WEB_ROUTES.get(db, "WHERE path = ?", path)


@inline_read
def list_on_way(db: Db, folder: str, paths: Sequence[str]) -> list[WebRoute]:
    """Those of a group at one of these paths, the longest first."""
    marks = ", ".join("?" * len(paths))
    found = WEB_ROUTES.list(db, f"WHERE folder = ? AND path IN ({marks})", folder, *paths)
    return sorted(found, key=lambda each: len(each.path), reverse=True)


def list_routes(db: Db, after: str, limit: int) -> list[WebRoute]:
    """In the order of their paths."""
    return WEB_ROUTES.list(db, "WHERE path > ? ORDER BY path LIMIT ?", after, limit)


def list_routes_below(db: Db, folder: str, after: str = "") -> list[WebRoute]:
    """Those of a group and of all below it. A world has a bounded number."""
    return WEB_ROUTES.list(db, f"WHERE {_BELOW} AND path > ? ORDER BY path", *_get_range(folder), after)


def put_route(db: Db, new: WebRoute) -> None:
    WEB_ROUTES.insert(
        db,
        "ON CONFLICT (path) DO UPDATE SET folder = excluded.folder, access = excluded.access,"
        " redirect_to = excluded.redirect_to, owner = excluded.owner, created_by = excluded.created_by,"
        " created_at = excluded.created_at",
        new,
    )


def remove_route(db: Db, path: str) -> bool:
    return bool(db.run("DELETE FROM web_routes WHERE path = ?", (path,)))


def count_routes_in_world(db: Db, folder: str) -> int:
    row = db.row(f"SELECT COUNT(*) FROM web_routes WHERE {_BELOW}", _get_range(folder.partition("/")[0]))
    return int(row[0]) if row else 0


@inline_read
def get_host(db: Db, hostname: str) -> WebHost | None:
    return WEB_HOSTS.get(db, "WHERE hostname = ?", hostname)


def list_hosts(db: Db, after: str, limit: int) -> list[WebHost]:
    """In the order of their names."""
    return WEB_HOSTS.list(db, "WHERE hostname > ? ORDER BY hostname LIMIT ?", after, limit)


def list_hosts_of(db: Db, folder: str) -> list[WebHost]:
    return WEB_HOSTS.list(db, "WHERE folder = ? ORDER BY hostname", folder)


def list_hosts_below(db: Db, folder: str) -> list[WebHost]:
    """Those of a group and of all below it. A world has a bounded number."""
    return WEB_HOSTS.list(db, f"WHERE {_BELOW} ORDER BY hostname", *_get_range(folder))


def put_host(db: Db, new: WebHost) -> None:
    WEB_HOSTS.insert(
        db,
        "ON CONFLICT (hostname) DO UPDATE SET folder = excluded.folder, owner = excluded.owner,"
        " created_by = excluded.created_by, created_at = excluded.created_at",
        new,
    )


def remove_host(db: Db, hostname: str) -> bool:
    return bool(db.run("DELETE FROM web_hosts WHERE hostname = ?", (hostname,)))


def count_hosts_in_world(db: Db, folder: str) -> int:
    row = db.row(f"SELECT COUNT(*) FROM web_hosts WHERE {_BELOW}", _get_range(folder.partition("/")[0]))
    return int(row[0]) if row else 0


def _get_range(folder: str) -> tuple[str, str, str]:
    """A group, and the bounds between which those below it lie: `0` is the character behind `/`."""
    return folder, f"{folder}/", f"{folder}0"
