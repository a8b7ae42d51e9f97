"""Codes and one-time links in what people write, quote or wrote long ago. Agents read all of it, and a code may still
work: each is masked wherever it stands, also if nobody could redeem it the way it was sent."""

import re
from typing import Any

from gatepost.core.records import replace
from gatepost.flow import invitations, pairing
from gatepost.messages.inbound import Inbound
from gatepost.store.pairing_codes import ALPHABET, LENGTH

MASKED_TOKEN = "****"

_GAP = r"[-\s\u2010-\u2015\u2212_.:*`]{0,3}"
_GROUP = rf"{_GAP}[{ALPHABET}]{{4}}"
_CODE = re.compile(
    rf"(?:{pairing.PREFIX}(?:{_GROUP}){{{LENGTH // 4}}}"
    rf"|{invitations.PREFIX}(?:{_GROUP}){{{invitations.LENGTH // 4}}})(?![A-Z0-9])",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"(/pair/|[#&?]token=)[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
_SPACES = re.compile(r"\s")


def mask_codes(text: str) -> str:
    return _TOKEN.sub(rf"\1{MASKED_TOKEN}", _CODE.sub(_mask, text))


def _mask(found: re.Match[str]) -> str:
    """Plain words may look like groups of four: `gp will need more`. A code has other signs, digits or capitals."""
    shown = found.group()
    plain = _SPACES.sub("", shown)
    if plain.isalpha() and not plain.isupper():
        return shown
    return pairing.MASKED if shown.upper().startswith(pairing.PREFIX) else invitations.MASKED


def mask_message(inbound: Inbound) -> Inbound:
    """With nothing to mask, the same."""
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
