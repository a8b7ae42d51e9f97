"""Where slow tests find the programs of others."""

from pathlib import Path

import pytest

from gatepost_testing.programs import FOLDER, find


def test_a_program_is_found_by_its_link_and_only_if_it_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (tmp_path / "bird-1.2").write_text("#!/bin/sh\n")
    (tmp_path / "bird").symlink_to("bird-1.2")
    assert find("bird") is None

    (tmp_path / "bird-1.2").chmod(0o755)
    assert find("bird") == tmp_path / "bird-1.2"
    assert find("unheard-of") is None
