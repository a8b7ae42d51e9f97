"""A lane's step on the store: settle what was sent and take what comes next, in one transaction.

Whoever asked for an effect that failed is told: the agent by a row of context (which wakes nobody, so that a failing
room cannot make an agent talk in circles), a room after an outage by one notice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gatepost.flow.delivery.outgoing import Reach, Say, say
from gatepost.flow.delivery.retry import Policy
from gatepost.flow.delivery.sending import Job, Outcome
from gatepost.store import inbox, messages, outbox, sessions
from gatepost.store.outbox import Effect
from gatepost.store.port import Db

AGENTS_OWN = ("result", "tool")  # origins whose failure somebody waits to hear of
STALE = "stale"
NOTICE = "stale:"  # how the keys of notices begin
NOTICE_TEXT = "Some messages for you could not be delivered in time and were left out."


@dataclass(frozen=True, slots=True)
class Later:
    """The lane's first row has to wait until then."""

    at: int


class Lane(NamedTuple):
    """One room of one channel instance: its rows go out one after another."""

    instance: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Under whose name rows are taken, and by which rules."""

    owner: str
    lease: int
    policy: Policy
    reach: Reach


def advance(
    db: Db, terms: Terms, lane: Lane, outcome: Outcome | None, look_up_at: Mapping[int, int], now: int, oldest: int
) -> Job | Later | None:
    """Record what became of the last row and take the next: a job, a moment to come back, or None: the lane is empty.

    `look_up_at`: rows of which we wait to know whether they happened. `oldest`: what was made before is stale.
    """
    if outcome is not None:
        settle(db, outcome, now)
    effect = outbox.take(db, lane.instance, lane.address, terms.owner, now, terms.lease, oldest)
    if effect is not None and effect.state == "pending" and effect.created_at < oldest:
        _leave_out_stale(db, terms.reach, lane, oldest, now)
        effect = outbox.take(db, lane.instance, lane.address, terms.owner, now, terms.lease)
    return _next(db, effect, look_up_at, now)


def _next(db: Db, effect: Effect | None, look_up_at: Mapping[int, int], now: int) -> Job | Later | None:
    if effect is None:
        return None
    found = effect.state == "sending"
    due = look_up_at.get(effect.id, 0) if found else effect.next_at or 0
    if due > now:
        return Later(due)
    target = messages.get(db, effect.target_id) if effect.target_id is not None else None
    return Job(effect, target, found)


def settle(db: Db, outcome: Outcome, now: int) -> None:
    effect = outcome.effect
    outbox.settle(db, effect.id, outcome.state, outcome.reason, now, outcome.platform_id, outcome.next_at)
    if outcome.state in ("failed", "uncertain") and effect.origin in AGENTS_OWN:
        _tell_agent(db, effect, f"delivery_{outcome.state}", outcome.reason, now)


def _tell_agent(db: Db, effect: Effect, event: str, reason: str, now: int, count: int = 1) -> None:
    session = sessions.get(db, effect.session_id) if effect.session_id else None
    if session is None or session.closed_at is not None:
        return
    told = {"event": event, "seq": effect.seq, "op": effect.op, "reason": reason, "count": count}
    message_id = messages.from_us(db, session, f"delivery:{effect.id}", told, now)
    if message_id is not None:
        inbox.observe(db, message_id, session.id, session.folder, "guest", now)


def _leave_out_stale(db: Db, reach: Reach, lane: Lane, oldest: int, now: int) -> None:
    """End every stale row of the lane at once. For each session one row of context, for the room one notice, which
    outlives the outage that it tells of; while it is on its way it speaks for what becomes stale meanwhile."""
    own: dict[str | None, list[Effect]] = {}
    for effect in outbox.waiting_since(db, lane.instance, lane.address, oldest):
        if effect.key.startswith(NOTICE):
            continue
        outbox.settle(db, effect.id, "failed", STALE, now)
        if effect.origin in AGENTS_OWN:
            own.setdefault(effect.session_id, []).append(effect)
    for effects in own.values():
        _tell_agent(db, effects[-1], "delivery_failed", STALE, now, len(effects))
    if own:
        _notice(db, reach, lane, now)


def _notice(db: Db, reach: Reach, lane: Lane, now: int) -> None:
    number = 1
    while (earlier := outbox.by_key(db, key := f"{NOTICE}{lane.instance}:{lane.address}:{number}")) is not None:
        if earlier.state not in outbox.END:
            return
        number += 1
    new = Say(key=key, origin="notice", instance=lane.instance, address=lane.address, text=NOTICE_TEXT)
    say(db, reach, new, now)
