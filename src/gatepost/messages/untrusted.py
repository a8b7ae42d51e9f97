"""Senders whose identity their platform does not prove, such as mail without DMARC.

Their claim is no address of a person. It is replaced once, when a message comes in, by an address on a separate
platform. So a right of a person, of a platform or of a pattern of addresses never applies to them.
"""

from hashlib import sha256

from gatepost.core.records import replace
from gatepost.messages.address import LONGEST, is_longer
from gatepost.messages.inbound import Inbound, Verb

PLATFORM = "untrusted"
MARK = " (not proven)"  # behind the name that they give themselves
LONGEST_NAME = 150
_BEGIN = f"{PLATFORM}:"


def is_untrusted(sender: str) -> bool:
    return sender.startswith(_BEGIN)


def mark_untrusted(inbound: Inbound) -> Inbound:
    """The event under an address that nobody has rights by, if its platform does not prove who sent it."""
    if inbound.verb is not Verb.UNTRUSTED or is_untrusted(inbound.sender):
        return inbound
    name = (inbound.sender_name or inbound.sender)[:LONGEST_NAME] + MARK
    return replace(inbound, sender=make_untrusted(inbound.sender), sender_name=name)


def make_untrusted(claimed: str) -> str:
    platform, _, rest = claimed.partition(":")
    made = f"{_BEGIN}{platform}/{rest}"
    return made if not is_longer(made, LONGEST) else f"{_BEGIN}{platform}/{sha256(rest.encode()).hexdigest()}"


def get_claimed(sender: str) -> str:
    """The address that an untrusted sender claims; the sender itself if it is none. For what is denied to it, never for
    what is given."""
    if not is_untrusted(sender):
        return sender
    platform, _, rest = sender.removeprefix(_BEGIN).partition("/")
    return f"{platform}:{rest}"
