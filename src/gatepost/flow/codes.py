"""Codes and one-time links in what people write: how each looks, and how it is masked.

Agents read all that people write, quote or wrote long ago, and a code may still work. So each is masked wherever it
stands, also if nobody could redeem it the way it was sent.
"""

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gatepost.core.late_pattern import late_pattern
from gatepost.messages.inbound import Inbound
from gatepost.store.people import pairing_codes
from gatepost.store.people.pairing_codes import ALPHABET

LONGEST_CODE = 100  # characters of what is sent as one
MASKED_TOKEN = "****"

_SEPARATORS = late_pattern(r"[^A-Z0-9]")


class CodeFormat(Struct, frozen=True):
    """One kind of code. `alone`: matches a message that is nothing but one, as people copy it."""

    prefix: str
    length: int
    alone: re.Pattern[str]

    @property
    def masked(self) -> str:
        return f"{self.prefix}{'-****' * (self.length // 4)}"

    def find(self, text: str) -> str | None:
        """Return the code that a message is, None if it is none."""
        return self.parse(text) if self.alone.fullmatch(text) else None

    def parse(self, text: str) -> str:
        """Return what follows the command of a code, in the form in which codes are kept. Nobody has to write the
        hyphens."""
        plain = _SEPARATORS.sub("", text[:LONGEST_CODE].upper())
        return plain.removeprefix(self.prefix) if len(plain) > self.length else plain

    def render(self, code: str) -> str:
        """Return a code as it is shown to people."""
        return "-".join([self.prefix, *(code[at : at + 4] for at in range(0, self.length, 4))])


# As people copy it: with what quotes or emphasizes it, and with the dashes that keyboards make of a hyphen.
_AROUND = r"[\s\"'`*_“”„‘’.]*"
_DASH = r"[-\s\u2010-\u2015\u2212]?"
PAIRING = CodeFormat(
    "GP",
    pairing_codes.LENGTH,
    late_pattern(rf"{_AROUND}GP(?:{_DASH}[A-Z0-9]{{4}}){{{pairing_codes.LENGTH // 4}}}{_AROUND}", re.IGNORECASE),
)
INVITATION = CodeFormat("GI", 16, late_pattern(r"\s*GI(?:[-\s]?[A-Z0-9]{4}){4}\s*", re.IGNORECASE))  # 80 bits

_GAP = r"[-\s\u2010-\u2015\u2212_.:*`]{0,3}"
_GROUP = rf"{_GAP}[{ALPHABET}]{{4}}"
_CODE = late_pattern(
    rf"(?:{PAIRING.prefix}(?:{_GROUP}){{{PAIRING.length // 4}}}"
    rf"|{INVITATION.prefix}(?:{_GROUP}){{{INVITATION.length // 4}}})(?![A-Z0-9])",
    re.IGNORECASE,
)
_TOKEN = late_pattern(r"(/pair/|[#&?]token=)[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
_SIGN = late_pattern(rf"{PAIRING.prefix}|{INVITATION.prefix}|/pair/|token=", re.IGNORECASE)
_SPACES = late_pattern(r"\s")


def may_hold_code(text: str) -> bool:
    """Return False if there is no code and no link in a text. Most texts fail this at once."""
    return _SIGN.search(text) is not None


def mask_codes(text: str) -> str:
    return _TOKEN.sub(rf"\1{MASKED_TOKEN}", _CODE.sub(_mask, text))


def _mask(found: re.Match[str]) -> str:
    """Return a found code masked. Plain words may look like groups of four (`gp will need more`): a code has other
    signs, digits or capitals."""
    shown = found.group()
    plain = _SPACES.sub("", shown)
    if plain.isalpha() and not plain.isupper():
        return shown
    return PAIRING.masked if shown.upper().startswith(PAIRING.prefix) else INVITATION.masked


def mask_message(inbound: Inbound) -> Inbound:
    """Return a message with its codes masked; the same if there are none."""
    if inbound.reply_to is None and not inbound.extra and not may_hold_code(inbound.text):
        return inbound
    text, quote = mask_codes(inbound.text), inbound.reply_to
    if quote is not None and (quoted := mask_codes(quote.text)) != quote.text:
        inbound = replace(inbound, reply_to=replace(quote, text=quoted))
    if inbound.extra:
        inbound = replace(inbound, extra=_mask_json(inbound.extra))
    return inbound if text == inbound.text else replace(inbound, text=text)


def _mask_json(value: Any) -> Any:
    if isinstance(value, str):
        return mask_codes(value)
    if isinstance(value, dict):
        return {key: _mask_json(each) for key, each in value.items()}
    return [_mask_json(each) for each in value] if isinstance(value, list) else value
