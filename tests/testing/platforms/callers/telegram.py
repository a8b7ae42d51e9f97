from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import telegram as telegram_rules
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile
from gatepost_testing.platforms.telegram import TOKEN, TelegramPlatform
from gatepost_testing.platforms.wire.telegram_api import LARGEST_DOWNLOAD

LARGE = 1000  # in the place of the rule's limit, which takes seconds to send


class PlatformCaller(RuleCaller):
    platform_class, rules = TelegramPlatform, telegram_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, TelegramPlatform)
        theirs, chat = platform.send("their words"), platform.find_chat("team")["id"]
        own = self._ask("sendMessage", {"chat_id": chat, "text": "own words"})[1]["result"]["message_id"]
        own_file = self._ask("sendDocument", {"chat_id": chat, "document": "$file"})[1]["result"]["message_id"]
        old = self._ask("sendMessage", {"chat_id": chat, "text": "old words"})[1]["result"]["message_id"]
        platform.messages[old]["date"] -= 49 * 3600
        platform.files["big"] = GivenFile("big.bin", bytes(LARGEST_DOWNLOAD + 1), "application/octet-stream")
        platform.retry_after, platform.largest_upload = 1, LARGE
        platform.moved[-7], closed = chat, platform.find_person("bob")["id"]
        platform.closed.add(closed)
        self.names = {"$team": chat, "$own": own, "$theirs": int(theirs), "$own_file": own_file, "$old": old}
        self.names |= {"$big": "big", "$moved": -7, "$closed": closed}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        status, answer = self._ask(method, given)
        assert answer["ok"] is False, answer
        return status, answer["description"]

    def _ask(self, method: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        token = given.get("$token", TOKEN)
        given = {name: value for name, value in given.items() if name != "$token"}
        sizes = {"$file": 1, "$large": LARGE + 1}
        files = {name: ("a.txt", b"x" * sizes[value]) for name, value in given.items() if value in (*sizes,)}
        if method.startswith("file/"):
            answer = self.client.get(f"{self.platform.url}/file/bot{TOKEN}/{method.removeprefix('file/')}")
            return answer.status_code, answer.json()
        url = f"{self.platform.url}/bot{token}/{method}"
        if files:
            rest = {name: value for name, value in given.items() if name not in files}
            answer = self.client.post(url, data=rest, files=files)
        else:
            answer = self.client.post(url, json=given)
        return answer.status_code, answer.json()
