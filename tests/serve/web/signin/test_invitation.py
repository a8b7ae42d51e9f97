"""An invitation to the page: somebody new chooses a name and is signed in, with no more than the inviter may give."""

from typing import Any

import httpx2
import pytest

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.clock import DAY, SystemClock
from gatepost.core.errors import Invalid, Refused
from gatepost.flow import invitations, sender_rights
from gatepost.flow.invitations import MANAGING, NOT_VALID, NewInvitation
from gatepost.flow.requests import ask_approver
from gatepost.serve.control.declaration import list_declarations
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit, tokens
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.tokens import InvitedRights
from gatepost.store.sessions import groups

BOSS, NEW = "web:user/boss", "web:user/ann-lee"


async def invite(site: Any, rights: InvitedRights = InvitedRights.TALK, by: str = "operator", **given: Any) -> str:
    now = SystemClock().now()
    wanted: dict[str, Any] = {"uses": 1, "expires_at": now + DAY, "page": True, **given}

    def issue(db: Db) -> str:
        groups.add(db, "acme", "Acme", "", now)
        return invitations.issue(db, NewInvitation(folder="acme", rights=rights, created_by=by, **wanted), now).code

    return str(await site.store.write(issue))


async def join(browser: httpx2.AsyncClient, code: str, name: str = "Ann Lee") -> httpx2.Response:
    return await browser.post("/login/invitation", json={"token": code, "name": name})


async def make_boss(site: Any, *rights: str, grant_option: bool = False) -> None:
    def write(db: Db) -> None:
        users.add(db, BOSS, "Boss", 1)
        users.add_role(db, BOSS, UserRole.ADMIN, "acme", "operator", 1)
        for right in rights:
            row = AclRow(id=0, principal=BOSS, action=f"op:{right}", scope="acme/**", grant_option=grant_option)
            acl.put(db, row, 1)

    await site.store.write(write)


async def may(site: Any, right: str, folder: str = "acme") -> bool:
    return (await site.store.read(sender_rights.read_operation_rights, NEW)).allows(f"op:{right}", folder)


async def test_somebody_new_is_let_in_once_under_their_name(site: Any) -> None:
    code = await invite(site, InvitedRights.COSTS)
    async with site.browser() as ann, site.browser() as bea:
        offer = await ann.post("/login/invitation/read", json={"token": code})
        assert offer.json()["gives"] == "talk to Acme and see its costs"
        assert (await join(ann, code)).json() == {"ok": True}
        assert (await ann.get("/api/csrf")).status_code == 200
        again = await join(bea, code, "Bea")
        assert (again.status_code, again.json()["error"]["text"]) == (403, NOT_VALID)
        assert (await bea.get("/api/csrf")).status_code == 401
    roles = await site.store.read(users.get_roles, NEW)
    assert (roles.member_of, roles.roles) == (("acme",), ())
    assert await may(site, "budgets.read") and await may(site, "budgets.read", "acme/eng")
    assert not await may(site, "budgets.read", ROOT_FOLDER) and not await may(site, "groups.write")
    said = {row[2:5] for row in await site.store.read(audit.list_latest, 10)}
    assert {(NEW, "invite.accept", "done"), (NEW, "login.sign_in", "done")} <= said


@pytest.mark.parametrize("name", ["Boss", "BOSS", "a", "x" * 31, "Held"])
async def test_a_name_of_somebody_else_is_refused_and_uses_nothing_up(site: Any, name: str) -> None:
    await make_boss(site)
    held = AclRow(id=0, principal="web:user/held", action="op:groups.read", scope="**")
    await site.store.write(acl.put, held, 1)
    code = await invite(site)
    async with site.browser() as browser:
        answer = await join(browser, code, name)
        assert answer.status_code == 400 and answer.json()["error"]["text"].startswith("name:")
        assert (await browser.get("/api/csrf")).status_code == 401
        assert (await join(browser, code)).status_code == 200


async def test_names_in_other_letters_are_names(site: Any) -> None:
    for name, identity in (("Ольга", "web:user/person"), ("李雷", "web:user/person-2")):
        async with site.browser() as browser:
            assert (await join(browser, await invite(site), name)).status_code == 200
        found = await site.store.read(users.get, identity)
        assert found is not None and found.name == name


async def test_an_invitation_for_chats_signs_nobody_in(site: Any) -> None:
    code = await invite(site, page=False)
    async with site.browser() as browser:
        assert (await browser.post("/login/invitation/read", json={"token": code})).status_code == 403
        assert (await join(browser, code)).status_code == 403
    assert await site.store.read(users.get, NEW) is None


async def test_nobody_invites_to_more_than_they_may_give(site: Any) -> None:
    await make_boss(site, "tokens.write", "budgets.read", "overview.read")
    for rights in (InvitedRights.COSTS, InvitedRights.MANAGE):
        with pytest.raises(Refused, match="pass on"):
            await invite(site, rights, BOSS)
    await make_boss(site, "budgets.read", "overview.read", grant_option=True)
    async with site.browser() as browser:
        assert (await join(browser, await invite(site, InvitedRights.COSTS, BOSS))).status_code == 200
    assert await may(site, "budgets.read")

    def take_back(db: Db) -> None:
        for row in acl.list_rows(db):
            if row.principal == BOSS:
                acl.remove(db, row.id)

    await site.store.write(take_back)
    assert not await may(site, "budgets.read")  # what was given ends with the right of who gave it


@pytest.mark.parametrize("rights", list(InvitedRights))
async def test_what_the_inviter_lost_meanwhile_is_not_given(site: Any, rights: InvitedRights) -> None:
    await make_boss(site)
    await site.store.write(users.add_role, BOSS, UserRole.OWNER, "", "operator", 1)
    code = await invite(site, rights, BOSS)
    await site.store.write(lambda db: db.run("DELETE FROM user_roles WHERE role = 'owner' AND user_id = ?", (BOSS,)))
    async with site.browser() as browser, site.signed_in() as known:
        assert (await join(browser, code)).status_code == 403
        offer = (await known.post("/api/invitation/read", json={"token": code})).json()
        assert offer["obstacle"] == NOT_VALID
        assert not (await known.post("/api/invitation/accept", json={"token": code})).json()["ok"]
    assert await site.store.read(users.get, NEW) is None
    [token] = await site.store.read(tokens.list_all)
    assert token.uses_left == 1


async def test_who_manages_an_agent_has_its_role_and_nothing_above_it(site: Any) -> None:
    async with site.browser() as browser:
        assert (await join(browser, await invite(site, InvitedRights.MANAGE))).status_code == 200
    assert await site.store.read(sender_rights.find_rights, NEW, "acme") == "admin"
    assert await may(site, "tasks.write") and not await may(site, "tasks.write", "home")
    assert not await may(site, "grants.write") and not await may(site, "secrets.write")
    assert NEW in await site.store.read(ask_approver.list_approvers, "acme")
    assert NEW not in await site.store.read(ask_approver.list_approvers, ROOT_FOLDER)


@pytest.mark.parametrize("loss", ["the role", "shut out of it", "a right"])
async def test_who_manages_an_agent_does_so_no_longer_than_their_inviter_may(site: Any, loss: str) -> None:
    if loss == "the role":
        await make_boss(site)
        await site.store.write(users.add_role, BOSS, UserRole.OWNER, "", "operator", 1)
    else:
        await make_boss(site, "tokens.write")
        await make_boss(site, *MANAGING, grant_option=True)
        admin = AclRow(id=0, principal=BOSS, action="admin", scope="acme/**", grant_option=True)
        await site.store.write(acl.put, admin, 1)
    async with site.browser() as browser:
        assert (await join(browser, await invite(site, InvitedRights.MANAGE, BOSS))).status_code == 200
    assert await site.store.read(sender_rights.find_rights, NEW, "acme/eng") == "admin"

    def lose(db: Db) -> None:
        db.run("DELETE FROM user_roles WHERE user_id = ?", (BOSS,))
        for row in acl.list_rows(db):
            if row.principal == BOSS and loss == "a right" and row.action == "admin":
                acl.remove(db, row.id)
        if loss == "shut out of it":
            denied = AclRow(id=0, principal=BOSS, action="*", scope="acme/**", effect=AclEffect.DENY)
            acl.put(db, denied, 2)

    await site.store.write(lose)
    assert await site.store.read(sender_rights.find_rights, NEW, "acme/eng") == "guest"
    assert await site.store.read(sender_rights.find_rights, NEW, "acme") == "member"
    assert NEW not in await site.store.read(ask_approver.list_approvers, "acme")


async def test_an_invitation_to_the_page_is_bounded(site: Any) -> None:
    for given, field in (({"uses": 2}, "uses"), ({"expires_at": None}, "days"), ({"own_group": True}, "own_group")):
        with pytest.raises(Invalid, match=field):
            await invite(site, **given)


def test_every_right_of_a_manager_is_one_that_an_operation_needs() -> None:
    assert {*MANAGING} <= {each.info.right for each in list_declarations()}
