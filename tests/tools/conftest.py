"""Homes of these tests are in memory: to make and remove one on a disk costs ten times as much. No sandbox runs here."""

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(quick_path: Path) -> Path:
    return quick_path
