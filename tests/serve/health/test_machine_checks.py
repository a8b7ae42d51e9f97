"""The checks of the home's place on this machine."""

import os
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.serve.health.machine_checks import check_folder

MOUNTED = Path("/dev/shm")


def test_what_a_killed_restore_left_beside_the_home_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home[1]")
    home.prepare()
    assert [each.level for each in check_folder(home)] == ["ok"]
    (tmp_path / ".home[1]-restoring-x1").mkdir()
    (tmp_path / ".home1-restoring-x2").mkdir()  # of another home

    found = [each for each in check_folder(home) if each.level == "warn"]

    assert len(found) == 1 and str(tmp_path / ".home[1]-restoring-x1") in found[0].text
    assert "remove it" in found[0].remedy


@pytest.mark.skipif(not os.path.ismount(MOUNTED), reason="nothing is mounted there")
def test_a_home_whose_place_nothing_can_take_is_told_before_a_restore_needs_it(tmp_path: Path) -> None:
    assert any("no backup can take its place" in each.text for each in check_folder(Home(MOUNTED)))
    home = Home(tmp_path / "home")
    home.prepare()
    assert not any("no backup can take its place" in each.text for each in check_folder(home))
