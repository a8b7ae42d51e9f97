from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import mattermost as mattermost_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.mattermost import MattermostPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = MattermostPlatform, mattermost_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, MattermostPlatform)
        self.mattermost = platform
        theirs, elsewhere = platform.send("their words"), platform.send("far away", room="direct:ann")
        room = platform.get_address("team").rpartition("/")[2]
        answer = platform.send("below it", thread=theirs)
        own = self._ask("POST posts", {"channel_id": room, "message": "own words"}).json()["id"]
        names = {"$team": room, "$own": own, "$theirs": theirs}
        self.names = {**names, "$answer": answer, "$elsewhere": elsewhere, "$bot": platform.bot_id}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        answer = self._ask(method, given)
        assert answer.status_code >= 400, answer.text
        if answer.status_code == 429:
            assert {"retry-after", "x-ratelimit-reset"} <= set(answer.headers)
            return 429, answer.text.strip()
        said = answer.json()
        assert said["status_code"] == answer.status_code
        return answer.status_code, f"{said['id']}: {said['message']}"

    def _ask(self, method: str, given: dict[str, Any]) -> Any:
        verb, path = method.split(" ")
        self.mattermost.largest_file = given.pop("$largest", self.mattermost.largest_file)
        headers = {"authorization": f"Bearer {given.pop('$token', self.mattermost.token)}"}
        url = f"{self.platform.url}/api/v4/{path}"
        if "$file" in given:
            return self.client.request(verb, url, headers=headers, files={"files": ("a.txt", given["$file"])})
        return self.client.request(verb, url, headers=headers, json=given.get("$list", given) if given else None)
