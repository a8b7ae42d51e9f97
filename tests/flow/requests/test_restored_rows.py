"""What let somebody in when a backup was made, and perhaps no longer when it is put back."""

import pytest

from gatepost.core.clock import DAY, HOUR
from gatepost.flow import invitations
from gatepost.flow.invitations import NewInvitation
from gatepost.flow.people import page_logins
from gatepost.flow.requests.restored_rows import begin_incarnation
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.people import logins, pairing_codes, users
from gatepost.store.people.logins import NewBrowser
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import NewToken, TokenKind, TokenState
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups
from gatepost_testing.clock import NOON

from .acme_people import CHANNELS, RULES

EVE = "web:user/eve"


@pytest.mark.parametrize(
    "reason", [IncarnationReason.RESTORED, IncarnationReason.COPIED, IncarnationReason.ROLLED_BACK]
)
def test_what_was_ended_or_used_since_lets_nobody_in_again(db: Db, reason: IncarnationReason) -> None:
    """A stolen browser that was signed out, an address that was opened, a code that was redeemed."""
    groups.add(db, "acme", "Acme", "", NOON)
    users.add(db, EVE, "Eve", NOON)
    browser, _ = logins.add_browser(db, NewBrowser(user_id=EVE, way="password", device="", peer=""), NOON + DAY, NOON)
    _, address = page_logins.issue_for_person(db, EVE, NOON)
    code, other = (pairing_codes.issue(db, EVE, "operator", NOON) for _ in range(2))
    assert pairing_codes.redeem(db, other, "fake:user/ann", NOON).person == EVE
    new = NewInvitation(folder="acme", uses=1, expires_at=NOON + DAY, created_by="operator", page=True)
    invitation = invitations.issue(db, new, NOON)
    link = tokens.add(db, NewToken(kind=TokenKind.WEBHOOK, created_by="operator", folder="acme"), "a-webhook", NOON)
    assert link is not None

    begin_incarnation(db, CHANNELS, RULES, reason, NOON + 60)

    assert logins.find_browser(db, browser, NOON + 60) is None
    assert logins.redeem(db, address, NOON + 60) is None
    assert not pairing_codes.redeem(db, code, "fake:user/eve", NOON + 60).person
    ended = tokens.get(db, invitation.token.id)
    assert ended is not None and ended.get_state(NOON + 60) is TokenState.REVOKED
    assert tokens.find_valid(db, TokenKind.WEBHOOK, "a-webhook", NOON + HOUR) is not None  # programs go on


def test_the_owner_is_told_what_is_valid_again(db: Db) -> None:
    users.add(db, EVE, "Eve", NOON)
    users.add_role(db, EVE, users.UserRole.OWNER, "", "test", NOON)
    direct_rooms.add(db, EVE, "fake", "fake:direct/eve", NOON)
    begin_incarnation(db, CHANNELS, RULES, IncarnationReason.RESTORED, NOON)
    rows = db.rows("SELECT text FROM messages")
    assert len(rows) == 1 and "that were taken away since then are valid again" in rows[0][0]
