"""What a restore does besides: folders that gateways share go where the restored settings say."""

from pathlib import Path

import pytest

from gatepost.cli.restored_store import prepare_restored
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.backups.restoring import move_shared


def test_a_home_of_one_gateway_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "groups").mkdir()
    assert prepare_restored(Home(tmp_path)) == [] and (tmp_path / "groups").is_dir()


def test_shared_folders_go_to_their_place_with_their_mark_and_replace_nothing(tmp_path: Path) -> None:
    home, shared = tmp_path / "home", tmp_path / "shared"
    for name in ("groups", "sessions"):
        (home / name / "acme").mkdir(parents=True)
    (home / ".gatepost-shared").write_text("mark")
    shared.mkdir()
    move_shared(home, shared)
    assert sorted(each.name for each in shared.iterdir()) == [".gatepost-shared", "groups", "sessions"]
    assert list(home.iterdir()) == []
    (home / "groups").mkdir()
    with pytest.raises(Invalid, match="is there already"):
        move_shared(home, shared)
