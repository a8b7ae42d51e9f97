"""`gatepost sandbox run`, as an operator uses it."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.sandboxes.bubblewrap import find_bwrap

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="look-"))
    gatepost(path, "group", "add", "acme")
    yield path
    shutil.rmtree(path)


def gatepost(home: Path, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gatepost", "--home", str(home), *words]
    return subprocess.run(command, input=said, capture_output=True, text=True, timeout=60, check=False)


def test_a_command_runs_in_the_groups_folder_with_our_input_and_output(home: Path) -> None:
    ran = gatepost(
        home, "sandbox", "run", "acme", "--", "sh", "-c", "pwd; id -u; ls work.md; cat; echo no >&2", said="hi"
    )

    assert ran.stdout == "/workspace/agent\n1000\nwork.md\nhi"
    assert ran.stderr == "no\n"


def test_its_exit_code_is_ours(home: Path) -> None:
    assert gatepost(home, "sandbox", "run", "acme", "--", "sh", "-c", "exit 7").returncode == 7
    assert gatepost(home, "sandbox", "run", "acme", "nosuch").returncode == 127


def test_nothing_of_it_is_left(home: Path) -> None:
    gatepost(home, "sandbox", "run", "acme", "--", "sh", "-c", "mkdir -p ../out/a/b; touch ../out/a/b/c")

    assert list((home / "sessions").iterdir()) == []
    assert list((home / "run" / "s").iterdir()) == []


def test_a_group_that_is_not_there_is_named(home: Path) -> None:
    ran = gatepost(home, "sandbox", "run", "nobody", "--", "ls")

    assert ran.returncode == 1
    assert "nobody" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_a_command_it_says_what_is_missing(home: Path) -> None:
    assert gatepost(home, "sandbox", "run", "acme", "--").returncode == 2
