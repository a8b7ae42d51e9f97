from types import MappingProxyType
from typing import Any

from tests.testing.platforms.callers import Refusal
from tests.testing.platforms.http_caller import HttpCaller

from gatepost_testing.platform_rules import mastodon as mastodon_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.mastodon import MastodonPlatform


class PlatformCaller(HttpCaller):
    platform_class, rules, retry_header = MastodonPlatform, mastodon_rules.RULES, "x-ratelimit-reset"
    headers = MappingProxyType({"authorization": f"Bearer {MastodonPlatform.token}"})

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, MastodonPlatform)
        self.mastodon = platform
        self.names = {"$theirs": platform.send("theirs"), "$private": platform.send("psst", room="direct:ann")}
        self.names["$own"] = self.ask(*mastodon_rules._post("own")).json()["id"]
        self.names["$picture"] = self.names["$unready"] = self.ask(*mastodon_rules._upload("image/png")).json()["id"]
        self.names["$film"] = self.ask(*mastodon_rules._upload("video/mp4")).json()["id"]

    def break_rule(self, rule: Any) -> Refusal:
        self.mastodon.processing = 9 if rule.name == "file that is ready" else 0
        return super().break_rule(rule)

    def read_refusal(self, answer: Any) -> str:
        return str(answer.json()["error"])
