"""Homes of these tests are in memory: on a disk, to make and remove one costs ten times as much. No sandbox is here."""

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(quick_path: Path) -> Path:
    return quick_path
