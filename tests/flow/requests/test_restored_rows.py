"""What a backup brings back that was perhaps ended, used or decided since it was made."""

import pytest

from gatepost.core.clock import DAY, HOUR
from gatepost.flow import invitations
from gatepost.flow.invitations import NewInvitation
from gatepost.flow.people import page_logins
from gatepost.flow.requests.ask_approver import ask
from gatepost.flow.requests.choices import ALLOW_ONCE, RESTORED
from gatepost.flow.requests.decide import decide
from gatepost.flow.requests.restored_rows import begin_incarnation
from gatepost.serve.control.arguments.requests import ShowRequestArgs
from gatepost.serve.control.operations.requests import show
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.people import logins, pairing_codes, users
from gatepost.store.people.logins import NewBrowser
from gatepost.store.port import Db
from gatepost.store.rights import tokens, waiting_requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.rights.tokens import NewToken, TokenKind, TokenState
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups
from gatepost_testing.clock import NOON

from .acme_people import ADA, CHANNELS, RULES, add_people, deliver, hold_call

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


def test_a_request_from_a_restored_store_says_so_on_its_card_until_it_is_decided(db: Db) -> None:
    add_people(db)
    asked = hold_call(db, why="A rule holds it")
    assert not any(RESTORED in text for text in deliver(db, NOON))

    begin_incarnation(db, CHANNELS, RULES, IncarnationReason.RESTORED, NOON + 60)

    [shown] = deliver(db, NOON + 60)
    assert RESTORED in shown and "original" in shown and f"/approve {asked.id}" in shown
    assert show(db, ShowRequestArgs(id=asked.id), NOON + 60).why == f"{RESTORED} A rule holds it."
    new = NewRequest(kind=RequestKind.SENDER, name=EVE, folder="acme", input={"from": EVE}, why="Unknown.")
    later = ask(db, CHANNELS, RULES, new, NOON + 90).request
    assert show(db, ShowRequestArgs(id=later.id), NOON + 90).why == "Unknown."

    assert decide(db, CHANNELS, asked.id, ALLOW_ONCE, ADA, NOON + 100).decided
    assert not any(RESTORED in text for text in deliver(db, NOON + 100))
    assert show(db, ShowRequestArgs(id=asked.id), NOON + 100).why == "A rule holds it"


def test_long_requests_do_not_keep_a_restored_gateway_from_its_start(db: Db) -> None:
    """All is written in one transaction, which is undone if it takes too long; an agent chose how long they are."""
    add_people(db)
    for number in range(3):
        hold_call(db, name=f"t/{number}", input={"text": "x" * 3_000})
    short = hold_call(db, name="t/short")
    deliver(db, NOON)

    begin_incarnation(db, CHANNELS, RULES, IncarnationReason.RESTORED, NOON + 60)

    [shown] = [text for text in deliver(db, NOON + 60) if RESTORED in text]
    assert f"/approve {short.id}" in shown
    for request in waiting_requests.list_waiting(db, None, 10):
        if request.kind is RequestKind.CALL:
            assert show(db, ShowRequestArgs(id=request.id), NOON + 60).why.startswith(RESTORED)
