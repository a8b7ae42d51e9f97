"""The text of a plan, for whoever is to approve it. Claude Code tells it only if it lies in the file that it plans in;
otherwise it is what the model wrote into its call, or what it said last before."""

from dataclasses import replace
from typing import Any

from gatepost.inside.providers.contract import PermissionRequest


class PlanTextFinder:
    """What was heard in a turn so far."""

    def __init__(self) -> None:
        self._said, self._written = "", ("", "")

    def say(self, text: str) -> None:
        self._said = text

    def call(self, key: str, input: dict[str, Any]) -> None:
        plan = input.get("plan")
        self._written = (key, plan if isinstance(plan, str) else "")

    def fill(self, asked: PermissionRequest) -> PermissionRequest:
        if asked.kind != "plan" or asked.input.get("plan"):
            return asked
        key, written = self._written
        text = (written if key == asked.id else "").strip() or self._said.strip()
        return replace(asked, input={**asked.input, "plan": text}) if text else asked
