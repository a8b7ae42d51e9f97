"""One reading of a path and of a host name, for whoever writes it."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.flow.web.web_paths import SiteKind, normalize_host, parse_hostname, parse_site_path, render_url

OWN = ("agents.example", "https://gate.example.org:8443/", "münchen.example", "127.0.0.1", "box")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("/pub/acme", "/pub/acme"),
        ("/pub/acme/", "/pub/acme"),
        ("/pub//acme///docs", "/pub/acme/docs"),
        ("/pub/./acme/%2e/docs", "/pub/acme/docs"),
        ("/%70ub/%61cme/a%20b", "/pub/acme/a b"),
        ("/priv/acme/ünter", "/priv/acme/ünter"),
        ("/priv/acme/%C3%BCnter", "/priv/acme/ünter"),
        ("/pub/acme/100%25", "/pub/acme/100%"),
    ],
)
def test_a_path_is_decoded_and_cleaned_once(text: str, read: str) -> None:
    assert parse_site_path(text).text == read


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "pub/acme",
            "https://evil.example/pub/acme",
            "//evil.example/x",
            "/\\evil.example/pub/acme",
            "/evil",
            "/",
        ),
        *("/pub", "/pub/", "/PUB/acme", "/static/acme", "/pub/.", "/priv//"),
        *("/pub/acme/../other", "/pub/acme/%2e%2e/other", "/pub/acme/.%2E/other", "/pub/..", "/pub/acme/.../x"),
        *("/pub/acme%2f..%2fother", "/pub/acme%2Fother", "/pub/acme%5cother", "/pub/acme\\other"),
        *("/pub/acme/%252e%252e/other", "/pub/acme/%2541", "/pub/acme/%zz", "/pub/acme/%4"),
        *("/pub/acme/\0", "/pub/acme/%00", "/pub/acme/%0d%0aset-cookie:x", "/pub/acme/a\u202eb", "/pub/acme/%ff"),
        *("/pub/acme?x=1", "/pub/acme#x", "/pub/acme/" + "a/" * 40, "/pub/acme/" + "a" * 1000),
    ],
)
def test_what_could_mean_two_things_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="path"):
        parse_site_path(text)


def test_a_path_matches_by_whole_segments_alone() -> None:
    above = parse_site_path("/pub/acme/a")
    assert parse_site_path("/pub/acme/a/b").is_below(above) and above.is_below(above)
    for other in ("/pub/acme/ab", "/pub/acme", "/priv/acme/a", "/pub/acme/A"):
        assert not parse_site_path(other).is_below(above)
    assert parse_site_path("/pub/acme/ab").list_prefixes() == ["/pub/acme/ab", "/pub/acme"]


def test_an_address_that_is_made_leads_to_no_other_host() -> None:
    assert render_url("pub", "acme", "a b", slash=True) == "/pub/acme/a%20b/"
    assert render_url("/evil.example", "\\x", "a?b#c") == "/%2Fevil.example/%5Cx/a%3Fb%23c"
    assert render_url(slash=True) == "/"
    assert SiteKind.PRIVATE.folder == "private_html"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("docs.example.com", "docs.example.com"),
        (" DOCS.Example.COM. ", "docs.example.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("agents.example.com", "agents.example.com"),
        ("notagents.example", "notagents.example"),
    ],
)
def test_a_host_name_has_one_form(text: str, name: str) -> None:
    assert parse_hostname(text, OWN) == name


@pytest.mark.parametrize(
    "text",
    [
        *("", "docs", "docs..example", "docs.example..", ".example", "-a.example", "a-.example", "a_b.example"),
        *(
            "bücher.example",
            "a b.example",
            "a.example:80",
            "a.example/x",
            "u@a.example",
            "*.example",
            "a." * 130 + "de",
        ),
        *("127.0.0.1", "127.1", "10.0.0.1.", "a.example.1", "0x7f.1", "a.0x7f", "[::1]", "::1", "2130706433"),
        *("localhost", "a.localhost", "LOCALHOST."),
        *("agents.example", "AGENTS.EXAMPLE.", "a.agents.example", "gate.example.org", "example.org"),
        *("xn--mnchen-3ya.example", "a.XN--MNCHEN-3YA.example", "a.box"),
    ],
)
def test_names_of_the_gateway_numbers_and_odd_names_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="hostname"):
        parse_hostname(text, OWN)


def test_a_host_header_is_compared_in_that_form() -> None:
    assert normalize_host("DOCS.example.com.:8420") == "docs.example.com"
    assert normalize_host("münchen.example") == "xn--mnchen-3ya.example"
    for odd in ("", "[::1", "\udc80.example", "ü" * 2000, f"{'ü' * 100}.example"):
        assert normalize_host(odd) == ""
