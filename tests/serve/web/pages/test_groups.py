"""The pages of groups, as data and over HTTP."""

from types import SimpleNamespace
from typing import Any

from gatepost.core.clock import SystemClock
from gatepost.flow.reports import GroupFileText
from gatepost.serve.control.arguments.groups import GroupDetails
from gatepost.serve.web.dashboard.view import FormBlock, Link, TableBlock
from gatepost.serve.web.pages.groups import list_moves, make_editor_view, make_tree_view
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, CapSpan
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import groups

ANN = "fake:user/ann"


def group(folder: str, gateway: str = "") -> GroupDetails:
    return GroupDetails(
        folder=folder,
        name="",
        provider="",
        model="",
        sandbox="",
        options={},
        open=False,
        window_messages=None,
        window_chars=None,
        created_at=0,
        tier=1,
        routes=[],
        destinations=[],
        sessions=[],
        gateway=gateway,
        moves_to="",
    )


def test_groups_are_a_tree() -> None:
    view = make_tree_view([group(each) for each in ("home", "acme/eng/x", "acme-b", "acme", "acme/eng")])
    [table] = [each for each in view.blocks if isinstance(each, TableBlock)]
    shown = [(row.cells[0].text, row.depth) for row in table.rows]  # type: ignore[union-attr]
    assert shown == [("acme", 0), ("acme/eng", 1), ("acme/eng/x", 2), ("acme-b", 0), ("home", 0)]


def test_the_editor_sends_the_version_that_it_shows_and_only_who_may_write_has_one() -> None:
    file = GroupFileText(folder="acme", path="AGENTS.md", text="</textarea><script>", version="v1")
    [form] = [
        each
        for each in make_editor_view(file, Link("Download", "/x"), writes=True).blocks
        if isinstance(each, FormBlock)
    ]
    assert form.args == {"folder": "acme", "path": "AGENTS.md", "version": "v1"} and form.keeps
    assert not [
        each
        for each in make_editor_view(file, Link("Download", "/x"), writes=False).blocks
        if isinstance(each, FormBlock)
    ]


def test_a_group_can_be_moved_where_there_is_another_gateway_that_lives() -> None:
    acme = group("acme/eng", "north")
    north, south, west = (SimpleNamespace(name=name, alive=True) for name in ("north", "south", "west"))
    assert list_moves(acme, [north]) == list_moves(acme, [north, SimpleNamespace(name="south", alive=False)]) == ()
    assert list_moves(group("acme/eng"), [north, south]) == ()
    [only] = list_moves(acme, [north, south])
    [asks] = list_moves(acme, [north, south, west])
    assert (only.args, asks.args) == ({"folder": "acme/eng", "gateway": "south"}, {"folder": "acme/eng"})


async def test_a_group_below_another_has_its_page_with_files_that_can_be_saved(site: Any) -> None:
    async with site.signed_in() as browser:
        for folder in ("acme", "acme/eng"):
            assert (await browser.post("/dashboard/do/group.add", data={"folder": folder})).status_code == 200
        page = await browser.get("/dashboard/groups/acme%2Feng?view=knows")
        assert page.status_code == 200 and "?file=AGENTS.md" in page.text
        assert "Tools that it may call" in (await browser.get("/dashboard/groups/acme%2Feng?view=may")).text
        limited = {"folder": "acme", "turn": "0.50"}
        assert (await browser.post("/dashboard/do/budget.set", data=limited)).status_code == 200
        page = await browser.get("/dashboard/groups/acme%2Feng")
        assert all(words in page.text for words in ("From elsewhere", "limit of an answer", "$0.50", "the gateway"))
        for address in ("/dashboard/costs", "/dashboard/groups/acme%2Feng?view=costs"):
            costs = (await browser.get(address)).text
            assert "an answer" in costs and "$0.50" in costs and "with each answer" in costs
        skill = {"folder": "acme/eng", "path": "skills/x/SKILL.md", "content": "</textarea><script>alert(1)</script>"}
        saved = await browser.post("/dashboard/do/group.write_file", data=skill)
        assert saved.status_code == 200 and "data-version" in saved.text
        editor = await browser.get("/dashboard/groups/acme%2Feng?file=skills/x/SKILL.md")
        assert "<script>alert" not in editor.text and "&lt;/textarea&gt;&lt;script&gt;" in editor.text
        again = await browser.post("/dashboard/do/group.write_file", data=skill)
        assert again.status_code == 400 and "is there already" in again.text
        gone = await browser.get("/dashboard/groups/acme%2Feng?file=../AGENTS.md")
        assert gone.status_code == 400


async def test_what_comes_from_a_group_that_somebody_may_not_see_has_no_value_there(site: Any) -> None:
    def prepare(db: Db) -> None:
        for folder in ("acme", "acme/eng"):
            groups.add(db, folder, "", "", 1)
        groups.update(db, "acme", {"provider": "anthropic", "options": {"effort": "xyzzy"}})
        budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, "acme"), CapSpan.TURN, 777_000, "test", 1)
        users.add(db, ANN, "Ann", 1)
        for right in ("op:groups.read", "op:budgets.read"):
            row = AclRow(id=0, principal=ANN, action=right, scope="acme/eng", effect=AclEffect.ALLOW)
            acl.put(db, row, 1)

    await site.store.write(prepare)
    async with site.signed_in() as browser:
        page = (await browser.get("/dashboard/groups/acme%2Feng")).text
        assert "xyzzy" in page and "$0.777" in page
    url = await make_login_url(site.store, SystemClock(), site.answerer.hub, site.base, ANN)
    async with site.browser() as browser:
        assert (await browser.post("/login", json={"token": url.partition("#token=")[2]})).status_code == 200
        page = (await browser.get("/dashboard/groups/acme%2Feng")).text
        assert "options.effort" in page and "not shown to you" in page
        assert "xyzzy" not in page and "$0.777" not in page
