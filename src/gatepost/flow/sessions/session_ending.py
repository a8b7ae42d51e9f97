"""The end of an awake session: the verdict whether it goes on, rests or has lost its way, and its end as one value.

That value says why it ends, whether its turn is tried again, and what that costs its messages. The verdict is pure. It
counts the time during which this gateway listened: while the process was stopped or the machine was suspended, nobody
could be heard.
"""

from enum import StrEnum

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.store.sessions.sleeping_turns import ASLEEP
from gatepost.store.sessions.turn_failures import MOST_SPARED, FailureCause
from gatepost.store.sessions.turns import Turn

SPARED_PAUSE, SPARED_LONGEST = 5 * SECOND, 60 * SECOND  # before such a turn goes on


class Retry(StrEnum):
    NEVER = "never"  # a person ended it
    NEXT = "next"  # by the next sandbox
    DECIDED = "decided"  # it sleeps: when somebody has decided what it asked
    LATER = "later"  # the host lacks something for a while: when it is there again


class Ending(Struct, frozen=True):
    cause: str  # as people read it
    retry: Retry = Retry.NEXT
    counts: bool = True  # against the session's messages; False: the gateway had a reason of its own
    final: bool = False  # its turn is not continued: it would do the same again

    @classmethod
    def by_person(cls, cause: str) -> "Ending":
        return cls(cause, Retry.NEVER, False)

    @classmethod
    def by_gateway(cls, cause: str) -> "Ending":
        """To make room, to rest, to apply a change, to go down: no message is to blame for it."""
        return cls(cause, counts=False)

    @classmethod
    def for_disk(cls, cause: str) -> "Ending":
        """It took too much of the disk. Its files stay, so its turn would meet the same end again."""
        return cls(cause, final=True)

    @classmethod
    def to_sleep(cls) -> "Ending":
        """Its turn waits for a person, and needs no sandbox for that."""
        return cls(ASLEEP, Retry.DECIDED, False)

    def join(self, later: "Ending") -> "Ending":
        """Both, if it is ended again before it is gone: the first cause stays, and the milder consequence."""
        order = (Retry.NEVER, Retry.DECIDED, Retry.LATER, Retry.NEXT)
        retry = min(self.retry, later.retry, key=order.index)
        return Ending(self.cause, retry, self.counts and later.counts, self.final or later.final)

    def during(self, shortage: str) -> "Ending":
        """The same while the machine lacks something. A session that took too much itself goes on for no other
        reason."""
        if not shortage or self.final or not self.counts or self.retry is not Retry.NEXT:
            return self
        return Ending(shortage, Retry.LATER)

    def to_failure(self, turn: Turn, *, final: bool) -> FailureCause:
        """Return what it means for the turn that ran."""
        spared = self.retry is Retry.LATER and turn.spared < MOST_SPARED
        counts = self.counts and not spared
        return FailureCause(
            reason=self.cause,
            wait=min(SPARED_PAUSE << min(turn.spared, 10), SPARED_LONGEST) if spared else None,
            final=final or self.final,
            counts_as_failure=counts,
            keeps_continuation=not counts,
            passing=self.retry is Retry.LATER,
        )


class SessionVerdict(StrEnum):
    KEEP = "keep"
    REST = "rest"  # idle for long enough: close it in good order
    SLEEP = "sleep"  # its turn waits for a person for long enough: end it until there is a decision
    LOST = "lost"  # silent although it has work: end it
    WRAP_UP = "wrap up"  # its time is nearly over: tell it
    TIME_UP = "time up"  # its turn takes longer than a turn may: interrupt it
    OVERTIME = "overtime"  # interrupted, and it goes on all the same: end it


class SessionTiming(Struct, frozen=True, kw_only=True):
    """All times in microseconds of listening."""

    now: int
    started_at: int
    heard_at: int  # the last sign of life on runner.sock
    active_at: int  # the last time it had something to do
    turn_since: int | None = None  # None: no turn runs; later by what it waited for people before
    warned: bool = False  # that its time is nearly over
    time_up_at: int | None = None  # when it was interrupted for that
    waiting_since: int | None = None  # None: its turn waits for no person
    tool_timeout: int = 0  # how long the running tool said it may be silent
    wanted: bool = False  # rows wait for it


class SessionTimeouts(Struct, frozen=True, kw_only=True):
    """All times in microseconds."""

    silence: int = 60_000_000
    idle: int = 300_000_000
    turn: int = 3_600_000_000
    wrap_up: int = 120_000_000
    hold: int = 600_000_000  # a turn that waits for a person keeps its sandbox
    interrupt: int = 3_000_000  # from an interrupt to the end
    hello: int = 20_000_000  # from start to the first word


def check_timeouts(facts: SessionTiming, patience: SessionTimeouts) -> SessionVerdict:
    silent_for = facts.now - facts.heard_at
    if facts.heard_at == facts.started_at:  # has not said a word yet
        return SessionVerdict.LOST if silent_for > patience.hello else SessionVerdict.KEEP
    if silent_for > max(patience.silence, facts.tool_timeout):
        return SessionVerdict.LOST
    if facts.turn_since is not None:
        return _check_turn_timeouts(facts, facts.now - facts.turn_since, patience)
    if not facts.wanted and facts.now - facts.active_at > patience.idle:
        return SessionVerdict.REST
    return SessionVerdict.KEEP


def _check_turn_timeouts(facts: SessionTiming, taken: int, patience: SessionTimeouts) -> SessionVerdict:
    """The patience of a single tool does not count here: a turn may take so long, and no longer."""
    if facts.time_up_at is not None:
        return SessionVerdict.OVERTIME if facts.now - facts.time_up_at > patience.interrupt else SessionVerdict.KEEP
    if facts.waiting_since is not None:  # a person's time is not the agent's
        return SessionVerdict.SLEEP if facts.now - facts.waiting_since > patience.hold else SessionVerdict.KEEP
    if taken > patience.turn:
        return SessionVerdict.TIME_UP
    ahead = min(patience.wrap_up, patience.turn // 2)
    return SessionVerdict.WRAP_UP if not facts.warned and taken > patience.turn - ahead else SessionVerdict.KEEP
