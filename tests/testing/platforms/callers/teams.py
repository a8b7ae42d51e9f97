from types import MappingProxyType
from typing import Any

from tests.testing.platforms.http_caller import HttpCaller

from gatepost_testing.platform_rules import teams as teams_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.teams import APP_ID, TENANT, TeamsPlatform


class PlatformCaller(HttpCaller):
    platform_class, rules = TeamsPlatform, teams_rules.RULES
    headers = MappingProxyType({"authorization": f"Bearer {TeamsPlatform.token}"})

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, TeamsPlatform)
        theirs, team, busy = platform.send("theirs"), platform.get_conversation("team"), platform.get_conversation("b")
        platform.contended.add(busy)
        own = self.ask(f"POST /emea/v3/conversations/{team}/activities", {"json": teams_rules.WORDS}).json()["id"]
        self.names = {"$team": team, "$busy": busy, "$own": own, "$theirs": theirs, "$app": APP_ID, "$tenant": TENANT}
        self.names["$json"] = {**self.headers, "content-type": "application/json"}

    def read_refusal(self, answer: Any) -> str:
        body = answer.json()
        if isinstance(body["error"], str):  # of the login
            words = f"{body['error']} {body['error_description']}"
            return words.replace(APP_ID, "$app").replace(TENANT, "$tenant")
        return str(body["error"]["code"])
