import socket
from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost.channels.whatsapp_linked.protocol import (
    Answer,
    FetchFile,
    SendText,
    parse_device_line,
    render_line,
)
from gatepost_testing.platform_rules import whatsapp_linked as whatsapp_linked_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.whatsapp_linked import WhatsAppLinkedDevice
from gatepost_testing.waiting import PATIENCE_S


class PlatformCaller(RuleCaller):
    """It writes the lines that the gateway writes to the process of a device."""

    platform_class, rules = WhatsAppLinkedDevice, whatsapp_linked_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, WhatsAppLinkedDevice)
        self.names = {"$team": platform.get_chat("team")}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        line = (
            FetchFile(request=1, media="none", name="a.txt")
            if method == "FetchFile"
            else SendText(request=1, chat=given["chat"], text="x")
        )
        with socket.create_connection(("127.0.0.1", self.platform.port), PATIENCE_S) as wire:
            wire.sendall(render_line(line))
            answer = parse_device_line(wire.makefile("rb").readline())
        assert isinstance(answer, Answer)
        return 0, f"{answer.state}: {answer.detail}"
