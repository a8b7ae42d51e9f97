"""Batches and joins end where the person changes, as soon as one of them has a secret or a budget of their own."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from gatepost.core.clock import Period
from gatepost.store.messages import inbox
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import identities, users
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import Origin
from gatepost.store.sessions import turn_claims, turns
from gatepost_testing.counting import CountingDb

from .conftest import LEASE, ROOM, Desk

ADA, BOB, CEM = "fake:user/ada", "fake:user/bob", "fake:user/cem"


def write(desk: Desk, sender: str, kind: str = "chat", behalf: Iterable[str] = ()) -> int:
    """A message of one person, queued; its inbox row. `behalf`: it was put in by an agent, for these people."""
    message_id = desk.accept(kind=kind, sender=sender)
    origins.put(desk.db, message_id, tuple(Origin(person, *ROOM) for person in behalf), 1)
    return inbox.enqueue(desk.db, message_id, desk.session.id, "acme", "member", desk.now)


def limit(desk: Desk, person: str) -> None:
    budgets.put(desk.db, BudgetScope(BudgetScopeKind.USER, person), Period.DAY, 1_000_000, "owner", desk.now)


def give_secret(desk: Desk, person: str) -> None:
    desk.db.run("INSERT INTO users (id, created_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (person, desk.now))
    desk.db.run(
        "INSERT INTO secrets (scope, name, folder, user_id, key_id, nonce, sealed, created_at, updated_at)"
        " VALUES (?, 'KEY', NULL, ?, 'k', ?, ?, 1, 1)",
        (f"user:{person}", person, b"\0", b"\0"),
    )


def batches(desk: Desk) -> list[tuple[int, ...]]:
    found = []
    while claim := desk.claim():
        found.append(claim.rows)
        turns.begin(desk.db, claim.turn.id, claim.turn.epoch, claim.rows, desk.now)
        assert desk.finish(claim.turn)
    return found


@pytest.mark.parametrize("grant", [limit, give_secret], ids=["budget", "secret"])
@pytest.mark.parametrize("whose", [ADA, BOB])
def test_stranger_11_a_batch_ends_where_the_person_changes(desk: Desk, grant: object, whose: str) -> None:
    assert callable(grant)
    grant(desk, whose)
    first, second, third = write(desk, ADA), write(desk, ADA), write(desk, BOB)

    assert batches(desk) == [(first, second), (third,)]


@pytest.mark.parametrize("grant", [limit, give_secret], ids=["budget", "secret"])
@pytest.mark.parametrize("whose", [ADA, BOB])
def test_stranger_11_a_follow_up_of_another_person_does_not_join(desk: Desk, grant: object, whose: str) -> None:
    assert callable(grant)
    write(desk, ADA)
    claim = desk.claim()
    assert claim is not None
    grant(desk, whose)
    joining, other = write(desk, ADA), write(desk, BOB)
    more = turn_claims.claim_more(desk.db, claim.turn.id, claim.turn.epoch, desk.now, LEASE, 20)

    assert more is not None and more.rows == (joining,)
    assert turn_claims.claim_more(desk.db, claim.turn.id, claim.turn.epoch, desk.now, LEASE, 20) is None
    assert desk.entry(other).state == "queued"


def test_without_personal_secrets_and_budgets_all_of_a_room_are_one_batch(desk: Desk) -> None:
    budgets.put(desk.db, BudgetScope(BudgetScopeKind.GROUP, "acme"), Period.DAY, 1_000_000, "owner", desk.now)
    limit(desk, CEM)  # who is not here
    rows = tuple(write(desk, sender) for sender in (ADA, BOB, ADA))

    assert batches(desk) == [rows]


def test_stranger_11_what_an_agent_put_in_for_somebody_is_not_batched_with_others(desk: Desk) -> None:
    limit(desk, BOB)
    mine, for_bob, for_ada = write(desk, ADA), write(desk, "agent:acme", behalf=[BOB]), write(desk, ADA)

    assert batches(desk) == [(mine,), (for_bob,), (for_ada,)]


def test_stranger_11_what_nobody_wrote_is_not_booked_on_a_person(desk: Desk) -> None:
    limit(desk, ADA)
    hook, mine = write(desk, "fake:hook/1", kind="webhook"), write(desk, ADA)

    assert batches(desk) == [(hook,), (mine,)]


def _statements(desk: Desk) -> int:
    counting = CountingDb(desk.db)
    claim = turn_claims.claim(counting, desk.session.id, "scripted", desk.owner, desk.now, LEASE, 20)
    assert claim is not None
    write(desk, BOB)
    turn_claims.claim_more(counting, claim.turn.id, claim.turn.epoch, desk.now, LEASE, 20)
    return counting.statements


def test_where_nobody_has_anything_personal_a_claim_takes_no_further_statement(desk: Desk) -> None:
    write(desk, ADA)
    write(desk, BOB)
    counted = _statements(desk)
    # waiting, insert, 2 × claim, state | get, waiting, claim, conversation
    assert counted == 9


@pytest.mark.parametrize("seed", range(20))
def test_stranger_11_a_turn_is_paid_by_exactly_those_whose_messages_it_has(desk: Desk, seed: int) -> None:
    """Random senders, personal budgets for some of them, joins in between."""
    chance = random.Random(seed)
    people = [f"fake:user/{number}" for number in range(5)]
    personal = {person for person in people if chance.random() < 0.5}
    for person in personal:
        chance.choice((limit, give_secret))(desk, person)
    left = [chance.choice(people) for _ in range(30)]
    for sender in left[:15]:
        write(desk, sender)
    del left[:15]
    while claim := desk.claim(most=chance.randint(1, 6)):
        turn = claim.turn
        turns.begin(desk.db, turn.id, turn.epoch, claim.rows, desk.now)
        while left and chance.random() < 0.5:
            write(desk, left.pop())
            more = turn_claims.claim_more(desk.db, turn.id, turn.epoch, desk.now, LEASE, chance.randint(1, 6))
            if more is not None:
                turns.begin(desk.db, turn.id, turn.epoch, more.rows, desk.now)
        senders = set(inbox.list_senders(desk.db, turn.id))
        if senders & personal:
            assert senders == {costs.find_payer(desk.db, turn.id)}
        assert desk.finish(turn)


@pytest.mark.parametrize("give", [limit, give_secret])
def test_two_identities_of_one_person_share_a_batch_and_nobody_else_does(desk: Desk, give: Any) -> None:
    phone = "chat:user/ada"
    users.add(desk.db, ADA, "Ada", desk.now)
    identities.add(desk.db, phone, ADA, "test", desk.now)
    give(desk, ADA)
    first, second, other, last = write(desk, ADA), write(desk, phone), write(desk, BOB), write(desk, phone)
    assert batches(desk) == [(first, second), (other,), (last,)]


def test_a_turn_of_a_paired_identity_is_paid_by_the_person(desk: Desk) -> None:
    users.add(desk.db, ADA, "Ada", desk.now)
    identities.add(desk.db, "chat:user/ada", ADA, "test", desk.now)
    write(desk, "chat:user/ada")
    claim = desk.claim()
    assert claim is not None and turns.begin(desk.db, claim.turn.id, claim.turn.epoch, claim.rows, desk.now)
    assert costs.find_payer(desk.db, claim.turn.id) == ADA
