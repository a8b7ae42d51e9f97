"""Passkeys: one authenticator once, a bounded number, and counters that only rise."""

from gatepost.core.records import replace
from gatepost.store.people import passkeys
from gatepost.store.people.passkeys import MOST, NewPasskey
from gatepost.store.port import Db

ANN = "web:user/ann"
NEW = NewPasskey(
    credential_id=b"c-1",
    credential=b"public",
    user_id=ANN,
    user_handle=b"handle",
    host="agents.example",
    sign_count=4,
    label="Phone",
)


def test_a_passkey_is_found_by_the_name_that_its_authenticator_has_for_it(db: Db) -> None:
    made = passkeys.add(db, NEW, 10)
    assert made is not None
    found = passkeys.find_credential(db, b"c-1")
    assert found is not None
    assert (found.id, found.user_id, found.credential, found.sign_count) == (made.id, ANN, b"public", 4)
    assert passkeys.find_credential(db, b"c-2") is None
    assert passkeys.get_handle(db, ANN) == b"handle"
    assert passkeys.list_credential_ids(db, ANN, "agents.example") == [b"c-1"]
    assert passkeys.list_credential_ids(db, ANN, "localhost") == []


def test_an_authenticator_that_is_known_belongs_to_nobody_else(db: Db) -> None:
    assert passkeys.add(db, NEW, 10) is not None
    assert passkeys.add(db, replace(NEW, user_id="web:user/bob"), 11) is None
    assert [each.user_id for each in passkeys.list_all(db, 10)] == [ANN]


def test_a_person_has_a_bounded_number(db: Db) -> None:
    made = [passkeys.add(db, replace(NEW, credential_id=bytes([each])), 10) for each in range(MOST + 1)]
    assert made[-1] is None and None not in made[:-1]
    assert len(passkeys.list_of(db, ANN)) == MOST
    assert passkeys.remove_user(db, ANN) == MOST


def test_a_counter_that_does_not_rise_is_a_copy(db: Db) -> None:
    made = passkeys.add(db, NEW, 10)
    assert made is not None
    assert not passkeys.record_use(db, made.id, 4, 20)
    assert not passkeys.record_use(db, made.id, 0, 20)
    assert passkeys.record_use(db, made.id, 9, 20)
    assert not passkeys.record_use(db, made.id, 9, 30)
    found = passkeys.get(db, made.id)
    assert found is not None and found.last_used_at == 20


def test_an_authenticator_that_does_not_count_stays_at_zero(db: Db) -> None:
    made = passkeys.add(db, replace(NEW, sign_count=0), 10)
    assert made is not None
    assert passkeys.record_use(db, made.id, 0, 20) and passkeys.record_use(db, made.id, 0, 30)
    assert passkeys.record_use(db, made.id, 1, 40)
    assert not passkeys.record_use(db, made.id, 0, 50)


def test_a_passkey_that_was_removed_records_no_use(db: Db) -> None:
    made = passkeys.add(db, NEW, 10)
    assert made is not None and passkeys.remove(db, made.id)
    assert not passkeys.record_use(db, made.id, 9, 20)
    assert not passkeys.remove(db, made.id)
