"""Signatures of posts: each counts once, and a link keeps a bounded number."""

import pytest

from gatepost.core.clock import DAY, MINUTE, SECOND
from gatepost.serve.web.links.hook import WINDOW_S
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import NewToken, TokenKind
from gatepost.store.sessions import groups
from gatepost.store.web import links
from gatepost.store.web.links import CLEANED, TIMED_KEPT

NOON = 1_800_000_000_000_000


@pytest.fixture
def hooks(db: Db) -> tuple[str, str]:
    groups.add(db, "acme", "", "", NOON)
    new = NewToken(kind=TokenKind.WEBHOOK, folder="acme", created_by="operator")
    made = [tokens.add(db, new, secret, NOON) for secret in ("one", "two")]
    first, second = [each.id for each in made if each is not None]
    return first, second


def count(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM link_signatures", ())
    return int(row[0]) if row else 0


def test_a_signature_counts_once_for_its_link(db: Db, hooks: tuple[str, str]) -> None:
    assert links.add_signature(db, hooks[0], "a", NOON, timed=False)
    assert not links.add_signature(db, hooks[0], "a", NOON + MINUTE, timed=False)
    assert links.add_signature(db, hooks[1], "a", NOON, timed=False)
    assert links.add_signature(db, hooks[0], "b", NOON, timed=False)


def test_what_signs_a_moment_is_kept_until_that_is_too_old(db: Db, hooks: tuple[str, str]) -> None:
    for number in range(50):
        assert links.add_signature(db, hooks[0], f"h{number}", NOON + number, timed=True)
    assert count(db) == 50
    assert TIMED_KEPT > 2 * WINDOW_S * SECOND
    assert links.add_signature(db, hooks[0], "later", NOON + 49 + TIMED_KEPT, timed=True)
    assert count(db) == 1


def test_what_signs_no_moment_is_kept_for_years_up_to_a_number(
    db: Db, hooks: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MOST_SIGNATURES", 100)
    for number in range(1100):  # more than a thousand, over three years
        links.add_signature(db, hooks[0], f"{number}", NOON + number * DAY, timed=False)
    assert not links.add_signature(db, hooks[0], "0", NOON + 1100 * DAY, timed=False)
    links.add_signature(db, hooks[1], "0", NOON, timed=False)
    assert links.add_signature(db, hooks[0], f"{CLEANED}1", NOON + 1100 * DAY, timed=False)
    assert count(db) == 101
    assert not links.add_signature(db, hooks[0], "1099", NOON + 1101 * DAY, timed=False)


def test_they_go_with_their_link(db: Db, hooks: tuple[str, str]) -> None:
    links.add_signature(db, hooks[0], "a", NOON, timed=False)
    db.run("DELETE FROM tokens WHERE id = ?", (hooks[0],))
    assert count(db) == 0
