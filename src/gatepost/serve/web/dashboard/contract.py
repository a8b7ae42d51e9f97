"""A page of the dashboard: one file in `pages/`, with one function that answers what it shows.

A page has no rights of its own. Whatever it shows and does goes through operations, as the person who is signed in.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.serve.control.contract import OPERATIONS, Operation, OperationDeps
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.serve.web.dashboard.view import PageView
from gatepost.store.port import Db

PREFIX = "/dashboard"
_HOLE = re.compile(r"\{(\w+)\}")


class Section(StrEnum):
    """The parts of the navigation, in their order."""

    NOW = "Now"
    CONVERSATIONS = "Conversations"
    AGENTS = "Agents"
    ACCESS = "People and access"
    GATEWAY = "Gateway"


class PageRequest(Struct, frozen=True, kw_only=True):
    """Somebody who looks at a page. `params`: of its path. `describe`: what the daemon knows of itself."""

    office: OperationDeps
    person: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    describe: Callable[[], Awaitable[Mapping[str, Any]]]
    operations: Registry[Operation] = OPERATIONS

    async def ask(self, operation: str, **args: Any) -> Any:
        """What an operation answers this person, as its JSON is. Raises Refused without the right."""
        return await self.operations[operation](replace(self.office, caller=self.person), args)

    async def may(self, *operations: str, scope: str = ROOT_FOLDER) -> bool:
        """Whether this person may run all of them for that group."""
        rights = {f"op:{self.operations[name].info.right}" for name in operations}
        return await self.office.store.read(has_rights, self.person, rights, scope)

    @property
    def now(self) -> int:
        return self.office.clock.now()


def has_rights(db: Db, person: str, rights: set[str], scope: str) -> bool:
    return all(has_right(db, person, right, scope) for right in rights)


PageFunction = Callable[[PageRequest], Awaitable[PageView]]


class Page(Struct, frozen=True, kw_only=True):
    """`reads`: the operations that it cannot do without. Who may not run them does not see it in the navigation."""

    path: str
    title: str
    section: Section
    reads: tuple[str, ...]
    show: PageFunction
    listed: bool = True
    order: int = 100

    @property
    def href(self) -> str:
        return f"{PREFIX}{self.path}"

    @property
    def route(self) -> str:
        """Its path for the router. A hole may hold slashes: groups and people have them in their ids."""
        return _HOLE.sub(r"{\1:path}", self.path)


PAGES: Registry[Page] = Registry("page")


def page(
    path: str,
    title: str,
    section: Section,
    *reads: str,
    order: int = 100,
    listed: bool = True,
    registry: Registry[Page] = PAGES,
) -> Callable[[PageFunction], PageFunction]:
    """Register the function below as the page at this path. One with a hole (`/tasks/{id}`) is in no navigation."""

    def register(show: PageFunction) -> PageFunction:
        made = Page(
            path=path,
            title=title,
            section=section,
            reads=reads,
            show=show,
            order=order,
            listed=listed and not _HOLE.search(path),
        )
        registry.add(path, made, origin=show.__module__)
        return show

    return register


def render_path(path: str, **params: str) -> str:
    """The address of a page with its holes filled."""
    return PREFIX + _HOLE.sub(lambda hole: quote(params[hole[1]], safe=""), path)
