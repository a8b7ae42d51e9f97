import time
from typing import Any

from tests.testing.platforms.callers import Refusal
from tests.testing.platforms.http_caller import HttpCaller

from gatepost.channels.x.adapter import AccountKeys, sign
from gatepost_testing.platform_rules import x as x_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.x import KEYS, ME, XPlatform


class PlatformCaller(HttpCaller):
    platform_class, rules, retry_header = XPlatform, x_rules.RULES, "x-rate-limit-reset"

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, XPlatform)
        self.x, self.count = platform, 0
        platform.foreign.add("foreign")
        platform.is_self_serve = True
        self.names = {"$me": ME, "$theirs": platform.send("their words")}
        self.names["$foreign"] = platform.get_address("foreign").rpartition("/")[2]
        replayed = self._sign("GET", "/2/users/me", {})
        self.ask("GET /2/users/me", {"headers": replayed})
        forged = {"authorization": self._sign("GET", "/2/users/me", {})["authorization"].replace('signature="', '&"x')}
        self.names |= {"$forged": forged, "$replayed": replayed}
        self.ask(*x_rules._post("own words"))

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        self.x.is_enrolled = given.get("enrolled", True)
        return super().call(method, {name: value for name, value in given.items() if name != "enrolled"})

    def ask(self, method: str, given: dict[str, Any]) -> Any:
        signed = {"headers": self._sign(*method.split(" ", 1), given.get("params", {}))}  # type: ignore[call-arg]
        return super().ask(method, {**signed, **given})

    def _sign(self, verb: str, path: str, params: dict[str, str]) -> dict[str, str]:
        self.count += 1
        url = f"{self.platform.url}{path}"
        made = sign(verb, url, params, AccountKeys(*KEYS.values()), f"nonce{self.count}", int(time.time()))
        return {"authorization": made}

    def read_refusal(self, answer: Any) -> str:
        body = answer.json()
        return str(body["errors"][0]["message"] if "errors" in body else body["detail"])
