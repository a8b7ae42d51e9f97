from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost.testing.platforms import slack_rules
from gatepost.testing.platforms.base import EmulatedPlatform
from gatepost.testing.platforms.slack import BOT_TOKEN, SlackPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = SlackPlatform, slack_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, SlackPlatform)
        theirs, chat = platform.send("their words"), platform.find_channel("team")
        own = self._ask("chat.postMessage", {"channel": chat, "text": "own words"})[1]["ts"]
        self.names = {"$team": chat, "$own": own, "$theirs": theirs}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        status, answer = self._ask(method, given)
        assert answer["ok"] is False, answer
        return status, answer["error"]

    def _ask(self, method: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        headers = {"authorization": f"Bearer {BOT_TOKEN}"}
        answer = self.client.post(f"{self.platform.url}/api/{method}", json=given, headers=headers)
        return answer.status_code, answer.json()
