"""Reports of flows, as commands and the API show them. Records alone: a command that prints one loads nothing else."""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown

NOT_LOOKED = "Files on other gateways were not looked at. They are when the person is forgotten."


class AgentStatus(StrEnum):
    """The more somebody is needed, the earlier."""

    WAITING = "waiting"  # for a person
    OVER_BUDGET = "over_budget"
    FAILING = "failing"
    STOPPED = "stopped"  # it has work, and the operator has stopped everything
    WORKING = "working"
    QUEUED = "queued"
    RESTING = "resting"  # somebody put it to rest, or a group above it
    READY = "ready"  # its sandbox is there, and has nothing to do
    ASLEEP = "asleep"


NEEDS_SOMEBODY = frozenset(tuple(AgentStatus)[:3])
BUSY = frozenset(tuple(AgentStatus)[3:6])
IDLE = frozenset(tuple(AgentStatus)[6:])


class SafeStep(StrEnum):
    """A step that somebody can take next without making anything worse."""

    ANSWER = "answer"  # a request
    RAISE = "raise"  # a budget
    TRACE = "trace"  # a message that failed
    RETRY = "retry"  # a message that failed
    WAKE = "wake"  # an agent that is at rest
    GO_ON = "go_on"  # after everything was stopped
    INSPECT = "inspect"  # a managed agent that failed
    STOP = "stop"  # a turn that runs too long
    CONNECT = "connect"  # an agent to a group that has the demo's


class InheritedSetting(Struct, frozen=True):
    """Something that holds for a group and comes from elsewhere: a group above it, or the gateway. `operation`: which
    shows it there."""

    name: Annotated[str, shown("Setting", head="setting")]
    value: Annotated[str, shown("Value")]
    source: Annotated[str, shown("From", head="from")]
    operation: str = "group.show"


class ErasureReport(Struct, frozen=True, kw_only=True):
    """Everything that is known of a person, or that was erased of it. Nothing here is kept."""

    person: str
    identities: tuple[str, ...]
    erased: bool
    counts: dict[str, int]
    stand_in: str = ""  # names them in the audit from now on
    rewritten: bool = False  # the store's file as a whole
    left: tuple[str, ...] = ()  # what could not be erased, or is for others to decide


class PanicResult(Struct, frozen=True):
    """Sandboxes that were ended, whether it was new, and why it is not written down ('' if it is)."""

    ended: int
    changed: bool
    why: str


class TrialOutcome(Struct, frozen=True, kw_only=True):
    """`trouble`: '' if it answered; else sandbox, agent, auth, quota, budget, network, busy, price, time, stopped."""

    trouble: str = ""
    reason: str = ""
    answer: str = ""
    sandbox: str = ""
    tools: int = 0
    models: tuple[str, ...] = ()  # that it was run on
    micro: int = 0
    seconds: float = 0.0


class SandboxIsolation(Struct, frozen=True):
    kind: str  # '' if no sandbox works
    isolated: bool
    trouble: str = ""  # why none works, with the way out


class GroupFile(Struct, frozen=True):
    path: Annotated[str, shown("File", ShownAs.CODE)]
    size: Annotated[int, shown("Bytes", ShownAs.NUMBER, head="bytes")]
    changed_at: Annotated[int, shown("Changed", ShownAs.MOMENT, head="changed")]


class GroupFileText(Struct, frozen=True):
    """`version` names this text."""

    folder: str
    path: str
    text: str
    version: str


class WrittenGroupFile(Struct, frozen=True):
    """`skill`: the skill that it is a part of, which the agent has with it from now on; '' for a draft."""

    folder: str
    path: str
    version: str
    size: int
    skill: str = ""


class PromptSection(StrEnum):
    FILE = "file"
    SKILLS = "skills"
    MANNERS = "manners"
    RULES = "rules"
    TOOL = "tool"


class PromptCostPart(Struct, frozen=True):
    section: Annotated[PromptSection, shown("Part", head="part")]
    name: Annotated[str, shown("Name", ShownAs.CODE)]
    size: Annotated[int, shown("Bytes", ShownAs.NUMBER)]
    tokens: Annotated[int, shown("Tokens, about", ShownAs.NUMBER)]


class PromptCost(Struct, frozen=True, kw_only=True):
    """`own`: the agent's program adds a prompt and tools of its own, which are not counted. `hints`: what can be cut,
    and how."""

    folder: Annotated[str, shown("Group")]
    provider: Annotated[str, shown("Provider")]
    size: Annotated[int, shown("Bytes", ShownAs.NUMBER)]
    tokens: Annotated[int, shown("Tokens, about", ShownAs.NUMBER)]
    own: Annotated[bool, shown("Its program adds more")]
    parts: Annotated[list[PromptCostPart], shown("Parts")]
    hints: Annotated[list[str], shown("Hints")]
