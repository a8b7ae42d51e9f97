"""Commands between gateways: each is done once, by the gateway that runs the session."""

from gatepost.store.gateways import commands, gateways
from gatepost.store.gateways.commands import CommandKind, CommandState
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode

NOON = 1_800_000_000_000_000
DAY = 24 * 3600 * 1_000_000


def add_session(db: Db, owner: str) -> str:
    groups.add(db, "home", "home", "", NOON)
    session = sessions.find_or_add(db, SessionMode.SHARED, "home", "fake", "fake:1", "", NOON)
    assert gateways.claim_session(db, session.id, owner) or not owner
    return session.id


def test_a_command_is_for_the_gateway_that_runs_the_session(db: Db) -> None:
    session_id = add_session(db, "b")
    made = commands.add_for_session(db, CommandKind.STOP, session_id, {"by": "Ann"}, "a", NOON)
    assert made is not None
    assert (made.gateway, made.arguments, made.state) == ("b", {"by": "Ann"}, CommandState.WAITING)


def test_nobody_is_asked_about_a_session_that_sleeps_or_runs_here(db: Db) -> None:
    session_id = add_session(db, "a")
    assert commands.add_for_session(db, CommandKind.STOP, session_id, {}, "a", NOON) is None
    gateways.release_session(db, session_id, "a")
    assert commands.add_for_session(db, CommandKind.STOP, session_id, {}, "a", NOON) is None


def test_a_command_is_claimed_once_and_answered_once(db: Db) -> None:
    session_id = add_session(db, "b")
    made = commands.add_for_session(db, CommandKind.END, session_id, {}, "a", NOON)
    assert made is not None
    assert not commands.has_waiting(db, "a") and commands.has_waiting(db, "b")
    assert [each.id for each in commands.claim_waiting(db, "b", 10)] == [made.id]
    assert commands.claim_waiting(db, "b", 10) == []
    commands.set_answer(db, made.id, {"stopped": True}, NOON + 1)
    commands.set_answer(db, made.id, {"stopped": False}, NOON + 2)
    (answered,) = commands.list_answered(db, "a", 10)
    assert (answered.state, answered.answer, answered.done_at) == (CommandState.DONE, {"stopped": True}, NOON + 1)


def test_a_dead_gateway_leaves_its_commands_lost(db: Db) -> None:
    session_id = add_session(db, "b")
    for kind in (CommandKind.STOP, CommandKind.END):
        commands.add_for_session(db, kind, session_id, {}, "a", NOON)
    (first,) = commands.claim_waiting(db, "b", 1)
    assert commands.free_commands(db, "b", NOON + 1) == 2
    assert [each.state for each in commands.list_answered(db, "a", 10)] == [CommandState.LOST] * 2
    commands.set_answer(db, first.id, {}, NOON + 2)  # it comes too late
    assert {each.state for each in commands.list_answered(db, "a", 10)} == {CommandState.LOST}


def test_every_other_living_gateway_is_asked(db: Db) -> None:
    for name in ("a", "b", "c", "gone"):
        new = GatewayIdentity(name=name, home=name, host="h", version="1", schema_number=1)
        gateways.register(db, new, 10, 1, NOON)
    gateways.set_state(db, "gone", 1, gateways.GatewayState.GONE)
    assert [each.gateway for each in commands.add_for_others(db, CommandKind.OBEY, "a", NOON)] == ["b", "c"]


def test_what_is_old_or_was_read_is_removed(db: Db) -> None:
    session_id = add_session(db, "b")
    old = commands.add_for_session(db, CommandKind.END, session_id, {}, "a", NOON - DAY - 1)
    new = commands.add_for_session(db, CommandKind.END, session_id, {}, "a", NOON)
    assert old is not None and new is not None
    assert commands.remove_old(db, NOON - DAY) == 1
    commands.remove(db, [new.id])
    assert not commands.has_waiting(db, "b")
