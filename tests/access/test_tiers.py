import pytest

from gatepost.access.tiers import Tier, check_folder, covers, tier_of
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


def test_a_group_covers_itself_and_what_is_below_and_root_covers_all() -> None:
    assert covers("acme", "acme")
    assert covers("acme", "acme/eng/sre")
    assert covers("root", "anything/at/all")
    assert not covers("acme", "acmes")
    assert not covers("acme/eng", "acme")
    assert not covers("acme", "root")
