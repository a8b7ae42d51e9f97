"""Signatures of posts: each counts once, and a link keeps a bounded number."""

import pytest

from gatepost.core.clock import MINUTE
from gatepost.store import groups, link_signatures, tokens
from gatepost.store.link_signatures import FRESH, KEPT, MOST
from gatepost.store.port import Db
from gatepost.store.tokens import NewToken, TokenKind

NOON = 1_800_000_000_000_000


@pytest.fixture
def links(db: Db) -> tuple[str, str]:
    groups.add(db, "acme", "", "", NOON)
    new = NewToken(kind=TokenKind.WEBHOOK, folder="acme", created_by="operator")
    made = [tokens.add(db, new, secret, NOON) for secret in ("one", "two")]
    first, second = [each.id for each in made if each is not None]
    return first, second


def count(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM link_signatures", ())
    return int(row[0]) if row else 0


def test_a_signature_counts_once_for_its_link(db: Db, links: tuple[str, str]) -> None:
    assert link_signatures.add(db, links[0], "a", NOON)
    assert not link_signatures.add(db, links[0], "a", NOON + MINUTE)
    assert link_signatures.add(db, links[1], "a", NOON) and link_signatures.add(db, links[0], "b", NOON)


def test_the_newest_are_kept_and_the_old_forgotten(db: Db, links: tuple[str, str]) -> None:
    for number in range(MOST + 50):
        assert link_signatures.add(db, links[0], f"h{number}", NOON + number)
    assert count(db) == MOST + 50  # what may still be valid is never forgotten
    later = NOON + FRESH + MOST + 50
    assert link_signatures.add(db, links[0], "later", later)
    assert count(db) == MOST
    assert not link_signatures.add(db, links[0], f"h{MOST + 49}", later)
    assert link_signatures.add(db, links[0], "last", later + KEPT)
    assert count(db) == 1


def test_they_go_with_their_link(db: Db, links: tuple[str, str]) -> None:
    link_signatures.add(db, links[0], "a", NOON)
    db.run("DELETE FROM tokens WHERE id = ?", (links[0],))
    assert count(db) == 0
