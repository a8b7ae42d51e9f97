"""Route targets: read in one place, refused when they lead nowhere."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.flow.intake import route_targets
from gatepost.flow.intake.route_targets import RouteTarget

FOLDERS = ("home", "root", "acme", "acme/eng")


def test_a_target_is_a_folder_with_what_stands_behind_it() -> None:
    assert route_targets.parse("acme/eng") == RouteTarget("acme/eng")
    assert route_targets.parse("acme#observe") == RouteTarget("acme", observe=True)
    assert route_targets.parse("acme#release notes") == RouteTarget("acme", topic="release notes")
    assert route_targets.parse("folder:acme") == RouteTarget("acme")
    assert route_targets.parse("folder:drop") == RouteTarget("drop")
    assert route_targets.parse("drop").drops


def test_a_sender_becomes_one_safe_segment() -> None:
    template = route_targets.parse("acme/{sender}")
    assert route_targets.expand(template, "telegram:user/9") == "acme/telegram-user-9"
    assert route_targets.expand(template, "x:../../etc") == "acme/x-..-..-etc"
    assert route_targets.expand(template, "") is None


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
        route_targets.parse(target)


def test_a_prefix_that_does_not_exist_is_refused_with_a_hint() -> None:
    with pytest.raises(Invalid, match="builtin:NAME"):
        route_targets.parse("daemon:cron")
    with pytest.raises(Invalid, match="none yet"):
        route_targets.parse("builtin:onboarding")


def test_a_ghost_is_refused_when_written() -> None:
    assert route_targets.check("acme/eng#observe", FOLDERS) == "acme/eng"
    assert route_targets.check("drop", FOLDERS) is None
    assert route_targets.check("acme/{sender}", FOLDERS) is None
    with pytest.raises(Invalid, match="no group 'acme/ops'"):
        route_targets.check("acme/ops", FOLDERS)
    with pytest.raises(Invalid, match="no group 'ghost'"):
        route_targets.check("ghost/{sender}", FOLDERS)
