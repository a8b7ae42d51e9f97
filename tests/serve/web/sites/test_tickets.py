"""Tickets in the addresses of pages that are not public."""

import pytest

from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.serve.web.signin.web_keys import WebKeys
from gatepost.serve.web.sites.tickets import LASTS, LONGEST, SiteTickets
from gatepost.store.port import Store


@pytest.fixture
def tickets(home: Home, store: Store) -> SiteTickets:
    return SiteTickets(WebKeys(Keyring(home, {}), store))


async def test_a_ticket_is_for_one_group_and_ends(tickets: SiteTickets) -> None:
    made = await tickets.issue("browser", "acme", "here", 1)
    found = await tickets.find(made, "acme", "here", LASTS)
    assert found is not None and found.browser == "browser"
    assert await tickets.find(made, "acme/eng", "here", 2) is None
    assert await tickets.find(made, "acme", "elsewhere", 2) is None
    assert await tickets.find(made, "acme", "here", 1 + LASTS) is None


async def test_every_gateway_with_the_same_ring_knows_it(tickets: SiteTickets, home: Home, store: Store) -> None:
    made = await tickets.issue("browser", "acme", "here", 1)
    other = SiteTickets(WebKeys(Keyring(home, {}), store))  # the same as after a restart
    assert await other.find(made, "acme", "here", 2) is not None


async def test_a_ring_of_another_home_opens_none(
    tickets: SiteTickets, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = Keyring(Home(tmp_path_factory.mktemp("elsewhere")), {})
    elsewhere.add_key()
    made = await tickets.issue("browser", "acme", "here", 1)
    assert await SiteTickets(WebKeys(elsewhere, store)).find(made, "acme", "here", 2) is None


async def test_the_page_that_has_it_does_not_learn_the_cookie(tickets: SiteTickets) -> None:
    made = await tickets.issue("token-of-the-cookie", "acme", "here", 1)
    assert "token" not in made and made != await tickets.issue("token-of-the-cookie", "acme", "here", 1)
    assert len(await tickets.issue("x" * 64, "acme", "here", 1)) <= LONGEST


async def test_what_was_changed_opens_nothing(tickets: SiteTickets) -> None:
    made = await tickets.issue("browser", "acme", "here", 1)
    key, _, data = made.partition(".")
    other = "A" if data[0] != "A" else "B"
    changed = [f"{key}.{data[:-2]}", f"{key}.{other}{data[1:]}", f".{data}", f"{key}.", key, ""]
    changed += [f"{key}.\N{SNOWMAN}", f"{key}.!!!", f"b3du.{data}", "." * LONGEST, "A" * (LONGEST + 1) + f".{data}"]
    for each in changed:
        assert await tickets.find(each, "acme", "here", 2) is None, each
