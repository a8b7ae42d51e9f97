"""Audit of several gateways: each has a chain, none waits for another, and a seal holds where a dead one's ended."""

import asyncio
from typing import Any

import pytest

from gatepost.serve.control.operations.logs import verify_chain
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord, ChainBreak
from gatepost.store.schedule import retention

NOON = 1_800_000_000_000_000


class GatewayDb:
    """The same transaction, as a gateway has it."""

    def __init__(self, db: Db, gateway: str) -> None:
        self._db, self.gateway = db, gateway

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def append(db: Db, gateway: str, count: int = 1, at: int = NOON) -> str:
    view: Any = GatewayDb(db, gateway)
    return audit.append(view, *(AuditRecord(at, "acme", "send", "allowed", {"n": n}) for n in range(count)))


def seal(db: Db, by: str, gateway: str) -> None:
    view: Any = GatewayDb(db, by)
    details = {"gateway": gateway, "seal": audit.make_seal(db, gateway)}
    audit.append(view, AuditRecord(NOON, f"gateway:{by}", audit.SEAL, "done", details))


@pytest.fixture
def chains(db: Db) -> Db:
    append(db, "", 2)
    for _ in range(3):
        append(db, "a", 2)
        append(db, "b")
    return db


def test_chains_of_several_gateways_are_verified_one_by_one(chains: Db) -> None:
    found = audit.verify_chains(chains)
    assert (found.rows, found.broken) == (11, None)
    assert {name: int(head.partition(":")[0]) for name, head in found.heads.items()} == {"": 2, "a": 6, "b": 3}
    told = verify_chain(chains, None)
    assert told.whole and list(told.chains) == ["a", "b"]
    for head in (told.head or "").split():
        assert verify_chain(chains, head).whole
    assert verify_chain(chains, "b/3:other").broken_chain == "b"


@pytest.mark.parametrize(
    "change", ["verdict = 'denied'", "number = 40", "gateway = 'b'", "gateway = ''", "previous = ''"]
)
def test_a_changed_row_is_named_with_its_chain(chains: Db, change: str) -> None:
    chains.run(f"UPDATE audit SET {change} WHERE gateway = 'a' AND number = 4")
    broken = audit.verify_chains(chains).broken
    assert broken is not None and (broken.gateway, broken.number) in (("a", 4), ("", 3), ("b", 4))
    if "gateway" not in change:
        assert broken == ChainBreak("a", 4)
        assert "row 4 of gateway a does not hold" in verify_chain(chains, None).trouble


def test_a_removed_row_is_named_with_its_chain(chains: Db) -> None:
    chains.run("DELETE FROM audit WHERE gateway = 'b' AND number = 2")
    assert audit.verify_chains(chains).broken == ChainBreak("b", 2)


def test_rows_that_were_removed_behind_a_seal_show(chains: Db) -> None:
    seal(chains, "b", "a")
    append(chains, "a", 2)  # it lives again, and goes on
    assert audit.verify_chains(chains).broken is None
    chains.run("DELETE FROM audit WHERE gateway = 'a' AND number > 5")
    broken = audit.verify_chains(chains).broken
    assert broken is not None and (broken.gateway, broken.number) == ("a", 6)
    assert "behind the seal" in broken.why
    append(chains, "a", 3)  # nor can they be written anew
    assert audit.verify_chains(chains).broken is not None


def test_a_sealed_chain_of_which_nothing_is_left_shows(chains: Db) -> None:
    seal(chains, "b", "a")
    chains.run("DELETE FROM audit WHERE gateway = 'a'")
    broken = audit.verify_chains(chains).broken
    assert broken is not None and (broken.gateway, broken.number) == ("a", 6)


def test_chains_whose_oldest_rows_were_removed_hold_with_their_seals(chains: Db) -> None:
    seal(chains, "b", "a")
    append(chains, "b", 2, NOON + 10)
    assert retention.truncate_audit(chains, NOON + 5, NOON + 20) > 0
    while retention.remove_truncated(chains, 0, 3).more:
        assert audit.verify_chains(chains).broken is None
    assert audit.verify_chains(chains).broken is None
    assert chains.row("SELECT COUNT(*) FROM audit WHERE gateway = 'a'") == (0,)
    append(chains, "a")
    assert audit.verify_chains(chains).broken is None
    assert audit.get_head(chains, "a").startswith("7:")
    chains.run("UPDATE audit_anchors SET number = 5 WHERE gateway = 'a'")
    assert audit.verify_chains(chains).broken is not None


def test_an_erased_actor_of_one_chain_is_vouched_for_in_another(chains: Db) -> None:
    row = chains.row("SELECT seq FROM audit WHERE gateway = 'b' AND number = 2")
    assert row is not None
    assert audit.erase_actors(chains, [row[0]], "forgotten:1", "operator", NOON) == 1
    assert audit.verify_chains(chains).broken is None
    chains.run("UPDATE audit SET verdict = 'x' WHERE seq = ?", (row[0],))
    assert audit.verify_chains(chains).broken == ChainBreak("b", 2)


async def test_two_gateways_that_write_at_once_have_a_whole_chain_each(store: Store) -> None:
    await asyncio.gather(
        *(
            store.write(append, gateway, 2, durable=False, lane=f"{gateway}{number % 4}")
            for number in range(40)
            for gateway in ("a", "b")
        )
    )
    found = await store.read(audit.verify_chains)
    assert (found.rows, found.broken) == (160, None)
    assert [head.partition(":")[0] for name, head in found.heads.items() if name] == ["80", "80"]
