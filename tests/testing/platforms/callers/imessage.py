from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import imessage as imessage_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.imessage import BlueBubblesPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = BlueBubblesPlatform, imessage_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, BlueBubblesPlatform)
        self._password = platform.token
        platform.queued.add("$queued")
        self.names = {"$team": platform.get_address("team").removeprefix("imessage:")}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        verb, path = method.split(" ")
        params = {"password": given.pop("$password", self._password)}
        url = f"{self.platform.url}/api/v1/{path}"
        answer = self.client.request(verb, url, params=params, json=given or None)
        if answer.status_code == 429:
            assert "retry-after" in answer.headers
            return 429, answer.text
        said = answer.json()
        assert said["status"] == answer.status_code
        return answer.status_code, f"{said['error']['type']}: {said['error']['message']}"
