"""One reading of a path and of a host name, for whoever writes it. Whose pages a path names, who sees and who changes
them."""

import pytest

from gatepost.access.tiers import covers
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.settings import Config
from gatepost.flow import web_routes
from gatepost.flow.web_routes import (
    NewWebRoute,
    RouteMaker,
    SiteKind,
    SitePage,
    decide,
    may_see,
    normalize_host,
    parse_hostname,
    parse_site_path,
    read_hostname,
    render_url,
)
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.store.web import web_routes as rows
from gatepost.store.web.web_routes import WebAccess, WebRoute

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


@pytest.fixture(autouse=True)
def _groups(db: Db) -> None:
    for folder in ("acme", "acme/eng", "acme/eng/sre", "other", "root"):
        groups.add(db, folder, folder, "", 1)


def agent(folder: str) -> RouteMaker:
    return RouteMaker(folder=folder, name=f"agent:{folder}", now=1, reaches=lambda other: covers(folder, other))


PERSON = RouteMaker(folder="", name="operator", now=2, reaches=lambda folder: True)


def put(db: Db, maker: RouteMaker, path: str, access: WebAccess, to: str = "") -> WebRoute:
    return web_routes.set_route(db, NewWebRoute(path=path, access=access, redirect_to=to), maker)


def find(db: Db, path: str) -> SitePage:
    found = web_routes.find_page(db, parse_site_path(path))
    assert found is not None
    return found


def access(db: Db, path: str) -> WebAccess:
    return find(db, path).access


def test_a_path_belongs_to_the_deepest_group_and_without_a_row_it_is_not_public(db: Db) -> None:
    page = find(db, "/pub/acme/eng/docs/a.html")
    assert (page.folder, page.parts, page.access) == ("acme/eng", ("docs", "a.html"), WebAccess.AUTH)
    assert find(db, "/pub/acme/docs").folder == "acme"
    for unknown in ("/pub/none", "/pub/ACME/x", "/pub/acm", "/pub/~x/acme"):
        assert web_routes.find_page(db, parse_site_path(unknown)) is None


def test_the_longest_path_decides_by_whole_segments(db: Db) -> None:
    put(db, agent("acme"), "/pub/acme", WebAccess.PUBLIC)
    put(db, agent("acme"), "/pub/acme/a", WebAccess.DENY)
    put(db, agent("acme"), "/pub/acme/a/open", WebAccess.PUBLIC)
    found = [access(db, f"/pub/acme{rest}") for rest in ("", "/ab", "/a", "/a/b", "/a/open/x", "/a/opened", "//a/./b")]
    public, deny = WebAccess.PUBLIC, WebAccess.DENY
    assert found == [public, public, deny, deny, public, deny, deny]


def test_a_row_says_nothing_about_the_pages_of_a_group_below(db: Db) -> None:
    put(db, agent("acme"), "/pub/acme", WebAccess.PUBLIC)
    assert access(db, "/pub/acme/eng/x") is WebAccess.AUTH
    put(db, agent("acme"), "/pub/acme/new/x", WebAccess.PUBLIC)
    groups.add(db, "acme/new", "later", "", 1)
    assert access(db, "/pub/acme/new/x") is WebAccess.AUTH  # what was said of a path is not said of a later group


def test_a_group_in_the_place_of_pages_is_not_served_as_such(db: Db) -> None:
    groups.add(db, "acme/public_html", "odd", "", 1)
    assert web_routes.find_page(db, parse_site_path("/pub/acme/AGENTS.md")) is None
    assert web_routes.find_hosted_page(db, parse_site_path("/pub/acme/AGENTS.md"), "acme") is None
    assert find(db, "/priv/acme/AGENTS.md").folder == "acme"


@pytest.mark.parametrize("path", ["/pub/other", "/pub/other/x", "/pub/acme", "/pub/acme/engine", "/priv/root"])
def test_arizuko_36_a_path_in_another_groups_part_is_refused(db: Db, path: str) -> None:
    groups.add(db, "acme/engine", "engine", "", 1)
    with pytest.raises(Refused, match="may not change pages"):
        put(db, agent("acme/eng"), path, WebAccess.PUBLIC)
    assert rows.list_routes(db, "", 10) == []


@pytest.mark.parametrize(
    "to",
    [
        *("https://evil.example", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/pub/other/x"),
        *("/pub/acme/../other", "/pub/acme/eng/x", "/dashboard", "/", "", "/pub/acme/old", "/pub/acme/old/deeper"),
        *("/pub/acme%2f..%2fother", "/pub/acme/x\r\nset-cookie: a=b", "/pub/ACME/x"),
    ],
)
def test_arizuko_36_a_redirect_leads_into_the_groups_own_pages_alone(db: Db, to: str) -> None:
    with pytest.raises(Invalid, match="redirect_to"):
        put(db, agent("acme"), "/pub/acme/old", WebAccess.REDIRECT, to)
    made = put(db, agent("acme"), "/pub/acme/old", WebAccess.REDIRECT, "/pub/acme/n%65w page/")
    assert made.redirect_to == "/pub/acme/new%20page/"


def test_arizuko_36_what_somebody_higher_made_is_not_taken_over(db: Db) -> None:
    put(db, PERSON, "/pub/acme/eng/a", WebAccess.DENY)
    put(db, agent("acme"), "/pub/acme/eng/b", WebAccess.AUTH)
    for path in ("/pub/acme/eng/a", "/pub/acme/eng/b", "/pub//acme/eng/b/"):
        with pytest.raises(Refused, match="made it"):
            put(db, agent("acme/eng"), path, WebAccess.PUBLIC)
        with pytest.raises(NotFound):
            web_routes.remove_route(db, path, agent("acme/eng"))
    for path in ("/pub/acme/eng/a/x", "/pub/acme/eng/b/x"):  # nor is it opened further down
        put(db, agent("acme/eng"), path, WebAccess.PUBLIC)
    assert access(db, "/pub/acme/eng/a/x") is WebAccess.DENY
    assert access(db, "/pub/acme/eng/b/x") is WebAccess.AUTH
    put(db, agent("acme"), "/pub/acme/eng/b/x", WebAccess.PUBLIC)
    assert access(db, "/pub/acme/eng/b/x") is WebAccess.PUBLIC


def test_of_rows_of_one_owner_the_longest_decides() -> None:
    def row(path: str, how: WebAccess, owner: str) -> WebRoute:
        return WebRoute(path=path, folder="acme", access=how, owner=owner, created_by="", created_at=1)

    longer, shorter = row("/pub/acme/a", WebAccess.PUBLIC, "acme"), row("/pub/acme", WebAccess.DENY, "acme")
    assert decide([longer, shorter]) is longer and decide([]) is None
    assert decide([row("/pub/acme/a", WebAccess.PUBLIC, ""), row("/pub/acme", WebAccess.DENY, "root")]) is not None
    by_person = row("/pub/acme/a", WebAccess.PUBLIC, "")
    assert decide([by_person, row("/pub/acme", WebAccess.DENY, "root")]) is by_person


def test_private_pages_are_never_public(db: Db) -> None:
    with pytest.raises(Invalid, match="never public"):
        put(db, agent("acme"), "/priv/acme/x", WebAccess.PUBLIC)


def test_a_world_has_a_bounded_number_of_rows_and_long_paths_have_none(db: Db) -> None:
    for number in range(rows.MOST_IN_WORLD):
        put(db, agent("acme"), f"/pub/acme/{number}", WebAccess.DENY)
    with pytest.raises(Invalid, match="remove some"):
        put(db, agent("acme"), "/pub/acme/more", WebAccess.DENY)
    put(db, agent("acme"), "/pub/acme/7", WebAccess.PUBLIC)
    put(db, agent("other"), "/pub/other", WebAccess.PUBLIC)
    for odd in ("a" * 400, "100%25", "a%3Fb", "a%23b"):  # what a list shows must be what removes it
        with pytest.raises(Invalid, match="longer"):
            put(db, agent("other"), f"/pub/other/{odd}", WebAccess.PUBLIC)


def test_a_removed_group_leaves_no_row_and_no_host(db: Db) -> None:
    put(db, agent("other"), "/pub/other", WebAccess.PUBLIC)
    web_routes.bind_host(db, "other.example", "other", PERSON)
    groups.remove(db, "other")
    assert rows.list_routes(db, "", 10) == [] and rows.list_hosts(db, "", 10) == []


def test_a_host_is_not_taken_over(db: Db) -> None:
    web_routes.bind_host(db, "docs.example", "other", PERSON)
    web_routes.bind_host(db, "eng.example", "acme/eng", agent("acme"))
    for maker, name in ((agent("acme"), "docs.example"), (agent("acme/eng"), "eng.example")):
        with pytest.raises(Refused):
            web_routes.bind_host(db, name, "acme/eng", maker)
    assert web_routes.bind_host(db, "eng.example", "acme", agent("acme")).folder == "acme"
    assert web_routes.bind_host(db, "docs.example", "acme", agent("root")).folder == "acme"
    with pytest.raises(NotFound, match="no group named 'acme/none'"):
        web_routes.bind_host(db, "none.example", "acme/none", agent("acme"))


def test_a_world_has_a_bounded_number_of_hosts(db: Db) -> None:
    for number in range(rows.MOST_HOSTS_IN_WORLD):
        web_routes.bind_host(db, f"h{number}.example", "acme/eng", agent("root"))
    with pytest.raises(Invalid, match="host names in this world"):
        web_routes.bind_host(db, "more.example", "acme", agent("root"))
    web_routes.bind_host(db, "h1.example", "acme", agent("root"))


@pytest.mark.parametrize("name", ["gate.example", "GATE.example.", "x.gate.example", "page.example.org", "0.0.0.0"])
def test_names_of_this_gateway_come_from_its_settings(name: str) -> None:
    config = Config({"web.hosts": ("gate.example",), "web.url": "https://page.example.org/", "listen": "0.0.0.0:80"})
    with pytest.raises(Invalid, match="hostname"):
        read_hostname(name, config)
    assert read_hostname("docs.example.com", config) == "docs.example.com"


def test_behind_a_socket_file_the_gateways_own_name_must_be_known_first() -> None:
    with pytest.raises(Invalid, match=r"web\.hosts or web\.url"):
        read_hostname("docs.example.com", Config({"listen": "unix:/run/gatepost.sock"}))
    named = Config({"listen": "unix:/run/gatepost.sock", "web.url": "https://gate.example"})
    assert read_hostname("docs.example.com", named) == "docs.example.com"


def test_a_person_sees_the_pages_of_the_groups_that_she_is_in(db: Db) -> None:
    for name in ("web:user/owner", "web:user/admin", "web:user/member", "web:user/guest"):
        users.add(db, name, name, 1)
    users.add_role(db, "web:user/owner", UserRole.OWNER, "", "operator", 1)
    users.add_role(db, "web:user/admin", UserRole.ADMIN, "acme", "operator", 1)
    users.add_member(db, "web:user/member", "acme/eng", "operator", 1)
    seen = {
        who: [folder for folder in ("acme", "acme/eng", "other") if may_see(db, f"web:user/{who}", folder)]
        for who in ("owner", "admin", "member", "guest", "unknown")
    }
    assert seen == {
        "owner": ["acme", "acme/eng", "other"],
        "admin": ["acme", "acme/eng"],
        "member": ["acme/eng"],
        "guest": [],
        "unknown": [],
    }
