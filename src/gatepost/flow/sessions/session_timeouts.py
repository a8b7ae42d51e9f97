"""The verdict whether an awake session goes on, rests or has lost its way. Pure: facts and the time in, a verdict out.

All of it is judged by the time during which this gateway listened. While the process was stopped or the machine was
suspended nobody could be heard, so that time is counted against nobody.
"""

from enum import StrEnum

from msgspec import Struct

from gatepost.core.clock import SECOND, Clock

LONGEST_GAP = 2 * SECOND  # between two ticks; what is beyond it was a pause of ours


class ListeningTime:
    """Microseconds during which this gateway listened, by the monotonic clock. The watcher ticks; a gap between two
    ticks counts as `LONGEST_GAP` at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_tick, self._tick_at = 0, clock.monotonic()

    def now(self) -> int:
        return self._until_tick + min(max(self._clock.monotonic() - self._tick_at, 0), LONGEST_GAP)

    def tick(self) -> int:
        """The watcher runs: what came before this is listened for. The moment."""
        self._until_tick, self._tick_at = self.now(), self._clock.monotonic()
        return self._until_tick


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
    """What a tool said about its own patience does not count here: a turn may take so long, and no longer."""
    if facts.time_up_at is not None:
        return SessionVerdict.OVERTIME if facts.now - facts.time_up_at > patience.interrupt else SessionVerdict.KEEP
    if facts.waiting_since is not None:  # a person's time is not the agent's
        return SessionVerdict.SLEEP if facts.now - facts.waiting_since > patience.hold else SessionVerdict.KEEP
    if taken > patience.turn:
        return SessionVerdict.TIME_UP
    ahead = min(patience.wrap_up, patience.turn // 2)
    return SessionVerdict.WRAP_UP if not facts.warned and taken > patience.turn - ahead else SessionVerdict.KEEP
