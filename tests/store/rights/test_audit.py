"""Audit: a chain in which every later change shows, and whose details can be erased all the same."""

import pytest

from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.schedule import retention

NOON = 1_800_000_000_000_000


@pytest.fixture
def chain(db: Db) -> Db:
    for number in range(1, 6):
        audit.append(db, AuditRecord(NOON + number, "acme", "send", "allowed", {"call": number, "to": "fäke:room/1"}))
    return db


def test_a_whole_chain_holds(chain: Db) -> None:
    assert audit.verify(chain) == (5, None)


def test_several_records_of_one_transaction_are_chained_in_order(db: Db) -> None:
    audit.append(db, *(AuditRecord(NOON, "acme", action, "refused", {}) for action in ("a", "b", "c")))
    assert audit.verify(db) == (3, None)
    assert [row[3] for row in audit.list_latest(db, 10)] == ["c", "b", "a"]


@pytest.mark.parametrize("column", ["at", "actor", "action", "verdict", "details", "details_hash", "previous", "hash"])
def test_a_flipped_byte_is_named_by_its_row(chain: Db, column: str) -> None:
    value = "at + 1" if column == "at" else f"'~' || substr({column}, 2)"
    chain.run(f"UPDATE audit SET {column} = {value} WHERE seq = 3")
    assert audit.verify(chain)[1] == 3


def test_a_row_that_was_taken_out_shows(chain: Db) -> None:
    chain.run("DELETE FROM audit WHERE seq = 2")
    assert audit.verify(chain)[1] == 2


def test_erased_details_keep_the_chain(chain: Db) -> None:
    assert audit.erase_details(chain, 3)
    assert audit.verify(chain) == (5, None)
    assert audit.list_latest(chain, 3)[-1][5] is None
    audit.append(chain, AuditRecord(NOON + 9, "acme", "send", "allowed", {}))
    assert audit.verify(chain) == (6, None)


def test_an_erased_actor_keeps_the_chain(chain: Db) -> None:
    assert audit.erase_actors(chain, [2, 3], "forgotten:1", "operator", NOON + 9) == 2
    assert audit.verify(chain) == (6, None)
    rows = {row[0]: row for row in audit.list_latest(chain, 10)}
    assert (rows[2][2], rows[2][5], rows[4][2]) == ("forgotten:1", None, "acme")
    assert audit.erase_actors(chain, [2, 3], "forgotten:2", "operator", NOON + 9) == 0


@pytest.mark.parametrize("column", ["at", "actor", "action", "verdict", "details_hash", "previous", "hash"])
def test_a_change_of_what_an_erased_row_still_says_shows(chain: Db, column: str) -> None:
    audit.erase_actors(chain, [2, 3], "forgotten:1", "operator", NOON + 9)
    value = "at + 1" if column == "at" else f"{column} || '~'"
    chain.run(f"UPDATE audit SET {column} = {value} WHERE seq = 3")
    assert audit.verify(chain)[1] in (3, 4)


def test_a_row_that_only_looks_erased_shows(chain: Db) -> None:
    chain.run("UPDATE audit SET actor = 'forgotten:1', details = NULL WHERE seq = 3")
    assert audit.verify(chain)[1] == 3
    audit.erase_actors(chain, [4], "forgotten:1", "operator", NOON + 9)
    assert audit.verify(chain)[1] == 3


def test_an_erased_actor_holds_after_the_oldest_rows_were_removed(chain: Db) -> None:
    audit.erase_actors(chain, [1, 2, 3], "forgotten:1", "operator", NOON + 9)
    assert retention.truncate_audit(chain, NOON + 3, NOON + 10) == 2
    retention.remove_truncated(chain, 0, 10)
    assert audit.verify(chain) == (5, None)


def test_the_calls_of_a_turn_are_found_by_their_details(db: Db) -> None:
    audit.append(db, AuditRecord(NOON, "acme", "send", "allowed", {"turn": "t-1"}))
    audit.append(db, AuditRecord(NOON + 1, "acme", "like", "refused", {"turn": "t-2"}))
    assert audit.list_for_turns(db, ["t-1", "t-3"], NOON, None) == {
        "t-1": [(NOON, "acme", "send", "allowed")],
        "t-3": [],
    }


def test_the_calls_of_many_turns_take_one_look_at_so_many_rows_and_no_more(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = NOON + 10 * audit.AFTER
    audit.append(db, *(AuditRecord(NOON + n, "acme", "send", "allowed", {"turn": f"t-{n % 7}"}) for n in range(70)))
    audit.append(db, *(AuditRecord(late, "other", "send", "allowed", {"turn": "t-9"}) for _ in range(50)))
    decoded: list[str] = []
    read = audit._read_turn

    def counted(details: str) -> audit._TurnDetails:
        decoded.append(details)
        return read(details)

    monkeypatch.setattr(audit, "_read_turn", counted)

    found = audit.list_for_turns(db, [f"t-{n}" for n in range(7)], NOON, NOON + 70, most=35)
    assert len(decoded) == 35  # neither a look for each turn, nor one at what came after them
    assert {turn: len(calls) for turn, calls in found.items()} == {f"t-{n}": 5 for n in range(7)}
    assert min(at for calls in found.values() for at, *_ in calls) == NOON + 35  # the newest of that time


AGENT = "agent:acme"


def call(number: int, action: str, at: int, verdict: str = "allowed", **details: object) -> AuditRecord:
    return AuditRecord(at, AGENT, action, verdict, {"call": f"c{number}", "args": {}, **details})


def test_calls_of_some_tools_are_counted_since_a_moment(db: Db) -> None:
    audit.append(
        db,
        call(1, "send", NOON - 1),
        call(2, "send", NOON),
        call(3, "send", NOON + 1, "held"),
        call(3, "send", NOON + 2),
        call(4, "send", NOON + 3, "refused"),
        call(5, "read", NOON + 4),
        call(6, "send", NOON + 5, args={"chatJid": "web:1"}),
        AuditRecord(NOON + 6, AGENT, "send", "allowed", {"repeated": 4}),
        AuditRecord(NOON + 7, "agent:other", "send", "allowed", {"call": "c7"}),
    )
    assert audit.count_calls(db, AGENT, ["send"], NOON) == audit.CallCount(7, more=False)
    assert audit.count_calls(db, AGENT, ["send"], NOON, "web:1") == audit.CallCount(1, more=True)
    assert audit.count_calls(db, AGENT, [], NOON) == audit.CallCount(0, more=False)


def test_the_newest_calls_alone_are_looked_at(db: Db) -> None:
    audit.append(db, *(call(number, "send", NOON + number) for number in range(9)))
    assert audit.count_calls(db, AGENT, ["send"], NOON, most=4) == audit.CallCount(4, more=True)
