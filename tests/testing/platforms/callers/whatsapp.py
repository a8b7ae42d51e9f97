from types import MappingProxyType
from typing import Any

from tests.testing.platforms.http_caller import HttpCaller

from gatepost_testing.platform_rules import whatsapp as whatsapp_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.whatsapp import NUMBER_ID, TOKEN, VERSION, WhatsAppPlatform


class PlatformCaller(HttpCaller):
    platform_class, rules, base = WhatsAppPlatform, whatsapp_rules.RULES, f"/{VERSION}"
    headers = MappingProxyType({"authorization": f"Bearer {TOKEN}"})

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, WhatsAppPlatform)
        theirs = platform.send("their words")
        platform.send("their words", room="direct:bea", sender="bea")
        platform.send("their words", room="direct:cid", sender="cid")
        platform.close_window("bea")
        platform.close_window("cid", late=True)
        size = whatsapp_rules.BY_NAME["size of a picture"].limit + 1
        form = {"messaging_product": "whatsapp", "type": "image/png"}
        files = {"file": ("a.png", bytes(size), "image/png")}
        picture = self.ask(f"POST /{NUMBER_ID}/media", {"data": form, "files": files}).json()["id"]
        group = platform.get_address("group:lab").rpartition("/")[2]
        self.names = {"$number": NUMBER_ID, "$theirs": theirs, "$picture": picture, "$group": group}
        self.names |= {"$ann": platform.get_number("ann"), "$bea": platform.get_number("bea")}
        self.names["$cid"] = platform.get_number("cid")

    def read_refusal(self, answer: Any) -> str:
        """One that comes after the message was taken stands in its status."""
        assert isinstance(self.platform, WhatsAppPlatform)
        if answer.is_success:
            return self.platform.failed[answer.json()["messages"][0]["id"]]
        error = answer.json()["error"]
        assert error["error_data"]["details"]
        return f"{error['code']} {error['message'].replace(NUMBER_ID, '$number')}"
