"""Tickets between the two steps of a sign-in: ours, for one purpose, for a few minutes, once."""

from gatepost.serve.web.signin.tickets import LASTS, LONGEST, MOST_SPENT, TicketOffice, TicketPurpose

NOW = 1_000_000_000
PASSKEY, OIDC = TicketPurpose.PASSKEY_SIGN_IN, TicketPurpose.OIDC_SIGN_IN


def test_a_ticket_brings_back_what_was_written_on_it() -> None:
    office = TicketOffice()
    found = office.read(OIDC, office.issue(OIDC, {"nonce": "n"}, NOW), NOW + LASTS - 1)
    assert found is not None and found.values == {"nonce": "n"}


def test_a_ticket_of_another_purpose_office_or_time_is_none() -> None:
    office = TicketOffice()
    ticket = office.issue(PASSKEY, {}, NOW)
    assert office.read(OIDC, ticket, NOW) is None
    assert office.read(PASSKEY, ticket, NOW + LASTS) is None
    assert TicketOffice().read(PASSKEY, ticket, NOW) is None


def test_a_changed_ticket_is_none() -> None:
    office = TicketOffice()
    body, _, signature = office.issue(PASSKEY, {"user": "ann"}, NOW).partition(".")
    other = office.issue(PASSKEY, {"user": "bob"}, NOW).partition(".")[0]
    for given in (f"{other}.{signature}", body, f"{body}.", f".{signature}", "", ".", "ä.ö", "x" * (LONGEST + 1)):
        assert office.read(PASSKEY, given, NOW) is None


def test_a_ticket_is_spent_once() -> None:
    office = TicketOffice()
    given = office.issue(PASSKEY, {}, NOW)
    ticket = office.read(PASSKEY, given, NOW)
    assert ticket is not None and office.spend(ticket, NOW)
    assert not office.spend(ticket, NOW)
    assert office.read(PASSKEY, given, NOW) is None


def test_what_is_remembered_is_bounded_and_forgotten_when_it_is_too_old() -> None:
    office = TicketOffice()
    for _ in range(MOST_SPENT):
        ticket = office.read(PASSKEY, office.issue(PASSKEY, {}, NOW), NOW)
        assert ticket is not None and office.spend(ticket, NOW)
    late = office.read(PASSKEY, office.issue(PASSKEY, {}, NOW + 1), NOW + 1)
    assert late is not None
    assert not office.spend(late, NOW + 1)
    assert office.spend(late, NOW + LASTS)
