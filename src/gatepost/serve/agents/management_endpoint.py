"""`/mcp/agents`: the management server, on the same gate as all tools, over whichever front end asks."""

from starlette.types import Scope

from gatepost import __version__
from gatepost.gate.dispatch import Dispatch
from gatepost.serve.agents.management import NAME, make_management_tools
from gatepost.serve.agents.mcp_endpoint import McpEndpoint
from gatepost.serve.agents.service import AgentService
from gatepost.tools.call import Caller, ToolDeps

PATH = "/mcp/agents"
MANAGER = Caller("root", provider="operator")  # whoever may open the door is the operator


def make_management_dispatch(service: AgentService, deps: ToolDeps) -> Dispatch:
    """In memory: an assistant inside the process calls this one itself. Its `run` writes the audit behind."""
    return Dispatch(make_management_tools(service), deps)


def make_management_app(dispatch: Dispatch, deps: ToolDeps, largest: int) -> McpEndpoint:
    async def manager(scope: Scope) -> Caller:
        return MANAGER

    return McpEndpoint(NAME, __version__, dispatch, manager, deps.events, largest, elicits=True)
