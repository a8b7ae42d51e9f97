"""`/mcp/groups/<folder>`: an operator acts as that group's agent, outside of any turn."""

from starlette.types import Scope

from gatepost import __version__
from gatepost.core.errors import NotFound
from gatepost.gate.dispatch import Dispatch
from gatepost.serve.agents.mcp_endpoint import CallerOf, McpEndpoint
from gatepost.store.port import Store
from gatepost.store.sessions import groups
from gatepost.tools.call import Caller, ToolDeps

PATH = "/mcp/groups"


def make_groups_app(dispatch: Dispatch, deps: ToolDeps, largest: int) -> McpEndpoint:
    return McpEndpoint("gatepost", __version__, dispatch, _caller_of(deps.store), deps.events, largest)


def _caller_of(store: Store) -> CallerOf:
    """The group is told by the path alone, and must be there."""

    async def caller_of(scope: Scope) -> Caller:
        folder = scope["path"].removeprefix(scope["root_path"]).strip("/")
        if await store.read(groups.get, folder) is None:
            raise NotFound("group", folder)
        return Caller(folder)

    return caller_of
