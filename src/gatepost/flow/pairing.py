"""Pairing: a code of `gatepost pair` binds the chat identity that sends it to a person. It works before the sender is
known. No agent gets the message, and the ledger keeps it without the code."""

import re
from collections.abc import Mapping

from msgspec import Struct

from gatepost.access.senders import rights_of
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.flow.groups import OWNERS_IDENTITIES
from gatepost.store import (
    audit,
    direct_rooms,
    identities,
    logins,
    pairing_codes,
    request_cards,
    requests,
    users,
)
from gatepost.store.identities import PairedIdentity
from gatepost.store.pairing_codes import LENGTH, MOST_GUESSES, CodeState
from gatepost.store.port import Db

PREFIX = "GP"
MASKED = f"{PREFIX}-****-****-****"
ACTION = "user.pair"
AT_ONCE = 0  # a moment that is past

NO_CODE = "Write /pair and the code that `gatepost pair` prints."
LIMITED = "These were too many wrong codes. Wait an hour before you try another one."
TAKEN = "This identity belongs to somebody else already, so nothing has changed. `gatepost unpair` releases it."
ROLES = "This identity has a role that the person whom the code is for has not, so nothing has changed."
ALREADY = "This identity is paired with {} already."
PAIRED = "Paired: you are {} here from now on. `gatepost unpair {}` takes it back."
WRONG = {
    CodeState.USED: "This code was used before. `gatepost pair` prints a new one.",
    CodeState.EXPIRED: "This code is too old. `gatepost pair` prints a new one.",
    CodeState.UNKNOWN: "This code is not known. `gatepost pair` prints one.",
}

# As people copy it: with what quotes or emphasizes it, and with the dashes that keyboards make of a hyphen.
_AROUND = r"[\s\"'`*_“”„‘’.]*"
_GAP = r"[-\s\u2010-\u2015\u2212]?"
_CODE = re.compile(rf"{_AROUND}{PREFIX}(?:{_GAP}[A-Z0-9]{{4}}){{{LENGTH // 4}}}{_AROUND}", re.IGNORECASE)
_SEPARATORS = re.compile(r"[^A-Z0-9]")
_STRENGTH = {"guest": 0, "member": 1, "admin": 2, "owner": 3}
LONGEST_CODE = 100  # characters of what is sent as one


class PairingResult(Struct, frozen=True):
    """`said`: for the sender, '' for nothing. `reason`: for the ledger."""

    paired: bool
    reason: str
    said: str = ""


def find_code(text: str) -> str | None:
    """The code that a message is, None if it is none."""
    return parse_code(text) if _CODE.fullmatch(text) else None


def parse_code(text: str) -> str:
    """What follows /pair, in the form in which codes are kept. Nobody has to write the hyphens."""
    plain = _SEPARATORS.sub("", text[:LONGEST_CODE].upper())
    return plain.removeprefix(PREFIX) if len(plain) > LENGTH else plain


def render_code(code: str) -> str:
    return "-".join([PREFIX, *(code[at : at + 4] for at in range(0, LENGTH, 4))])


def issue_code(db: Db, person: str, by: str, now: int) -> str:
    """As it is shown to people, once."""
    if users.get(db, person) is None:
        raise NotFound("user", person, f"`gatepost user add {person}` makes them known")
    code = pairing_codes.issue(db, person, by, now)
    if not code:
        why = f"{pairing_codes.MOST_OPEN} codes are open; use one, or wait ten minutes until the oldest is void"
        raise Refused(by, "pair", person, why)
    return render_code(code)


def redeem_code(db: Db, code: str, sender: str, now: int) -> PairingResult:
    """Bind the sender to the person whom the code is for."""
    if not code:
        return PairingResult(False, "pairing_without_code", NO_CODE)
    if pairing_codes.count_guesses(db, sender, now) >= MOST_GUESSES:
        return PairingResult(False, "pairing_limited")
    redeemed = pairing_codes.redeem(db, code, sender, now)
    if redeemed.state is not CodeState.REDEEMED:
        return _count_guess(db, sender, redeemed.state, now)
    refused = _bind(db, sender, redeemed.person, now)
    verdict = "refused" if refused is not None else "done"
    _record(db, now, sender, verdict, {"person": redeemed.person} | ({"why": refused.reason} if refused else {}))
    return refused or PairingResult(True, "paired", PAIRED.format(_name(db, redeemed.person), sender))


def _bind(db: Db, sender: str, person: str, now: int) -> PairingResult | None:
    """None: it is done. A code is used up also where nothing can be bound: others may have read it."""
    if identities.get_person(db, sender) == person:
        return PairingResult(False, "paired_before", ALREADY.format(_name(db, person)))
    if _brings_roles(db, sender, person):
        return PairingResult(False, "pairing_roles", ROLES)
    if not identities.add(db, sender, person, sender, now):
        return PairingResult(False, "paired_elsewhere", TAKEN)
    return None


def _brings_roles(db: Db, sender: str, person: str) -> bool:
    """Whether the sender holds a role that the person does not. It would move to her: who is talked into sending
    somebody's code must not make an admin of them."""
    theirs = users.get_roles(db, person)
    return any(
        _STRENGTH[rights_of(theirs, folder)] < _STRENGTH[role.value]
        for role, folder in users.get_roles(db, sender).roles
    )


def _count_guess(db: Db, sender: str, state: CodeState, now: int) -> PairingResult:
    guesses = pairing_codes.add_guess(db, sender, now)
    _record(db, now, sender, "refused", {"why": f"code_{state}", "guesses": guesses})
    words = LIMITED if guesses >= MOST_GUESSES else WRONG[state]
    return PairingResult(False, f"pairing_code_{state}", words)


def _name(db: Db, person: str) -> str:
    user = users.get(db, person)
    return (user.name if user else "") or person


def _record(db: Db, now: int, sender: str, verdict: str, details: Mapping[str, object]) -> None:
    audit.append(db, audit.AuditRecord(now, sender, ACTION, verdict, dict(details)))


def unpair(db: Db, identity: str) -> PairedIdentity:
    """What the person has stays with her. The identity is a stranger's from now on."""
    names = identities.list_names(db, identity)
    if len(names) > 1 and names[0] == identity:
        others = ", ".join(names[1:])
        raise Invalid("identity", f"{identity} is the person herself; her further identities are {others}")
    if identity in OWNERS_IDENTITIES:
        raise Invalid("identity", f"{identity} is whoever runs this gateway, and stays the owner's")
    removed = identities.remove(db, identity)
    if removed is None:
        raise NotFound("paired identity", identity, "`gatepost user list` shows them")
    _withdraw_cards(db, identity, removed.person)
    direct_rooms.remove(db, identity)
    logins.remove_user(db, identity)
    return removed


def _withdraw_cards(db: Db, identity: str, person: str) -> None:
    """What the person was asked in the rooms of this identity she is asked elsewhere. Nothing more is told there."""
    for room in direct_rooms.list_for_identity(db, identity):
        for request_id in request_cards.close_in_room(db, person, room.instance, room.address):
            requests.defer(db, request_id, AT_ONCE)
