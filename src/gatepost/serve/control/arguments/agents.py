"""Agents: make one, give it work, wait for it, answer what it asks, end it. Connectors: third-party MCP servers that
the host runs, whose tools agents call."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType, field

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.inside.provider_spec import Mode
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.connector_tools import ConnectorCheck, ToolChange
from gatepost.store.rights.requests import AnswerLasts, RequestKind
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.timeline import TimelineKind
from gatepost.store.sessions.worktrees import SetupState

READ, WRITE, PROMPT = "agents.read", "agents.write", "agents.prompt"
LONGEST_WAIT_S = 50.0  # of one request; who wants to wait longer asks again
AgentId = Annotated[str, argument("An id, the beginning of one, or a title.", "agent")]


class PendingRequest(Struct, frozen=True, rename="camel", kw_only=True):
    """A question of an agent's provider before it acts."""

    id: str
    kind: RequestKind
    name: str
    input: dict[str, Any]
    asked_at: str
    next_mode_id: str | None = None  # of a plan: the agent's mode once it is allowed
    follow_up: str | None = None  # and the prompt of the turn that carries it out, if the same turn cannot
    editable: bool = False  # it can be allowed with another input
    cut: bool = False  # `input` is an excerpt; what is allowed is the whole, which its provider holds
    why: str = ""  # it waits for a person
    preview: str = ""  # what it would do beyond `input`: the files, messages and accounts that it uses, as markdown


class AgentSnapshot(Struct, frozen=True, rename="camel", kw_only=True):
    """An agent as it stands."""

    agent_id: Annotated[str, shown("Id", ShownAs.ID, head="agent")]
    title: Annotated[str, shown("Agent", head="title")]
    status: Annotated[SessionState, shown("State", ShownAs.BADGE)]
    type: Annotated[str, shown("Provider", head="provider")]
    folder: Annotated[str, shown("Group", head="group")]
    model: Annotated[str, shown("Model", details=True)]
    current_mode_id: Annotated[str, shown("Mode", head="mode")]
    available_modes: list[Mode]
    cwd: Annotated[str, shown("Folder", ShownAs.CODE, details=True)]  # on the host; '': its group's folder
    worktree: Annotated[str | None, shown("Worktree", ShownAs.CODE, details=True)]  # the managed one that it works in
    setup_state: Annotated[SetupState | None, shown("Setup", ShownAs.BADGE, details=True)]  # of that worktree
    labels: Annotated[dict[str, str], shown("Labels", details=True)]
    parent_agent_id: Annotated[str | None, shown("Made by", ShownAs.CODE, details=True)]
    created_at: Annotated[str, shown("Since", ShownAs.MOMENT, details=True)]
    updated_at: Annotated[str, shown("Updated", ShownAs.MOMENT, head="updated")]
    archived_at: str | None
    last_error: str | None
    last_message: Annotated[str | None, shown("Last message", ShownAs.LONG, details=True)]
    pending_permissions: list[PendingRequest]
    notes: list[str] = []  # what whoever made it should know, told when it is made


class WaitOutcome(Struct, frozen=True, rename="camel", kw_only=True):
    """The outcome of waiting."""

    agent_id: str
    title: str
    status: SessionState
    last_message: str | None
    last_error: str | None = None  # why its turn failed
    permission: PendingRequest | None = None
    waited_out: bool = False  # it still runs


class RequestingAgent(Struct, frozen=True, rename="camel", kw_only=True):
    """The agent that asks; no more of it than a list needs."""

    agent_id: str
    title: str
    type: str
    folder: str
    status: SessionState | None  # None: it is a person who asks


class ProviderInfo(Struct, frozen=True, rename="camel", kw_only=True):
    id: Annotated[str, shown("Provider", ShownAs.ID, head="provider")]
    what: Annotated[str, shown("What it is", head="what it is")]
    modes: list[Mode]
    ready: Annotated[bool, shown("Ready")]
    default_model: Annotated[str | None, shown("Default model", head="default model", empty="its own")] = None
    # Why it is not ready, and the way out.
    reason: Annotated[str | None, shown("What it lacks", head="what it lacks")] = None


def _render_price(price: float) -> str:
    return f"{price:g}"


class ModelInfo(Struct, frozen=True, rename="camel", kw_only=True):
    """USD for a million tokens."""

    id: Annotated[str, shown("Model", ShownAs.ID, head="model")]
    vendor: Annotated[str, shown("Vendor")]
    is_default: Annotated[bool, shown("Default", head="default", render=lambda held: "default" if held else "")]
    input: Annotated[float, shown("Input", render=_render_price)]
    output: Annotated[float, shown("Output", render=_render_price)]
    cache_read: Annotated[float, shown("Cache read", head="cache read", render=_render_price)]
    cache_write: Annotated[float, shown("Cache write", head="cache write", render=_render_price)]
    # The operator's file has it.
    own_price: Annotated[bool, shown("Price", head="price", render=lambda held: "yours" if held else "usual")]


class AgentToken(Struct, frozen=True, rename="camel"):
    agent_id: str
    token: str  # told this once


class StopAgentResult(Struct, frozen=True, rename="camel"):
    agent_id: str
    stopped: bool


class LogEntry(Struct, frozen=True):
    seq: int
    at: int
    turn: str
    kind: TimelineKind
    data: dict[str, Any]


class AgentNews(Struct, frozen=True, kw_only=True, rename="camel"):
    agent_id: str
    title: str
    provider: str
    status: SessionState
    current_mode_id: str
    epoch: str
    next: int
    entries: list[LogEntry]
    permissions: list[PendingRequest]


class AgentRequest(Struct, frozen=True):
    """`asked_by`: the person for whom the agent works, '' if nobody gave it the work."""

    agent: RequestingAgent
    request: PendingRequest
    asked_by: str = ""


class AnswerResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """For an allowed plan: the mode and the prompt that carry it out, if there are any."""

    id: str
    allowed: bool
    awaited: str | UnsetType = UNSET  # one vote of several: how many are there
    next_mode_id: str | UnsetType = UNSET
    follow_up: str | UnsetType = UNSET


class PromptPolicy(StrEnum):
    QUEUE = "queue"  # after what runs
    STEER = "steer"  # into it
    INTERRUPT = "interrupt"  # in its place


@declares("agent.create", right=WRITE, offline=False, of_machine=True)
class AgentSpec(OperationArgs[AgentSnapshot], frozen=True):
    """Make an agent, give it PROMPT (or what stands on stdin), and wait for its answer. Without either it waits for
    work."""

    prompt: Annotated[str, argument("Its first task.", secret=True, hidden=True, tool="initialPrompt")] = ""
    title: Annotated[str, option("Its title, 1 to 60 characters.", tool="title")] = ""
    provider: Annotated[
        str,
        option(
            "What it runs on: the name of a provider.",
            cli="As `gatepost connect` lists them (default: the group's).",
            tool="agentType",
        ),
    ] = ""
    mode: Annotated[
        str,
        option("When it asks before it acts.", cli="When it asks; see `gatepost agent inspect`.", tool="initialMode"),
    ] = ""
    folder: Annotated[
        str,
        option(
            "The group whose rights and budget it has.", cli="The group that it is in (default: agents).", tool="folder"
        ),
    ] = ""
    cwd: Annotated[
        str,
        option(
            "The folder it starts in: a worktree, or a folder of this machine that agents may write to.", tool="cwd"
        ),
    ] = ""
    worktree: Annotated[
        str, option("Make a worktree of the repository `cwd`, on a new branch of this name.", tool="worktreeName")
    ] = ""
    base: Annotated[str, option("The branch that the worktree begins from.", tool="baseBranch")] = ""
    model: Annotated[
        str,
        option("The provider's own if left out.", cli="See `gatepost agent models` (default: its own).", tool="model"),
    ] = ""
    labels: Annotated[
        dict[str, str] | None,
        option("Names and values of your own, to find it by.", "label", metavar="NAME=VALUE", tool="labels"),
    ] = None
    parent: Annotated[str, option("The agent that makes it, if it is one.", hidden=True, tool="parentAgentId")] = ""
    notify: Annotated[
        bool, option("Tell the parent once, when it has finished.", hidden=True, tool="notifyOnFinish")
    ] = False


@declares("agent.list", right=READ, offline=False)
class ListAgentsArgs(OperationArgs[list[AgentSnapshot]], frozen=True):
    """List them: those that wait for an answer first, then those at work, then the rest, the latest first."""

    archived: Annotated[bool, option("The archived ones, too.", "all")] = False


@declares("agent.show", right=READ, offline=False)
class ShowAgentArgs(OperationArgs[AgentSnapshot], frozen=True):
    """Everything about AGENT."""

    id: AgentId


@declares("agent.prompt", right=PROMPT, offline=False)
class PromptAgentArgs(OperationArgs[AgentSnapshot], frozen=True):
    """Give AGENT more to do (PROMPT, or with - what stands on stdin), and wait for its answer."""

    id: AgentId
    text: Annotated[str, argument("Its task.", "prompt", secret=True)]
    policy: Annotated[PromptPolicy, option("After what runs, into it, or in its place and of what waits.")] = (
        PromptPolicy.QUEUE
    )
    mode: Annotated[str, option("Change when it asks before it acts, first.", hidden=True)] = ""


@declares("agent.wait", right=READ, offline=False)
class WaitForAgentArgs(OperationArgs[WaitOutcome], frozen=True):
    """Wait until AGENT has finished, or asks something."""

    id: AgentId
    timeout_s: Annotated[float, option("Seconds to wait at most.", hidden=True)] = LONGEST_WAIT_S


@declares("agent.follow", right=READ, offline=False)
class FollowAgentArgs(OperationArgs[AgentNews], frozen=True):
    """News after a cursor, as soon as there is something; how AGENT stands, and what it asks.

    `status` and `asked`: what whoever asks knows already; news is what differs.
    """

    id: AgentId
    after: Annotated[int | None, option("The cursor; without one, the newest entries.")] = None
    limit: Annotated[int, option("At most so many entries.")] = 200
    status: Annotated[str, option("The status that is known already.")] = ""
    asked: Annotated[list[str], option("The requests that are known already.")] = field(default_factory=list)
    timeout_s: Annotated[float, option("Seconds to wait at most.")] = 0.0


@declares("agent.token", right=WRITE, offline=False)
class AgentTokenArgs(OperationArgs[AgentToken], frozen=True):
    """Make a token by which AGENT is known at /mcp/self, where it sets its title and branch. The one before counts no
    more. An agent in a sandbox of ours needs none: it is known by its socket."""

    id: AgentId


@declares("agent.stop", right=PROMPT, offline=False)
class StopAgentArgs(OperationArgs[StopAgentResult], frozen=True):
    """End what AGENT does now, and cancel what waits behind it; it takes further work."""

    id: AgentId


@declares("agent.kill", right=WRITE, offline=False)
class KillAgentArgs(OperationArgs[AgentSnapshot], frozen=True):
    """End AGENT for good; what it did and said stays."""

    id: AgentId


@declares("agent.archive", right=WRITE, offline=False)
class ArchiveAgentArgs(OperationArgs[AgentSnapshot], frozen=True):
    """Put AGENT away until it is given work again."""

    id: AgentId


@declares("agent.mode", right=WRITE, offline=False)
class SetAgentModeArgs(OperationArgs[AgentSnapshot], frozen=True):
    """Change when AGENT asks before it acts, from its next turn on."""

    id: AgentId
    mode: Annotated[str, argument("One of the modes that `gatepost agent inspect` shows.")]


@declares("agent.providers", right=READ, offline=False)
class ListProvidersArgs(OperationArgs[list[ProviderInfo]], frozen=True):
    """The providers that agents can be made with, and what each lacks."""


@declares("agent.models", right=READ)
class ListModelsArgs(OperationArgs[list[ModelInfo]], frozen=True):
    """The models of PROVIDER, its default first, in USD for a million tokens."""

    provider: Annotated[str, argument("The provider.")]


@declares("permit.list", right=READ, offline=False)
class ListRequestsArgs(OperationArgs[list[AgentRequest]], frozen=True):
    """List what waits for an answer, the oldest first."""

    after: Annotated[str, option("Only those behind this request, the last one of a list before.", metavar="ID")] = ""
    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 200


@declares("permit.answer", right="agents.permit", offline=False)
class AnswerRequestArgs(OperationArgs[AnswerResult], frozen=True):
    """Answer what an agent asks before it acts, or what is asked about a person, a room or a host. REQUEST is
    an id, the beginning of one, or the agent that asks."""

    id: Annotated[str, argument("The request.", "request")]
    allow: Annotated[bool, option("Allow it.")]
    message: Annotated[str, option("The reason of a denial.")] = ""
    interrupt: Annotated[bool, option("With a denial, end its turn as well.", "stop")] = False
    lasts: Annotated[
        AnswerLasts,
        option(
            "How long the answer holds: once, for the agent's session, or always, which writes a rule or a membership,"
            " or blocks a person.",
            "for",
        ),
    ] = AnswerLasts.ONCE
    input: Annotated[
        dict[str, Any],
        option("Allow it with these arguments in place of those that it asks for.", hidden=True),
    ] = field(default_factory=dict)
    answers: Annotated[
        list[str],
        option(
            "To a question, again for each that it has; the group that answers in a room; for a budget, the cheaper"
            " model; for a model, its price.",
            "answer",
            metavar="TEXT",
        ),
    ] = field(default_factory=list)


class ConnectorItem(Struct, frozen=True, kw_only=True):
    """`variables`: the names alone. `tools`: as agents call them, when it was last asked. `held`: those that changed
    and wait to be accepted, as its server names them."""

    name: Annotated[str, shown("Connector", ShownAs.CODE, head="connector")]
    program: Annotated[str, shown("Program", ShownAs.CODE)]
    tier: Annotated[str, shown("For agents from", ShownAs.BADGE, head="down to tier")]
    tools: Annotated[tuple[str, ...], shown("Tools", empty="not asked yet")]
    held: Annotated[tuple[str, ...], shown("Wait to be accepted", head="wait to be accepted")]
    secrets: Annotated[tuple[str, ...], shown("Secrets", details=True)]
    variables: Annotated[tuple[str, ...], shown("Variables", details=True)]
    timeout_s: Annotated[float, shown("Patience", details=True, render=lambda seconds: f"{seconds:g} s")]


class ConnectorChanges(Struct, frozen=True):
    """`digest`: of all that waits; to accept by it is to accept just this."""

    name: str
    digest: str
    tools: list[ToolChange]


class AcceptedTools(Struct, frozen=True):
    name: str
    tools: tuple[str, ...]


@declares("connector.list", right="connector.read")
class ListConnectorsArgs(OperationArgs[list[ConnectorItem]], frozen=True):
    """List the connectors of gatepost.toml, with the tools that each listed when it was last asked."""


@declares("connector.check", right="connector.check")
class CheckConnectorArgs(OperationArgs[ConnectorCheck], frozen=True):
    """Start a connector without any secret, have it list its tools, and end it. Nothing changes."""

    name: Annotated[str, argument("The connector.", "name", examples=("github",))]


@declares("connector.changes", right="connector.read")
class ListConnectorChangesArgs(OperationArgs[list[ConnectorChanges]], frozen=True):
    """Show the tools of connectors that are new or told of in other words than were accepted. Agents do not have
    them."""

    name: Annotated[str, argument("Only this connector.", "name", examples=("github",))] = ""


@declares("connector.accept", right="connector.write")
class AcceptConnectorToolsArgs(OperationArgs[AcceptedTools], frozen=True):
    """Accept the tools of a connector as they are now, or one of them. Agents have them from then on."""

    name: Annotated[str, argument("The connector.", "name", examples=("github",))]
    tool: Annotated[str, argument("Only this tool, as its server names it.", "tool")] = ""
    digest: Annotated[str, option("Only if this is what waits: the digest that `changes` prints.")] = ""
