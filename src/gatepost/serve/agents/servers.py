"""`/mcp/agents`: the management server, on the same gate as all tools, over whichever front end asks."""

from starlette.types import Scope

from gatepost import __version__
from gatepost.gate.caller import Caller
from gatepost.gate.dispatch import Dispatch
from gatepost.serve.agents.http import Endpoint, mcp_app
from gatepost.serve.agents.management import NAME, management_tools
from gatepost.serve.agents.service import Agents
from gatepost.tools.contract import Around

PATH = "/mcp/agents"
MANAGER = Caller("root", provider="operator")  # whoever may open the door is the operator


def management_dispatch(service: Agents, around: Around) -> Dispatch:
    """In memory: an assistant inside the process calls this one itself. Its `run` writes the audit behind."""
    return Dispatch(management_tools(service), around)


def management_app(dispatch: Dispatch, around: Around, largest: int) -> Endpoint:
    def manager(scope: Scope) -> Caller:
        return MANAGER

    return mcp_app(NAME, __version__, dispatch, manager, around.bells, largest)
