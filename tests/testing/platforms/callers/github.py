from types import MappingProxyType
from typing import Any

from tests.testing.platforms.callers import Refusal
from tests.testing.platforms.http_caller import HttpCaller

from gatepost_testing.platform_rules import github as github_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.github import TOKEN, GitHubPlatform


class PlatformCaller(HttpCaller):
    platform_class, rules = GitHubPlatform, github_rules.RULES
    headers = MappingProxyType({"authorization": f"Bearer {TOKEN}", "user-agent": "tests"})

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, GitHubPlatform)
        self.github, locked = platform, platform.open_issue("locked", "")
        platform.locked.add(locked)
        own = self.ask(github_rules.POST, {"json": {"body": "own"}}).json()["id"]
        deleted, moved = platform.open_issue("deleted", ""), platform.open_issue("moved", "")
        platform.deleted.add(deleted)
        platform.moved.add(moved)
        self.names = {"$theirs": platform.send("theirs"), "$own": own, "$locked": locked}
        self.names |= {"$deleted": deleted, "$moved": moved}
        self.names["$nameless"] = {**self.headers, "user-agent": ""}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        self.github.is_spent = given.get("spent", False)
        return super().call(method, {name: value for name, value in given.items() if name != "spent"})

    def read_refusal(self, answer: Any) -> str:
        if not answer.headers["content-type"].startswith("application/json"):
            return str(answer.text)
        body = answer.json()
        found = [
            f"{each['resource']} {each['field']} {each['code']}: {each['message']}" for each in body.get("errors", ())
        ]
        return ": ".join([body["message"], *found])
