"""Tokens: shown once, kept as hashes, used as often as they may be."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gatepost.core.clock import DAY, HOUR, MINUTE
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import NewToken, Token, TokenKind, TokenState
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000
INVITE = NewToken(kind=TokenKind.INVITE, folder="acme", uses_left=1, created_by="operator")


@pytest.fixture(autouse=True)
def acme(db: Db) -> None:
    for folder in ("acme", "acme/eng", "acme0", "other"):
        groups.add(db, folder, "", "", NOON)


def link(identity: str) -> NewToken:
    ends = NOON + 10 * MINUTE
    return NewToken(kind=TokenKind.PAIRING_LINK, identity=identity, uses_left=1, expires_at=ends, created_by="operator")


def add(db: Db, new: NewToken = INVITE, secret: str = "sesame", now: int = NOON) -> Token:
    made = tokens.add(db, new, secret, now)
    assert made is not None
    return made


def test_only_the_hash_of_a_token_is_kept(db: Db) -> None:
    add(db)
    rows = db.rows("SELECT * FROM tokens")
    assert "sesame" not in str(rows) and tokens.hash_token("sesame") in str(rows)


def test_a_token_is_found_by_itself_and_its_kind_alone(db: Db) -> None:
    made = add(db)
    assert tokens.find_valid(db, TokenKind.INVITE, "sesame", NOON) == made
    assert tokens.find_valid(db, TokenKind.CHAT_LINK, "sesame", NOON) is None
    assert tokens.find_valid(db, TokenKind.INVITE, "Sesame", NOON) is None
    assert tokens.find_valid(db, TokenKind.INVITE, "\ud800", NOON) is None


@pytest.mark.sqlite(reason="reads the plans of SQLite")
def test_the_look_up_reads_one_row_of_an_index(db: Db) -> None:
    (row,) = db.rows("EXPLAIN QUERY PLAN SELECT id FROM tokens WHERE hash = 'x' AND kind = 'invite'")
    assert "USING INDEX" in str(row[-1]) and "hash=?" in str(row[-1])


def test_uses_are_counted_down_to_nothing(db: Db) -> None:
    add(db, NewToken(kind=TokenKind.INVITE, folder="acme", uses_left=2, created_by="operator"))
    used = [tokens.use(db, TokenKind.INVITE, "sesame", NOON + at) for at in range(3)]
    assert [each.uses_left if each else None for each in used] == [1, 0, None]
    (row,) = tokens.list_all(db)
    assert (row.last_used_at, row.get_state(NOON)) == (NOON + 1, TokenState.USED_UP)
    assert tokens.find_valid(db, TokenKind.INVITE, "sesame", NOON) is None


def test_a_chat_link_is_used_any_number_of_times(db: Db) -> None:
    add(db, NewToken(kind=TokenKind.CHAT_LINK, folder="acme", address="web:link/acme", created_by="operator"))
    assert all(tokens.use(db, TokenKind.CHAT_LINK, "sesame", NOON) for _ in range(5))
    assert tokens.list_all(db)[0].uses_left is None


def end_by_time(db: Db, made: Token) -> None:
    db.run("UPDATE tokens SET expires_at = ? WHERE id = ?", (NOON, made.id))


def end_by_revoking(db: Db, made: Token) -> None:
    assert tokens.revoke(db, made.id, NOON) and not tokens.revoke(db, made.id, NOON)


@pytest.mark.parametrize(("end", "state"), [(end_by_time, TokenState.EXPIRED), (end_by_revoking, TokenState.REVOKED)])
def test_a_token_that_is_over_is_not_valid(db: Db, end: Callable[[Db, Token], None], state: TokenState) -> None:
    made = add(db)
    end(db, made)
    assert tokens.find_valid(db, TokenKind.INVITE, "sesame", NOON) is None
    assert tokens.use(db, TokenKind.INVITE, "sesame", NOON) is None
    found = tokens.get(db, made.id)
    assert found is not None and found.get_state(NOON) is state


def test_a_tokens_group_takes_it_along(db: Db) -> None:
    add(db)
    groups.remove(db, "acme")
    groups.add(db, "acme", "", "", NOON)
    assert tokens.find_valid(db, TokenKind.INVITE, "sesame", NOON) is None


def test_the_last_use_is_given_to_one_of_many_connections(db: Db, store_path: Path) -> None:
    add(db)

    def use(number: int) -> bool:
        connection = connect(store_path)
        connection.set_busy_timeout(10_000)
        try:
            return tokens.use(SqliteDb(connection), TokenKind.INVITE, "sesame", NOON) is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(use, range(16))) == 1


def test_what_is_over_for_long_is_removed(db: Db) -> None:
    old = add(db)
    tokens.revoke(db, old.id, NOON)
    add(db, secret="second", now=NOON + tokens.KEPT - 1)
    assert tokens.get(db, old.id) is not None
    add(db, secret="third", now=NOON + tokens.KEPT)
    assert tokens.get(db, old.id) is None


def test_a_world_has_a_bounded_number_of_tokens_and_what_is_over_makes_way(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_IN_WORLD", 3)
    first = add(db, secret="0")
    add(db, secret="1")
    below = NewToken(kind=TokenKind.WEBHOOK, folder="acme/eng", address="hook:x", created_by="agent:acme")
    add(db, below, "2")
    assert tokens.add(db, INVITE, "3", NOON) is None
    for folder in ("other", "acme0"):
        add(db, NewToken(kind=TokenKind.INVITE, folder=folder, uses_left=1, created_by="operator"), folder)
    tokens.revoke(db, first.id, NOON)
    add(db, secret="3")
    assert tokens.get(db, first.id) is None
    assert tokens.add(db, INVITE, "4", NOON) is None


def test_an_identity_has_one_pairing_link(db: Db) -> None:
    add(db, link("fake:user/1"), "first")
    add(db, link("fake:user/1"), "second")
    assert tokens.find_valid(db, TokenKind.PAIRING_LINK, "first", NOON) is None
    assert tokens.find_valid(db, TokenKind.PAIRING_LINK, "second", NOON) is not None
    assert tokens.list_all(db) == []  # nobody lists them


def test_few_pairing_links_are_open_at_once(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_LINKS", 2)
    for number in range(2):
        add(db, link(f"fake:user/{number}"), str(number))
    assert tokens.add(db, link("fake:user/9"), "9", NOON) is None
    assert tokens.add(db, link("fake:user/9"), "9", NOON + HOUR) is not None
    row = db.row("SELECT COUNT(*) FROM tokens")
    assert row == (1,)


async def test_a_store_lists_what_leads_to_a_room(store: SqliteStore) -> None:
    await store.write(groups.add, "acme", "", "", NOON)
    for number in range(2):
        hook = NewToken(
            kind=TokenKind.WEBHOOK, folder="acme", address="hook:acme/x", expires_at=NOON + DAY, created_by="operator"
        )
        await store.write(tokens.add, hook, str(number), NOON)
    first, second = await store.read(tokens.list_at, "hook:acme/x")
    await store.write(tokens.revoke, first.id, NOON)
    assert await store.read(tokens.list_at, "hook:acme/x") == [second]
