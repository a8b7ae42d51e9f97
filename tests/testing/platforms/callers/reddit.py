import base64
from typing import Any

from tests.testing.platforms.callers import Refusal
from tests.testing.platforms.http_caller import HttpCaller

from gatepost_testing.platform_rules import reddit as reddit_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.reddit import CLIENT_ID, REFRESH_TOKEN, SECRETS, RedditPlatform


class PlatformCaller(HttpCaller):
    platform_class, rules, retry_header = RedditPlatform, reddit_rules.RULES, "x-ratelimit-reset"

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, RedditPlatform)
        self.reddit = platform
        basic = base64.b64encode(f"{CLIENT_ID}:{SECRETS['client_secret']}".encode()).decode()
        self.names = {"$app": {"authorization": f"Basic {basic}"}}
        grant = {"grant_type": "refresh_token", "refresh_token": REFRESH_TOKEN}
        given = self.ask(reddit_rules.TOKEN, {"data": grant, "headers": self.names["$app"]}).json()
        self.headers = {"authorization": f"bearer {given['access_token']}"}
        theirs, deleted, locked, old = (platform.send(each) for each in ("theirs", "deleted", "locked", "old"))
        platform.remove_thing(deleted)
        platform.locked.add(locked)
        platform.archived.add(old)
        made = self.ask(reddit_rules.COMMENT, reddit_rules._form(thing_id=theirs, text="own")).json()
        own = made["json"]["data"]["things"][0]["data"]["name"]
        self.names |= {"$theirs": theirs, "$deleted": deleted, "$locked": locked, "$own": own, "$old": old}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        rest = dict(given)
        if limited := rest.pop("limited", ""):
            self.reddit.refuse_next(*reddit_rules.BY_NAME[limited].refusal.split(" ", 1))
        return super().call(method, rest)

    def read_refusal(self, answer: Any) -> str:
        if "json" not in answer.headers["content-type"]:
            return str(answer.text)
        body = answer.json()
        if "json" in body:
            code, words, _ = body["json"]["errors"][0]
            return f"{code} {words}"
        return str(body.get("message") or body["error"])
