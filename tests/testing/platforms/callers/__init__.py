"""Callers that break the rules of emulated platforms, a module per platform with the class `PlatformCaller`."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import httpx2

from gatepost_testing.platform_rules.rule import PlatformRule
from gatepost_testing.platforms.base import EmulatedPlatform, PlatformFault
from gatepost_testing.waiting import PATIENCE_S

Refusal = tuple[int, str]  # the status, and the platform's own words


class RuleCaller(ABC):
    """A subclass sets `names`: what `$team`, `$own`, `$theirs` stand for in a rule's call, in its method as well.
    `$faults` of a call are those of the platform that it meets, `$set` the platform's attributes while it is made."""

    platform_class: ClassVar[type[EmulatedPlatform]]
    rules: ClassVar[tuple[PlatformRule, ...]]
    lacks: ClassVar[str] = ""  # why it cannot run here
    is_slow: ClassVar[bool] = False
    names: dict[str, Any]

    def __init__(self, platform: EmulatedPlatform) -> None:
        self.platform = platform
        self.client = httpx2.Client(trust_env=False, timeout=PATIENCE_S)

    @abstractmethod
    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        """Make a call that the platform must refuse."""

    def break_rule(self, rule: PlatformRule) -> Refusal:
        method, given = rule.call
        for name, value in self.names.items():
            method = method.replace(name, str(value))
        given = self._put_in(given)
        self.platform.fault(*map(PlatformFault, given.pop("$faults", ())))
        changed = given.pop("$set", {})
        before = {name: getattr(self.platform, name) for name in changed}
        try:
            for name, value in changed.items():
                setattr(self.platform, name, value)
            return self.call(method, given)
        finally:
            for name, value in before.items():
                setattr(self.platform, name, value)
            self.platform.heal()

    def _put_in(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._put_in(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._put_in(each) for each in value]
        return self.names.get(value, value) if isinstance(value, str) else value

    def close(self) -> None:
        self.client.close()


def list_callers() -> list[type[RuleCaller]]:
    names = sorted(each.name for each in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}").PlatformCaller for name in names]
