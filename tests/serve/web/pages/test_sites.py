"""The page of sites, as data, and its operations."""

from typing import Any

import pytest

from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.records import replace
from gatepost.serve.control.arguments.sites import GroupSite, SiteList
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.web.dashboard.view import Badge, Link, TableBlock, Tone
from gatepost.serve.web.pages.sites import make_rules, make_site_table
from gatepost.store.people import users
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import groups
from gatepost.store.web.web_routes import WebAccess, WebRoute


@pytest.fixture
async def acme(operation_deps: Any) -> Any:
    for folder in ("acme", "acme/eng", "other"):
        await operation_deps.store.write(groups.add, folder, folder, "", 1)
    return operation_deps


async def run(operation_deps: Any, name: str, **given: Any) -> Any:
    return await OPERATIONS[name](operation_deps, given)


async def allow(operation_deps: Any, action: str, scope: str) -> None:
    row = AclRow(id=0, principal="web:user/ada", action=action, scope=scope, effect=AclEffect.ALLOW)
    await operation_deps.store.write(acl.put, row, 1)


async def test_a_route_is_set_listed_and_removed_and_each_is_recorded(acme: Any) -> None:
    made = await run(acme, "site.set", folder="acme/eng", path="/pub/acme/eng//docs/", access="public")
    assert (made["path"], made["access"], made["created_by"], made["owner"]) == (
        "/pub/acme/eng/docs",
        "public",
        "operator",
        "",
    )
    assert [each["path"] for each in await run(acme, "site.routes")] == ["/pub/acme/eng/docs"]
    assert await run(acme, "site.routes", after="/pub/acme/eng/docs") == []
    await run(acme, "site.rm", folder="acme/eng", path="/pub/acme/eng/docs/")
    assert await run(acme, "site.routes") == []
    recorded = {row["action"] for seq in range(1, 20) if (row := await acme.store.read(audit.get, seq))}
    assert {"site.set", "site.rm"} <= recorded


async def test_a_right_for_one_group_reaches_no_other(acme: Any) -> None:
    await allow(acme, "op:sites.write", "acme/eng")
    ada = replace(acme, caller="web:user/ada")
    await run(ada, "site.set", folder="acme/eng", path="/pub/acme/eng/x", access="deny")
    for folder, path in (("acme", "/pub/acme"), ("other", "/pub/other/x")):
        with pytest.raises(Refused):
            await run(ada, "site.set", folder=folder, path=path, access="public")
        with pytest.raises(Invalid, match="not of acme/eng"):
            await run(ada, "site.set", folder="acme/eng", path=path, access="public")
    await run(acme, "site.set", folder="other", path="/pub/other", access="public")
    with pytest.raises(NotFound):
        await run(ada, "site.rm", folder="acme/eng", path="/pub/other")
    for name, given in (("site.bind", {"folder": "acme/eng"}), ("site.unbind", {})):
        with pytest.raises(Refused):
            await run(ada, name, hostname="eng.example.com", **given)


async def test_hosts_are_bound_moved_and_released_and_ours_are_refused(acme: Any) -> None:
    made = await run(acme, "site.bind", hostname="Docs.Example.COM.", folder="acme")
    assert (made["hostname"], made["folder"]) == ("docs.example.com", "acme")
    assert (await run(acme, "site.bind", hostname="docs.example.com", folder="other"))["folder"] == "other"
    for wrong in ("127.0.0.1", "localhost", "docs", "a.localhost"):
        with pytest.raises(Invalid, match="hostname"):
            await run(acme, "site.bind", hostname=wrong, folder="acme")
    await run(acme, "site.unbind", hostname="DOCS.example.com.")
    assert await run(acme, "site.hosts") == []
    with pytest.raises(NotFound):
        await run(acme, "site.unbind", hostname="docs.example.com")


async def test_everybody_is_answered_with_the_groups_that_they_may_see(acme: Any) -> None:
    for folder, kind in (("acme", "public_html"), ("acme/eng", "private_html"), ("other", "public_html")):
        (acme.home.group(folder) / kind).mkdir(parents=True)
    (acme.home.group("acme") / "private_html").symlink_to("public_html")
    await run(acme, "site.set", folder="acme", path="/pub/acme", access="public")
    everything = await run(acme, "site.list")
    assert everything == {
        "sites": [
            {"folder": "acme", "public": "/pub/acme/", "private": "", "access": "public"},
            {"folder": "acme/eng", "public": "", "private": "/priv/acme/eng/", "access": "auth"},
            {"folder": "other", "public": "/pub/other/", "private": "", "access": "auth"},
        ],
        "next": "",
        "elsewhere": [],
    }
    first = await run(acme, "site.list", limit=2)
    assert first["next"] == "acme/eng"
    assert [each["folder"] for each in (await run(acme, "site.list", after="acme/eng"))["sites"]] == ["other"]
    await acme.store.write(users.add, "web:user/ada", "Ada", 1)
    ada = replace(acme, caller="web:user/ada")
    assert (await run(ada, "site.list"))["sites"] == []
    await acme.store.write(users.add_member, "web:user/ada", "acme/eng", "operator", 1)
    assert [each["folder"] for each in (await run(ada, "site.list"))["sites"]] == ["acme/eng"]
    await allow(acme, "op:groups.read", "other")
    assert [each["folder"] for each in (await run(ada, "site.list"))["sites"]] == ["acme/eng", "other"]


def make_route(path: str, access: WebAccess = WebAccess.PUBLIC) -> WebRoute:
    return WebRoute(path=path, folder="acme", access=access, redirect_to="", owner="", created_by="x", created_at=0)


def test_links_lead_to_pages_of_groups_alone() -> None:
    rows = [make_route(each) for each in ("/pub/acme/a b", "javascript:hurt()", "//evil.example", "/dashboard")]
    table, _ = make_rules(rows, [], changes=False)
    assert isinstance(table, TableBlock)
    cells = [row.cells[1] for row in table.rows]
    assert cells == [Link("/pub/acme/a b", "/pub/acme/a%20b"), "javascript:hurt()", "//evil.example", "/dashboard"]
    site = GroupSite(folder="javascript:x", public="javascript:x", private="", access=WebAccess.PUBLIC)
    sites = make_site_table(SiteList([site], ""))
    assert isinstance(sites, TableBlock)
    address = Link("/pub/javascript%3Ax/", "/pub/javascript%3Ax/")
    assert sites.rows[0].cells[1:] == (address, Badge("everybody", Tone.WARN), None)


def test_what_everybody_sees_stands_out_and_only_who_may_changes_it() -> None:
    shown, _ = make_rules([make_route("/pub/acme"), make_route("/pub/acme/x", WebAccess.DENY)], [], changes=True)
    assert isinstance(shown, TableBlock)
    assert [row.cells[2] for row in shown.rows] == [Badge("public", Tone.WARN), Badge("deny", Tone.BAD)]
    assert [[each.operation for each in row.actions] for row in shown.rows] == [["site.set", "site.rm"]] * 2
    assert all(action.asks for row in shown.rows for action in row.actions)
    quiet, _ = make_rules([make_route("/pub/acme")], [], changes=False)
    assert isinstance(quiet, TableBlock) and quiet.rows[0].actions == ()


async def test_the_page_shows_routes_and_hosts_to_an_owner(site: Any, acme: Any) -> None:
    await run(acme, "site.set", folder="acme", path="/pub/acme/<b>", access="deny")
    await run(acme, "site.bind", hostname="docs.example.com", folder="acme")
    async with site.signed_in() as browser:
        page = (await browser.get("/dashboard/sites")).text
        assert "/pub/acme/&lt;b&gt;" in page and "docs.example.com" in page and "site.unbind" in page
