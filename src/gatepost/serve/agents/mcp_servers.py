"""The MCP servers of the web listener, on the same gate as all tools; each says by itself who calls.

- `/mcp/agents`: the management server, for the operator.
- `/mcp/groups/<folder>`: an operator acts as that group's agent, outside of any turn.
- `/mcp/self`, server `gatepost-agent-self-id`: an agent's title and branch, for one without a socket of its own. The
  caller is known by its session's token and by nothing else; a request that names another agent is refused.
"""

from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import Scope

from gatepost import __version__
from gatepost.core.errors import NotFound, Refused
from gatepost.core.registry import Registry
from gatepost.gate.caller import Caller
from gatepost.gate.dispatch import Dispatch
from gatepost.serve.agents.management import NAME, make_management_tools
from gatepost.serve.agents.mcp_endpoint import CallerOf, McpEndpoint
from gatepost.serve.agents.service import AgentService
from gatepost.store.port import Db, Store, inline_read
from gatepost.store.sessions import agents, groups, sessions
from gatepost.tools.call import ToolDeps
from gatepost.tools.contract import TOOLS, Tool

MANAGEMENT_PATH = "/mcp/agents"
GROUPS_PATH = "/mcp/groups"
SELF_PATH, SELF_NAME = "/mcp/self", "gatepost-agent-self-id"
MANAGER = Caller("root", provider="operator")  # whoever may open the door is the operator
SELF_TOOLS = ("set_title", "set_branch")
CLAIM = "callerAgentId"


def make_management_dispatch(service: AgentService, deps: ToolDeps) -> Dispatch:
    """In memory: an assistant inside the process calls this one itself. Its `run` writes the audit behind."""
    return Dispatch(make_management_tools(service), deps)


def make_management_app(dispatch: Dispatch, deps: ToolDeps, largest: int) -> McpEndpoint:
    async def manager(scope: Scope) -> Caller:
        return MANAGER

    return McpEndpoint(NAME, __version__, dispatch, manager, deps.events, largest, elicits=True)


def make_groups_app(dispatch: Dispatch, deps: ToolDeps, largest: int) -> McpEndpoint:
    return McpEndpoint("gatepost", __version__, dispatch, _make_group_finder(deps.store), deps.events, largest)


def _make_group_finder(store: Store) -> CallerOf:
    """The group is told by the path alone, and must be there."""

    async def caller_of(scope: Scope) -> Caller:
        folder = scope["path"].removeprefix(scope["root_path"]).strip("/")
        if await store.read(groups.get, folder) is None:
            raise NotFound("group", folder)
        return Caller(folder)

    return caller_of


def make_self_dispatch(deps: ToolDeps) -> Dispatch:
    own: Registry[Tool] = Registry("self tool")
    for name in SELF_TOOLS:
        own.add(name, TOOLS[name], origin=__name__)
    return Dispatch(own, deps)


def make_self_app(dispatch: Dispatch, deps: ToolDeps, largest: int) -> McpEndpoint:
    return McpEndpoint(SELF_NAME, __version__, dispatch, make_session_finder(deps.store), deps.events, largest)


def make_session_finder(store: Store) -> CallerOf:
    async def find(scope: Scope) -> Caller:
        shown = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ").strip()
        caller = await store.read(_find_session_caller, shown)
        if caller is None:
            raise Refused("who shows no agent's token", "speak for one", why="`gatepost agent token` makes one")
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        if any(claimed != caller.session_id for claimed in query.get(CLAIM, [])):
            raise Refused("this token's agent", "speak for another")
        return caller

    return find


@inline_read
def _find_session_caller(db: Db, token: str) -> Caller | None:
    session_id = agents.find_by_token(db, token) if token else None
    session = sessions.get(db, session_id) if session_id else None
    return Caller(session.folder, session.id, session.provider) if session else None
