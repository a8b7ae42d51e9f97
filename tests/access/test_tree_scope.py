"""How far a group may reach: by its place in the tree, never by how a name begins."""

import pytest

from gatepost.access.tiers import covers
from gatepost.access.tree_scope import TreeScope, may_act_on, may_watch

CROOKED = ("acme/../beta", "acme/..", "acme/./eng", "acme//eng", "acme/", "/acme", "acme/eng/../../beta", "acme/\n", "")


@pytest.mark.parametrize("target", CROOKED)
@pytest.mark.parametrize("folder", ["acme", "root"])
@pytest.mark.parametrize("within", list(TreeScope))
def test_stranger_e_what_is_no_folder_is_within_nobodys_reach(within: TreeScope, folder: str, target: str) -> None:
    assert not may_act_on(within, folder, target)


@pytest.mark.parametrize("target", CROOKED)
def test_stranger_e_what_is_no_folder_is_covered_and_watched_by_nobody(target: str) -> None:
    assert not covers("acme", target)
    assert not covers("root", target)
    assert not may_watch("acme", target, open=True)
    assert not may_watch("root", target, open=True)


def test_a_group_reaches_what_is_below_it() -> None:
    assert may_act_on(TreeScope.SUBTREE, "acme", "acme/a.b/c_d")
    assert not may_act_on(TreeScope.SUBTREE, "acme", "acmes")
