"""Route targets: read in one place, refused when they lead nowhere."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.flow.intake import targets
from gatepost.flow.intake.targets import Target

FOLDERS = ("home", "root", "acme", "acme/eng")


def test_a_target_is_a_folder_with_what_stands_behind_it() -> None:
    assert targets.parse("acme/eng") == Target("acme/eng")
    assert targets.parse("acme#observe") == Target("acme", observe=True)
    assert targets.parse("acme#release notes") == Target("acme", topic="release notes")
    assert targets.parse("folder:acme") == Target("acme")
    assert targets.parse("folder:drop") == Target("drop")
    assert targets.parse("drop").drops


def test_a_sender_becomes_one_safe_segment() -> None:
    template = targets.parse("acme/{sender}")
    assert targets.expand(template, "telegram:user/9") == "acme/telegram-user-9"
    assert targets.expand(template, "x:../../etc") == "acme/x-..-..-etc"
    assert targets.expand(template, "") is None


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/acme",
        "acme/",
        "acme//eng",
        "../x",
        "acme/..",
        "acme#",
        "acme# ",
        "{other}",
        "{sender}/{sender}",
        "a b",
        "x:y",
    ],
)
def test_a_malformed_target_is_refused(target: str) -> None:
    with pytest.raises(Invalid):
        targets.parse(target)


def test_a_prefix_that_does_not_exist_is_refused_with_a_hint() -> None:
    with pytest.raises(Invalid, match="builtin:NAME"):
        targets.parse("daemon:cron")
    with pytest.raises(Invalid, match="none yet"):
        targets.parse("builtin:onboarding")


def test_a_ghost_is_refused_when_written() -> None:
    assert targets.check("acme/eng#observe", FOLDERS) == "acme/eng"
    assert targets.check("drop", FOLDERS) is None
    assert targets.check("acme/{sender}", FOLDERS) is None
    with pytest.raises(Invalid, match="no group 'acme/ops'"):
        targets.check("acme/ops", FOLDERS)
    with pytest.raises(Invalid, match="no group 'ghost'"):
        targets.check("ghost/{sender}", FOLDERS)
