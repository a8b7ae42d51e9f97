import itertools
from typing import Any
from urllib.parse import quote

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import matrix as matrix_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.servers import synapse
from gatepost_testing.servers.matrix_server import MatrixServer


class PlatformCaller(RuleCaller):
    """The rules are those of a real Synapse, behind the proxy that brings faults."""

    platform_class, rules = MatrixServer, matrix_rules.RULES
    lacks = "" if synapse.is_installed() else "Synapse is not installed: scripts/system_packages.py --all"
    is_slow = True

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        self._numbers = itertools.count()
        self._token = platform.get_secrets()["token"]
        theirs = platform.send("their words")
        answer = platform.send("below it", thread=theirs)
        room = platform.get_address("team").removeprefix("matrix:")
        self.names = {"$team": room, "$theirs": theirs, "$answer": answer}
        self._bot = self._ask("GET v3/account/whoami", {}).json()["user_id"]
        liked = {"m.relates_to": {"rel_type": "m.annotation", "event_id": theirs, "key": "👍"}}
        self._ask(f"PUT v3/rooms/{room}/send/m.reaction/first", liked)

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        answer = self._ask(method.replace("$new", f"n{next(self._numbers)}"), given)
        said = answer.json()
        if answer.status_code == 429:
            assert "retry-after" in answer.headers and "retry_after_ms" in said
        return answer.status_code, f"{said['errcode']}: {said['error']}".replace(self._bot, "$bot")

    def _ask(self, method: str, given: dict[str, Any]) -> Any:
        verb, path = method.split(" ")
        token = given.pop("$token", self._token)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        url = f"{self.platform.url}/_matrix/client/{quote(path, safe='/?=&:')}"
        if "$body" in given:
            return self.client.request(verb, url, headers=headers, content=given["$body"])
        return self.client.request(verb, url, headers=headers, json=given if verb != "GET" else None)
