"""What holds for every page of the dashboard."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.web.dashboard.contract import PAGES, Page, PageRequest
from gatepost.serve.web.dashboard.renderer import render
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, TableBlock
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.people.users import UserRole

LISTED = [each for _, each in PAGES.items() if each.listed]
OWNER, STRANGER = "web:user/owner", "web:user/stranger"


@pytest.fixture
async def operation_deps(store: SqliteStore, tmp_path: Path, empty_store: Path) -> OperationDeps:
    await store.write(users.add, OWNER, "owner", 1)
    await store.write(users.add_role, OWNER, UserRole.OWNER, "", "gatepost:system", 1)
    home = Home(tmp_path / "home")
    home.prepare()
    shutil.copy(empty_store, home.store)  # for what looks at the file itself
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())


def ask(operation_deps: OperationDeps, person: str, **query: str) -> PageRequest:
    return PageRequest(operation_deps=operation_deps, person=person, params={}, query=query)


def list_actions(value: Any) -> Iterator[Action]:
    if isinstance(value, Action):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from list_actions(getattr(value, name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from list_actions(each)


@pytest.mark.parametrize("page", LISTED, ids=lambda page: page.path)
async def test_a_page_of_an_empty_gateway_says_what_to_do(operation_deps: OperationDeps, page: Page) -> None:
    try:
        view = await page.show(ask(operation_deps, OWNER))
    except GatepostError as error:
        assert "running" in str(error), "a page that needs a running gateway says so"
        return
    for table in (each for each in view.blocks if isinstance(each, TableBlock)):
        assert isinstance(table.empty, EmptyState) and table.empty.text.endswith((".", "?", ":"))


@pytest.mark.parametrize("page", LISTED, ids=lambda page: page.path)
async def test_a_person_without_rights_is_refused_by_the_operation(operation_deps: OperationDeps, page: Page) -> None:
    if all(OPERATIONS[name].info.answers_all for name in page.reads):
        pytest.skip("this page shows everybody what is theirs")
    with pytest.raises(Refused, match="op:"):
        await page.show(ask(operation_deps, STRANGER))


@pytest.mark.parametrize("page", LISTED, ids=lambda page: page.path)
async def test_every_button_names_an_operation_and_arguments_that_it_has(
    operation_deps: OperationDeps, page: Page
) -> None:
    try:
        view = await page.show(ask(operation_deps, OWNER))
    except GatepostError:
        return
    for action in list_actions(view):
        operation = OPERATIONS[action.operation]
        assert set(action.args) <= set(operation.args.__struct_fields__), action


@pytest.mark.parametrize("page", [each for _, each in PAGES.items()], ids=lambda page: page.path)
def test_every_operation_that_a_page_reads_exists(page: Page) -> None:
    assert all(name in OPERATIONS for name in page.reads)


def test_an_empty_page_can_be_rendered() -> None:
    assert "Nothing" not in render(
        "fragment.html",
        page=None,
        view=PageView(blocks=[]),
        tabs=(),
        title="x",
        query={},
        address="/",
        now=0,
        prefix="/dashboard",
        person=OWNER,
        viewed=None,
        export_query=lambda kind: "",
    )
