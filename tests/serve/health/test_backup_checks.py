"""What the doctor says of backups."""

import os
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import DAY
from gatepost.core.home import Home
from gatepost.core.settings import Config, Setting
from gatepost.serve.backups.backup_folder import EVERY_HOURS, FOLDER, RECIPIENTS, BackupProof, keep_proof, make_name
from gatepost.serve.health.backup_checks import check_backups

NOW = 1_800_000_000_000_000


@pytest.mark.parametrize(
    ("age", "trouble", "every", "level"),
    [
        (None, "", 0.0, "note"),
        (None, "", 24.0, "warn"),
        (2, "", 0.0, "ok"),
        (8, "", 24.0, "warn"),
        (1, "torn", 0.0, "fail"),
    ],
)
def test_the_last_proven_backup_is_judged_by_its_age(
    tmp_path: Path, age: int | None, trouble: str, every: float, level: str
) -> None:
    if age is not None:
        path = tmp_path / "backups" / make_name(NOW - age * DAY)
        path.parent.mkdir()
        path.touch()
        os.utime(path, ns=(NOW * 1000, NOW * 1000))
        keep_proof(path, BackupProof(at=NOW, trouble=trouble))
    config = Config().with_values({EVERY_HOURS.name: every}, "test")
    [found] = check_backups(Home(tmp_path), config, NOW)
    assert found.level == level and trouble in found.text


@pytest.mark.parametrize(("setting", "value"), [(FOLDER, "backups"), (RECIPIENTS, ("bob",))])
def test_settings_that_no_backup_can_use_are_said(tmp_path: Path, setting: Setting[Any], value: object) -> None:
    [found] = check_backups(Home(tmp_path), Config().with_values({setting.name: value}, "test"), NOW)
    assert found.level == "fail" and setting.name in found.text
