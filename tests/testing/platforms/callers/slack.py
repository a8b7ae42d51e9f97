from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import slack as slack_rules
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile
from gatepost_testing.platforms.slack import APP_TOKEN, BOT_TOKEN, SlackPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = SlackPlatform, slack_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, SlackPlatform)
        theirs, marked, unpinned = (platform.send(each) for each in ("their words", "marked", "unpinned"))
        chat = platform.find_channel("team")
        own = self._ask("chat.postMessage", {"channel": chat, "text": "own words"})[1]["ts"]
        self._ask("reactions.add", {"channel": chat, "timestamp": marked, "name": "tada"})
        for each in (marked, unpinned):
            self._ask("pins.add", {"channel": chat, "timestamp": each})
        self._ask("pins.remove", {"channel": chat, "timestamp": unpinned})
        file = platform.add_file(GivenFile("a.txt", b"data"))["url_private"]
        self.names = {"$team": chat, "$own": own, "$theirs": theirs, "$marked": marked, "$unpinned": unpinned}
        self.names |= {"$ann": platform.find_person("ann"), "$app": APP_TOKEN, "$file": file}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        """`$token` is sent in place of the bot's."""
        if method.startswith("GET "):
            answer = self.client.get(method.removeprefix("GET "))
            return answer.status_code, answer.text
        status, told = self._ask(method, given, given.pop("$token", BOT_TOKEN))
        assert told["ok"] is False, told
        return status, told["error"]

    def _ask(self, method: str, given: dict[str, Any], token: str = BOT_TOKEN) -> tuple[int, dict[str, Any]]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        answer = self.client.post(f"{self.platform.url}/api/{method}", json=given, headers=headers)
        return answer.status_code, answer.json()
