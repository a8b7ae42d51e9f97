"""Agents: make one, give it work, wait for it, answer what it asks, end it."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import field

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option
from gatepost.store.rights.requests import AnswerLasts

READ, WRITE, PROMPT = "agents.read", "agents.write", "agents.prompt"
LONGEST_WAIT_S = 50.0  # of one request; who wants to wait longer asks again
AgentId = Annotated[str, argument("An id, the beginning of one, or a title.", "agent")]


class PromptPolicy(StrEnum):
    QUEUE = "queue"  # after what runs
    STEER = "steer"  # into it
    INTERRUPT = "interrupt"  # in its place


@declares("agent.create", right=WRITE, offline=False, of_machine=True)
class AgentSpec(OperationArgs[Any], frozen=True):
    """Make an agent, give it PROMPT (or what stands on stdin), and wait for its answer. Without either it waits for
    work."""

    prompt: Annotated[str, argument("Its first task.", secret=True, hidden=True, tool="initialPrompt")] = ""
    title: Annotated[str, option("Its title, 1 to 60 characters.", tool="title")] = ""
    provider: Annotated[
        str,
        option(
            "The provider; list_providers shows them.",
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


class NamedAgentArgs(OperationArgs[Any], frozen=True):
    id: AgentId


@declares("agent.list", right=READ, offline=False)
class ListAgentsArgs(OperationArgs[Any], frozen=True):
    """List them: those that wait for an answer first, then those at work, then the rest, the latest first."""

    archived: Annotated[bool, option("The archived ones, too.", "all")] = False


@declares("agent.show", right=READ, offline=False)
class ShowAgentArgs(NamedAgentArgs, frozen=True):
    """Everything about AGENT."""


@declares("agent.prompt", right=PROMPT, offline=False)
class PromptAgentArgs(OperationArgs[Any], frozen=True):
    """Give AGENT more to do (PROMPT, or with - what stands on stdin), and wait for its answer."""

    id: AgentId
    text: Annotated[str, argument("Its task.", "prompt", secret=True)]
    policy: Annotated[PromptPolicy, option("After what runs, into it, or in its place and of what waits.")] = (
        PromptPolicy.QUEUE
    )
    mode: Annotated[str, option("Change when it asks before it acts, first.", hidden=True)] = ""


@declares("agent.wait", right=READ, offline=False)
class WaitForAgentArgs(OperationArgs[Any], frozen=True):
    """Wait until AGENT has finished, or asks something."""

    id: AgentId
    timeout_s: Annotated[float, option("Seconds to wait at most.", hidden=True)] = LONGEST_WAIT_S


@declares("agent.follow", right=READ, offline=False)
class FollowAgentArgs(OperationArgs[Any], frozen=True):
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
class AgentTokenArgs(NamedAgentArgs, frozen=True):
    """Make a token by which AGENT is known at /mcp/self, where it sets its title and branch. The one before counts no
    more. An agent in a sandbox of ours needs none: it is known by its socket."""


@declares("agent.stop", right=PROMPT, offline=False)
class StopAgentArgs(NamedAgentArgs, frozen=True):
    """End what AGENT does now, and cancel what waits behind it; it takes further work."""


@declares("agent.kill", right=WRITE, offline=False)
class KillAgentArgs(NamedAgentArgs, frozen=True):
    """End AGENT for good; what it did and said stays."""


@declares("agent.archive", right=WRITE, offline=False)
class ArchiveAgentArgs(NamedAgentArgs, frozen=True):
    """Put AGENT away until it is given work again."""


@declares("agent.mode", right=WRITE, offline=False)
class SetAgentModeArgs(OperationArgs[Any], frozen=True):
    """Change when AGENT asks before it acts, from its next turn on."""

    id: AgentId
    mode: Annotated[str, argument("One of the modes that `gatepost agent inspect` shows.")]


@declares("agent.providers", right=READ, offline=False)
class ListProvidersArgs(OperationArgs[Any], frozen=True):
    """The providers that agents can be made with, and what each lacks."""


@declares("agent.models", right=READ)
class ListModelsArgs(OperationArgs[Any], frozen=True):
    """The models of PROVIDER, its default first, in USD for a million tokens."""

    provider: Annotated[str, argument("The provider.")]


@declares("permit.list", right=READ, offline=False)
class ListRequestsArgs(OperationArgs[Any], frozen=True):
    """List what waits for an answer, the oldest first."""

    after: Annotated[str, option("Only those behind this request, the last one of a list before.", metavar="ID")] = ""
    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 200


@declares("permit.answer", right="agents.permit", offline=False)
class AnswerRequestArgs(OperationArgs[Any], frozen=True):
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
            "To a question, again for each that it has; the group that answers in a room.", "answer", metavar="TEXT"
        ),
    ] = field(default_factory=list)
