"""Names by which somebody invited could be taken for somebody else."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.serve.web.signin.test_invitation import invite, join, make_boss

from gatepost.core.clock import Period
from gatepost.flow.people import page_logins
from gatepost.store.memory import memories
from gatepost.store.memory.memories import Memory, MemoryScope, MemoryTrust
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclRow
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route


@pytest.mark.parametrize(
    "name",
    ["Boss\u200b", "Bo\u00adss", "\uff22oss", "\u0412\u043e\u0455\u0455", "B\u043ess", "The operator", "Gatepost"],
)
async def test_nobody_chooses_a_name_that_looks_like_somebody_elses(site: Any, name: str) -> None:
    """`The operator` is how the page names the operator."""
    await make_boss(site)
    async with site.browser() as browser:
        answer = await join(browser, await invite(site), name)
        assert answer.status_code == 400, f"{name!a} was given away"


def lead(match: str) -> Callable[[Db], object]:
    return lambda db: routes.add(
        db, Route(match=match, target="acme", folder="acme", created_by="operator", created_at=1)
    )


MADE_BEFORE: dict[str, Callable[[Db], object]] = {
    "a route for them": lead("sender=web:user/ann"),
    "a route for them or another": lead('sender="web:user/bea|web:user/ann"'),
    "a route for their room": lead("chat_jid=web:people/ann"),
    "a condition": lambda db: acl.put(
        db, AclRow(id=0, principal="role:ops", action="op:*", scope="**", predicate="user=web:user/ann"), 1
    ),
    "a budget": lambda db: budgets.put(db, BudgetScope(BudgetScopeKind.USER, "web:user/ann"), Period.DAY, 1, "op", 1),
    "words in their room": lambda db: rooms.add(db, "web", "web:people/ann", "", True, RoomPolicy.STRICT, 1),
    "a memory": lambda db: memories.add(
        db,
        Memory(
            folder="acme",
            text="salary: 1",
            scope=MemoryScope.PERSON,
            person="web:user/ann",
            trust=MemoryTrust.OPERATOR,
            created_at=1,
        ),
    ),
}


@pytest.mark.parametrize("made", MADE_BEFORE)
async def test_nobody_chooses_a_name_that_something_is_about_before_anybody_bears_it(site: Any, made: str) -> None:
    code = await invite(site)
    await site.store.write(MADE_BEFORE[made])
    async with site.browser() as browser:
        assert (await join(browser, code, "Ann")).status_code == 400
        assert (await join(browser, code, "Anna")).status_code == 200


@pytest.mark.parametrize("made", MADE_BEFORE)
async def test_a_name_chosen_on_a_platform_gets_nothing_that_was_meant_for_another(site: Any, made: str) -> None:
    """Somebody calls themselves Ann on Telegram, and is given an address of the page."""
    await invite(site)
    await site.store.write(MADE_BEFORE[made])
    await site.store.write(users.add, "telegram:user/9", "Ann", 1)
    assert await site.store.write(page_logins.get_page_identity, "telegram:user/9", 1) == "web:user/ann-2"
