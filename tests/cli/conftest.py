"""Commands are run in this process, as the console script runs them, on a home of their own."""

import json
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
def home(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("GATEPOST_HOME", str(quick_path / "home"))
    return Home(quick_path / "home")


@pytest.fixture
def run(home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def run(*args: str) -> Ran:
        code = program.run(list(args))
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run
