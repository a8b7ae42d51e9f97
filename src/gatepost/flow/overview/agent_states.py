"""States in which an agent can stand, and the steps that can be taken next."""

from enum import StrEnum


class AgentStanding(StrEnum):
    """The more somebody is needed, the earlier."""

    WAITING = "waiting"  # for a person
    OVER_BUDGET = "over_budget"
    FAILING = "failing"
    STOPPED = "stopped"  # it has work, and the operator has stopped everything
    WORKING = "working"
    QUEUED = "queued"
    READY = "ready"  # its sandbox is there, and has nothing to do
    ASLEEP = "asleep"


NEEDS_SOMEBODY = frozenset(tuple(AgentStanding)[:3])
BUSY = frozenset(tuple(AgentStanding)[3:6])
IDLE = frozenset(tuple(AgentStanding)[6:])


class SafeStep(StrEnum):
    """A step that somebody can take next without making anything worse."""

    ANSWER = "answer"  # a request
    RAISE = "raise"  # a budget
    TRACE = "trace"  # a message that failed
    INSPECT = "inspect"  # a managed agent that failed
    STOP = "stop"  # a turn that runs too long
    CONNECT = "connect"  # an agent to a group that has the demo's
