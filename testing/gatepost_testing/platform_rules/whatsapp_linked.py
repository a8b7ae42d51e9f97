"""Refusals of WhatsApp to a linked device, in the words of whatsmeow, the library below neonize. It has no statuses."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

LIBRARY = "https://github.com/tulir/whatsmeow/blob/main"
ERRORS = f"{LIBRARY}/errors.go"
JUDGE = "channels/whatsapp_linked/device_events.py: judge_error"
UNKNOWN = "490000000000@s.whatsapp.net"


def _rule(name: str, refusal: str, source: str, kind: str = "SendText", **more: Any) -> PlatformRule:
    """`chat`: whom the line of the gateway is for; the word before the refusal's colon is our reading of it."""
    given = {"chat": "$team", **more.pop("given", {})}
    more = {"adapter": JUDGE, "read_on": "2026-11-17", **more}
    return PlatformRule(name=name, status=0, refusal=refusal, source=source, call=(kind, given), **more)


RULES = (
    _rule(
        "somebody on WhatsApp",
        "not_found: no LID found for 490000000000@s.whatsapp.net from server",
        f"{LIBRARY}/send.go",
        given={"chat": UNKNOWN},
    ),
    _rule(
        "pace",
        "unavailable: info query returned status 429: rate-overlimit",
        f"{ERRORS}: ErrIQRateOverLimit; it does not say for how long",
        given={"$faults": ["rate_limit"]},
    ),
    _rule(
        "link to WhatsApp",
        "unavailable: it is not connected to WhatsApp",
        f"{LIBRARY}/client.go: IsConnected, which the process of a device asks before it sends",
        given={"$faults": ["busy"]},
        adapter="channels/whatsapp_linked/linked_device.py",
    ),
    _rule(
        "member of a group",
        "refused: failed to get group members: you're not participating in that group",
        f"{ERRORS}: ErrNotInGroup, of status 403",
        given={"$faults": ["forbidden"]},
    ),
    _rule(
        "known group",
        "not_found: failed to get group members: that group does not exist",
        f"{ERRORS}: ErrGroupNotFound, of status 404",
        given={"chat": "120360000000@g.us"},
    ),
    _rule(
        "known server",
        "refused: can't send message to unknown server nowhere.test",
        f"{ERRORS}: ErrUnknownServer",
        given={"chat": "49151@nowhere.test"},
    ),
    _rule(
        "a person, not a device",
        "refused: message recipient must be a user JID with no device part",
        f"{ERRORS}: ErrRecipientADJID",
        given={"chat": "49151:7@s.whatsapp.net"},
    ),
    _rule(
        "known file",
        "not_found: download failed with status code 404",
        f"{ERRORS}: ErrMediaDownloadFailedWith404; 403 and 410 are the same to us",
        "FetchFile",
    ),
)
BY_NAME = index_rules(RULES)
