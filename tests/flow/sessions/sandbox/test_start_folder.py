"""Where an agent starts to work: in a folder that it was given, and nowhere else."""

from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.extra_mounts import MountRequest
from gatepost.flow.sessions.sandbox.start_folder import (
    PROJECT,
    StartFolder,
    find_start_folder,
    grant_for_field,
    is_repository,
    parse_worktree_path,
    worktree_mount,
)

pytestmark = pytest.mark.on_disk


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    made.worktree("shop", "fix-1").mkdir(parents=True)
    made.group("acme").mkdir(parents=True)
    return made


@pytest.fixture
def srv(tmp_path: Path) -> Path:
    (tmp_path / "srv/code/below").mkdir(parents=True)
    (tmp_path / "srv/list.txt").write_text("a list")
    return tmp_path / "srv"


def allowing(*entries: str) -> Config:
    return Config({"sandbox.mounts_allowed": entries})


def find(home: Home, cwd: object, *entries: str) -> StartFolder:
    found = find_start_folder(home, allowing(*entries), str(cwd))
    assert found is not None
    return found


def test_without_a_folder_it_starts_in_that_of_its_group(home: Home) -> None:
    assert find_start_folder(home, allowing(), "") is None


def test_a_folder_that_agents_may_write_in_is_seen_as_the_project(home: Home, srv: Path) -> None:
    found = find(home, srv / "code", f"{srv}:rw")
    mount = found.granted.mount
    assert (mount.source, mount.target, mount.writable) == (srv / "code", PROJECT, True)
    assert (found.inside, found.managed) == (PROJECT, False)
    assert found.granted.inode == (srv / "code").stat().st_ino


def test_a_folder_that_is_not_on_the_list_is_refused_by_the_name_of_the_field(home: Home, srv: Path) -> None:
    with pytest.raises(Invalid, match="not allowed") as refused:
        find(home, srv / "code")
    assert refused.value.target == "cwd"
    with pytest.raises(Invalid) as refused:
        grant_for_field("path", allowing(), home, MountRequest(str(srv), "x"))
    assert refused.value.target == "path"


def test_a_folder_that_agents_may_only_read_is_refused(home: Home, srv: Path) -> None:
    with pytest.raises(Invalid, match=":rw"):
        find(home, srv / "code", str(srv))


def test_a_file_is_no_folder(home: Home, srv: Path) -> None:
    with pytest.raises(Invalid, match="is a file"):
        find(home, srv / "list.txt", f"{srv}:rw")


def test_a_managed_worktree_is_nobodys_to_allow(home: Home) -> None:
    found = find(home, home.worktree("shop", "fix-1"))
    mount = found.granted.mount
    assert (mount.source, mount.target, mount.writable) == (home.worktree("shop", "fix-1"), PROJECT, True)
    assert found.managed and not found.granted.is_file


def test_a_folder_of_a_worktree_is_below_the_project(home: Home) -> None:
    (home.worktree("shop", "fix-1") / "web/app").mkdir(parents=True)
    found = find(home, home.worktree("shop", "fix-1") / "web/app")
    assert (found.below, found.inside) == ("web/app", f"{PROJECT}/web/app")
    assert found.granted.mount.source == home.worktree("shop", "fix-1")


def test_a_worktree_that_is_gone_is_not_found(home: Home) -> None:
    for missing in (home.worktree("shop", "gone"), home.worktree("shop", "fix-1") / "gone"):
        with pytest.raises(NotFound, match="archived"):
            find(home, missing)
    (home.worktrees / "shop" / "plain").write_text("")
    with pytest.raises(NotFound, match="archived"):
        find(home, home.worktrees / "shop" / "plain")


def test_a_link_that_an_agent_made_leads_nowhere(home: Home, srv: Path) -> None:
    tree = home.worktree("shop", "fix-1")
    (tree / "out").symlink_to(srv)
    (tree / "file").write_text("")
    for cwd in (tree / "out", tree / "out/code", tree / "file"):
        with pytest.raises((Invalid, NotFound)):
            find(home, cwd)
    (home.worktrees / "shop" / "linked").symlink_to(srv)
    with pytest.raises((Invalid, NotFound)):
        worktree_mount(home, "shop", "linked")


@pytest.mark.parametrize(
    ("below", "parsed"),
    [
        ("shop/fix-1", ("shop", "fix-1", "")),
        ("shop/fix-1/web/app", ("shop", "fix-1", "web/app")),
        ("shop", None),
        ("", None),
        ("shop/../../groups", None),
        ("shop/fix-1/../../../groups/acme", None),
    ],
)
def test_only_a_plain_path_below_the_worktrees_is_one_of_them(
    home: Home, below: str, parsed: tuple[str, str, str] | None
) -> None:
    assert parse_worktree_path(home, f"{home.worktrees}/{below}") == parsed


def test_a_folder_beside_the_worktrees_is_none_of_them(home: Home) -> None:
    assert parse_worktree_path(home, f"{home.worktrees}-old/shop/fix-1") is None


def test_git_finds_a_repository_in_the_start_or_above_it_up_to_the_mount(home: Home, srv: Path) -> None:
    tree = home.worktree("shop", "fix-1")
    (tree / "web/app").mkdir(parents=True)
    at_root, below = find(home, tree), find(home, tree / "web/app")
    assert not is_repository(home, "acme", at_root) and not is_repository(home, "acme", below)
    (tree / "web/.git").touch()
    assert is_repository(home, "acme", below) and not is_repository(home, "acme", at_root)
    (tree / ".git").touch()
    assert is_repository(home, "acme", at_root)


def test_the_groups_own_folder_is_looked_at_where_it_starts_there(home: Home) -> None:
    assert not is_repository(home, "acme", None)
    (home.group("acme") / ".git").mkdir()
    assert is_repository(home, "acme", None)
    assert not is_repository(home, "never-made", None)
