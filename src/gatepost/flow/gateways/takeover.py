"""The takeover from a dead gateway: one transaction, by the gateway that notices first.

Its sessions become free for any gateway, and its turns are continued as after a restart. Its reservations for model
calls are booked in full, and its duties are free. The next sender to a room looks up the messages that it was sending;
those that cannot be found become uncertain.
"""

from collections.abc import Callable

from msgspec import Struct

from gatepost.flow.sessions import turn_settlement
from gatepost.flow.sessions.crash_recovery import make_restart_cause
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.store.gateways import commands, gateways
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.money import ledger, reservations
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.sessions import sessions, sleeping_turns, turns
from gatepost.store.sessions.turns import TurnState

EndLife = Callable[[Db, str, int], bool]


class Takeover(Struct, frozen=True):
    sessions: tuple[str, ...]
    rooms: tuple[tuple[str, str], ...]  # where somebody is told something
    turns: int
    reservations: int


def recover_from(db: Db, parts: SessionDeps, name: str, epoch: int, end_life: EndLife) -> Takeover | None:
    """None: it lives after all, or another was first."""
    if not end_life(db, name, epoch):
        return None
    return _release_and_seal(db, parts, name, epoch)


def absorb_earlier(db: Db, parts: SessionDeps, home: str) -> list[str]:
    """Take over what this gateway's home left under other names, and forget these."""
    earlier = [each for each in gateways.list_earlier(db, home, parts.owner) if each.state is GatewayState.GONE]
    for each in earlier:
        _release_and_seal(db, parts, each.name, each.epoch)
        gateways.remove(db, each.name)
    return [each.name for each in earlier]


def _release_and_seal(db: Db, parts: SessionDeps, name: str, epoch: int) -> Takeover:
    done, seal = release_all(db, parts, name), audit.make_seal(db, name)
    details = {"gateway": name, "epoch": epoch, "turns": done.turns, "sessions": len(done.sessions), "seal": seal}
    audit.append(db, AuditRecord(parts.clock.now(), f"gateway:{parts.owner}", audit.SEAL, "done", details))
    return done


def release_all(db: Db, parts: SessionDeps, name: str) -> Takeover:
    """The same for an earlier life of a gateway, when it starts."""
    now, rooms, count = parts.clock.now(), list[tuple[str, str]](), 0
    ledger.reset_due_times(db, now)
    sleeping_turns.defer_sleeping(db, now)
    for turn in turns.list_open_of(db, name):
        session = sessions.get(db, turn.session_id)
        if session is None or turn.state == TurnState.INTERRUPTED:
            continue
        count += 1
        room = turn_settlement.record_broken_turn(db, parts, session, turn, make_restart_cause(db, parts, turn))
        rooms += [room] if room is not None else []
    booked = reservations.settle_leftovers(db, now, name)
    released = gateways.release_sessions(db, name)
    gateways.release_duties(db, name, now)
    commands.free_commands(db, name, now)
    return Takeover(tuple(released), tuple(rooms), count, booked)
