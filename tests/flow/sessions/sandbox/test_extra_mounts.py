"""Which host folders an agent may see besides its own."""

import os
import socket
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.extra_mounts import (
    MountRequest,
    find_key_file,
    grant_mount,
    is_blocked,
    parse_mount_request,
    parse_mount_requests,
)

pytestmark = pytest.mark.on_disk


@pytest.fixture
def srv(tmp_path: Path) -> Path:
    for name in ("srv/books/old", "srv/p/.ssh", "srv/.aws/x", "home"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "srv/books/list.txt").write_text("a book")
    return tmp_path / "srv"


@pytest.fixture
def home(srv: Path) -> Home:
    return Home(srv.parent / "home")


def allowing(*entries: object) -> Config:
    return Config({"sandbox.mounts_allowed": tuple(str(entry) for entry in entries)})


def test_a_folder_below_an_allowed_one_is_seen_read_only(srv: Path, home: Home) -> None:
    granted = grant_mount(allowing(srv), home, MountRequest(str(srv / "books"), "books"))

    assert (granted.mount.source, granted.mount.target) == (srv / "books", "/workspace/extra/books")
    assert not granted.mount.writable and not granted.is_file
    assert granted.inode == (srv / "books").stat().st_ino


def test_an_allowed_folder_itself_and_a_file_in_it_can_be_seen(srv: Path, home: Home) -> None:
    assert (
        grant_mount(allowing(srv / "books"), home, MountRequest(str(srv / "books"), "b")).mount.source == srv / "books"
    )
    assert grant_mount(allowing(srv), home, MountRequest(str(srv / "books/list.txt"), "list")).is_file


@pytest.mark.parametrize(
    ("entry", "wished", "writable"), [(":rw", True, True), ("", True, False), (":rw", False, False)]
)
def test_it_is_written_only_if_both_sides_say_so(
    srv: Path, home: Home, entry: str, wished: bool, writable: bool
) -> None:
    granted = grant_mount(allowing(f"{srv}{entry}"), home, MountRequest(str(srv / "books"), "books", wished))

    assert granted.mount.writable is writable


def test_the_deepest_entry_decides(srv: Path, home: Home) -> None:
    config = allowing(srv, f"{srv}/books:rw")

    assert grant_mount(config, home, MountRequest(str(srv / "books/old"), "old", True)).mount.writable
    assert not grant_mount(config, home, MountRequest(str(srv / "p"), "p", True)).mount.writable


@pytest.mark.parametrize("inner", ["books", "books:rw", "books/nowhere", "books/old:ro"])
def test_an_entry_in_a_folder_that_agents_may_write_to_is_refused(srv: Path, home: Home, inner: str) -> None:
    """They could put a link to any folder in its place, which the next start would follow."""
    with pytest.raises(SetupError, match="name one or the other"):
        grant_mount(allowing(f"{srv}:rw", srv / inner), home, MountRequest(str(srv / "books"), "books"))


def test_a_link_of_the_operators_does_not_lead_through_such_a_folder_either(srv: Path, home: Home) -> None:
    (srv / "away").mkdir()
    (srv / "books/final").symlink_to(srv / "away")
    (srv / "pub").symlink_to("books/final")

    with pytest.raises(SetupError, match="name one or the other"):
        grant_mount(allowing(f"{srv}/books:rw", srv / "pub"), home, MountRequest(str(srv / "pub"), "x"))
    (srv / "mine").symlink_to(home.path / "groups/x")
    with pytest.raises(SetupError, match="own home"):
        grant_mount(allowing(srv / "mine"), home, MountRequest(str(srv / "mine"), "x"))


def test_the_same_entry_twice_is_one_and_a_loop_is_named(srv: Path, home: Home) -> None:
    twice = allowing(f"{srv}/books:rw", f"{srv}/books:rw", f"{srv}/books/:rw")
    assert grant_mount(twice, home, MountRequest(str(srv / "books"), "b", True)).mount.writable
    with pytest.raises(SetupError, match="name one or the other"):
        grant_mount(allowing(f"{srv}/books:rw", srv / "books"), home, MountRequest(str(srv / "books"), "b"))
    (srv / "loop").symlink_to("loop")
    with pytest.raises(SetupError, match="leads nowhere"):
        grant_mount(allowing(srv / "loop"), home, MountRequest(str(srv / "books"), "b"))


def test_nothing_is_allowed_by_default(srv: Path, home: Home) -> None:
    with pytest.raises(Invalid, match=r"sandbox\.mounts_allowed.*it is empty"):
        grant_mount(Config(), home, MountRequest(str(srv / "books"), "books"))


def test_a_name_that_only_begins_like_an_allowed_one_is_not_below_it(srv: Path, home: Home) -> None:
    (srv / "books2").mkdir()
    with pytest.raises(Invalid, match="not allowed"):
        grant_mount(allowing(srv / "books"), home, MountRequest(str(srv / "books2"), "b"))


def test_an_allowed_folder_may_be_reached_by_the_operators_own_link(srv: Path, home: Home) -> None:
    (srv.parent / "link").symlink_to(srv)
    granted = grant_mount(allowing(srv.parent / "link"), home, MountRequest(str(srv.parent / "link/books"), "books"))

    assert granted.mount.source == srv / "books"
    assert (
        grant_mount(allowing(srv.parent / "link"), home, MountRequest(str(srv / "books"), "b")).mount.source
        == srv / "books"
    )


@pytest.mark.parametrize("target", ["/etc", "/", "..", "books", "nowhere"])
def test_no_link_below_an_allowed_folder_is_followed(srv: Path, home: Home, target: str) -> None:
    (srv / "evil").symlink_to(target)

    for wish in (srv / "evil", srv / "evil/old"):
        with pytest.raises(Invalid, match=r"link|folder"):
            grant_mount(allowing(srv), home, MountRequest(str(wish), "x"))


@pytest.mark.parametrize(
    "path",
    ["p/.ssh", ".aws/x", "books/../p", "books/.env", "books/.env.local", "books/ID_RSA", "books/credentials.json"],
)
def test_where_keys_are_kept_is_never_shown(srv: Path, home: Home, path: str) -> None:
    with pytest.raises(Invalid, match=r"keys are kept|plain absolute path"):
        grant_mount(allowing(srv), home, MountRequest(f"{srv}/{path}", "x"))


@pytest.mark.parametrize("path", ["/etc", "/etc/ssl", "/proc/1", "/sys", "/dev", "/run/docker.sock", "/usr", "/var"])
def test_the_system_is_never_shown_whatever_is_allowed(home: Home, path: str) -> None:
    top = "/" + path.split("/")[1]
    with pytest.raises(Invalid, match="never shown"):
        grant_mount(allowing(top, path), home, MountRequest(path, "x"))


def test_the_gateways_home_is_never_shown_nor_what_it_is_in(srv: Path, home: Home) -> None:
    (home.path / "groups").mkdir()
    for path in (home.path, home.path.parent, home.path / "groups"):
        with pytest.raises(Invalid, match="own home"):
            grant_mount(allowing(srv.parent), home, MountRequest(str(path), "x"))


def test_to_allow_everything_is_no_list(home: Home) -> None:
    with pytest.raises(SetupError, match="would allow everything"):
        grant_mount(allowing("/"), home, MountRequest("/srv", "x"))
    with pytest.raises(SetupError, match="absolute"):
        grant_mount(allowing("srv"), home, MountRequest("/srv", "x"))


def test_a_socket_or_pipe_is_not_shown(srv: Path, home: Home) -> None:
    os.mkfifo(srv / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(srv / "sock"))
        for name in ("pipe", "sock"):
            with pytest.raises(Invalid, match="neither a folder nor a regular file"):
                grant_mount(allowing(srv), home, MountRequest(str(srv / name), "x"))


def test_what_is_to_be_read_only_is_not_wished_for_within_what_is_written_to() -> None:
    with pytest.raises(Invalid, match=r"/srv/drafts/final would be read-only"):
        parse_mount_requests(["/srv/drafts:drafts:rw", "/srv/drafts/final:final"])
    assert len(parse_mount_requests(["/srv/drafts:drafts", "/srv/drafts/final:final:rw"])) == 2


def test_wishes_are_read(srv: Path) -> None:
    assert parse_mount_requests(["/a:/workspace/extra/b", "/c:d:rw", "/e:f:ro"]) == (
        MountRequest("/a", "b"),
        MountRequest("/c", "d", True),
        MountRequest("/e", "f"),
    )
    assert parse_mount_requests([]) == ()
    assert parse_mount_request(str(MountRequest("/c", "d", True))) == MountRequest("/c", "d", True)


@pytest.mark.parametrize(
    "text",
    [
        "/a",
        "a:b",
        "/a:",
        "/a:/etc/b",
        "/a:../b",
        "/a:/workspace/agent",
        "/a:b/c",
        "/a:.",
        "/a:b\nc",
        "/a:x..y",
        "/a:b,/c:b",
    ],
)
def test_a_target_that_is_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="mounts"):
        parse_mount_requests(text.split(","))


def test_a_folder_that_holds_keys_is_told_of(srv: Path, home: Home) -> None:
    assert find_key_file(grant_mount(allowing(srv), home, MountRequest(str(srv / "p"), "p"))) == ".ssh"
    assert find_key_file(grant_mount(allowing(srv), home, MountRequest(str(srv / "books"), "b"))) == ""


def test_a_blocked_name_is_told_from_one_that_only_looks_like_it() -> None:
    assert all(map(is_blocked, (".env", ".ENV.local", "id_rsa.pub", "credentials.json", ".ssh-backup")))
    assert not any(map(is_blocked, (".environment", "envs", "my_id_rsa_notes", "ssh", "keys")))
