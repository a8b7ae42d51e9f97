"""Identities: several names of one person, whose rights count by each of them."""

from gatepost.access.acl import expand_roles
from gatepost.core.clock import Period
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.money import budgets, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.costs import TokenCounts
from gatepost.store.money.reservations import BudgetReservation
from gatepost.store.people import identities, users
from gatepost.store.people.users import SenderRoles, UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rooms import direct_rooms
from gatepost.store.rooms.direct_rooms import DirectRoom
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000
ANN, CHAT, MAIL = "fake:user/ann", "chat:user/7", "mail:ann@example.org"


def add_ann(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    users.add(db, ANN, "Ann", NOON)
    users.add_role(db, ANN, UserRole.ADMIN, "acme", "test", NOON)


def test_an_identity_without_a_row_is_its_own_person(db: Db) -> None:
    assert identities.get_person(db, CHAT) == CHAT
    assert identities.list_names(db, CHAT) == (CHAT,)


def test_all_identities_of_a_person_are_found_from_each(db: Db) -> None:
    add_ann(db)
    assert identities.add(db, CHAT, ANN, "test", NOON) and identities.add(db, MAIL, ANN, "test", NOON + 1)
    for each in (ANN, CHAT, MAIL):
        assert identities.get_person(db, each) == ANN
        assert identities.list_names(db, each) == (ANN, CHAT, MAIL)
        assert users.get_roles(db, each) == SenderRoles(True, ((UserRole.ADMIN, "acme"),))


def test_what_an_identity_held_moves_to_the_person_and_stays_when_it_is_unpaired(db: Db) -> None:
    add_ann(db)
    users.add(db, CHAT, "ann7", NOON)
    users.add_role(db, CHAT, UserRole.ADMIN, "acme", "test", NOON)
    users.add_member(db, CHAT, "acme", "test", NOON)
    acl.add_member(db, CHAT, "role:ops", "test", NOON)
    assert identities.add(db, CHAT, ANN, "test", NOON)
    assert users.get_roles(db, ANN) == SenderRoles(True, ((UserRole.ADMIN, "acme"),), ("acme",))
    assert identities.remove(db, CHAT) is not None and identities.remove(db, CHAT) is None
    assert users.get_roles(db, CHAT) == SenderRoles(True)
    assert users.get_roles(db, ANN).member_of == ("acme",)
    assert expand_roles([ANN], acl.list_members(db)) == {ANN, "role:ops"}
    assert expand_roles([CHAT], acl.list_members(db)) == {CHAT}


def test_an_identity_belongs_to_one_person_and_a_person_to_nobody(db: Db) -> None:
    add_ann(db)
    users.add(db, "fake:user/bob", "Bob", NOON)
    assert not identities.add(db, ANN, ANN, "test", NOON)
    assert identities.add(db, CHAT, ANN, "test", NOON)
    assert not identities.add(db, CHAT, "fake:user/bob", "test", NOON)  # it is Ann's
    assert not identities.add(db, ANN, "fake:user/bob", "test", NOON)  # she has identities of her own
    assert not identities.add(db, "fake:user/bob", CHAT, "test", NOON)  # that is no person
    assert identities.list_names(db, CHAT) == (ANN, CHAT)


def test_each_person_is_listed_once(db: Db) -> None:
    add_ann(db)
    users.add(db, CHAT, "ann7", NOON)
    users.add_role(db, CHAT, UserRole.OWNER, "", "test", NOON)
    identities.add(db, CHAT, ANN, "test", NOON)
    assert [each.id for each in users.list_all(db)] == [ANN]
    assert users.list_owners(db) == [ANN]
    assert {who for who, _, _ in users.list_role_holders(db)} == {ANN}


def test_a_role_of_one_identity_is_a_role_of_all(db: Db) -> None:
    add_ann(db)
    identities.add(db, CHAT, ANN, "test", NOON)
    acl.add_member(db, CHAT, "role:ops", "test", NOON)
    acl.add_member(db, ANN, "role:dev", "test", NOON)
    for each in (ANN, CHAT):
        assert expand_roles([each], acl.list_members(db)) == {ANN, CHAT, "role:ops", "role:dev"}


def test_direct_rooms_of_all_identities_are_the_persons(db: Db) -> None:
    add_ann(db)
    identities.add(db, CHAT, ANN, "test", NOON)
    direct_rooms.add(db, CHAT, "chat", "chat:dm/7", NOON)
    direct_rooms.add(db, ANN, "fake", "fake:dm/ann", NOON + 1)
    assert direct_rooms.list_for_people(db, (ANN,)) == [
        DirectRoom(ANN, "fake", "fake:dm/ann", NOON + 1),
        DirectRoom(ANN, "chat", "chat:dm/7", NOON),
    ]


def test_budgets_and_what_was_spent_are_added_up(db: Db) -> None:
    add_ann(db)
    hers, its = BudgetScope(BudgetScopeKind.USER, ANN), BudgetScope(BudgetScopeKind.USER, CHAT)
    budgets.put(db, hers, Period.DAY, 100, "test", NOON)
    budgets.put(db, its, Period.DAY, 80, "test", NOON)
    budgets.put(db, its, Period.MONTH, 900, "test", NOON)
    budgets.add_spending(db, "acme", ANN, NOON, spent=10)
    held = reservations.reserve(db, "acme", CHAT, None, None, "m", 30, NOON)
    assert isinstance(held, BudgetReservation)
    identities.add(db, CHAT, ANN, "test", NOON)
    found = {each.period: each for each in budgets.list_all(db, NOON)}
    assert {each.scope for each in found.values()} == {hers}
    assert (found[Period.DAY].limit, found[Period.DAY].spent, found[Period.DAY].reserved) == (80, 10, 30)
    assert found[Period.MONTH].limit == 900
    reservations.settle(db, held.id, 20, TokenCounts(), NOON)  # it was reserved before the pairing
    found = {each.period: each for each in budgets.list_all(db, NOON)}
    assert (found[Period.DAY].spent, found[Period.DAY].reserved) == (30, 0)


async def test_a_pairing_is_a_change_of_rules(store: SqliteStore) -> None:
    rules = RuleCache()

    def is_known(db: Db) -> bool:
        rules.renew(db)
        return rules.read(db, users.get_roles, CHAT).known

    await store.write(add_ann)
    assert not await store.write(is_known)
    await store.write(identities.add, CHAT, ANN, "test", NOON)
    assert await store.write(is_known)
    await store.write(identities.remove, CHAT)
    assert not await store.write(is_known)
