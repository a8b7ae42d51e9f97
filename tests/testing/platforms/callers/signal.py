from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import signal as signal_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.signal import ACCOUNT, SignalPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = SignalPlatform, signal_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, SignalPlatform)
        self._group = platform.get_group("team")
        self.names = {"$team": self._group}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        verb, _, path = method.rpartition(" ")
        if verb:
            answer = self.client.request(verb, f"{self.platform.url}/api/v1/{path}", content=b"x")
            return answer.status_code, answer.text
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"account": ACCOUNT, **given}}
        answer = self.client.post(f"{self.platform.url}/api/v1/rpc", json=call)
        error = answer.json()["error"]
        return answer.status_code, f"{error['code']}: {error['message']}".replace(self._group, "$team")
