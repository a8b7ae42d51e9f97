"""The policy of a page names its own place, and nothing that a Host header could smuggle in."""

import pytest

from gatepost.serve.web.sites.handlers import make_policy


def test_a_policy_names_the_place_of_the_pages() -> None:
    policy = make_policy("agents.example:8420", "/pub/acme/")
    assert "connect-src agents.example:8420/pub/acme/;" in policy and "'self'" not in policy


@pytest.mark.parametrize(
    "host", ["", "[::1]:8420", "a b", "a;script-src *", "a,b", "*", "a/../", "a\r\nx: y", "a:99999999"]
)
def test_what_is_no_plain_host_is_not_repeated(host: str) -> None:
    policy = make_policy(host, "/pub/acme/")
    assert "connect-src 'self';" in policy and "acme" not in policy and "*" not in policy
