"""The tools of a home and the policies of its groups, for the commands about permission. They are read from the store,
whether the gateway runs or not."""

from functools import cached_property
from typing import Any

from gatepost.access.policy import GroupPolicy
from gatepost.core import settings
from gatepost.core.home import Home
from gatepost.core.registry import Registry
from gatepost.gate.policies import OFFER_SETTINGS, visible_tools
from gatepost.gate.tool_list import render_listed_tool
from gatepost.serve.control.arguments.access import CallExplanation, ExplainCallArgs
from gatepost.serve.control.operations.access import explain_call, load_group_policy, load_tools
from gatepost.store.engine.readonly import read_store
from gatepost.store.sessions import groups
from gatepost.tools.contract import Tool


class PolicyReader:
    def __init__(self, home: Home) -> None:
        self._home = home

    @cached_property
    def tools(self) -> Registry[Tool]:
        return load_tools(self._home)

    def get_policy(self, folder: str) -> GroupPolicy:
        config = settings.load_declared(self._home.path, *OFFER_SETTINGS)
        return read_store(self._home, load_group_policy, config, folder)

    def explain(self, args: ExplainCallArgs) -> CallExplanation:
        return explain_call(self.tools, self.get_policy(args.folder), args)

    def list_folders(self) -> list[str]:
        return [each.folder for each in read_store(self._home, groups.list_all)]

    def list_visible(self, policy: GroupPolicy) -> list[Tool]:
        return visible_tools(self.tools, policy)

    def render_visible(self, policy: GroupPolicy) -> list[dict[str, Any]]:
        """As in tools/list."""
        return [render_listed_tool(each, policy) for each in self.list_visible(policy)]
