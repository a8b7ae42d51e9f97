"""The overview: how every agent stands, who waits for whom, and whether the gateway is well."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.core.clock import Period
from gatepost.core.record_fields import argument, option
from gatepost.flow.reports import AgentStatus, SafeStep
from gatepost.messages.inbound import Direction
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.serve.health.findings import Finding
from gatepost.store.rights.requests import RequestKind

READ = "overview.read"
MOST_SHOWN, LONGEST_SEARCH = 200, 200


class OverviewExtent(StrEnum):
    """How much of the gateway the caller may see."""

    ALL = "all"
    SOME = "some"
    NOTHING = "nothing"


class OverviewMessage(Struct, frozen=True):
    """The last message. `text` is cut."""

    id: int
    direction: Direction
    by: str
    text: str
    at: int


class OverviewBudget(Struct, frozen=True):
    """The budget that is nearest to its end, in millionths of a USD. `folder` '': of the whole gateway."""

    folder: str
    period: Period
    limit: int
    spent: int


class OverviewRequest(Struct, frozen=True):
    """The oldest that waits."""

    id: str
    kind: RequestKind
    what: str
    why: str
    asked_at: int


class OverviewWait(Struct, frozen=True):
    """A party that waits for another, since when at the longest."""

    who: str
    whom: str
    what: str
    count: int
    since_at: int | None


class OverviewStep(Struct, frozen=True):
    """The safe next step: an operation with its arguments, and the same for a terminal."""

    step: SafeStep
    operation: str
    args: dict[str, Any]
    command: str


class AgentOverview(Struct, frozen=True, kw_only=True):
    """`id`: a group's folder, or a managed agent's id. `spent`: today, in millionths of a USD."""

    id: str
    folder: str
    title: str
    managed: bool
    provider: str
    state: AgentStatus
    since_at: int | None
    active_at: int | None
    last: OverviewMessage | None
    queued: int
    sandboxes: int  # awake
    spent: int
    budget: OverviewBudget | None
    requests: int
    request: OverviewRequest | None
    waits: list[OverviewWait]
    failure: str
    next: OverviewStep | None
    retry: OverviewStep | None = None  # of the message that failed


class PanicState(Struct, frozen=True):
    since_at: int
    reason: str


class GatewayOverview(Struct, frozen=True, kw_only=True):
    """`counts`: agents by state, before `part` and `words` choose among them. `total`: after that. `homeless`: requests
    that are about no group, such as a room that goes nowhere."""

    extent: OverviewExtent
    panic: PanicState | None
    findings: list[Finding]
    counts: dict[str, int]
    total: int
    homeless: int
    agents: list[AgentOverview]
    alerts: int = 0  # that are open and not muted


class WhyAnswer(Struct, frozen=True, kw_only=True):
    """`text`: why a message has no answer, in one sentence. `label`: of the step that helps. `asks`: the step is done
    where it is shown what it is about."""

    text: str
    label: str
    asks: bool
    next: OverviewStep | None


@declares("overview.why", right=READ, judges=True)
class ExplainMissingArgs(OperationArgs[WhyAnswer], frozen=True):
    """Say in one sentence why a message has no answer, and what helps.

    Its writer may ask, and everybody with the right op:overview.read for a group that got it. The step is shown to
    people who may do it.
    """

    message: Annotated[str, argument("Its number in the ledger, or its id on the platform.", examples=("42",))]


class OverviewPart(StrEnum):
    ALL = "all"
    ATTENTION = "attention"  # who waits for a person, has no money left, or failed
    BUSY = "busy"  # who has work
    IDLE = "idle"


@declares("overview.show", right=READ, offline=False, answers_all=True)
class ShowOverviewArgs(OperationArgs[GatewayOverview], frozen=True):
    """Show how every agent stands, with the one safe next step. Agents that need somebody come first.

    Each row has the last message, state, queue, sandbox and cost today, and who waits for whom. The findings on the
    gateway's health stand above.

    Each caller gets the groups where they have the right op:overview.read, and the findings with that right for the
    whole gateway.
    """

    folder: Annotated[str, option("Only this group and those below it."), Meta(max_length=255)] = ""
    part: Annotated[OverviewPart, option("Only those that need somebody, have work, or have none.")] = OverviewPart.ALL
    words: Annotated[
        str, option("Only those in whose group, title or provider these words stand."), Meta(max_length=LONGEST_SEARCH)
    ] = ""
    start: Annotated[int, option("Leave out so many.", least=0, most=1_000_000)] = 0
    limit: Annotated[int, option("At most so many.", least=1, most=MOST_SHOWN)] = 60
