"""Pairing: a code of `gatepost pair` binds the chat identity that sends it to a person. It works before the sender is
known. No agent gets the message, and the ledger keeps it without the code.

A pairing link goes the other way: it is for one identity, and binds that to whoever confirms it on the web page. To
open it changes nothing.
"""

from collections.abc import Mapping

from msgspec import Struct

from gatepost.access import acl
from gatepost.access.senders import rights_of
from gatepost.core import ids
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.core.process.listen_address import LISTEN, parse
from gatepost.core.settings import Config, setting
from gatepost.flow import codes, sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.groups import OWNERS_IDENTITIES
from gatepost.flow.sender_rights import SenderAccess
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.people import identities, logins, pairing_codes, passkeys, passwords, users
from gatepost.store.people.identities import PairedIdentity
from gatepost.store.people.pairing_codes import LASTS, MOST_GUESSES, CodeState
from gatepost.store.port import Db
from gatepost.store.rights import audit, request_cards, tokens, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.tokens import NewToken, Token, TokenKind
from gatepost.store.rooms import direct_rooms

PAGE_URL = setting(
    "web.url", "", help="The address of the web page in links that people get (empty: the one that it listens on)."
)

ACTION = "user.pair"
AT_ONCE = 0  # a moment that is past

NO_CODE = "Write /pair and the code that `gatepost pair` prints."
LINK = (
    "Open this in a browser that is signed in to the gateway: {}\nWhoever confirms it there and you here are one person"
    " from then on, so give it to nobody else. It works once, within ten minutes."
)
LINK_KEPT = "(a pairing link, which is not kept)"
LINK_GIVEN = "pairing_link"
TOO_MANY_LINKS = "Too many pairing links are open. Try again in ten minutes."
OLD_LINK = "This link was used before, is too old or is not known. `/pair` in a chat gives a new one."
LIMITED = "These were too many wrong codes. Wait an hour before you try another one."
TAKEN = "This identity belongs to somebody else already, so nothing has changed. `gatepost unpair` releases it."
ROLES = "This identity has a role or a right that the person whom it would belong to has not, so nothing has changed."
ALREADY = "This identity is paired with {} already."
PAIRED = "Paired: you are {} here from now on. {}"
WRONG = {
    CodeState.USED: "This code was used before. `gatepost pair` prints a new one.",
    CodeState.EXPIRED: "This code is too old. `gatepost pair` prints a new one.",
    CodeState.UNKNOWN: "This code is not known. `gatepost pair` prints one.",
}

_STRENGTH = {"guest": 0, "member": 1, "admin": 2, "owner": 3}


class PairingResult(Struct, frozen=True):
    """`said`: for the sender, '' for nothing. `reason`: for the ledger. `secret`: is sent in the place of `said`, which
    is what the ledger has."""

    paired: bool
    reason: str
    said: str = ""
    secret: str = ""


def issue_code(db: Db, person: str, by: str, now: int) -> str:
    """As it is shown to people, once."""
    if users.get(db, person) is None:
        raise NotFound("user", person, f"`gatepost user add {person}` makes them known")
    code = pairing_codes.issue(db, person, by, now)
    if not code:
        why = f"{pairing_codes.MOST_OPEN} codes are open; use one, or wait ten minutes until the oldest is void"
        raise Refused(by, "pair", person, why)
    return codes.PAIRING.render(code)


def redeem_code(db: Db, code: str, sender: str, now: int) -> PairingResult:
    """Bind the sender to the person whom the code is for."""
    if not code:
        return PairingResult(False, "pairing_without_code", NO_CODE)
    if pairing_codes.count_guesses(db, sender, now) >= MOST_GUESSES:
        return PairingResult(False, "pairing_limited")
    redeemed = pairing_codes.redeem(db, code, sender, now)
    if redeemed.state is not CodeState.REDEEMED:
        return _count_guess(db, sender, redeemed.state, now)
    refused = _bind(db, sender, redeemed.person, sender, now)
    verdict = "refused" if refused is not None else "done"
    _record(db, now, sender, verdict, {"person": redeemed.person} | ({"why": refused.reason} if refused else {}))
    return refused or PairingResult(True, "paired", _render_paired(db, redeemed.person, sender))


def _bind(db: Db, identity: str, person: str, by: str, now: int) -> PairingResult | None:
    """None: it is done. A code is used up also where nothing can be bound: others may have read it."""
    if refused := _find_obstacle(db, identity, person):
        return refused
    return None if identities.add(db, identity, person, by, now) else PairingResult(False, "paired_elsewhere", TAKEN)


def _find_obstacle(db: Db, identity: str, person: str) -> PairingResult | None:
    """Why an identity cannot become that person's."""
    if identities.get_person(db, identity) == person:
        return PairingResult(False, "paired_before", ALREADY.format(_name(db, person)))
    if _brings_roles(db, identity, person) or _brings_rows(db, identity, person):
        return PairingResult(False, "pairing_roles", ROLES)
    if len(identities.list_names(db, identity)) > 1:
        return PairingResult(False, "paired_elsewhere", TAKEN)
    return None


def _brings_roles(db: Db, identity: str, person: str) -> bool:
    """Return True if the identity holds a role that the person does not. The role would move to the person: whoever is
    talked into sending somebody's code must not make an admin of them."""
    theirs = users.get_roles(db, person)
    return any(
        _STRENGTH[rights_of(theirs, folder)] < _STRENGTH[role.value]
        for role, folder in users.get_roles(db, identity).roles
    )


def _brings_rows(db: Db, identity: str, person: str) -> bool:
    """The same for what the access list gives the identity, or a role that it is a member of. To be heard is no such
    right: it moves as a membership does."""
    theirs, its = sender_rights.read_access_with_rows(db, person), sender_rights.read_access_with_rows(db, identity)
    if rights_of(theirs.roles, "") == "owner":
        return False
    given = [row for row in its.rows if _is_power(row) and acl.concerns(row, its.names)]
    return any(not _has_power(theirs, row) for row in given)


def _is_power(row: AclRow) -> bool:
    """Return True if a row gives more than to be heard. A tool that a whole platform may use says nothing about
    somebody."""
    named = "*" not in row.principal or row.action in ("*", "admin")
    return row.effect is AclEffect.ALLOW and row.action != "interact" and named


def _has_power(access: SenderAccess, wanted: AclRow) -> bool:
    """Return True if a person has what a row gives, wherever it gives it, by a role or by a row of their own."""
    commanded = [folder for _, folder in access.roles.roles]
    by_role = any(not folder or acl.covers_scope(f"{folder}/**", wanted.scope) for folder in commanded)
    if by_role and acl.covers_action("admin", wanted.action) and not wanted.grant_option:
        return True
    own = [row for row in access.rows if row.effect is AclEffect.ALLOW and acl.concerns(row, access.names)]
    return any(acl.covers_row(row, wanted) and row.grant_option >= wanted.grant_option for row in own)


def get_page_url(config: Config, listens: str = "") -> str:
    """Return where the web page is, for a link; '' if that is not known. `listens`: what a running gateway is bound
    to."""
    if config[PAGE_URL]:
        return str(config[PAGE_URL]).rstrip("/")
    return parse(listens or config[LISTEN]).browser_url


def issue_link(db: Db, identity: str, by: str, base: str, now: int, room: tuple[str, str] = ("", "")) -> str:
    """A link that binds an identity to whoever confirms it, shown once. `room`: where it was asked for. '' if too many
    are open."""
    token, (instance, address) = ids.token(), room
    new = NewToken(
        kind=TokenKind.PAIRING_LINK,
        identity=identity,
        instance=instance,
        address=address,
        uses_left=1,
        expires_at=now + LASTS,
        created_by=by,
    )
    return f"{base}/pair/{token}" if tokens.add(db, new, token, now) else ""


def answer_with_link(db: Db, sender: str, base: str, room: tuple[str, str], now: int) -> PairingResult:
    """Somebody wants to be known in a chat, and has no code. Agents read the ledger, so it has no link."""
    if pairing_codes.count_guesses(db, sender, now) >= MOST_GUESSES:
        return PairingResult(False, "pairing_limited")
    if (person := identities.get_person(db, sender)) != sender:
        return PairingResult(False, "paired_before", ALREADY.format(_name(db, person)))
    link = issue_link(db, sender, sender, base, now, room)
    if not link:
        return PairingResult(False, "pairing_links_open", TOO_MANY_LINKS)
    return PairingResult(False, LINK_GIVEN, LINK_KEPT, secret=LINK.format(link))


class PairingOffer(Struct, frozen=True, kw_only=True):
    """The effect that a pairing link would have for whoever is signed in. `obstacle`: why it cannot."""

    identity: str
    name: str
    person: str
    person_name: str
    expires_at: int
    obstacle: str = ""


def read_link(db: Db, token: str, user: str, now: int) -> PairingOffer:
    """Changes nothing: programs that fetch links to show a preview open them, too."""
    link = tokens.find_valid(db, TokenKind.PAIRING_LINK, token, now)
    if link is None:
        raise UnknownPairingLink
    person = identities.get_person(db, user)
    refused = _find_obstacle(db, link.identity, person)
    known = users.get(db, link.identity)
    return PairingOffer(
        identity=link.identity,
        name=known.name if known else "",
        person=person,
        person_name=_name(db, person),
        expires_at=link.expires_at or now,
        obstacle=refused.said if refused else "",
    )


def confirm_link(
    db: Db, token: str, user: str, now: int, channels: ChannelInstances | None = None
) -> tuple[PairingResult, Token]:
    """Bind the link's identity to the person who is signed in. The link is used up whatever comes of it. `channels`:
    the room where it was asked for is told, and is to be rung."""
    link = tokens.use(db, TokenKind.PAIRING_LINK, token, now)
    if link is None:
        raise UnknownPairingLink
    person = identities.get_person(db, user)
    refused = _bind(db, link.identity, person, user, now)
    details = {"person": person, "identity": link.identity} | ({"why": refused.reason} if refused else {})
    _record(db, now, user, "refused" if refused else "done", details)
    said = _render_paired(db, person, link.identity)
    if refused is None and link.address:  # links are given in direct rooms alone
        direct_rooms.add(db, link.identity, link.instance, link.address, now)
        if channels is not None:
            _notify_room(db, channels, link, said, now)
    return refused or PairingResult(True, "paired", said), link


def _notify_room(db: Db, channels: ChannelInstances, link: Token, text: str, now: int) -> None:
    notice = OutgoingMessage(
        key=f"notice:paired:{link.id}",
        origin=EffectOrigin.NOTICE,
        instance=link.instance,
        address=link.address,
        text=text,
    )
    add_outgoing_message(db, channels, notice, now)


class UnknownPairingLink(NotFound):
    def __init__(self) -> None:
        GatepostError.__init__(self, OLD_LINK)


def _count_guess(db: Db, sender: str, state: CodeState, now: int) -> PairingResult:
    guesses = pairing_codes.add_guess(db, sender, now)
    _record(db, now, sender, "refused", {"why": f"code_{state}", "guesses": guesses})
    words = LIMITED if guesses >= MOST_GUESSES else WRONG[state]
    return PairingResult(False, f"pairing_code_{state}", words)


def _render_paired(db: Db, person: str, identity: str) -> str:
    """Return what the person is told. Only an owner has the command line."""
    command = f"`gatepost unpair {identity}` takes it back."
    undo = command if person in users.list_owners(db) else "Whoever runs this gateway can take it back."
    return PAIRED.format(_name(db, person), undo)


def _name(db: Db, person: str) -> str:
    user = users.get(db, person)
    return (user.name if user else "") or person


def _record(db: Db, now: int, sender: str, verdict: str, details: Mapping[str, object]) -> None:
    audit.append(db, audit.AuditRecord(now, sender, ACTION, verdict, dict(details)))


def unpair(db: Db, identity: str) -> PairedIdentity:
    """Take an identity from a person. They keep what they have; the identity is a stranger's from now on."""
    names = identities.list_names(db, identity)
    if len(names) > 1 and names[0] == identity:
        others = ", ".join(names[1:])
        raise Invalid("identity", f"{identity} is the person; their further identities are {others}")
    if identity in OWNERS_IDENTITIES:
        raise Invalid("identity", f"{identity} is whoever runs this gateway, and stays the owner's")
    removed = identities.remove(db, identity)
    if removed is None:
        raise NotFound("paired identity", identity, "`gatepost user list` shows them")
    _withdraw_cards(db, identity, removed.person)
    direct_rooms.remove(db, identity)
    logins.remove_user(db, identity)
    passkeys.remove_user(db, identity)
    passwords.remove(db, identity)
    return removed


def _withdraw_cards(db: Db, identity: str, person: str) -> None:
    """Ask elsewhere what the person was asked in the rooms of this identity. Nothing more is told there."""
    for room in direct_rooms.list_for_identity(db, identity):
        for request_id in request_cards.close_in_room(db, person, room.instance, room.address):
            waiting_requests.defer(db, request_id, AT_ONCE)
