"""What a group's sandboxes may take."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.group_limits import GroupLimits, check_limit, limits_of
from gatepost.store.sessions.groups import Group


def group(folder: str, **limits: int) -> Group:
    return Group(folder=folder, name=folder, created_at=0, limits=limits)


def test_without_a_word_of_its_own_a_group_has_the_gateways_limits() -> None:
    assert limits_of(Config(), group("acme")) == GroupLimits(
        memory_mb=2048, cpu_percent=0, processes=256, turn_s=3600, disk_mb=2048, files=200_000
    )


def test_the_nearest_word_counts() -> None:
    parents = [group("acme/eng", memory_mb=512), group("acme", memory_mb=256, processes=64, turn_s=600)]
    found = limits_of(Config(), group("acme/eng/ada", turn_s=60), parents)

    assert (found.memory_mb, found.processes, found.turn_s, found.disk_mb) == (512, 64, 60, 2048)


def test_no_group_gets_more_than_the_gateway_gives_unless_the_operator_says_so() -> None:
    generous = group("acme", memory_mb=4096, cpu_percent=400)

    assert limits_of(Config({"sandbox.cpu_percent": 100}), generous).cpu_percent == 100
    assert limits_of(Config(), generous) == limits_of(Config(), group("acme", cpu_percent=400))
    assert limits_of(Config({"sandbox.limits_may_exceed": True}), generous).memory_mb == 4096


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("memory_mb", 9999, "above the gateway's 2048.*sandbox.memory_mb.*limits_may_exceed"),
        ("memory_mb", 1, "too little"),
        ("cpu_percent", -5, "too little"),
        ("processes", 10**20, "more than any machine has"),
        ("bandwidth", 1, "there are: memory_mb"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(name: str, value: int, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        check_limit(Config(), name, value)


def test_a_limit_may_be_what_the_gateway_gives_or_nothing() -> None:
    check_limit(Config(), "cpu_percent", 250)
    check_limit(Config(), "turn_s", None)
    check_limit(Config({"sandbox.limits_may_exceed": True}), "memory_mb", 9999)
