"""Breaks: what becomes of a turn that ended badly. Retried if no provider had it, else continued once, else failed.

Nothing is lost on any way: a row is given back, waits for its time, is continued, or ends as failed with a reason, and
then its sender is told.
"""

from msgspec import Struct

from gatepost.core.records import replace
from gatepost.messages.inbound import MessageKind
from gatepost.store.messages import inbox, message_steps, outbox
from gatepost.store.messages.inbox import InboxEntry, InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db
from gatepost.store.sessions import due_sessions, sessions, sleeping_turns, turns
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.turns import Turn, TurnState

OVERTIME = "its time ran out"
MOST_SPARED = 60  # breaks of one turn for want of something on the host that are not counted against it


class TurnRetryPolicy(Struct, frozen=True, kw_only=True):
    """How often and how fast a broken turn is tried again."""

    most_tries: int = 5
    base: int = 5_000_000
    longest: int = 60_000_000  # between two tries while the host lacks something
    oldest: int = 0  # what was accepted before this moment waits no longer for the host
    most_attempts: int = 2


class TurnFailure(Struct, frozen=True, kw_only=True):
    """The outcome of a turn that broke off. `retry_at` None: it failed. The senders of `failed` must be told."""

    turn: Turn | None  # None: it broke before there was one
    retry_at: int | None
    failed: tuple[int, ...] = ()  # message ids
    reason: str = ""
    waiting: Message | None = None  # the first that people wrote and that waits for the host; None: nothing does so


class FailureCause(Struct, frozen=True, kw_only=True):
    """Why a turn or a start failed, and what that costs its messages."""

    reason: str
    wait: int | None = None  # until the next try, if somebody said how long
    final: bool = False  # trying again cannot help
    counts_as_failure: bool = True  # False: the gateway itself went down, which is not counted against the messages
    keeps_continuation: bool = False  # True: its end was ours, and does not use up its one continuation
    passing: bool = False  # the host lacks something for a while: age ends the tries, not their number
    finished: frozenset[int] | None = None  # rows that the provider was done with; None: it was cut off

    def gives_up(self, entry: InboxEntry, tries: int, policy: TurnRetryPolicy) -> bool:
        if self.final or not self.passing:
            return self.final or tries > policy.most_tries
        return tries > policy.most_tries and entry.created_at < policy.oldest

    def pause(self, tries: int, policy: TurnRetryPolicy) -> int:
        """Until the next try."""
        if self.wait is not None:
            return self.wait
        pause = policy.base * 2 ** min(max(tries - 1, 0), 40) if self.counts_as_failure else 0
        return min(pause, policy.longest) if self.passing else pause


def record_failure(
    db: Db, turn_id: str, epoch: int, cause: FailureCause, policy: TurnRetryPolicy, now: int
) -> TurnFailure | None:
    """The turn ended badly. None if it is not this attempt's to end. A continuation that the provider never had is
    itself retried."""
    turn = turns.get(db, turn_id)
    if turn is None or turn.epoch != epoch or turn.ended_at is not None or turn.state == TurnState.INTERRUPTED:
        return None
    entries = [pair for pair in inbox.list_for_turn(db, turn_id) if pair[0].state == InboxState.WORKING]
    # A message that no provider had waits for the host as if its agent could not start: age ends the tries.
    unseen = replace(cause, counts_as_failure=True, wait=None) if cause.passing else cause
    if turn.begun_at is None:
        turns.fail(db, turn, cause.reason, now)
        return _retry(db, turn, entries, unseen, policy, now)
    for entry, message in entries:
        if not entry.given:
            turns.requeue(db, entry, message, cause.reason, now)
    if turn.state == TurnState.CLAIMED:
        return _postpone(db, turn, turn.attempt - 1, unseen, policy, now)
    if cause.keeps_continuation:
        db.run("UPDATE turns SET spared = spared + 1 WHERE id = ?", (turn_id,))
    elif cause.final or turn.attempt - turn.spared >= policy.most_attempts:
        given = [pair for pair in entries if pair[0].given]
        reason = cause.reason if cause.final else f"interrupted: {cause.reason}"
        return _fail(db, turn, given, reason, now, cause.finished)
    return _continue_later(db, turn, cause.reason, now, cause.wait or 0)


def record_sleep(db: Db, turn_id: str, epoch: int, policy: TurnRetryPolicy, now: int) -> TurnFailure | None:
    """Record that a turn waits for a person, and that its sandbox is gone. It goes on when somebody has decided, or
    when nobody has in time. Decisions made while the sandbox ended are seen here, so none is missed."""
    wait = sleeping_turns.find_wake_time(db, turn_id, now) - now
    cause = FailureCause(reason=sleeping_turns.ASLEEP, wait=wait, counts_as_failure=False, keeps_continuation=True)
    return record_failure(db, turn_id, epoch, cause, policy, now)


def record_timeout(db: Db, turn_id: str, epoch: int, now: int) -> TurnFailure | None:
    """End a turn for good because its time ran out, also one that was to be continued. Its messages stay, and rows that
    it had not seen yet are given back. Return None if another attempt has the turn by now."""
    turn = turns.get(db, turn_id)
    if turn is None or turn.epoch != epoch or turn.ended_at is not None:
        return None
    failed: list[tuple[InboxEntry, Message]] = []
    for entry, message in inbox.list_for_turn(db, turn_id):
        if entry.state == InboxState.WORKING and (entry.given or turn.begun_at is None):
            failed.append((entry, message))
        elif entry.state == InboxState.WORKING:
            turns.requeue(db, entry, message, OVERTIME, now)
    return _fail(db, turn, failed, OVERTIME, now)


def record_wake_failure(
    db: Db, session_id: str, cause: FailureCause, policy: TurnRetryPolicy, now: int
) -> TurnFailure | None:
    """The sandbox did not come far enough to claim anything: the turn to be continued, else its waiting rows, are
    tried again later, or given up. None if nothing was waiting, or if it was not time yet for the next try: that one
    is still to come."""
    unfinished = turns.find_open(db, session_id)
    if due_sessions.get_retry_time(db, session_id, now) is not None:
        return None
    if unfinished is not None and unfinished.state == TurnState.INTERRUPTED:
        return _postpone(db, unfinished, unfinished.attempt, cause, policy, now)
    if unfinished is not None:  # somebody had it, and is gone without a word
        keeps_continuation = cause.passing and unfinished.spared < MOST_SPARED
        own = FailureCause(
            reason=cause.reason, final=cause.final, passing=cause.passing, keeps_continuation=keeps_continuation
        )
        return record_failure(db, unfinished.id, unfinished.epoch, own, policy, now)
    waiting = [
        pair for pair in inbox.list_open(db, session_id) if pair[0].state in (InboxState.QUEUED, InboxState.RETRY)
    ]
    return _retry(db, None, waiting, cause, policy, now) if waiting else None


def _retry(
    db: Db,
    turn: Turn | None,
    entries: list[tuple[InboxEntry, Message]],
    cause: FailureCause,
    policy: TurnRetryPolicy,
    now: int,
) -> TurnFailure:
    """Rows that no provider had: later, together, or not at all. Each has its own tries: one that came late is not
    given up with the first."""
    left = [
        entry.tries + int(cause.counts_as_failure)
        for entry, _ in entries
        if not cause.gives_up(entry, entry.tries + int(cause.counts_as_failure), policy)
    ]
    retry_at, failed = now + cause.pause(max(left, default=0), policy), []
    for entry, message in entries:
        tries = entry.tries + int(cause.counts_as_failure)
        if turns.is_continuation(message):
            turns.requeue(db, entry, message, cause.reason, now)
        elif cause.gives_up(entry, tries, policy):
            inbox.set_state(db, entry.id, InboxState.FAILED, cause.reason, None, now, tries)
            failed.append(message.id)
        elif turn is not None and not cause.counts_as_failure and cause.wait is None:
            turns.requeue(db, entry, message, cause.reason, now)
        else:
            inbox.set_state(db, entry.id, InboxState.RETRY, cause.reason, retry_at, now, tries)
    written = [message for _, message in entries if message.kind is MessageKind.CHAT and message.id not in failed]
    return TurnFailure(
        turn=turn,
        retry_at=retry_at if left else None,
        failed=tuple(failed),
        reason=cause.reason,
        waiting=written[0] if cause.passing and written else None,
    )


def _fail(
    db: Db,
    turn: Turn,
    entries: list[tuple[InboxEntry, Message]],
    reason: str,
    now: int,
    finished: frozenset[int] | None = None,
) -> TurnFailure:
    """Fail the rows of a turn. Answered ones stay answered: nobody is told that a message failed whose answer they
    have. `finished` are the rows that the provider was done with before; None means that it was cut off and could not
    say."""
    spoke = outbox.has_done_any(db, turn.id)
    answered, failed = _find_answered(db, turn, entries, cut=finished is None), []
    for entry, message in entries:
        if entry.id in answered or entry.id in (finished or ()):
            inbox.set_state(db, entry.id, InboxState.ANSWERED if spoke else InboxState.SILENT, "", None, now)
        else:
            inbox.set_state(db, entry.id, InboxState.FAILED, reason, None, now)
            failed += [message.id] if message.kind != MessageKind.SYSTEM else []
    turns.fail(db, turn, reason, now)
    return TurnFailure(turn=turn, retry_at=None, failed=tuple(failed), reason=reason)


def _find_answered(db: Db, turn: Turn, entries: list[tuple[InboxEntry, Message]], *, cut: bool) -> set[int]:
    """The rows that a result names. If each has one, the agent was still at the last: that one is not done with. If it
    was `cut` off it may have been, and half an answer must not pass for a whole one: rather one apology too many."""
    by_seq = {entry.seq: entry.id for entry, message in entries if message.kind != MessageKind.SYSTEM}
    named = [seq for seq in outbox.answered_in_turn(db, turn.id) if seq in by_seq]  # by the last word to each
    if cut or len(named) == len(by_seq):
        named = named[:-1]
    return {by_seq[seq] for seq in named}


def _continue_later(db: Db, turn: Turn, reason: str, now: int, wait: int) -> TurnFailure:
    """Continue a turn later. Effects that the old attempt committed are still delivered; the next attempt is told of
    them when it is claimed."""
    db.run("UPDATE inbox SET next_at = ? WHERE turn_id = ? AND state = 'working'", (now + wait, turn.id))
    kept = OVERTIME if turn.error == OVERTIME else reason  # whatever else happens to it, its time is up
    db.run("UPDATE turns SET state = 'interrupted', error = ?, next_at = ? WHERE id = ?", (kept, now + wait, turn.id))
    sessions.set_state(db, turn.session_id, SessionState.INTERRUPTED, now)
    for entry, message in inbox.list_for_turn(db, turn.id):
        if entry.given and entry.state == InboxState.WORKING:
            message_steps.add(db, message.id, entry.id, now, "interrupted", reason)
    return TurnFailure(turn=turn, retry_at=now + wait, reason=reason)


def _postpone(db: Db, turn: Turn, attempt: int, cause: FailureCause, policy: TurnRetryPolicy, now: int) -> TurnFailure:
    """The next attempt did not come as far as the provider: it does not count as one, and is tried again later."""
    given = [pair for pair in inbox.list_for_turn(db, turn.id) if pair[0].state == InboxState.WORKING and pair[0].given]
    tries = max((entry.tries for entry, _ in given), default=0) + int(cause.counts_as_failure)
    if cause.final or (given and all(cause.gives_up(entry, tries, policy) for entry, _ in given)):
        return _fail(db, turn, given, f"interrupted: {cause.reason}", now)
    db.run("UPDATE turns SET attempt = ? WHERE id = ?", (attempt, turn.id))
    db.run("UPDATE inbox SET tries = ? WHERE turn_id = ? AND state = 'working'", (tries, turn.id))
    return _continue_later(db, turn, cause.reason, now, cause.pause(tries, policy))
