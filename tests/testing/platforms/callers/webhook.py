import json
from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost.channels.webhook.wire import sign_post
from gatepost_testing.platform_rules import webhook as webhook_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.webhook import WebhookPlatform


class PlatformCaller(RuleCaller):
    platform_class, rules = WebhookPlatform, webhook_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, WebhookPlatform)
        self._secret = platform.hook_secret
        platform.running.add("running")
        self.names = {"$used": "used", "$running": "running"}
        assert self._ask({"room": "team", "key": "used", "text": "x", "$key": "used"}).status_code == 200

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        answer = self._ask(given)
        assert ("retry-after" in answer.headers) == (answer.status_code in (429, 503))
        return answer.status_code, answer.json()["error"]

    def _ask(self, given: dict[str, Any]) -> Any:
        post = {name: value for name, value in given.items() if not name.startswith("$")}
        key, room = given.get("$key", "new"), given.get("$signed_room", post["room"])
        body = given.get("$body") or json.dumps(post).encode()
        signature = given.get("$signature", sign_post(self._secret, f"/{room}", key, body))
        headers = {"content-type": "application/json", "idempotency-key": key, "x-gatepost-signature": signature}
        return self.client.post(f"{self.platform.url}/in", content=body, headers=headers)
