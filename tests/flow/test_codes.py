"""Codes on ways other than the straight one: no agent reads one that still works."""

import itertools
from typing import Any

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core import ids
from gatepost.flow import invitations, pairing
from gatepost.flow.codes import INVITATION, PAIRING, mask_codes, may_hold_code
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.invitations import NewInvitation
from gatepost.messages.inbound import Inbound, Quote
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000
EVE, BOB, ROOM = "fake:user/eve", "fake:user/bob", "fake:room/1"
KIND = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset())
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def acme(db: Db) -> None:
    add_defaults(db, NOON)
    groups.add(db, "acme", "Acme", "", NOON)
    for person in (EVE, BOB):
        users.add(db, person, "", NOON)
        users.add_member(db, person, "acme", "test", NOON)
    routes.add(
        db, Route(seq=0, match="platform=fake", target="acme", folder="acme", created_by="test", created_at=NOON)
    )


def invite(db: Db) -> str:
    new = NewInvitation(folder="acme", uses=5, expires_at=None, created_by="operator")
    return invitations.issue(db, new, NOON).code


def say(db: Db, text: str, **given: Any) -> str:
    """The state of the message."""
    inbound = Inbound(address=ROOM, platform_id=f"m{next(_numbers)}", sender=EVE, text=text, **given)
    arrival = make_arrival("fake", inbound, IntakeLimits(), NOON, 0, frozenset({"bot"}))
    return accept(db, ChannelInstances({"fake": KIND}), arrival, NOON).receipt.state


def read_ledger(db: Db) -> str:
    return str(db.rows("SELECT text, content FROM messages"))


@pytest.mark.parametrize(
    ("form", "state"),
    [
        *((form, "queued") for form in ("@bot pair {}", "pair {}", "/pair@other_bot {}", "my code is {}")),
        *((form, "queued") for form in ("{} please", "code:{}!")),
        ("/paire {}", "refused"),  # answered with the command that was meant
    ],
)
def test_a_code_that_is_sent_in_a_slightly_wrong_way_reaches_no_agent(db: Db, form: str, state: str) -> None:
    for code in (pairing.issue_code(db, BOB, "operator", NOON), invite(db)):
        for written in (code, code.replace("-", "–"), code.replace("-", " "), code.replace("-", ""), code.lower()):
            assert say(db, form.format(written)) == state
            assert written not in read_ledger(db)
    assert "****" in read_ledger(db)


def test_a_code_in_a_quote_or_in_what_a_channel_adds_reaches_no_agent(db: Db) -> None:
    code = invite(db)
    say(db, "what is that?", reply_to=Quote(platform_id="x", text=f"come: {code}", sender="mal"))
    say(db, "look", extra={"forwarded": [{"text": code}]})
    say(db, code, reply_to=Quote(platform_id="y", text=code, sender="mal"))
    assert code not in read_ledger(db)


def test_a_code_in_an_edit_reaches_no_agent(db: Db) -> None:
    code = invite(db)
    for number, text in enumerate((code, f"/join {code}", f"it is {code}")):
        say(db, text, event=f"edit:{number}")
    assert code not in read_ledger(db)


def test_a_code_in_a_message_that_is_too_long_reaches_no_agent(db: Db) -> None:
    code = invite(db)
    assert say(db, f"{code} " + "x" * 70_000) == "refused"
    assert code not in read_ledger(db)


def test_a_link_that_works_once_is_masked_wherever_it_stands(db: Db) -> None:
    link = pairing.issue_link(db, EVE, EVE, "https://gate.example", NOON)
    login = f"https://gate.example/session#token={ids.token()}&id=s-1"
    say(db, f"is this right? {link}", reply_to=Quote(platform_id="x", text=login, sender="mal"))
    assert link not in read_ledger(db) and login not in read_ledger(db)
    assert "https://gate.example/pair/****" in read_ledger(db) and "#token=****&id=s-1" in read_ledger(db)


@pytest.mark.parametrize(
    "text",
    [
        "my gp will need more time",
        "the GP said that they call",
        "gpconfigurations",
        "GPT4OMINIMODEL",
        "GI-1234",
        "see /pair/programming and ?token=short",
        "gpg --list-keys",
    ],
)
def test_other_words_stay_as_they_are(text: str) -> None:
    assert mask_codes(text) == text


def test_a_text_that_has_neither_a_code_nor_a_link_fails_at_once() -> None:
    codes = (PAIRING.render("2345ABCDEFGH"), INVITATION.render("2345ABCDEFGHJKMN"))
    links = (f"/pair/{ids.token()}", f"?TOKEN={ids.token()}", f"#token={ids.token()}")
    assert all(may_hold_code(f"see {each} there") and may_hold_code(each.lower()) for each in (*codes, *links))
    assert not any(map(may_hold_code, ("", "hello", "what is the time?", "/stop", "@bot: see #12")))
