from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import zulip as zulip_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.zulip import BOT_EMAIL, ZulipPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = ZulipPlatform, zulip_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, ZulipPlatform)
        self.zulip = platform
        theirs, liked = platform.send("their words"), platform.send("good words")
        team = platform.get_address("team").rpartition("/")[2]
        said = {"type": "stream", "to": team, "topic": "plans", "content": "own words"}
        own = self._ask("POST messages", said).json()["id"]
        self._ask(f"POST messages/{liked}/reactions", {"emoji_name": "tada"})
        self.names = {"$team": team, "$own": own, "$theirs": theirs, "$liked": liked}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        shows = given.pop("$shows", "content")
        answer = self._ask(method, given)
        if answer.status_code == 200:
            number = answer.json().get("id") or method.rpartition("/")[2]
            message = self._ask(f"GET messages/{number}", {}).json()["message"]
            words = message["content" if shows == "content" else "subject"]
            return 200, words[-3:] if shows == "topic" else words.rpartition("\n")[2]
        if "json" not in answer.headers["content-type"]:
            return answer.status_code, answer.text
        said = answer.json()
        assert said["result"] == "error"
        if answer.status_code == 429:
            assert "retry-after" in answer.headers and "retry-after" in said
        return answer.status_code, f"{said['code']}: {said['msg']}" if "code" in said else said["msg"]

    def _ask(self, method: str, given: dict[str, Any]) -> Any:
        verb, path = method.split(" ")
        self.zulip.largest_file_mib = given.pop("$largest", self.zulip.largest_file_mib)
        auth = (BOT_EMAIL, given.pop("$key", self.zulip.token))
        files = {"filename": ("a.txt", given.pop("$file"))} if "$file" in given else None
        return self.client.request(
            verb, f"{self.platform.url}/api/v1/{path}", auth=auth, data=given or None, files=files
        )
