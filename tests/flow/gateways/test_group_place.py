"""Where the folders of groups may lie."""

from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.gateways.group_place import place_home


def test_shared_folders_without_sandboxes_are_refused(tmp_path: Path) -> None:
    given = {
        "store.url": "postgresql://ann@db.example/x",
        "groups.place": "shared",
        "groups.shared_folder": str(tmp_path),
        "sandbox.kind": "process",
    }
    with pytest.raises(SetupError, match=r'groups\.place = "shared" .*sandbox\.kind = "process"'):
        place_home(Home(tmp_path / "home"), Config(given))
    placed = place_home(Home(tmp_path / "home"), Config({**given, "sandbox.kind": "auto"}))
    assert placed.shared == tmp_path
