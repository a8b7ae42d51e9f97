"""What the commands about permission share: the tools that there are, and a group's policy, read from the store."""

from gatepost.access.policy import Policy
from gatepost.access.tiers import check_folder
from gatepost.cli.operate import reading
from gatepost.core import settings
from gatepost.core.errors import NotFound
from gatepost.core.home import Home
from gatepost.core.registry import Registry, load_folder, load_package
from gatepost.gate import connectors
from gatepost.gate.connectors import CONNECTORS
from gatepost.gate.policies import TOOL_GROUPS, facts
from gatepost.store import groups
from gatepost.tools.contract import TOOLS, Tool


def tools_of(home: Home) -> Registry[Tool]:
    """Gatepost's own, the home's, and what connectors last told of theirs."""
    load_package("gatepost.tools")
    load_folder(home.plugins / "tools", "tools")
    tools = TOOLS.copy()
    connectors.remember(home, settings.peek(home.path, CONNECTORS)[CONNECTORS], tools)
    return tools


def policy_of(home: Home, folder: str) -> Policy:
    if reading(home, groups.get, check_folder(folder)) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    return Policy(folder, reading(home, facts, settings.peek(home.path, TOOL_GROUPS)[TOOL_GROUPS]))
