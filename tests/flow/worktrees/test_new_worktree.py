"""What branches and worktrees may be called."""

from pathlib import Path

import pytest

from gatepost.core.errors import Invalid
from gatepost.flow.worktrees.new_worktree import check_branch, check_ref, project_of, slug_of


@pytest.mark.parametrize("name", ["a", "fix-login", "v2/fix-login-3", "a" * 100])
def test_plain_names_are_taken(name: str) -> None:
    assert check_branch(name) == name


@pytest.mark.parametrize(
    "name", ["", "Bad_Name", "a--b", "-a", "a-", "a/", "/a", "a//b", "a/-b", "a.b", "a b", "ä", "a" * 101, "a\n"]
)
def test_other_names_are_refused_with_the_rule(name: str) -> None:
    with pytest.raises(Invalid, match="INVALID_BRANCH"):
        check_branch(name)


@pytest.mark.parametrize("name", ["-x", "--upload-pack=x", "a..b", "a b", "a:b", "x.lock", "a/", "x^", "", "a\x00"])
def test_nothing_that_git_could_take_for_something_else_names_a_branch(name: str) -> None:
    with pytest.raises(Invalid):
        check_ref(name, "branch")


def test_a_folder_is_named_after_its_branch_and_its_project_after_the_repository() -> None:
    assert slug_of("Feature_X/2") == "feature-x-2"
    assert slug_of("***") == "worktree"
    assert project_of(Path("/code/My Shop")).startswith("my-shop-")
    assert project_of(Path("/code/shop")) != project_of(Path("/other/shop"))
