"""Pages of a group whose folder is on another gateway: an old copy here is not shown."""

from typing import Any

import pytest

from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.gateways import group_places


@pytest.fixture
def home(home: Home) -> Home:
    return replace(home, gateway="a")


@pytest.fixture
async def copy(operation_deps: OperationDeps) -> None:
    await OPERATIONS["group.add"](operation_deps, {"folder": "acme"})
    await OPERATIONS["site.set"](operation_deps, {"folder": "acme", "path": "/pub/acme", "access": "public"})
    (operation_deps.home.group("acme") / "public_html").mkdir()
    (operation_deps.home.group("acme") / "public_html" / "index.html").write_text("<p>a copy</p>")


async def test_a_page_is_served_where_its_group_is_and_not_now_elsewhere(
    site: Any, operation_deps: OperationDeps, copy: None
) -> None:
    assert await operation_deps.store.read(group_places.find_gateway, "acme") == "a"
    async with site.browser() as browser:
        here = await browser.get("/pub/acme/")
        await operation_deps.store.write(lambda db: db.run("UPDATE group_places SET gateway = 'b'"))
        there = await browser.get("/pub/acme/")
    assert (here.status_code, here.text) == (200, "<p>a copy</p>")
    assert (there.status_code, there.headers["retry-after"]) == (503, "5") and "copy" not in there.text
