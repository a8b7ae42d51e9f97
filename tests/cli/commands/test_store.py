"""`gatepost store copy` from one file to another: what it takes for a place, and what it says at its end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home

Run = Callable[..., Any]


def test_a_mistyped_engine_makes_no_file(home: Home, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("store", "copy", "sqlite", "postgre")
    assert ran.code != 0 and "TO: 'postgre' names no store" in ran.err and "did you mean 'postgres'?" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_end_says_from_where_to_where_and_empty_tables_are_left_out(home: Home, run: Run, tmp_path: Path) -> None:
    ran = run("store", "copy", "sqlite", str(tmp_path / "new.db"))
    assert ran.code == 0
    assert ran.out.splitlines()[-1].endswith(f"from {home.store} to {tmp_path / 'new.db'}, the same on both sides")
    assert "schema_version" in ran.out and "messages" not in ran.out
    assert len(run("store", "copy", "sqlite", str(tmp_path / "other.db"), "--json").json) > 50
