"""A world whose gateway does not come back is run elsewhere, without the files that were there."""

import pytest
from tests.store.conftest import Desk
from tests.store.gateways.test_gateways import begin

from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.gateways.group_moves import GroupMoveState, find_open, list_open
from gatepost.store.messages import inbox
from gatepost.store.sessions import groups, sessions, turns, worktrees
from gatepost.store.sessions.sessions import SessionMode

SECOND = 1_000_000


@pytest.fixture
def lost(desk: Desk) -> Desk:
    """`acme` lies on `a`, which is gone."""
    group_places.claim(desk.db, "acme", "a", desk.now)
    return desk


def test_it_lies_on_the_target_and_the_move_is_over(lost: Desk) -> None:
    made = group_moves.move_without_files(lost.db, "acme", "a", "b", lost.now)
    assert (made.state, made.files, made.ended_at) == (GroupMoveState.DONE, 0, lost.now)
    assert group_places.find_runner(lost.db, "acme/eng") == "b"
    assert find_open(lost.db, "acme") is None and list_open(lost.db, "a") == []


def test_an_open_turn_has_its_whole_prompt_again_in_a_new_conversation(lost: Desk) -> None:
    turn = lost.begun("one", "two")
    turns.set_conversation(lost.db, turn.id, turn.epoch, "c-1", lost.now)
    lost.break_off(turn, counts_as_failure=False)
    given = [entry.id for entry, _ in inbox.list_for_turn(lost.db, turn.id)]

    group_moves.move_without_files(lost.db, "acme", "a", "b", lost.now)

    lost.now += SECOND
    claim = lost.claim()
    assert claim is not None and claim.turn.id == turn.id and claim.continued and claim.conversation == ""
    assert claim.rows[: len(given)] == tuple(given) and len(claim.rows) == len(given) + 1


def test_conversations_begin_anew_and_what_lies_in_the_store_stays(lost: Desk) -> None:
    groups.add(lost.db, "other", "Other", "", lost.now)
    other = sessions.find_or_add(lost.db, SessionMode.SHARED, "other", "fake", "fake:room/2", "", lost.now)
    for each in (lost.session, other):
        sessions.set_conversation(lost.db, each.id, "scripted", "c-1", lost.now)
        sessions.set_summary(lost.db, each.id, "what was said")

    group_moves.move_without_files(lost.db, "acme", "a", "b", lost.now + 1)

    assert sessions.get_conversation(lost.db, lost.session.id, "scripted") == ""
    assert sessions.get_conversation(lost.db, other.id, "scripted") == "c-1"
    assert sessions.get_notes(lost.db, lost.session.id).summary == "what was said"
    found = [sessions.get(lost.db, each.id) for each in (lost.session, other)]
    assert [each.reset_at for each in found if each is not None] == [lost.now + 1, None]


def test_what_waited_is_due_at_once(lost: Desk) -> None:
    row_id = lost.hear()
    group_places.defer_due(lost.db, "acme", lost.now, lost.now + 30 * SECOND)
    group_moves.move_without_files(lost.db, "acme", "a", "b", lost.now)
    assert lost.entry(row_id).next_at == lost.now


def test_its_worktrees_are_archived_and_named(lost: Desk) -> None:
    for slug, folder in (("fix", "acme/eng"), ("own", "other")):
        assert worktrees.claim_name(lost.db, "shop", slug, folder, "/src", "", lost.now)
    made = group_moves.move_without_files(lost.db, "acme", "a", "b", lost.now)
    assert made.note.endswith("; lost worktrees: shop/fix")
    assert [each.name for each in worktrees.list_all(lost.db)] == ["shop/own"]


def test_only_one_that_is_gone_or_forgotten_is_held(lost: Desk) -> None:
    assert gateways.hold_gone(lost.db, "a")
    epoch = begin(lost.db, "a")
    assert not gateways.hold_gone(lost.db, "a")
    gateways.set_state(lost.db, "a", epoch, GatewayState.GONE)
    assert gateways.hold_gone(lost.db, "a")
