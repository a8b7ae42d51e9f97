from typing import Any

from tests.testing.platforms.http_caller import HttpCaller

from gatepost_testing.platform_rules import bluesky as bluesky_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.bluesky import BOT_HANDLE, BlueskyPlatform


class PlatformCaller(HttpCaller):
    platform_class, rules, base, retry_header = BlueskyPlatform, bluesky_rules.RULES, "/xrpc", "ratelimit-reset"

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        given = {"json": {"identifier": BOT_HANDLE, "password": platform.token}}  # type: ignore[attr-defined]
        session = self.ask("POST /com.atproto.server.createSession", given).json()
        self.headers = {"authorization": f"Bearer {session['accessJwt']}"}
        private = platform.send("psst", room="direct:ann")
        convo = platform.get_address("direct:ann").rpartition("/")[2]
        self.names = {"$me": session["did"], "$private": private, "$convo": convo, "$key": "3k2222222222a"}
        self.names |= {"$picture": self._upload("image/png"), "$text": self._upload("text/plain")}
        self.names["$large"] = self._upload("image/png", 2_000_001)
        assert self.call_right(*bluesky_rules._create({}, rkey="$key"))

    def call_right(self, method: str, given: dict[str, Any]) -> bool:
        return bool(self.ask(method, self._put_in(given)).status_code == 200)

    def _upload(self, mime: str, size: int = 1) -> Any:
        given = {"content": bytes(size), "headers": {**self.headers, "content-type": mime}}
        return self.ask("POST /com.atproto.repo.uploadBlob", given).json()["blob"]

    def read_refusal(self, answer: Any) -> str:
        return f"{answer.json()['error']} {answer.json()['message']}"
