import base64
import itertools
import re
import socket
from typing import Any
from xml.etree.ElementTree import Element, XMLPullParser

from tests.testing.platforms.callers import Refusal, RuleCaller

from gatepost_testing.platform_rules import xmpp as xmpp_rules
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.servers.prosody import DOMAIN, find_prosody
from gatepost_testing.servers.xmpp_server import PASSWORD, XmppServer
from gatepost_testing.waiting import PATIENCE_S

STREAM = (
    f"<?xml version='1.0'?><stream:stream to='{DOMAIN}' xmlns='jabber:client' version='1.0'"
    " xmlns:stream='http://etherx.jabber.org/streams'>"
)


class PlatformCaller(RuleCaller):
    """The rules are those of a real Prosody, behind the relay that brings faults. A rule's method is a stanza."""

    platform_class, rules = XmppServer, xmpp_rules.RULES
    lacks = "" if find_prosody() else "Prosody is not installed: scripts/system_packages.py --all"
    is_slow = True

    def __init__(self, platform: EmulatedPlatform) -> None:
        super().__init__(platform)
        self._numbers = itertools.count()
        self.names = {}

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        with socket.create_connection(("127.0.0.1", self.platform.port), PATIENCE_S) as wire:
            if not given.get("$bare"):
                secret = base64.b64encode(f"\0bot\0{PASSWORD}".encode()).decode()
                auth = f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{secret}</auth>"
                self._ask(wire, STREAM + auth, "success")
                self._ask(
                    wire, f"{STREAM}<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", "iq"
                )
                return 0, _read_error(self._ask(wire, method.replace("$new", f"n{next(self._numbers)}"), ""))
            return 0, _read_error(self._ask(wire, STREAM + method, ""))

    def _ask(self, wire: socket.socket, text: str, wanted: str) -> Element:
        """Return the next element of this name, or the next error, as the server writes it."""
        wire.sendall(text.encode())
        parser = XMLPullParser(("end",))
        parser.feed("<all xmlns:stream='http://etherx.jabber.org/streams' xmlns='jabber:client'>")
        while data := wire.recv(65_536):
            parser.feed(re.sub(rb"<\?xml[^>]*>|<stream:stream[^>]*>|</stream:stream>", b"", data))
            for _, each in parser.read_events():
                name = each.tag.rpartition("}")[2]
                if name == wanted or name == "failure" or (name == "error" and not wanted):
                    return each
        raise AssertionError(f"not refused: {text}")


def _read_error(error: Element) -> str:
    kind = error.get("type", "")
    names = [each.tag.rpartition("}")[2] for each in error]
    words = next((each.text for each in error if each.tag.endswith("}text")), "")
    return f"{kind} {names[0]}".strip() + (f": {words}" if words else "")
