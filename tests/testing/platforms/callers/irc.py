import base64
import socket
from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import irc as irc_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.irc import IrcPlatform
from gatepost_testing.waiting import PATIENCE_S


class PlatformCaller(RuleCaller):
    """A rule's method is a line, and its status the numeric that the server answers."""

    platform_class, rules = IrcPlatform, irc_rules.RULES

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        assert isinstance(platform, IrcPlatform)
        secret = base64.b64encode(f"porter\0porter\0{platform.password}".encode()).decode()
        login = ["CAP LS 302", "NICK new", "USER new 0 * :new", "CAP REQ :sasl", "AUTHENTICATE PLAIN"]
        self._login = [*login, f"AUTHENTICATE {secret}", "CAP END", "JOIN #team"]
        self.names = {}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        with socket.create_connection(("127.0.0.1", self.platform.port), PATIENCE_S) as wire:
            lines = [*given.get("$before", self._login), method, "PING :done"]
            wire.sendall("".join(f"{line}\r\n" for line in lines).encode())
            for raw in wire.makefile("rb"):
                words = raw.decode().rstrip("\r\n").split(" ")
                if words[1] == "PONG":
                    break
                if words[1].isdecimal() and int(words[1]) >= 400 and words[1] != "903":
                    return int(words[1]), raw.decode().rstrip("\r\n").split(" :", 1)[1]
        raise AssertionError(f"not refused: {method}")
