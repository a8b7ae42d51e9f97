"""What is declared is found without the libraries of extras."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hidden_libraries import render_hiding

ROOT = Path(__file__).resolve().parent.parent
DATABASE = {"psycopg", "psycopg_binary"}
RUN = """
from gatepost.cli import program

code = program.run(sys.argv[1:])
loaded = [each for each in sys.modules if each.startswith("gatepost.store.postgres.")]
assert not loaded, loaded
sys.exit(code)
"""
PRINT = """
import runpy

sys.path.insert(0, "scripts")
sys.argv = ["print_docs.py", "--check"]
runpy.run_path("scripts/print_docs.py", run_name="__main__")
"""


def run_hidden(script: str, home: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """In an installation without PostgreSQL's library."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GATEPOST_")}
    return subprocess.run(
        [sys.executable, "-c", render_hiding(DATABASE) + script, *args],
        cwd=ROOT,
        env={**environ, "GATEPOST_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("doctor",), "every plug-in loads"),
        (("settings",), "store.url"),
        (("status",), "gatepost is down"),
    ],
)
def test_commands_work_without_the_library_of_a_database_that_is_not_used(
    tmp_path: Path, args: tuple[str, ...], says: str
) -> None:
    ran = run_hidden(RUN, tmp_path, *args)
    assert says in ran.stdout, ran.stderr
    assert "ModuleNotFoundError" not in ran.stdout + ran.stderr


@pytest.mark.slow
def test_the_docs_are_printed_without_it(tmp_path: Path) -> None:
    ran = run_hidden(PRINT, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_database_that_is_named_asks_for_the_library(tmp_path: Path) -> None:
    ran = run_hidden(RUN, tmp_path, "doctor", GATEPOST_STORE_URL="postgresql://ann@127.0.0.1:1/ledger")
    assert "pip install 'gatepost[postgres]'" in ran.stdout
    assert "ModuleNotFoundError" not in ran.stdout + ran.stderr
