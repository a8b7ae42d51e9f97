"""Tickets in the addresses of pages that are not public."""

from gatepost.serve.web.sites.tickets import LASTS, SiteTickets


def test_a_ticket_is_for_one_group_and_ends() -> None:
    tickets = SiteTickets()
    made = tickets.issue("browser", "acme", 1)
    assert tickets.find(made.text, "acme", 2) == made
    assert tickets.find(made.text, "acme/eng", 2) is None and tickets.find("another", "acme", 2) is None
    assert tickets.find(made.text, "acme", 1 + LASTS) is None and tickets.find(made.text, "acme", 2) is None


def test_a_browser_has_one_for_each_group_until_it_is_half_over() -> None:
    tickets = SiteTickets()
    first = tickets.issue("browser", "acme", 1)
    assert tickets.issue("browser", "acme", 2) == first
    assert len({first.text, tickets.issue("browser", "other", 2).text, tickets.issue("two", "acme", 2).text}) == 3
    later = tickets.issue("browser", "acme", 1 + LASTS // 2)
    assert later.text != first.text and tickets.find(first.text, "acme", 3) == first


def test_the_oldest_make_way() -> None:
    tickets = SiteTickets(most=3)
    made = [tickets.issue(f"browser {number}", "acme", 1) for number in range(5)]
    kept = [tickets.find(each.text, "acme", 2) is not None for each in made]
    assert kept == [False, False, True, True, True]
    assert tickets.issue("browser 0", "acme", 2).text != made[0].text
