"""A group's policy, for the commands about permission: read from the store, whether the gateway runs or not."""

from gatepost.access.policy import GroupPolicy
from gatepost.core import settings
from gatepost.core.home import Home
from gatepost.gate.policies import TOOL_GROUPS
from gatepost.serve.control.operations.access import load_group_policy
from gatepost.store.engine.readonly import read_store


def policy_of(home: Home, folder: str) -> GroupPolicy:
    return read_store(home, load_group_policy, settings.load_declared(home.path, TOOL_GROUPS), folder)
