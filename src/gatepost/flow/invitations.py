"""Invitations: a code makes whoever sends it a member of a group, or gives them a group of their own below it. It may
give them further rights there, and sign somebody new in to the web page.

Uses are counted in the transaction that lets somebody in. A code that is unknown, used up, too old or revoked is
refused with the same words. Wrong codes count as wrong pairing codes do. The ledger has the message without the code.

Its rights are rows of the access list in the name of the inviter, and never exceed those of the inviter. That is judged
when the invitation is made and again when it is accepted, and the rows end when the inviter loses what they gave. A
role would not: nobody looks at who gave it.
"""

import secrets
from collections.abc import Iterator

from msgspec import Struct

from gatepost.access import acl as judged
from gatepost.access.operation_rights import OperationRights
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.clock import DAY
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.flow import grant_changes, onboarding, sender_rights
from gatepost.flow.codes import INVITATION
from gatepost.flow.groups import WEB_PERSON, WEB_ROOM
from gatepost.flow.intake.routing import MADE_BY
from gatepost.flow.onboarding import MOST_BELOW, Applicant, JoinResult
from gatepost.flow.people import page_logins, personal_routes
from gatepost.flow.people.personal_routes import PersonalChat
from gatepost.messages.inbound import OPERATOR
from gatepost.store.people import identities, newcomers, pairing_codes, users
from gatepost.store.people.newcomers import Newcomer, NewcomerState
from gatepost.store.people.pairing_codes import ALPHABET, MOST_GUESSES
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import acl, audit, tokens
from gatepost.store.rights.acl import AclRow
from gatepost.store.rights.tokens import InvitedRights, NewToken, Token, TokenKind
from gatepost.store.sessions import groups

INVITED_BY = "invite:"  # how what an invitation gave names it
MOST_USES = 1000
LONGEST_ON_PAGE = 30 * DAY  # an invitation that signs somebody in
ACTION = "invite.accept"
ENDED = (NewcomerState.ADMITTED, NewcomerState.SETTLED)  # an invitation changes nothing

NOT_VALID = (
    "This invitation is not valid: it is unknown, used up, too old or revoked. Ask whoever invited you for a new one."
)
LIMITED = "These were too many wrong codes. Wait an hour before you try another one."
MEMBER_ELSEWHERE = (
    "Welcome! You may write to {} from now on, but nothing leads there from this chat."
    " Whoever invited you can say from where."
)
MEMBER = "Welcome! You may write to {} from now on."
BEFORE = "You may write to {} already, so the invitation was not used."
ACCEPTED = "You have accepted this invitation. You may write to {}."
NOT_DIRECT = "This invitation is for an agent of your own. Send it to me in a direct chat."
FULL = "No further agents can be set up there. Whoever invited you can say more."
INVITE = "op:tokens.write"
COSTS = ("overview.read", "budgets.read")
MANAGING = (
    *COSTS,
    "groups.read",
    "groups.write",
    "files.read",
    "files.write",
    "sessions.read",
    "sessions.write",
    "tasks.read",
    "tasks.write",
    "memory.read",
    "memory.write",
    "rules.read",
    "rules.write",
)
ADMIN = "admin"
ACTIONS = {
    InvitedRights.TALK: (),
    InvitedRights.COSTS: tuple(f"op:{each}" for each in COSTS),
    InvitedRights.MANAGE: (ADMIN, *(f"op:{each}" for each in MANAGING)),
}
NOT_YOURS = "nobody gives more than they may do and pass on themselves"


def _is_person(inviter: str) -> bool:
    """Return False for the operator and for agents, whose invitations let people talk alone."""
    return ":" in inviter and not inviter.startswith(MADE_BY)


def _find_excess(db: Db, inviter: str, folder: str, rights: InvitedRights) -> str:
    """Return why the inviter cannot give these rights now, '' if they can."""
    if inviter == OPERATOR:
        return ""
    if not _is_person(inviter):
        return "" if rights is InvitedRights.TALK else NOT_YOURS
    rows, members = acl.list_rows(db), acl.list_members(db)
    own = OperationRights(inviter, rows, members)
    if not own.allows(INVITE, folder):
        return "they may not invite anybody there"
    if own.is_operator:
        return ""
    valid = judged.list_valid_rows(rows, members)
    wanted = _list_rows("somebody:new", inviter, folder, rights)
    return next((NOT_YOURS for each in wanted if judged.find_refusal_reason(valid, members, inviter, each)), "")


def _give_rights(db: Db, person: str, inviter: str, folder: str, rights: InvitedRights, now: int) -> None:
    """Raises Refused for what the inviter cannot give."""
    grant_changes.add_rows(db, [*_list_rows(person, inviter, folder, rights)], now)


def _list_rows(person: str, inviter: str, folder: str, rights: InvitedRights) -> Iterator[AclRow]:
    by = acl.OPERATOR if inviter == OPERATOR else inviter
    for each in ACTIONS[rights]:
        yield AclRow(id=0, principal=person, action=each, scope=f"{folder}/**", granted_by=by)


class NewInvitation(Struct, frozen=True, kw_only=True):
    folder: str
    uses: int
    expires_at: int | None
    created_by: str
    own_group: bool = False
    label: str = ""
    rights: InvitedRights = InvitedRights.TALK
    page: bool = False


class IssuedInvitation(Struct, frozen=True):
    """`code`: as it is shown to people, once."""

    token: Token
    code: str


class InvitationOffer(Struct, frozen=True):
    """An invitation's gift to somebody. `obstacle`: why it gives them nothing, '' if it does. `accepted`: what it has
    given them, '' if somebody else accepted it."""

    group: str = ""
    own_group: bool = False
    obstacle: str = ""
    accepted: str = ""
    rights: InvitedRights = InvitedRights.TALK


def issue(db: Db, new: NewInvitation, now: int) -> IssuedInvitation:
    if new.folder == ROOT_FOLDER:
        raise Invalid("folder", "root is for owners: nobody is invited there; `gatepost user role` makes an owner")
    if groups.get(db, new.folder) is None:
        raise NotFound("group", new.folder, "`gatepost group list` shows which there are")
    if not 1 <= new.uses <= MOST_USES:
        raise Invalid("uses", f"{new.uses} is not between 1 and {MOST_USES}")
    if new.expires_at is not None and new.expires_at <= now:
        raise Invalid("expires_at", "is in the past; name a later moment")
    _check_gift(db, new, now)
    code = "".join(secrets.choice(ALPHABET) for _ in range(INVITATION.length))
    row = NewToken(
        kind=TokenKind.INVITE,
        folder=new.folder,
        own_group=new.own_group,
        label=new.label,
        uses_left=new.uses,
        expires_at=new.expires_at,
        created_by=new.created_by,
        rights=new.rights,
        page=new.page,
    )
    made = tokens.add(db, row, code, now)
    if made is None:
        raise too_many(new.created_by, new.folder)
    return IssuedInvitation(made, INVITATION.render(code))


def _check_gift(db: Db, new: NewInvitation, now: int) -> None:
    if new.page and new.uses != 1:
        raise Invalid("uses", "an invitation to the web page works once; make one for each person")
    if new.page and (new.expires_at is None or new.expires_at > now + LONGEST_ON_PAGE):
        raise Invalid("days", f"an invitation to the web page ends within {LONGEST_ON_PAGE // DAY} days")
    if new.own_group and (new.page or new.rights is not InvitedRights.TALK):
        raise Invalid("own_group", "an agent of their own is all that such an invitation gives; make another one")
    if why := _find_excess(db, new.created_by, new.folder, new.rights):
        raise Refused(new.created_by, "invite", new.folder, why)


def too_many(by: str, folder: str) -> Refused:
    why = f"its world has {tokens.MOST_IN_WORLD} tokens that are valid; revoke some first"
    return Refused(by, "add a token", folder, why)


def read_offer(db: Db, code: str, sender: str, now: int) -> InvitationOffer:
    """Without using it, and without counting a wrong one: nobody finds one of 80 bits by trying."""
    if pairing_codes.count_guesses(db, sender, now) >= MOST_GUESSES:
        return InvitationOffer(obstacle=LIMITED)
    if accepted := _find_accepted(db, code, sender):
        return InvitationOffer(accepted=accepted)
    token = tokens.find_valid(db, TokenKind.INVITE, code, now)
    rights = sender_rights.find_rights(db, sender, token.folder) if token and token.folder else None
    if token is None or token.folder is None or rights is None:
        return InvitationOffer(obstacle=NOT_VALID)
    if _find_excess(db, token.created_by, token.folder, token.rights):
        return InvitationOffer(obstacle=NOT_VALID)
    name = _get_name(db, token.folder)
    before = BEFORE.format(name) if rights != "guest" and _gives_talk_alone(token) else ""
    return InvitationOffer(name, token.own_group, before, rights=token.rights)


def _gives_talk_alone(token: Token) -> bool:
    return not token.own_group and token.rights is InvitedRights.TALK


def read_page_offer(db: Db, code: str, now: int) -> InvitationOffer | None:
    """The offer to somebody who is not signed in. None: they cannot accept it on the page."""
    token = tokens.find_valid(db, TokenKind.INVITE, code, now)
    if token is None or token.folder is None or not token.page:
        return None
    if _find_excess(db, token.created_by, token.folder, token.rights):
        return None
    return InvitationOffer(_get_name(db, token.folder), rights=token.rights)


def join_page(db: Db, code: str, name: str, instance: str, now: int) -> str | None:
    """Make somebody new known by the name that they chose, and let them in. Return their identity on the page; None if
    the code lets nobody in there. Raises Invalid for a name that cannot be theirs."""
    if read_page_offer(db, code, now) is None:
        return None
    identity = page_logins.add_person(db, name, now)
    room = WEB_ROOM + identity.removeprefix(WEB_PERSON)
    who = Applicant(sender=identity, name=name, instance=instance, address=room, direct=True)
    if not (done := accept(db, code, who, now)).accepted:
        raise Refused(identity, "join", "the page", done.said)
    personal_routes.add_page_route(db, identity, now)
    return identity


def _find_accepted(db: Db, code: str, sender: str) -> str:
    """Return what is said to whoever has accepted it, and still has what it gave; '' to everybody else."""
    token = tokens.find(db, TokenKind.INVITE, code)
    if token is None or token.folder is None or sender_rights.find_rights(db, sender, token.folder) is None:
        return ""
    if not token.own_group:
        origin = users.find_member_origin(db, identities.get_person(db, sender), token.folder)
        return ACCEPTED.format(_get_name(db, token.folder)) if origin == get_origin(token) else ""
    known = newcomers.find(db, sender, token.folder)
    is_hers = known is not None and known.decided_by == get_origin(token)
    return onboarding.KNOWN[known.state] if known is not None and is_hers else ""


def get_origin(token: Token) -> str:
    """How a membership and a newcomer name the invitation that they came by."""
    return f"{INVITED_BY}{token.id}"


def accept(db: Db, code: str, who: Applicant, now: int) -> JoinResult:
    """Let somebody in by their code."""
    if pairing_codes.count_guesses(db, who.sender, now) >= MOST_GUESSES:
        return JoinResult(False, "invitation_limited")
    token = tokens.find_valid(db, TokenKind.INVITE, code, now)
    if token is None or token.folder is None:
        return _count_guess(db, who.sender, "not_valid", now)
    if sender_rights.find_rights(db, who.sender, token.folder) is None:
        return _count_guess(db, who.sender, "shut_out", now)
    if _find_excess(db, token.created_by, token.folder, token.rights):
        return _count_guess(db, who.sender, "beyond_inviter", now)
    return _give_group(db, code, token, who, now) if token.own_group else _add_member(db, code, token, who, now)


def _add_member(db: Db, code: str, token: Token, who: Applicant, now: int) -> JoinResult:
    folder = token.folder or ""
    name = _get_name(db, folder)
    if sender_rights.find_rights(db, who.sender, folder) != "guest" and _gives_talk_alone(token):
        return JoinResult(False, "invitation_not_needed", BEFORE.format(name))
    used = tokens.use(db, TokenKind.INVITE, code, now)
    if used is None:  # somebody else was faster
        return _count_guess(db, who.sender, "not_valid", now)
    person = identities.get_person(db, who.sender)
    users.add(db, person, who.name, now)
    users.add_member(db, person, folder, get_origin(used), now)
    _give_rights(db, person, used.created_by, folder, used.rights, now)
    given = {"token": used.id, "folder": folder, "person": person, "rights": used.rights}
    _record(db, now, who.sender, "done", {**given, "invited_by": used.created_by})
    led = _add_way(db, used, who, folder, now)
    return JoinResult(True, "invited", (MEMBER if led else MEMBER_ELSEWHERE).format(name))


def _add_way(db: Db, used: Token, who: Applicant, folder: str, now: int) -> bool:
    """Return True if what the person writes in this chat reaches the group from now on. An invitation of an owner
    gives their chat a route, unless another group hears them there; one of an agent does not."""
    chat = PersonalChat(who.instance, who.address, who.sender)
    if folder in personal_routes.list_reached(db, chat):
        return True
    by_operator = used.created_by == OPERATOR or sender_rights.read_operation_rights(db, used.created_by).is_operator
    if not who.can_have_group or not by_operator or personal_routes.is_known(db, chat):
        return False
    personal_routes.add_route(db, chat, folder, "gatepost", now)
    return folder in personal_routes.list_reached(db, chat)


def _give_group(db: Db, code: str, token: Token, who: Applicant, now: int) -> JoinResult:
    """Promise a group. It is made after this transaction."""
    parent = token.folder or ""
    db.lock(LockKind.QUOTA, "newcomers", parent)
    known = newcomers.find(db, who.sender, parent)
    if known is not None and (known.state in ENDED or _stays_denied(known, token)):
        return JoinResult(False, f"join_{known.state}", onboarding.KNOWN[known.state])
    if not who.can_have_group:
        return JoinResult(False, "invitation_not_direct", NOT_DIRECT)
    if newcomers.count_below(db, parent) >= MOST_BELOW:
        return JoinResult(False, "invitation_full", FULL)
    used = tokens.use(db, TokenKind.INVITE, code, now)
    if used is None:
        return _count_guess(db, who.sender, "not_valid", now)
    by = get_origin(used)
    if known is not None:
        newcomers.admit_invited(db, known.id, used.created_by, by, now)
    else:
        onboarding.add(db, who, parent, NewcomerState.ADMITTED, now, invited_by=used.created_by, by=by)
    _record(db, now, who.sender, "done", {"token": used.id, "parent": parent})
    return JoinResult(True, "joined", onboarding.ADMITTED, joined=True)


def _stays_denied(known: Newcomer, token: Token) -> bool:
    """A no is taken back by whoever said it, or by the operator: an agent cannot invite whom they turned down."""
    return known.state is NewcomerState.DENIED and token.created_by not in (OPERATOR, known.decided_by)


def _get_name(db: Db, folder: str) -> str:
    group = groups.get(db, folder)
    return (group.name if group else "") or folder


def _count_guess(db: Db, sender: str, why: str, now: int) -> JoinResult:
    guesses = pairing_codes.add_guess(db, sender, now)
    _record(db, now, sender, "refused", {"why": why, "guesses": guesses})
    return JoinResult(False, "invitation_not_valid", LIMITED if guesses >= MOST_GUESSES else NOT_VALID)


def _record(db: Db, now: int, sender: str, verdict: str, details: dict[str, object]) -> None:
    audit.append(db, audit.AuditRecord(now, sender, ACTION, verdict, details))
