"""A turn broke or a session could not be woken: the ledger decides what becomes of it, and people are told once."""

from functools import partial

from gatepost.core import log
from gatepost.flow.delivery.outgoing import Say, say
from gatepost.flow.sessions import notices
from gatepost.flow.sessions.parts import Parts
from gatepost.store import breaks, inbox, sessions, turns
from gatepost.store.breaks import Broken
from gatepost.store.port import Db
from gatepost.store.sessions import Session
from gatepost.store.turns import Turn

FINAL = ("auth", "quota", "fatal")  # error classes that trying again cannot help

_log = log.get("sessions")


async def break_off(
    parts: Parts,
    session: Session,
    turn: Turn,
    reason: str,
    *,
    error_class: str = "",
    wait: int | None = None,
    blame: bool = True,
) -> None:
    """A turn ended badly: tried again, continued, or given up."""
    fn = partial(_break_off, turn=turn, reason=reason, parts=parts, error_class=error_class, wait=wait, blame=blame)
    broken = await parts.store.write(fn)
    _log.warning("a turn broke off", session=session.id, turn=turn.id, reason=reason)
    await tell(parts, session, broken, error_class)


def _break_off(
    db: Db, *, turn: Turn, reason: str, parts: Parts, error_class: str, wait: int | None, blame: bool
) -> Broken | None:
    final = error_class in FINAL
    now = parts.clock.now()
    return breaks.break_off(db, turn.id, turn.epoch, reason, parts.policy, now, wait=wait, final=final, blame=blame)


async def not_woken(parts: Parts, session: Session, reason: str, *, final: bool = False) -> None:
    """No sandbox came far enough to claim anything."""
    fn = partial(_not_woken, session_id=session.id, reason=reason, parts=parts, final=final)
    await tell(parts, session, await parts.store.write(fn), "")


def _not_woken(db: Db, *, session_id: str, reason: str, parts: Parts, final: bool) -> Broken | None:
    return breaks.not_woken(db, session_id, reason, parts.policy, parts.clock.now(), final=final)


async def tell(parts: Parts, session: Session, broken: Broken | None, error_class: str) -> None:
    """People whose messages were given up are told so, once, where they wrote."""
    if broken is None or not broken.failed:
        return
    text = notices.failed(broken.reason, error_class, len(broken.failed))
    where = broken.turn or session
    await parts.store.write(_notice, parts, session.id, f"failed/{broken.failed[0]}", where, text)
    parts.bells.room(where.instance, where.address)


def _notice(db: Db, parts: Parts, session_id: str, key: str, where: Turn | Session, text: str) -> None:
    notice = Say(
        key=f"notice/{key}",
        origin="notice",
        instance=where.instance,
        address=where.address,
        thread=where.thread,
        text=text,
        session_id=session_id,
    )
    say(db, parts.reach, notice, parts.clock.now())


def stop(db: Db, parts: Parts, session_id: str, by: str) -> tuple[str, str] | None:
    """A person ended the turn: it, and what waited behind it, is cancelled and said so. The room to ring, None if
    there was nothing to stop."""
    session, turn, now = sessions.get(db, session_id), turns.open_of(db, session_id), parts.clock.now()
    if session is None:
        return None
    ended = turn is not None and turns.cancel(db, turn.id, f"stopped by {by}", now)
    waiting = inbox.cancel_waiting(db, session_id, f"stopped by {by}", now)
    if not ended and not waiting:
        return None
    where = turn or session
    _notice(db, parts, session_id, f"stopped/{session_id}/{now}", where, notices.STOPPED)
    return where.instance, where.address
