"""The server `gatepost-agent-management`: agents as tools, for an assistant inside the process and for MCP clients.

The tools are declared like all others and pass the same gate; who may reach the server at all is its operator.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid, Unavailable
from gatepost.core.registry import Registry
from gatepost.inside.provider_spec import Mode
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.agents.agent_spec import check_title
from gatepost.serve.agents.derived_tools import with_fields_of
from gatepost.serve.agents.eliciting_client import get_resumed_agent, wait_and_ask
from gatepost.serve.agents.schedules import add_schedule_tools
from gatepost.serve.agents.service import AgentService
from gatepost.serve.agents.worktrees import add_worktree_tools
from gatepost.serve.control.arguments.agents import (
    AgentSnapshot,
    AgentSpec,
    ModelInfo,
    PendingRequest,
    PromptPolicy,
    ProviderInfo,
    WaitOutcome,
)
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.worktrees import SetupState
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, Tool, tool

NAME = "gatepost-agent-management"

AgentId = Annotated[str, Meta(description="The agent's id, an unambiguous beginning of it, or its title.")]
Text = Annotated[Body, Meta(description="The task for the agent.")]
Labels = Annotated[dict[str, str] | None, Meta(description="Names and values of your own, to find it by.")]


class CreateAgentResult(Struct, frozen=True, rename="camel", kw_only=True):
    agent_id: str
    type: str
    status: SessionState
    folder: str
    cwd: str
    worktree: str | None
    setup_state: SetupState | None
    notes: list[str]
    current_mode_id: str
    available_modes: list[Mode]
    last_message: str | None = None
    last_error: str | None = None
    permission: PendingRequest | None = None


class PromptAgentResult(Struct, frozen=True, rename="camel", kw_only=True):
    success: bool
    status: SessionState
    last_message: str | None = None
    last_error: str | None = None
    permission: PendingRequest | None = None


class AgentStatusResult(Struct, frozen=True):
    status: SessionState
    snapshot: AgentSnapshot


class ListAgentsResult(Struct, frozen=True):
    agents: list[AgentSnapshot]


class SuccessResult(Struct, frozen=True):
    success: bool


class SetAgentModeResult(Struct, frozen=True, rename="camel", kw_only=True):
    success: bool
    new_mode: str


class AgentActivityResult(Struct, frozen=True, rename="camel", kw_only=True):
    agent_id: str
    update_count: int
    current_mode_id: str
    content: str


class AgentPendingRequest(Struct, frozen=True, rename="camel", kw_only=True):
    agent_id: str  # '': a person asks
    status: SessionState | None
    request: PendingRequest


class PendingRequestsResult(Struct, frozen=True):
    permissions: list[AgentPendingRequest]


class ListProvidersResult(Struct, frozen=True):
    providers: list[ProviderInfo]


class ListModelsResult(Struct, frozen=True):
    """Prices in USD for a million tokens."""

    provider: str
    models: list[ModelInfo]


_RESPONSE = (
    "`behavior`: allow or deny; with allow perhaps `updatedInput`, used instead of what it asked for; with deny perhaps"
    " `message`, the reason, and `interrupt` (true: its turn ends)."
)


class PermissionResponse(Struct, frozen=True, rename="camel", kw_only=True):
    """`behavior` allow or deny; with allow perhaps another input, with deny a reason, and whether to end the turn."""

    behavior: Literal["allow", "deny"]
    updated_input: dict[str, Any] | None = None
    message: str = ""
    interrupt: bool = False


def make_management_tools(service: AgentService) -> Registry[Tool]:
    """The registry of this server, bound to a gateway's agents."""
    made: Registry[Tool] = Registry("agent tool")
    for declare in (
        _add_create_tools,
        _add_lifecycle_tools,
        _add_read_tools,
        _add_prompt_tools,
        _add_permission_tools,
        add_worktree_tools,
        add_schedule_tools,
    ):
        declare(service, made)
    return made


def _declare(made: Registry[Tool], **more: Any) -> Callable[[Any], Any]:
    return tool(tier=Tier.ROOT, group="agents", registry=made, **more)


async def _wait_unless_background(service: AgentService, agent_id: str, background: bool) -> WaitOutcome | None:
    return None if background else await wait_and_ask(service, agent_id)


def _add_create_tools(service: AgentService, made: Registry[Tool]) -> None:
    @_declare(made, effects=(Subject.INSTRUCT,))
    @with_fields_of(AgentSpec)
    async def create_agent(
        call: ToolCall,
        wanted: AgentSpec,
        *,
        background: Annotated[bool, Meta(description="Return at once; else wait for its first turn.")] = False,
    ) -> CreateAgentResult:
        """Make an agent and give it something to do. It works in a sandbox of its own.

        To give an agent that exists more work use send_agent_prompt.
        """
        resumed = get_resumed_agent()
        made_one = await service.status(resumed) if resumed else await service.create(wanted, OPERATOR)
        ended = await _wait_unless_background(service, made_one.agent_id, background or not wanted.prompt)
        return CreateAgentResult(
            agent_id=made_one.agent_id,
            type=made_one.type,
            status=ended.status if ended else made_one.status,
            folder=made_one.folder,
            cwd=made_one.cwd,
            worktree=made_one.worktree,
            setup_state=made_one.setup_state,
            notes=made_one.notes,
            current_mode_id=made_one.current_mode_id,
            available_modes=made_one.available_modes,
            last_message=ended.last_message if ended else None,
            last_error=ended.last_error if ended else None,
            permission=ended.permission if ended else None,
        )


def _add_lifecycle_tools(service: AgentService, made: Registry[Tool]) -> None:
    @_declare(made, effects=(Subject.INSTRUCT,))
    async def fork_agent(
        call: ToolCall,
        agentId: AgentId,
        title: Annotated[str, Meta(description="The title of the new one, at most 60 characters.")] = "",
    ) -> AgentStatusResult:
        """Make an agent that knows all that another one knows; that one goes on as before. Both work on the same files.

        To try two ways from one point. Give it something to do with send_agent_prompt.
        """
        if call.deps.forker is None:
            raise Unavailable("fork_agent", "no agent runs in this process")
        parent = await service.find(agentId)
        made_one = await call.deps.forker.copy_session(call, parent.id, check_title(title, empty_ok=True))
        found = await service.status(made_one.session_id)
        return AgentStatusResult(found.status, found)

    @_declare(made, destructive=True, idempotent=True, effects=(Subject.ERASE,))
    async def kill_agent(call: ToolCall, agentId: AgentId) -> SuccessResult:
        """End an agent for good: it takes no further prompt. Its messages and its work stay.

        To end only what it does now use cancel_agent; to put it away until it is needed archive_agent.
        """
        await service.kill(agentId, OPERATOR)
        return SuccessResult(True)

    @_declare(made, idempotent=True, effects=(Subject.ERASE,))
    async def archive_agent(call: ToolCall, agentId: AgentId) -> SuccessResult:
        """Put an agent away: it leaves the lists until somebody gives it work again. To end it for good: kill_agent."""
        await service.archive(agentId, OPERATOR)
        return SuccessResult(True)

    @_declare(made, idempotent=True, effects=())
    async def update_agent(
        call: ToolCall,
        agentId: AgentId,
        title: Annotated[str | None, Meta(description="Its new title, 1 to 60 characters.")] = None,
        labels: Labels = None,
    ) -> AgentSnapshot:
        """Change an agent's title or labels (all of them). To change when it asks use set_agent_mode."""
        if title is None and labels is None:
            raise Invalid("title", "say a title, labels or both")
        return await service.update(agentId, OPERATOR, title=title, labels=labels)


def _add_read_tools(service: AgentService, made: Registry[Tool]) -> None:
    @_declare(made, read_only=True, idempotent=True)
    async def wait_for_agent(call: ToolCall, agentId: AgentId) -> WaitOutcome:
        """Wait until an agent has finished, has failed (`lastError` says why) or asks something. Returns before your
        own limit; then call again.

        For a look without waiting use get_agent_status.
        """
        return await wait_and_ask(service, agentId)

    @_declare(made, read_only=True, idempotent=True)
    async def get_agent_status(call: ToolCall, agentId: AgentId) -> AgentStatusResult:
        """See how an agent stands. For what it did use get_agent_activity."""
        found = await service.status(agentId)
        return AgentStatusResult(found.status, found)

    @_declare(made, read_only=True, idempotent=True)
    async def list_agents(
        call: ToolCall,
        includeArchived: Annotated[bool, Meta(description="Those that were put away, too.")] = False,
        statuses: Annotated[list[str] | None, Meta(description="Only these states.")] = None,
        limit: Annotated[int, Meta(description="At most so many (1–200).")] = 50,
    ) -> ListAgentsResult:
        """List agents: those that wait for an answer first, then those at work, then the rest, the latest first."""
        found = await service.every(archived=includeArchived, statuses=frozenset(statuses or ()))
        return ListAgentsResult(found[: min(max(limit, 1), 200)])

    @_declare(made, read_only=True, idempotent=True)
    async def get_agent_activity(
        call: ToolCall,
        agentId: AgentId,
        limit: Annotated[int, Meta(description="The newest so many entries; 0: all that fit one answer.")] = 0,
    ) -> AgentActivityResult:
        """Read what an agent did and said, as lines. For its state use get_agent_status."""
        found = await service.status(agentId)
        shown, total, text = await service.activity(found.agent_id, max(limit, 0))
        more = " (the newest; the others do not fit one answer)" if shown < min(limit or total, total) else ""
        return AgentActivityResult(
            agent_id=found.agent_id,
            update_count=total,
            current_mode_id=found.current_mode_id,
            content=f"Showing {shown} of {total} entries{more}\n\n{text}",
        )

    @_declare(made, read_only=True, idempotent=True)
    async def list_providers(call: ToolCall) -> ListProvidersResult:
        """See which providers agents can be made with, whether each is ready (and what it lacks), and their modes.

        For the models of one use list_models.
        """
        return ListProvidersResult(await service.providers())

    @_declare(made, read_only=True, idempotent=True)
    async def list_models(
        call: ToolCall, provider: Annotated[str, Meta(description="As list_providers names it.")]
    ) -> ListModelsResult:
        """See which models a provider can be made with, the default first, and what they cost."""
        return ListModelsResult(provider, service.models(provider))


def _add_prompt_tools(service: AgentService, made: Registry[Tool]) -> None:
    @_declare(made, effects=(Subject.INSTRUCT,))
    async def send_agent_prompt(
        call: ToolCall,
        agentId: AgentId,
        prompt: Text,
        sessionMode: Annotated[str | None, Meta(description="Change when it asks, first.")] = None,
        policy: Annotated[
            PromptPolicy, Meta(description="queue: after what runs; steer: into it; interrupt: in its place.")
        ] = PromptPolicy.QUEUE,
        notifyOnFinish: Annotated[bool, Meta(description="Tell its parent once, when it has finished.")] = False,
        background: Annotated[bool, Meta(description="Return at once; else wait for its end.")] = False,
    ) -> PromptAgentResult:
        """Give an agent more to do. An archived one comes back by it."""
        if get_resumed_agent() is None:
            mode = sessionMode or ""
            await service.prompt(agentId, prompt, OPERATOR, policy=policy, mode=mode, notify=notifyOnFinish)
        if background:
            return PromptAgentResult(success=True, status=(await service.status(agentId)).status)
        ended = await wait_and_ask(service, agentId)
        return PromptAgentResult(
            success=True,
            status=ended.status,
            last_message=ended.last_message,
            last_error=ended.last_error,
            permission=ended.permission,
        )

    @_declare(made, destructive=True, idempotent=True, effects=())
    async def cancel_agent(call: ToolCall, agentId: AgentId) -> SuccessResult:
        """End what an agent does now, and cancel every prompt that waits behind it; it stays and takes further ones.

        `success` is false if there was nothing to end. To put one prompt in the place of what runs use
        send_agent_prompt with the policy interrupt.
        """
        return SuccessResult(await service.cancel(agentId, OPERATOR))

    @_declare(made, idempotent=True, effects=(Subject.CHANGE_RIGHTS,))
    async def set_agent_mode(
        call: ToolCall,
        agentId: AgentId,
        modeId: Annotated[str, Meta(description="One of `availableModes` of get_agent_status.")],
    ) -> SetAgentModeResult:
        """Change when an agent asks before it acts, from its next turn on."""
        return SetAgentModeResult(success=True, new_mode=await service.set_mode(agentId, modeId, OPERATOR))


def _add_permission_tools(service: AgentService, made: Registry[Tool]) -> None:
    @_declare(made, read_only=True, idempotent=True)
    async def list_pending_permissions(call: ToolCall) -> PendingRequestsResult:
        """See what agents ask (to use a tool, to have a plan approved, a question) and wait for: the oldest 200.

        Answer with respond_to_permission.
        """
        found = await service.pending()
        return PendingRequestsResult(
            [
                AgentPendingRequest(agent_id=each.agent_id, status=each.status, request=request)
                for each, request in found
            ]
        )

    @_declare(made, effects=(Subject.CHANGE_RIGHTS,))
    async def respond_to_permission(
        call: ToolCall,
        agentId: AgentId,
        requestId: Annotated[str, Meta(description="The request's id, from list_pending_permissions.")],
        response: Annotated[PermissionResponse, Meta(description=_RESPONSE)],
    ) -> SuccessResult:
        """Answer what an agent asks: allow it, perhaps with another input, or deny it, perhaps ending its turn.

        A question (kind `question`) is answered by allowing it with `updatedInput` {"answers": {"<header>": "<text>"}};
        where a question has no header, by its own words.
        """
        await service.respond(
            requestId,
            OPERATOR,
            agent_id=agentId,
            allow=response.behavior == "allow",
            updated=response.updated_input,
            message=response.message,
            interrupt=response.interrupt,
        )
        return SuccessResult(True)
