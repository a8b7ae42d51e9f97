"""A page of the dashboard: one file in `pages/`, with one function that returns its contents.

A page has no rights of its own. It reads and acts through operations alone, as the person who is signed in.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar, overload
from urllib.parse import quote

from msgspec import Struct, to_builtins

from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.flow.sender_rights import read_operation_rights
from gatepost.serve.control.contract import OPERATIONS, Operation, OperationDeps
from gatepost.serve.control.declaration import OperationArgs
from gatepost.serve.control.rights import ROOT_FOLDER, may_run
from gatepost.serve.web.dashboard.view import PageView

PREFIX = "/dashboard"
R = TypeVar("R")
_HOLE = re.compile(r"\{(\w+)\}")


class Section(StrEnum):
    """The entries of the menu beside the chat, in their order. The pages of a section are its tabs."""

    AGENTS = "Agents"  # who there is, how each stands, what each needs
    PEOPLE = "People"  # who may do what, and who asks to be let in
    CHANNELS = "Channels"  # where people and agents meet
    ACTIVITY = "Activity"  # everything that happened
    COSTS = "Costs"
    SYSTEM = "System"  # health, settings, secrets, the network


class PageRequest(Struct, frozen=True, kw_only=True):
    """Somebody who looks at a page. `params`: of its path."""

    operation_deps: OperationDeps
    person: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    operations: Registry[Operation] = OPERATIONS

    @overload
    async def ask(self, asked: OperationArgs[R], /) -> R: ...
    @overload
    async def ask(self, asked: type[OperationArgs[R]], /, **args: Any) -> R: ...
    async def ask(self, asked: OperationArgs[Any] | type[OperationArgs[Any]], /, **args: Any) -> Any:
        """Return what an operation answers this person. Raises Refused without the right. `args`: where the type is
        named alone, because some are as a visitor wrote them."""
        deps = replace(self.operation_deps, caller=self.person)
        found = self.operations[asked.info.name]
        given = to_builtins(asked) if isinstance(asked, OperationArgs) else args
        return await found.answer(deps, found.parse(given))  # what a visitor wrote is judged like any other

    async def may(self, *operations: str, scope: str = ROOT_FOLDER) -> bool:
        """Return True if this person may run all of them for that group."""
        rights = await self.operation_deps.store.read(read_operation_rights, self.person)
        return all(may_run(rights, self.operations[name].info, scope) for name in operations)

    async def has_right(self, right: str) -> bool:
        """Return True if the person has the right for the whole gateway. For operations that show some people more."""
        rights = await self.operation_deps.store.read(read_operation_rights, self.person)
        return rights.allows(f"op:{right}", ROOT_FOLDER)

    @property
    def now(self) -> int:
        return self.operation_deps.clock.now()


PageFunction = Callable[[PageRequest], Awaitable[PageView]]


class Page(Struct, frozen=True, kw_only=True):
    """The declaration of a page.

    `reads`: the operations that it cannot do without. The navigation shows it only to people who may run them.
    `order`: among the tabs of its section; the first is where the menu leads.
    """

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


PAGES: Registry[Page] = Registry("page", "gatepost.serve.web.pages")


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
