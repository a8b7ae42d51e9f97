from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import ntfy as ntfy_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.ntfy import NtfyPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = NtfyPlatform, ntfy_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, NtfyPlatform)
        self._token = platform.token
        self.names = {}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        verb, path = method.split(" ")
        headers = {"authorization": f"Bearer {given.pop('$token', self._token)}"}
        body = {"content": given["$body"]} if "$body" in given else {"json": given or None}
        answer = self.client.request(verb, f"{self.platform.url}/{path}", headers=headers, **body)
        said = answer.json()
        assert said["http"] == answer.status_code
        return answer.status_code, f"{said['code']}: {said['error']}"
