"""`/mcp/self`, server `gatepost-agent-self-id`: an agent's title and branch, for one without a socket of its own.

The caller is known by its session's token and by nothing else; a request that names another agent is refused.
"""

from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import Scope

from gatepost import __version__
from gatepost.core.errors import Refused
from gatepost.core.registry import Registry
from gatepost.gate.caller import Caller
from gatepost.gate.dispatch import Dispatch
from gatepost.serve.agents.mcp_endpoint import CallerOf, McpEndpoint
from gatepost.store.port import Db, Store, inline_read
from gatepost.store.sessions import agents, sessions
from gatepost.tools.call import ToolDeps
from gatepost.tools.contract import TOOLS, Tool

PATH, NAME = "/mcp/self", "gatepost-agent-self-id"
TOOL_NAMES = ("set_title", "set_branch")
CLAIM = "callerAgentId"


def make_self_dispatch(deps: ToolDeps) -> Dispatch:
    own: Registry[Tool] = Registry("self tool")
    for name in TOOL_NAMES:
        own.add(name, TOOLS[name], origin=__name__)
    return Dispatch(own, deps)


def make_self_app(dispatch: Dispatch, deps: ToolDeps, largest: int) -> McpEndpoint:
    return McpEndpoint(NAME, __version__, dispatch, make_caller_finder(deps.store), deps.events, largest)


def make_caller_finder(store: Store) -> CallerOf:
    async def find(scope: Scope) -> Caller:
        shown = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ").strip()
        caller = await store.read(_find_caller, shown)
        if caller is None:
            raise Refused("who shows no agent's token", "speak for one", why="`gatepost agent token` makes one")
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        if any(claimed != caller.session_id for claimed in query.get(CLAIM, [])):
            raise Refused("this token's agent", "speak for another")
        return caller

    return find


@inline_read
def _find_caller(db: Db, token: str) -> Caller | None:
    session_id = agents.find_by_token(db, token) if token else None
    session = sessions.get(db, session_id) if session_id else None
    return Caller(session.folder, session.id, session.provider) if session else None
