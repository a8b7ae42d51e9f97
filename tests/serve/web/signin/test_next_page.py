"""Back to the page that was asked for, and to no other site."""

import pytest

from gatepost.serve.web.signin.next_page import parse_next

AWAY = (
    "",
    "evil.example",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\\/evil.example",
    "https://evil.example/",
    "https:evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "/%2Fevil.example",
    "/%5Cevil.example",
    "/%252Fevil.example",
    "/%25252525252Fevil.example",
    "%2F%2Fevil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "/%09/evil.example",
    "/%0d%0aset-cookie:x",
    "/ /evil.example",
    "/x\r\nlocation: //evil.example",
    "/x\x00",
    "/\u2028",
    "/\uff0fevil.example",
    "/a" * 5000,
    "/login",
    "/login/ways",
    "/logout",
    "/api/start",
)
OURS = (
    "/",
    "/dashboard/tasks",
    "/dashboard/groups/acme%2Feng?q=a%20b&state=all",
    "/dashboard/people/web%3Auser%2Fann",
    "/session#id=s-1",
    "/pair/abc",
)


@pytest.mark.parametrize("given", AWAY)
def test_what_may_lead_away_leads_to_the_first_page(given: str) -> None:
    assert parse_next(given) == "/"


@pytest.mark.parametrize("given", OURS)
def test_a_page_of_ours_stays_as_it_was_asked_for(given: str) -> None:
    assert parse_next(given) == given
