"""A group that is removed leaves no right to a later one of the same name; what limited it stays."""

from gatepost.core.clock import Period
from gatepost.core.records import replace
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import groups


def allow(principal: str, scope: str) -> AclRow:
    return AclRow(
        id=0, principal=principal, action="mcp:send", scope=scope, effect=AclEffect.ALLOW, granted_by="operator"
    )


def test_stranger_14_a_new_group_of_the_same_name_inherits_no_right_and_every_limit(db: Db) -> None:
    for folder in ("acme", "beta"):
        groups.add(db, folder, folder, "", 1)
        acl.put(db, allow(f"folder:{folder}", "**"), 1)
        acl.put(db, allow("telegram:user/9", folder), 1)
        acl.put(db, replace(allow(f"folder:{folder}", "**"), action="mcp:post", effect=AclEffect.DENY), 1)
        budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, folder), Period.DAY, 5_000_000, "operator", 1)
        users.add(db, "telegram:user/9", "Ada", 1)
        users.add_role(db, "telegram:user/9", UserRole.ADMIN, folder, "operator", 1)
    assert groups.remove(db, "acme")
    groups.add(db, "acme", "another", "", 2)

    left = {(row.principal, row.scope, row.effect) for row in acl.list_rows(db)}
    assert left == {
        ("folder:beta", "**", AclEffect.ALLOW),
        ("telegram:user/9", "beta", AclEffect.ALLOW),
        ("folder:beta", "**", AclEffect.DENY),
        ("folder:acme", "**", AclEffect.DENY),
    }
    assert db.rows("SELECT name FROM budgets WHERE kind = 'group' ORDER BY name") == [("acme",), ("beta",)]
    assert db.rows("SELECT folder FROM user_roles") == [("beta",)]
