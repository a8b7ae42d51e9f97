"""Pairing codes on a store: once, in time, and not by guessing."""

import pytest

from gatepost.core.clock import HOUR, MINUTE
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.flow import pairing
from gatepost.flow.codes import PAIRING
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import OWNER, add_defaults
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.flow.requests.choices import ALLOW_ONCE
from gatepost.flow.requests.decide import decide
from gatepost.flow.requests.request_loop import move_due
from gatepost.store.people import identities, pairing_codes, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import audit, request_cards
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000
ANN, CHAT, EVE = "fake:user/ann", "chat:user/7", "fake:user/eve"


@pytest.fixture(autouse=True)
def people(db: Db) -> None:
    add_defaults(db, NOON)
    users.add(db, ANN, "Ann", NOON)


def send(db: Db, shown: str, sender: str = CHAT, now: int = NOON) -> pairing.PairingResult:
    code = PAIRING.find(shown)
    assert code is not None
    return pairing.redeem_code(db, code, sender, now)


def verdicts(db: Db) -> list[tuple[str, str]]:
    rows = db.rows("SELECT actor, verdict FROM audit WHERE action = 'user.pair' ORDER BY seq")
    return [(row[0], row[1]) for row in rows]


def test_a_code_binds_its_sender_and_is_kept_as_a_hash_alone(db: Db) -> None:
    shown = pairing.issue_code(db, ANN, "operator", NOON)
    code = PAIRING.find(shown)
    assert code is not None and len(code) == 12 and 32**12 > 2**40
    assert code not in str(db.rows("SELECT * FROM pairing_codes"))
    result = send(db, shown)
    assert result.paired and "Ann" in result.said and "gatepost unpair" not in result.said
    assert identities.list_names(db, CHAT) == (ANN, CHAT)
    assert verdicts(db) == [(CHAT, "done")]


def test_only_an_owner_is_told_a_command_that_takes_a_pairing_back(db: Db) -> None:
    users.add_role(db, ANN, UserRole.OWNER, "", "test", NOON)
    assert f"`gatepost unpair {CHAT}`" in send(db, pairing.issue_code(db, ANN, "operator", NOON)).said


@pytest.mark.parametrize("form", ["{}", "  {} \n", "gp{}", "{} "])
def test_a_code_may_be_written_in_several_ways(db: Db, form: str) -> None:
    shown = pairing.issue_code(db, ANN, "operator", NOON)
    written = shown.lower().removeprefix("gp") if form.startswith("gp") else shown.lower()
    assert PAIRING.find(form.format(written)) == PAIRING.parse(shown)
    assert PAIRING.parse(shown.removeprefix("GP-").replace("-", "")) == PAIRING.parse(shown)


@pytest.mark.parametrize("form", ["`{}`", "**{}**", "“{}”", "{}.", "'{}'"])
def test_a_code_may_be_quoted_and_have_the_dashes_of_a_keyboard(db: Db, form: str) -> None:
    """It must not pass for a message, which an agent would get."""
    shown = pairing.issue_code(db, ANN, "operator", NOON)
    for dash in "-‐‑–—−":
        assert PAIRING.find(form.format(shown.replace("-", dash))) == PAIRING.parse(shown)


@pytest.mark.parametrize("text", ["", "hello", "GP-1234", "my code is GP-AAAA-BBBB-CCCC", "GP-AAAA-BBBB-CCCC-DDDD"])
def test_other_words_are_no_code(text: str) -> None:
    assert PAIRING.find(text) is None


def test_a_code_works_once(db: Db) -> None:
    shown = pairing.issue_code(db, ANN, "operator", NOON)
    assert send(db, shown).paired
    again = send(db, shown, EVE)
    assert not again.paired and "was used before" in again.said
    assert identities.get_person(db, EVE) == EVE


def test_a_late_code_is_refused(db: Db) -> None:
    shown = pairing.issue_code(db, ANN, "operator", NOON)
    late = send(db, shown, now=NOON + 10 * MINUTE)
    assert not late.paired and "too old" in late.said
    assert send(db, pairing.issue_code(db, ANN, "operator", NOON), now=NOON + 10 * MINUTE - 1).paired


def test_a_guesser_is_limited_and_recorded(db: Db) -> None:
    shown = pairing.issue_code(db, ANN, "operator", NOON)
    answers = [send(db, "GP-2222-3333-4444", EVE) for _ in range(7)]
    assert [each.said for each in answers[:4]] == [pairing.WRONG[pairing_codes.CodeState.UNKNOWN]] * 4
    assert answers[4].said == pairing.LIMITED
    assert [each.said for each in answers[5:]] == ["", ""]
    assert not send(db, shown, EVE).paired  # the right one comes too late
    assert verdicts(db) == [(EVE, "refused")] * 5
    assert send(db, shown).paired  # somebody else is not in the way
    fresh = pairing.issue_code(db, ANN, "operator", NOON + HOUR)
    assert send(db, fresh, EVE, NOON + HOUR).paired


def test_few_codes_are_open_at_once(db: Db) -> None:
    for _ in range(pairing_codes.MOST_OPEN):
        pairing.issue_code(db, ANN, "operator", NOON)
    with pytest.raises(Refused, match="5 codes are open"):
        pairing.issue_code(db, ANN, "operator", NOON)
    assert pairing.issue_code(db, ANN, "operator", NOON + 10 * MINUTE)


def test_a_code_is_for_somebody_who_is_known(db: Db) -> None:
    with pytest.raises(NotFound, match="gatepost user add fake:user/nobody"):
        pairing.issue_code(db, "fake:user/nobody", "operator", NOON)


def test_who_is_paired_stays_with_her_person(db: Db) -> None:
    assert send(db, pairing.issue_code(db, ANN, "operator", NOON)).paired
    users.add(db, "fake:user/bob", "Bob", NOON)
    taken = send(db, pairing.issue_code(db, "fake:user/bob", "operator", NOON))
    assert not taken.paired and "somebody else" in taken.said
    before = send(db, pairing.issue_code(db, ANN, "operator", NOON))
    assert not before.paired and "paired with Ann already" in before.said
    assert identities.get_person(db, CHAT) == ANN


def test_an_owners_identity_does_not_become_somebody_elses(db: Db) -> None:
    users.add(db, CHAT, "Boss", NOON)
    users.add_role(db, CHAT, UserRole.OWNER, "", "test", NOON)
    refused = send(db, pairing.issue_code(db, ANN, "operator", NOON))
    assert not refused.paired and "has a role" in refused.said
    assert users.get_roles(db, ANN).roles == ()
    assert send(db, pairing.issue_code(db, OWNER, "operator", NOON)).paired
    assert users.list_owners(db) == [OWNER]


def test_unpairing_leaves_nothing_to_the_identity(db: Db) -> None:
    users.add_role(db, ANN, UserRole.OWNER, "", "test", NOON)
    send(db, pairing.issue_code(db, ANN, "operator", NOON))
    direct_rooms.add(db, CHAT, "chat", "chat:dm/7", NOON)
    assert pairing.unpair(db, CHAT).person == ANN
    assert users.get_roles(db, CHAT).roles == () and direct_rooms.list_for_people(db, (CHAT, ANN)) == []
    with pytest.raises(NotFound, match="no paired identity"):
        pairing.unpair(db, CHAT)


def test_the_person_herself_and_the_owners_own_identities_are_not_unpaired(db: Db) -> None:
    with pytest.raises(Invalid, match="is the person; their further"):
        pairing.unpair(db, OWNER)
    with pytest.raises(Invalid, match="whoever runs this gateway"):
        pairing.unpair(db, "web:user/owner")
    assert len(identities.list_names(db, OWNER)) == 2


def test_the_records_are_part_of_the_chain(db: Db) -> None:
    send(db, "GP-2222-3333-4444", EVE)
    assert audit.get_head(db)


@pytest.mark.parametrize(
    ("of_sender", "of_person", "paired"),
    [
        ((UserRole.ADMIN, "acme"), None, False),
        ((UserRole.ADMIN, "acme"), (UserRole.ADMIN, "acme/eng"), False),
        ((UserRole.ADMIN, ""), (UserRole.ADMIN, "acme"), False),
        ((UserRole.OWNER, "acme"), (UserRole.ADMIN, "acme"), False),
        ((UserRole.ADMIN, "acme"), (UserRole.ADMIN, "acme"), True),
        ((UserRole.ADMIN, "acme/eng"), (UserRole.ADMIN, "acme"), True),
        ((UserRole.ADMIN, "acme"), (UserRole.OWNER, ""), True),
    ],
)
def test_who_is_talked_into_sending_somebodys_code_makes_no_admin_of_them(
    db: Db, of_sender: tuple[UserRole, str], of_person: tuple[UserRole, str] | None, paired: bool
) -> None:
    users.add(db, CHAT, "Ada", NOON)
    users.add_role(db, CHAT, *of_sender, "test", NOON)
    if of_person is not None:
        users.add_role(db, ANN, *of_person, "test", NOON)
    before = users.get_roles(db, ANN).roles
    assert send(db, pairing.issue_code(db, ANN, "operator", NOON)).paired is paired
    assert paired or (users.get_roles(db, ANN).roles, users.get_roles(db, CHAT).roles) == (before, (of_sender,))


def test_what_was_asked_in_the_room_of_an_unpaired_identity_is_asked_elsewhere(db: Db) -> None:
    """Its card is nobody's there: the person would wait for a question that they cannot see."""
    send(db, pairing.issue_code(db, OWNER, "operator", NOON))
    direct_rooms.add(db, CHAT, "chat", "chat:dm/7", NOON + 1)
    groups.add(db, "acme", "Acme", "scripted", NOON)
    new = NewRequest(kind=RequestKind.SENDER, name=EVE, folder="acme", input={}, instance="chat")
    channels, limits = ChannelInstances({}), AskingRules(escalate=HOUR, expire=10 * HOUR, quorum=1)
    request = ask(db, channels, limits, new, NOON).request
    assert [card.address for card in request_cards.list_for_request(db, request.id)] == ["chat:dm/7"]
    direct_rooms.add(db, OWNER, "terminal", "terminal:main", NOON)

    pairing.unpair(db, CHAT)
    assert move_due(db, limits, channels, NOON + 2).rooms == {("terminal", "terminal:main")}
    cards = request_cards.list_for_request(db, request.id)
    assert [(card.address, card.open) for card in cards] == [("chat:dm/7", False), ("terminal:main", True)]
    late = decide(db, channels, request.id, ALLOW_ONCE, CHAT, NOON + 3)
    assert not late.decided
    decided = decide(db, channels, request.id, ALLOW_ONCE, OWNER, NOON + 4)
    assert decided.decided and ("chat", "chat:dm/7") not in decided.rooms
