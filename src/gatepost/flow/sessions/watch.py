"""Whether an awake session goes on, rests or has lost its way. Pure: facts and the time in, a verdict out."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    KEEP = "keep"
    REST = "rest"  # idle for long enough: close it in good order
    LOST = "lost"  # silent although it has work: end it
    OVERTIME = "overtime"  # its turn takes longer than a turn may


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All times in microseconds."""

    now: int
    started_at: int
    heard_at: int  # the last sign of life on runner.sock
    active_at: int  # the last time it had something to do
    turn_since: int | None = None  # None: no turn runs
    tool_timeout: int = 0  # how long the running tool said it may be silent
    wanted: bool = False  # rows wait for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """All times in microseconds."""

    silence: int = 60_000_000
    idle: int = 300_000_000
    turn: int = 3_600_000_000
    hello: int = 20_000_000  # from start to the first word


def judge(facts: Facts, patience: Patience) -> Verdict:
    silent_for = facts.now - facts.heard_at
    if facts.heard_at == facts.started_at:  # has not said a word yet
        return Verdict.LOST if silent_for > patience.hello else Verdict.KEEP
    if silent_for > max(patience.silence, facts.tool_timeout):
        return Verdict.LOST
    if facts.turn_since is not None:
        allowed = max(patience.turn, facts.tool_timeout)
        return Verdict.OVERTIME if facts.now - facts.turn_since > allowed else Verdict.KEEP
    if not facts.wanted and facts.now - facts.active_at > patience.idle:
        return Verdict.REST
    return Verdict.KEEP
