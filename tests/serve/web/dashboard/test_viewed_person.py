"""An owner sees the page as somebody does: by their rights, without doing anything, and not in their name."""

from typing import Any

import httpx2
from tests.serve.web.test_people import ANN, add_ann, signed_in_as

from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclRow
from gatepost.store.sessions import groups

SEEN = "does. Nothing can be done here"


def set_up(db: Db) -> None:
    add_ann(db)
    groups.add(db, "acme", "Acme", "", 1)
    groups.add(db, "other", "Other", "", 1)
    row = AclRow(id=0, principal=ANN, action="op:groups.read", scope="acme/**")
    acl.put(db, row, 1)


async def view(browser: httpx2.AsyncClient, person: str) -> httpx2.Response:
    return await browser.post("/dashboard/do/user.view", data={"id": person})


async def list_records(site: Any) -> list[tuple[str, str, str]]:
    return [row[2:5] for row in await site.store.read(audit.list_latest, 50)]


async def test_an_owner_sees_what_somebody_may_see_and_no_more(site: Any) -> None:
    await site.store.write(set_up)
    async with site.signed_in() as owner:
        started = await view(owner, ANN)
        assert started.headers["hx-redirect"] == "/dashboard/"
        assert ("web:user/owner", "user.view", "done") in await list_records(site)
        shown = await owner.get("/dashboard/groups/acme")
        assert shown.status_code == 200 and SEEN in shown.text and "<b>Ann</b>" in shown.text
        for path in ("/dashboard/groups/other", "/dashboard/settings", "/dashboard/people"):
            refused = await owner.get(path)
            assert refused.status_code == 403 and SEEN in refused.text
        palette = (await owner.get("/dashboard/palette")).text
        assert "group.list" not in palette and "settings.set" not in palette
        await view(owner, "")
        assert SEEN not in (await owner.get("/dashboard/people")).text
    assert not [each for each in await list_records(site) if each[0] == ANN]


async def test_nothing_can_be_done_meanwhile(site: Any) -> None:
    await site.store.write(set_up)
    await site.store.write(users.add_role, ANN, UserRole.OWNER, "", "test", 1)  # who may do everything
    async with site.signed_in() as owner:
        await view(owner, ANN)
        for operation, given in (("group.add", {"folder": "planted"}), ("group.list", {}), ("login.end_all", {})):
            answer = await owner.post(f"/dashboard/do/{operation}", data=given)
            assert answer.status_code == 403 and "Nothing can be done here" in answer.text
    assert await site.store.read(groups.get, "planted") is None


async def test_nobody_but_an_owner_sees_the_page_as_somebody_else(site: Any) -> None:
    await site.store.write(set_up)
    row = AclRow(id=0, principal=ANN, action="op:users.view")
    await site.store.write(acl.put, row, 1)
    async with signed_in_as(site, ANN) as ann:
        assert (await view(ann, "web:user/owner")).status_code == 403
        port = site.base.rpartition(":")[2]
        ann.cookies.set(f"gatepost-view-{port}", "terminal%3Aowner")
        answer = await ann.get("/dashboard/settings")
        assert answer.status_code == 403 and SEEN not in answer.text


async def test_somebody_who_is_not_known_is_not_seen_as(site: Any) -> None:
    async with site.signed_in() as owner:
        assert (await view(owner, "telegram:user/404")).status_code == 404
        port = site.base.rpartition(":")[2]
        owner.cookies.set(f"gatepost-view-{port}", "telegram%3Auser%2F404")
        answer = await owner.get("/dashboard/people")
        assert answer.status_code == 200 and SEEN not in answer.text
