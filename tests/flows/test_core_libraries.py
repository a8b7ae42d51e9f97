"""A gateway with the libraries of `requirements.lock` alone, as `make run` has it: those of extras are hidden."""

import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.hidden_libraries import find_extra_libraries, render_hiding

from gatepost_testing.daemon import DaemonProcess

COMMANDS = (("doctor", "--json"), ("settings",), ("sandbox", "run", "home", "--", "true"), ("skill", "list"))
LATER = ("httpx2", "idna", "yaml")  # libraries of the core that are loaded when they are first used


def make_daemon(folder: Path, hidden: Iterable[str]) -> DaemonProcess:
    (folder / "hide").mkdir()
    (folder / "hide" / "sitecustomize.py").write_text(render_hiding(hidden))
    daemon = DaemonProcess(folder / "home")
    daemon.env["PYTHONPATH"], daemon.anew = str(folder / "hide"), True
    return daemon


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[DaemonProcess]:
    hidden = find_extra_libraries()
    assert {"fido2", "psycopg", "argon2"} <= hidden, "else nothing is hidden"
    with make_daemon(tmp_path, hidden) as daemon:
        yield daemon


def test_it_starts_serves_its_page_and_answers(bare: DaemonProcess) -> None:
    with urllib.request.urlopen(bare.address) as page:
        assert page.status == 200
    answered = bare.gatepost("chat", "-m", "hello", "--wait")
    assert "Hello!" in answered.stdout, answered.stderr
    assert "ModuleNotFoundError" not in bare.stderr()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_that_knows_all_settings_needs_no_extra(bare: DaemonProcess, words: tuple[str, ...]) -> None:
    done = bare.gatepost(*words)
    assert done.returncode == 0 and "should not happen" not in done.stderr, done.stderr


def test_a_start_waits_for_no_library_that_is_used_later(tmp_path: Path) -> None:
    with make_daemon(tmp_path, LATER) as daemon, urllib.request.urlopen(daemon.address) as page:
        assert page.status == 200
