"""Commands are run in this process, as the console script runs them, on a home of their own."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli import program
from gatepost.core.home import Home


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def bare_home(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """In which nothing was started yet."""
    monkeypatch.setenv("GATEPOST_HOME", str(quick_path / "home"))
    return Home(quick_path / "home")


@pytest.fixture
def home(bare_home: Home, empty_store: Path) -> Home:
    """With a new store, whose migrations are half of the work of a first command. A file whose tests are about a home
    without one takes `bare_home` in its place."""
    bare_home.prepare()
    shutil.copy(empty_store, bare_home.store)
    return bare_home


@pytest.fixture
def run(home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def run(*args: str) -> Ran:
        code = program.run(list(args))
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run
