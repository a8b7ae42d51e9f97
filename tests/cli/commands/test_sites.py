"""`gatepost site` on a home whose gateway is down."""

from collections.abc import Callable
from typing import Any

from gatepost.core.home import Home

Run = Callable[..., Any]


def test_routes_and_host_names_are_set_listed_and_removed(run: Run, home: Home) -> None:
    assert "no group has pages yet" in run("site", "list").out
    (home.group("home") / "public_html").mkdir(parents=True)
    assert run("site", "set", "home", "/pub/home/", "public").out == "/pub/home (of home): public\n"
    old = run("site", "set", "home", "/pub/home/old", "redirect", "--redirect-to", "/pub/home/new/")
    assert "/pub/home/old (of home): redirect → /pub/home/new/" in old.out
    [site] = run("site", "list", "--json").json["sites"]
    assert site == {"folder": "home", "public": "/pub/home/", "private": "", "access": "public"}
    assert "/pub/home/new/" in run("site", "routes").out
    assert "is no longer redirect" in run("site", "rm", "home", "/pub/home/old").out
    assert "shows public_html/ of home to everybody" in run("site", "bind", "Docs.example.com", "home").out
    assert "docs.example.com" in run("site", "hosts").out
    assert "leads to home no more" in run("site", "unbind", "docs.example.com").out
    assert "no host name leads" in run("site", "hosts").out


def test_what_is_wrong_is_named_with_the_way_out(run: Run) -> None:
    for given, words in (
        (("set", "home", "pub/home", "public"), "does not begin with a slash"),
        (("set", "home", "/pub/none", "public"), "no group named 'none'"),
        (("set", "home/eng", "/pub/home/eng", "public"), "no group named 'home/eng'"),
        (("set", "home", "/pub/home", "redirect"), "redirect_to"),
        (("rm", "home", "/pub/home/x"), "`gatepost site routes` shows them"),
        (("bind", "127.0.0.1", "home"), "address in numbers"),
        (("bind", "a.localhost", "home"), "this machine itself"),
        (("unbind", "docs.example.com"), "`gatepost site hosts` shows them"),
    ):
        answer = run("site", *given)
        assert answer.code == 1 and words in answer.err, (given, answer)
