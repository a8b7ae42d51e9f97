"""A turn broke or a session could not be woken: the ledger decides what becomes of it, and people are told once."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from gatepost.access.budgets import make_notice_key, render_parked
from gatepost.core import log
from gatepost.core.clock import SECOND, to_microseconds
from gatepost.core.error_classification import classify
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.records import replace
from gatepost.flow import notices
from gatepost.flow.delivery.growing_messages import keep_draft
from gatepost.flow.delivery.outgoing_messages import OutgoingMessage, add_outgoing_message
from gatepost.flow.requests import unpriced_models
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.requests.refused_hosts import list_refused_hosts
from gatepost.flow.requests.spent_budgets import HeldTurn, hold_failed
from gatepost.flow.schedule.task_outcomes import add_failure_notices
from gatepost.flow.sessions.sandbox import effective_group
from gatepost.flow.sessions.sandbox.cheaper_models import CheaperModels
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.session_stop import stop_session
from gatepost.mailbox.runner_frames import TurnErrorClass
from gatepost.messages.inbound import MessageKind
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import STOP, BudgetNotice
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import request_cards
from gatepost.store.rights.switches import Switch
from gatepost.store.schedule import firings
from gatepost.store.sessions import agents, sessions, turn_failures, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.sleeping_turns import ASLEEP
from gatepost.store.sessions.turn_failures import OVERTIME, FailureCause, TurnFailure
from gatepost.store.sessions.turns import Turn, TurnState

FINAL = frozenset(each for each in TurnErrorClass if not each.is_passing)  # trying again cannot help

HALTED = "the operator has stopped everything"
INTERRUPTED_AFTER = 10 * SECOND  # a turn that broke off sooner goes on without a word
AGAIN_S = 1.0  # between two tries to reach the store

_log = log.get("sessions")


async def open_turn(deps: SessionDeps, session: Session) -> Turn | None:
    """The turn that a session left open. Asked in the session's own lane of the writer: a claim that nobody waits for
    any more, because its sandbox died meanwhile, is still committed, and must be seen here."""
    return await deps.store.write(turns.find_open, session.id, durable=False, lane=session.id)


async def settle_broken_turn(
    deps: SessionDeps, session: Session, turn: Turn, cause: FailureCause, error_class: str = ""
) -> None:
    """A turn ended badly: tried again, continued, or given up. `error_class`: what the provider calls it."""
    if error_class in FINAL:
        cause = replace(cause, final=True)

    def settle(db: Db) -> TurnFailure | None:
        return turn_failures.record_failure(db, turn.id, turn.epoch, cause, deps.policy, deps.clock.now())

    _log.warning("a turn broke off", session=session.id, turn=turn.id, reason=cause.reason)
    await _settle(deps, session, settle, error_class)


def record_broken_turn(
    db: Db, deps: SessionDeps, session: Session, turn: Turn, cause: FailureCause
) -> tuple[str, str] | None:
    """The same within a transaction. The room to ring, None if nobody is to be told."""
    broken = turn_failures.record_failure(db, turn.id, turn.epoch, cause, deps.policy, deps.clock.now())
    return _add_failure_notice(db, deps, session, broken, "")


async def settle_sleeping_turn(deps: SessionDeps, session: Session, turn: Turn) -> None:
    """It waits for a person without a sandbox."""

    def settle(db: Db) -> TurnFailure | None:
        now = deps.clock.now()
        slept = turn_failures.record_sleep(db, turn.id, turn.epoch, deps.policy, now)
        if slept is not None and slept.retry_at is not None and slept.retry_at > now and not session.agent:
            _add_sleep_notice(db, deps, session, turn)
        return slept

    _log.info("a turn sleeps until somebody decides", session=session.id, turn=turn.id)
    await _settle(deps, session, settle, "")
    deps.events.room(turn.instance, turn.address)


def _add_sleep_notice(db: Db, deps: SessionDeps, session: Session, turn: Turn) -> None:
    """People in the room are told once why nobody answers them; where the card itself is shown, it says so."""
    if not request_cards.list_open_in_room(db, turn.instance, turn.address):
        _add_notice(db, deps, session.id, f"asleep/{turn.id}", turn, notices.ASLEEP)


async def settle_timed_out_turn(deps: SessionDeps, session: Session, turn: Turn, *, handed_over: bool) -> None:
    """Its time ran out: it is not continued. If it may have said what was not handed over, it stays open until the next
    runner has resent that (`end_overdue`)."""

    def settle(db: Db) -> TurnFailure | None:
        now = deps.clock.now()
        if handed_over or turn.begun_at is None:
            return turn_failures.record_timeout(db, turn.id, turn.epoch, now)
        cause = FailureCause(reason=OVERTIME, counts_as_failure=False, keeps_continuation=True)
        return turn_failures.record_failure(db, turn.id, turn.epoch, cause, deps.policy, now)

    _log.warning("a turn ran out of time", session=session.id, turn=turn.id)
    await _settle(deps, session, settle, "")


def end_timed_out_turn(db: Db, deps: SessionDeps, session: Session, turn: Turn | None) -> tuple[str, str] | None:
    """The next runner asks for work, so it has resent what the last one could not hand over: a turn whose time had run
    out ends here. The room to ring, None if the open turn is none of those."""
    if turn is None or turn.state != TurnState.INTERRUPTED or turn.error != OVERTIME:
        return None
    broken = turn_failures.record_timeout(db, turn.id, turn.epoch, deps.clock.now())
    return _add_failure_notice(db, deps, session, broken, "")


async def settle_failed_wake(deps: SessionDeps, session: Session, cause: FailureCause) -> None:
    """No sandbox came far enough to claim anything, or nobody is left who works on what was claimed."""

    def settle(db: Db) -> TurnFailure | None:
        return turn_failures.record_wake_failure(db, session.id, cause, deps.policy, deps.clock.now())

    await _settle(deps, session, settle, "")


class _SettledTurn(Struct, frozen=True):
    rooms: tuple[tuple[str, str], ...] = ()  # to be woken
    asked: bool = False  # people, for more money


async def _settle(
    deps: SessionDeps, session: Session, settle: Callable[[Db], TurnFailure | None], error_class: str
) -> None:
    """Settle, and tell people whose messages were given up, in one transaction: neither is there without the other.
    The store may be away (a full disk): nothing else can happen to this turn before, so it is waited for. But another
    gateway may have taken over meanwhile: then the turn is its own, and is settled already as far as it was ours."""

    def both(db: Db) -> _SettledTurn:
        found = sessions.get(db, session.id)
        if found is not None and deps.claims.is_run_elsewhere(found):
            return _SettledTurn()
        broken = settle(db)
        if broken is not None and broken.turn is not None and broken.retry_at is None:
            keep_draft(db, deps.channels, broken.turn, deps.channels.get_draft(session.id), deps.clock.now())
        held = _hold_for_money(db, deps, session, broken, error_class)
        if broken is not None and held is not None:
            broken = replace(broken, failed=tuple(each for each in broken.failed if each not in held.messages))
        waiting = _hold_for_price(db, deps, session, broken) if broken is not None else ()
        if broken is not None and waiting:
            broken = replace(broken, failed=tuple(each for each in broken.failed if each not in waiting))
        notified = _add_failure_notice(db, deps, session, broken, error_class)
        waits = _add_waiting_notice(db, deps, session, broken)
        room = notified or waits or _add_interruption_notice(db, deps, session, broken)
        rooms = (room,) if room is not None else ()
        if broken is not None and broken.turn is not None and waiting:
            rooms = (*rooms, (broken.turn.instance, broken.turn.address))
        if held is not None and broken is not None and broken.turn is not None:
            rooms = (*rooms, (broken.turn.instance, broken.turn.address), *held.asked.rooms)
        return _SettledTurn(rooms, asked=held is not None)

    while True:
        try:
            settled = await deps.store.write(both, lane=session.id)
            break
        except Unavailable as error:
            _log.error("what became of a turn cannot be written yet", session=session.id, error=str(error))
            await asyncio.sleep(AGAIN_S)
    for room in dict.fromkeys(settled.rooms):
        deps.events.room(*room)
    if settled.asked:
        deps.events.requests()


def _hold_for_money(
    db: Db, deps: SessionDeps, session: Session, broken: TurnFailure | None, error_class: str
) -> HeldTurn | None:
    """Have messages whose first step a budget was too small for wait until somebody has decided. None: they do not."""
    if broken is None or broken.turn is None or session.agent or error_class != TurnErrorClass.BUDGET:
        return None
    turn, now = broken.turn, deps.clock.now()
    rules = replace(read_rules(deps.config), find_cheaper=CheaperModels(deps.home, deps.config).find)
    held = hold_failed(db, deps.channels, rules, turn, broken.failed, costs.find_payer(db, turn.id), now)
    if held is None:
        return None
    note = BudgetNotice(STOP, held.status)
    key = f"{make_notice_key(note, turn.instance, turn.address)}/{held.asked.request.id}"
    if outbox.find_by_key(db, key) is None:  # once in each room
        _add_notice(db, deps, session.id, key.removeprefix("notice/"), turn, render_parked(held.status))
    return held


def _hold_for_price(db: Db, deps: SessionDeps, session: Session, broken: TurnFailure) -> tuple[int, ...]:
    """Have messages wait whose agent has a model that people are asked the price of. Return their ids."""
    if broken.turn is None or session.agent or not broken.failed:
        return ()
    model = effective_group.find_model(db, session.id, deps.config)
    return unpriced_models.hold_failed(db, deps.channels, broken.turn, broken.failed, model, deps.clock.now())


def _add_failure_notice(
    db: Db, deps: SessionDeps, session: Session, broken: TurnFailure | None, error_class: str
) -> tuple[str, str] | None:
    """The room to ring, None if nobody is to be told."""
    if broken is None or not broken.failed:
        return None
    notified = add_failure_notices(db, deps.channels, broken.failed, deps.clock.now())
    broken = replace(broken, failed=tuple(each for each in broken.failed if each not in notified))
    if not broken.failed:
        return next(iter(notified.values()))
    if error_class == TurnErrorClass.BUDGET and broken.turn is not None and _has_budget_notice(db, broken.turn, deps):
        return broken.turn.instance, broken.turn.address
    if broken.reason == OVERTIME and broken.turn is not None:
        text = notices.render_out_of_time(spoke=outbox.has_done_any(db, broken.turn.id))
    else:
        text = notices.render_failure(broken.reason, error_class, len(broken.failed))
    if broken.turn is not None:
        refused = list_refused_hosts(db, session.id, broken.turn.started_at)
        text += notices.render_refused_hosts(refused, error_class)
    if broken.turn is None:
        agents.record_not_started(db, session.id, broken.reason, broken.failed[0], deps.clock.now())
    where = broken.turn or session
    _add_notice(db, deps, session.id, f"failed/{broken.failed[0]}", where, text)
    return where.instance, where.address


def _add_interruption_notice(
    db: Db, deps: SessionDeps, session: Session, broken: TurnFailure | None
) -> tuple[str, str] | None:
    """Somebody who has waited for a while is told once that a turn goes on, however often it breaks. The room to ring,
    None if nobody is told."""
    if broken is None or broken.turn is None or broken.retry_at is None:
        return None
    return _report_continuation(db, deps, session, broken.turn, broken.reason)


async def report_continuation(deps: SessionDeps, session: Session, turn: Turn) -> None:
    """Tell people after a start that a turn goes on which the gateway broke off when it stopped. It may have been away
    for long."""
    room = await deps.store.write(_report_continuation, deps, session, turn, turn.error)
    if room is not None:
        deps.events.room(*room)


def _report_continuation(
    db: Db, deps: SessionDeps, session: Session, turn: Turn, reason: str
) -> tuple[str, str] | None:
    if turn.begun_at is None or session.agent or turn.rights == firings.RIGHTS or reason in (OVERTIME, ASLEEP):
        return None
    if deps.clock.now() - turn.begun_at < INTERRUPTED_AFTER:
        return None
    _add_notice(db, deps, session.id, f"interrupted/{turn.id}", turn, notices.INTERRUPTED)
    return turn.instance, turn.address


def _add_waiting_notice(
    db: Db, deps: SessionDeps, session: Session, broken: TurnFailure | None
) -> tuple[str, str] | None:
    """Somebody whose message waits because the host lacks something is told so once. The room to ring, None if nobody
    is told."""
    message = broken.waiting if broken is not None else None
    if message is None or session.agent or deps.clock.now() - message.accepted_at < INTERRUPTED_AFTER:
        return None
    _add_notice(db, deps, session.id, f"waiting/{message.id}", message, notices.NO_RESOURCES)
    return message.instance, message.address


def add_place_notice(db: Db, deps: SessionDeps, session_id: str) -> tuple[str, str] | None:
    """People who wait because all places are taken are told once for their message. The room to ring, None if nobody is
    told: nobody waits any more, or no person does."""
    session, waiting = sessions.get(db, session_id), inbox.list_open(db, session_id)
    if session is None or session.agent or turns.find_open(db, session_id) is not None or not waiting:
        return None
    entry, message = waiting[0]
    if entry.state is not InboxState.QUEUED or message.kind is not MessageKind.CHAT:
        return None
    _add_notice(db, deps, session_id, f"place/{entry.id}", message, notices.NO_PLACE)
    return message.instance, message.address


def _has_budget_notice(db: Db, turn: Turn, deps: SessionDeps) -> bool:
    """Return True if the room heard in this turn that a budget has no room for it: to hear it twice helps nobody."""
    payer, now = costs.find_payer(db, turn.id), deps.clock.now()
    applicable = budgets.list_for_call(db, turn.folder, payer, turn.session_id, turn.id, now)
    keys = [make_notice_key(BudgetNotice(STOP, each), turn.instance, turn.address) for each in applicable]
    effects = [outbox.find_by_key(db, key) for key in keys]
    return any(each is not None and each.created_at >= turn.started_at for each in effects)


def _add_notice(
    db: Db, deps: SessionDeps, session_id: str, key: str, where: Turn | Session | Message, text: str
) -> None:
    notice = OutgoingMessage(
        key=f"notice/{key}",
        origin=EffectOrigin.NOTICE,
        instance=where.instance,
        address=where.address,
        thread=where.thread,
        text=text,
        session_id=session_id,
    )
    add_outgoing_message(db, deps.channels, notice, deps.clock.now())


def stop_turn(db: Db, deps: SessionDeps, session_id: str, by: str) -> tuple[str, str] | None:
    """A person ended the turn: it, and what waited behind it, is cancelled and said so. The room to ring, None if
    there was nothing to stop."""
    notice = stop_session(db, deps.channels, session_id, by, deps.clock.now())
    return (notice.instance, notice.address) if notice is not None else None


def cancel_all_turns(db: Db, deps: SessionDeps, switch: Switch) -> set[tuple[str, str]]:
    """The operator has stopped everything: every open turn is withdrawn, what waits goes on waiting, and the rooms of
    both are told. Those are the rooms to ring."""
    db.lock(LockKind.RULES, switch.name)  # several gateways do so at once: each turn is ended by one of them
    now, concerned = deps.clock.now(), inbox.list_waiting_rooms(db)
    for turn in turns.list_open(db):
        turns.cancel(db, turn.id, HALTED, now)
        keep_draft(db, deps.channels, turn, deps.channels.get_draft(turn.session_id), now)
    for instance, address, thread in concerned:
        notices.add_stop_notice(db, deps.channels, switch, instance, address, thread, now)
    return {(instance, address) for instance, address, _ in concerned}


async def record_failed_wake(deps: SessionDeps, session_id: str, trouble: "ExceptionGroup[Exception]") -> None:
    """Settle a session that could not be woken: tell whoever waits for it, and try it again if that may help. An error
    without a name of ours is a mistake of ours: it is tried again, a few times."""
    error = _get_first(trouble)
    found, known = classify(error), isinstance(error, GatepostError)
    shortage = "" if found.passing else await deps.find_shortage()
    reason = str(error) if known else "the gateway had a problem of its own, which its log describes"
    if isinstance(error, OSError) and found.passing:
        reason = f"the gateway lacks something for a while: {error.strerror or error}"
    if shortage:
        reason = f"the gateway lacks something for a while: {shortage}"
    _log.error("a session could not be woken", session=session_id, error=f"{type(error).__name__}: {error}")
    session = await deps.store.read(sessions.get, session_id)
    if session is not None:
        wait = to_microseconds(found.retry_after) if found.retry_after is not None else None
        passing = found.passing or bool(shortage)
        cause = FailureCause(reason=reason, wait=wait, final=known and not passing, passing=passing)
        await settle_failed_wake(deps, session, cause)


def _get_first(group: "ExceptionGroup[Exception]") -> Exception:
    error = group.exceptions[0]
    return _get_first(error) if isinstance(error, ExceptionGroup) else error
