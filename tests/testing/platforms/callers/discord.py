from types import MappingProxyType
from typing import Any

from tests.testing.platforms.http_caller import HttpCaller

from gatepost_testing.platform_rules import discord as discord_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.discord import API, TOKEN, DiscordPlatform


class PlatformCaller(HttpCaller):
    platform_class, rules, base = DiscordPlatform, discord_rules.RULES, API
    headers = MappingProxyType({"authorization": f"Bot {TOKEN}"})

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, DiscordPlatform)
        theirs, channel, bot = platform.send("their words"), platform.find_channel("team")["id"], platform.bot["id"]
        self.ask(f"PUT /applications/{bot}/commands", {"json": [discord_rules.COMMAND]})
        answered, late, command = (platform.give_command("stop") for _ in range(3))
        self.ask(f"POST /interactions/{answered}/click-token/callback", {"json": {"type": 4}})
        platform.given[late] -= 4
        platform.given[command] += 3600  # it is answered in time, however slow the machine is
        own = self.ask(f"POST /channels/{channel}/messages", {"json": {"content": "own words"}}).json()["id"]
        self.names = {"$team": channel, "$own": own, "$theirs": theirs, "$bot": bot}
        sound = '{"flags": 8192, "attachments": [{"id": 0, "duration_secs": 1, "waveform": "AA=="}]}'
        given = {"data": {"payload_json": sound}, "files": {"files[0]": ("a.ogg", b"x", "audio/ogg")}}
        self.names["$voice"] = self.ask(f"POST /channels/{channel}/messages", given).json()["id"]
        self.names |= {"$answered": answered, "$late": late, "$command": command, "$cdn": f"{platform.url}/cdn"}

    def read_refusal(self, answer: Any) -> str:
        if "json" not in answer.headers["content-type"]:
            return str(answer.text)
        body = answer.json()
        found = [f"{body.get('code', 0)} {body['message']}", *_list_errors(body.get("errors") or {}, [])]
        return ": ".join(found)


def _list_errors(tree: dict[str, Any], path: list[str]) -> list[str]:
    """The first error of a form, and the path to its field."""
    if "_errors" in tree:
        first = tree["_errors"][0]
        return [".".join(path), first["code"], first["message"]]
    return [part for name, each in list(tree.items())[:1] for part in _list_errors(each, [*path, name])]
