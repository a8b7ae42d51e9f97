"""Who is behind what a session does between its turns."""

import pytest
from tests.store.conftest import ROOM, Desk

from gatepost.store.messages import inbox
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import LATEST, Origin
from gatepost.store.sessions import turns

ADA = "fake:user/ada"


def run_turn(desk: Desk, sender: str, kind: str = "chat") -> None:
    desk.now += 1
    message_id = desk.accept(kind=kind, sender=sender)
    inbox.enqueue(desk.db, message_id, desk.session.id, "acme", "member", desk.now)
    claim = desk.claim()
    assert claim is not None
    turns.begin(desk.db, claim.turn.id, claim.turn.epoch, claim.rows, desk.now)
    assert desk.finish(claim.turn)


def test_between_turns_whoever_asked_last_is_behind_it_though_timers_ran_since(desk: Desk) -> None:
    run_turn(desk, ADA)
    for _ in range(3):
        run_turn(desk, "", kind="task")

    assert origins.get_for_session(desk.db, desk.session.id).origins[0] == Origin(ADA, *ROOM)


@pytest.mark.slow
def test_stranger_04_only_the_latest_turns_are_searched_however_many_timers_ran(desk: Desk) -> None:
    run_turn(desk, ADA)
    for _ in range(LATEST):
        run_turn(desk, "", kind="task")

    assert [each.person for each in origins.get_for_session(desk.db, desk.session.id).origins] == [""]
