"""Files of a group's pages: an agent owns the folder, and nothing beside it is shown."""

import os
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.flow.web_routes import SiteKind, SitePage
from gatepost.serve.web.file_response import OpenFile
from gatepost.serve.web.sites import site_files
from gatepost.serve.web.sites.site_files import FileAbsence, get_media_type, open_site_file
from gatepost.store.web.web_routes import WebAccess

MISSING = FileAbsence.MISSING


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    (made.group("acme") / "public_html/below").mkdir(parents=True)
    (made.group("acme") / "private_html").mkdir()
    (made.group("acme") / "secret.txt").write_text("the group's own")
    return made


@pytest.fixture
def site(home: Home) -> Path:
    return home.group("acme") / "public_html"


def show(home: Home, *parts: str, slash: bool = False, kind: SiteKind = SiteKind.PUBLIC) -> bytes | FileAbsence:
    found = open_site_file(home, SitePage(folder="acme", kind=kind, parts=parts, access=WebAccess.PUBLIC), slash)
    if isinstance(found, OpenFile):
        data = os.pread(found.fd, 1000, 0)
        os.close(found.fd)
        return data
    return found


def test_a_file_is_shown_by_its_path(home: Home, site: Path) -> None:
    (site / "below/a.txt").write_text("hello")
    assert show(home, "below", "a.txt") == b"hello"
    assert show(home, "below", "b.txt") is MISSING
    assert show(home, "below", "a.txt", slash=True) is MISSING  # a file is no folder


def test_a_folder_is_shown_by_its_index_behind_a_slash(home: Home, site: Path) -> None:
    assert show(home, "below", slash=True) is MISSING and show(home, "below") is MISSING
    (site / "below/index.html").write_text("<h1>")
    assert show(home, "below") is FileAbsence.NEEDS_SLASH
    assert show(home, "below", slash=True) == b"<h1>"


def test_the_two_parts_of_a_site_are_apart(home: Home, site: Path) -> None:
    (site.parent / "private_html/a.txt").write_text("private")
    assert show(home, "a.txt") is MISSING
    assert show(home, "a.txt", kind=SiteKind.PRIVATE) == b"private"


@pytest.mark.parametrize("name", [".env", ".git", ".htpasswd", "..", "."])
def test_names_with_a_dot_before_them_are_nobodys_business(home: Home, site: Path, name: str) -> None:
    if name.strip("."):
        (site / name).mkdir()
        (site / name / "config").write_text("secret")
    assert show(home, name, "config") is MISSING
    assert show(home, "below", name, "a.txt") is MISSING


def test_the_one_that_browsers_ask_for_is_shown(home: Home, site: Path) -> None:
    (site / ".well-known").mkdir()
    (site / ".well-known/security.txt").write_text("mail us")
    assert show(home, ".well-known", "security.txt") == b"mail us"


def test_no_link_is_followed(home: Home, site: Path) -> None:
    (site / "link.txt").symlink_to(site.parent / "secret.txt")
    (site / "out").symlink_to("/etc")
    assert show(home, "link.txt") is MISSING
    assert show(home, "out", "passwd") is MISSING


def test_a_site_that_an_agent_made_a_link_shows_nothing(home: Home, site: Path) -> None:
    os.rename(site, site.with_name("old"))
    site.symlink_to(site.parent)
    assert show(home, "secret.txt") is MISSING


def test_a_file_with_a_second_name_is_not_shown(home: Home, site: Path) -> None:
    """It may be the name of a file that lies elsewhere."""
    os.link(site.parent / "secret.txt", site / "twin.txt")
    assert show(home, "twin.txt") is MISSING


def test_what_is_no_plain_file_is_not_waited_for(home: Home, site: Path) -> None:
    os.mkfifo(site / "pipe")
    assert show(home, "pipe") is MISSING


def test_a_file_above_the_limit_is_not_shown(home: Home, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_files, "LARGEST_FILE", 5)
    (site / "a.txt").write_text("12345")
    (site / "b.txt").write_text("123456")
    assert show(home, "a.txt") == b"12345" and show(home, "b.txt") is MISSING


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("index.html", "text/html; charset=utf-8"),
        ("a/b.CSS", "text/css; charset=utf-8"),
        ("a.tar.gz", "application/octet-stream"),
        ("html", "text/html; charset=utf-8"),
        ("a.html/b", "application/octet-stream"),
        ("a.exe", "application/octet-stream"),
        ("a.xhtml", "application/octet-stream"),
    ],
)
def test_the_kind_of_a_file_is_said_by_the_end_of_its_name(name: str, expected: str) -> None:
    assert get_media_type(name) == expected
