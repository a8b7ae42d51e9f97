"""What the commands about permission share: the tools that there are, and a group's policy, read from the store."""

from gatepost.access.policy import GroupPolicy
from gatepost.access.tiers import check_folder
from gatepost.cli.operation_runner import read_store
from gatepost.core import settings
from gatepost.core.errors import NotFound
from gatepost.core.home import Home
from gatepost.core.registry import Registry, load_folder, load_package
from gatepost.gate import connectors
from gatepost.gate.connectors import CONNECTORS
from gatepost.gate.policies import TOOL_GROUPS, load_policy_facts
from gatepost.store import groups
from gatepost.tools.contract import TOOLS, Tool


def tools_of(home: Home) -> Registry[Tool]:
    """Gatepost's own, the home's, and what connectors last told of theirs."""
    load_package("gatepost.tools")
    load_folder(home.plugins / "tools", "tools")
    tools = TOOLS.copy()
    connectors.load_cached_tools(home, settings.load_declared(home.path, CONNECTORS)[CONNECTORS], tools)
    return tools


def policy_of(home: Home, folder: str) -> GroupPolicy:
    if read_store(home, groups.get, check_folder(folder)) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    return GroupPolicy(
        folder, read_store(home, load_policy_facts, settings.load_declared(home.path, TOOL_GROUPS)[TOOL_GROUPS])
    )
