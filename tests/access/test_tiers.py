import pytest

from gatepost.access.tiers import Tier, TreeScope, check_folder, covers, may_act_on, may_watch, tier_of
from gatepost.core.errors import Invalid


@pytest.mark.parametrize(
    ("folder", "tier"),
    [("root", Tier.ROOT), ("acme", Tier.WORLD), ("acme/eng", Tier.AGENT), ("a/b/c", Tier.WORKER), ("a/b/c/d", 3)],
)
def test_a_tier_is_how_deep_a_group_stands_and_only_root_is_zero(folder: str, tier: int) -> None:
    assert tier_of(folder) == tier


@pytest.mark.parametrize("folder", ["root", "acme", "acme/eng", "a/b/c/d", "home", "x/telegram-user-9", "a.b/c_d"])
def test_an_ordinary_folder_is_taken_as_it_is(folder: str) -> None:
    assert check_folder(folder) == folder


@pytest.mark.parametrize(
    "folder",
    [
        "",
        " acme",
        "acme ",
        "acme//eng",
        "/acme",
        "acme/",
        "..",
        "a/../b",
        "a..b",
        ".hidden",
        "a/.git",
        "a.",
        "a\\b",
        "a\x00",
        "a\n",
        "*",
        "a/**",
        "share",
        "acme/Share",
        "root/x",
        "acme/root",
        "Root",
        "a" * 129,
        "/".join(["abcdefgh"] * 40),
        "-rf",
        "ü",
    ],
)
def test_a_folder_that_would_be_a_doubtful_path_is_refused(folder: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_folder(folder)
    assert str(refused.value).startswith("folder: ")


def test_a_wrong_name_is_named_once_and_with_its_folder_if_it_stands_in_one() -> None:
    for folder, said in (
        ("my agent", "folder: 'my agent' is not a name"),
        ("a/b c", "folder: 'b c' in 'a/b c' is not"),
    ):
        with pytest.raises(Invalid, match=said):
            check_folder(folder)


def test_a_group_covers_itself_and_what_is_below_and_root_covers_all() -> None:
    assert covers("acme", "acme")
    assert covers("acme", "acme/eng/sre")
    assert covers("root", "anything/at/all")
    assert not covers("acme", "acmes")
    assert not covers("acme/eng", "acme")
    assert not covers("acme", "root")


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
