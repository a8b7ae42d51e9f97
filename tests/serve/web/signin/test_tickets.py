"""Tickets between the two steps of a sign-in: ours, for one purpose, for a few minutes, once."""

import pytest

from gatepost.core.home import Home
from gatepost.core.keyring import FILE, Keyring
from gatepost.serve.web.signin.tickets import LASTS, LONGEST, SignInTickets, TicketPurpose, WebKeys, spend
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner

NOW = 1_000_000_000
PASSKEY, OIDC = TicketPurpose.PASSKEY_SIGN_IN, TicketPurpose.OIDC_SIGN_IN


@pytest.fixture
def keyring(home: Home) -> Keyring:
    return Keyring(home, {})


@pytest.fixture
def tickets(keyring: Keyring, store: SqliteStore) -> SignInTickets:
    return SignInTickets(WebKeys(keyring, store), store)


async def test_a_ticket_brings_back_what_was_written_on_it(tickets: SignInTickets) -> None:
    found = await tickets.read(OIDC, await tickets.issue(OIDC, {"nonce": "n"}, NOW), NOW + LASTS - 1)
    assert found is not None and found.values == {"nonce": "n"}


async def test_a_ticket_of_another_purpose_or_time_is_none(tickets: SignInTickets) -> None:
    ticket = await tickets.issue(PASSKEY, {}, NOW)
    assert await tickets.read(OIDC, ticket, NOW) is None
    assert await tickets.read(PASSKEY, ticket, NOW + LASTS) is None


async def test_a_changed_ticket_is_none(tickets: SignInTickets) -> None:
    body, _, signature = (await tickets.issue(PASSKEY, {"user": "ann"}, NOW)).partition(".")
    other = (await tickets.issue(PASSKEY, {"user": "bob"}, NOW)).partition(".")[0]
    for given in (
        f"{other}.{signature}",
        body,
        f"{body}.",
        f".{signature}",
        "",
        ".",
        "ä.ö",
        "x.y",
        "x" * LONGEST + ".",
    ):
        assert await tickets.read(PASSKEY, given, NOW) is None


async def test_a_ticket_is_good_at_every_gateway_with_the_same_ring_and_spent_at_all(
    tickets: SignInTickets, home: Home, store: SqliteStore
) -> None:
    other = SignInTickets(WebKeys(Keyring(home, {}), store), store)  # the same as after a restart
    given = await tickets.issue(PASSKEY, {}, NOW)
    ticket = await other.read(PASSKEY, given, NOW)
    assert ticket is not None and await store.write(spend, ticket, NOW)
    assert await tickets.read(PASSKEY, given, NOW) is None
    assert not await store.write(spend, ticket, NOW)


async def test_another_ring_knows_none_of_our_tickets(
    tickets: SignInTickets, store: SqliteStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = Keyring(Home(tmp_path_factory.mktemp("other")), {})
    elsewhere.add_key()
    assert (
        await SignInTickets(WebKeys(elsewhere, store), store).read(PASSKEY, await tickets.issue(PASSKEY, {}, NOW), NOW)
        is None
    )


async def test_a_rotation_keeps_tickets_until_the_old_key_is_removed(tickets: SignInTickets, keyring: Keyring) -> None:
    given = await tickets.issue(PASSKEY, {}, NOW)
    before = keyring.read()
    keyring.add_key()
    assert await tickets.read(PASSKEY, given, NOW) is not None
    assert before is not None
    keyring.remove_keys([before.current])
    assert await tickets.read(PASSKEY, given, NOW) is None
    assert await tickets.read(PASSKEY, await tickets.issue(PASSKEY, {}, NOW), NOW) is not None


async def test_people_can_sign_in_though_the_ring_is_lost(
    tickets: SignInTickets, keyring: Keyring, home: Home, store: SqliteStore
) -> None:
    await store.write(secrets.put, keyring, SecretOwner(), "TOKEN", "x", NOW)
    (home.path / FILE).unlink()
    given = await tickets.issue(PASSKEY, {}, NOW)
    assert await tickets.read(PASSKEY, given, NOW) is not None
    assert await SignInTickets(WebKeys(keyring, store), store).read(PASSKEY, given, NOW) is None
    assert not (home.path / FILE).exists()
