"""Where a request really comes from, behind proxies and without."""

from typing import Any

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.settings import Config
from gatepost.serve.web.trusted_proxies import MOST_PROXIES, ClientAddresses, make_client_addresses

PROXIED = ClientAddresses(("10.0.0.0/24", "unix"), "X-Forwarded-For")


def make_scope(address: str | None, *named: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", each.encode()) for each in named]
    return {"type": "http", "client": (address, 1) if address is not None else None, "headers": headers}


@pytest.mark.parametrize(
    ("address", "named", "expected"),
    [
        ("10.0.0.2", ["8.8.8.8"], "8.8.8.8"),
        ("::ffff:10.0.0.2", ["8.8.8.8"], "8.8.8.8"),
        (None, ["8.8.8.8"], "8.8.8.8"),
        ("10.0.0.2", ["192.168.1.7"], "192.168.1.7"),  # the proxy saw it: nobody else has it
        ("10.0.0.2", ["1.1.1.1, 8.8.8.8, 10.0.0.9"], "8.8.8.8"),  # two proxies, and a lie before them
        ("10.0.0.2", ["1.1.1.1", "8.8.8.8"], "8.8.8.8"),
        ("10.0.0.2", ["8.8.8.8, not an address"], ""),
        ("10.0.0.2", ["10.0.0.9"], ""),
        ("10.0.0.2", [], ""),
        ("10.0.0.2", ["8.8.8.8" + ", 10.0.0.9" * MOST_PROXIES], ""),
        ("9.9.9.9", ["8.8.8.8"], "9.9.9.9"),  # not trusted: its own address
        ("10.0.1.2", ["8.8.8.8"], ""),  # not trusted, and of a private network
        (None, [], ""),
    ],
)
def test_only_a_trusted_proxy_names_a_visitor(address: str | None, named: list[str], expected: str) -> None:
    assert PROXIED.find_own(make_scope(address, *named)) == expected


def test_a_header_counts_for_nothing_unless_it_is_set() -> None:
    assert ClientAddresses(("10.0.0.2",)).find_own(make_scope("10.0.0.2", "8.8.8.8")) == ""
    assert ClientAddresses(("10.0.0.2",)).get(make_scope("10.0.0.2", "8.8.8.8")) == "10.0.0.2"


def test_an_operators_word_that_all_peers_are_a_proxy_holds_for_public_ones_too() -> None:
    clients = make_client_addresses(Config({"http.connections_per_peer": 0}))
    assert clients.find_own(make_scope("8.8.8.8")) == ""
    assert make_client_addresses(Config()).find_own(make_scope("8.8.8.8")) == "8.8.8.8"


def test_a_header_that_is_none_stops_the_start() -> None:
    with pytest.raises(SetupError, match="X-Forwarded-For"):
        make_client_addresses(Config({"web.proxy_address_header": "no header:"}))
