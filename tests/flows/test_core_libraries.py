"""A gateway with the libraries of `requirements.lock` alone, as `make run` has it: those of extras are hidden."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hidden_libraries import find_extra_libraries, render_hiding

from gatepost_testing.daemon import DaemonProcess


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[DaemonProcess]:
    hidden = find_extra_libraries()
    assert {"fido2", "psycopg", "argon2"} <= hidden, "else nothing is hidden"
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "sitecustomize.py").write_text(render_hiding(hidden))
    daemon = DaemonProcess(tmp_path / "home")
    daemon.env["PYTHONPATH"], daemon.anew = str(tmp_path / "hide"), True
    with daemon:
        yield daemon


def test_it_starts_serves_its_page_and_answers(bare: DaemonProcess) -> None:
    with urllib.request.urlopen(bare.address) as page:
        assert page.status == 200
    answered = bare.gatepost("chat", "-m", "hello", "--wait")
    assert "Hello!" in answered.stdout, answered.stderr
    assert "ModuleNotFoundError" not in bare.stderr()
