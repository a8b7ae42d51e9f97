"""The home's tree, made by whoever starts first."""

import os
import stat
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import LONGEST_SOCKET_PATH, Home

SOCKETS = ("router", "egress", "runner")


def test_who_starts_at_the_same_moment_does_not_trip_over_a_folder_that_was_just_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "h")
    home.prepare()
    monkeypatch.setattr(Path, "exists", lambda path: False)  # as it was when the other one looked
    home.prepare()


def test_the_folder_of_providers_keeps_the_mode_that_its_owner_gave_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.prepare()
    (home.plugins / "providers").chmod(0o750)
    home.prepare()
    assert stat.S_IMODE((home.plugins / "providers").stat().st_mode) == 0o750


def test_a_home_is_as_long_as_the_sockets_of_its_sessions_allow() -> None:
    longest = Home(Path("/" + "é" * 39 + "x"))
    longest.check_length()
    sockets = longest.sockets_of("ses_0123456789")
    assert max(len(os.fsencode(sockets / f"{name}.sock")) for name in SOCKETS) == LONGEST_SOCKET_PATH
    with pytest.raises(SetupError, match=r"/é+xx has 81 bytes, and at most 80.*--home"):
        Home(longest.path.with_name(longest.path.name + "x")).check_length()


def test_a_place_where_nothing_can_be_made_is_named_with_the_way_out() -> None:
    with pytest.raises(
        SetupError, match=r"/proc/nowhere cannot be used .*: .*; --home or GATEPOST_HOME chooses another"
    ):
        Home(Path("/proc/nowhere")).prepare()
