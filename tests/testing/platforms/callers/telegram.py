from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost.testing.platforms import telegram_rules
from gatepost.testing.platforms.base import EmulatedPlatform
from gatepost.testing.platforms.telegram import TOKEN, TelegramPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = TelegramPlatform, telegram_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, TelegramPlatform)
        theirs, chat = platform.send("their words"), platform.find_chat("team")["id"]
        own = self._ask("sendMessage", {"chat_id": chat, "text": "own words"})[1]["result"]["message_id"]
        self.names = {"$team": chat, "$own": own, "$theirs": int(theirs)}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        status, answer = self._ask(method, given)
        assert answer["ok"] is False, answer
        return status, answer["description"]

    def _ask(self, method: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        files = {name: ("a.txt", b"x") for name, value in given.items() if value == "$file"}
        if method.startswith("file/"):
            answer = self.client.get(f"{self.platform.url}/file/bot{TOKEN}/{method.removeprefix('file/')}")
            return answer.status_code, answer.json()
        url = f"{self.platform.url}/bot{TOKEN}/{method}"
        if files:
            rest = {name: value for name, value in given.items() if name not in files}
            answer = self.client.post(url, data=rest, files=files)
        else:
            answer = self.client.post(url, json=given)
        return answer.status_code, answer.json()
