"""From a clean clone: one `make run`, one address, and a page there. Needs a package index, so it takes its time."""

import ast
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from gatepost_testing.waiting import PATIENCE_S

ROOT = Path(__file__).parents[1]
FIGURES = [
    "warm_reply_ms",
    "cold_reply_ms",
    "burst50_s",
    "wake20_s",
    "ingest_per_s",
    "deliver_per_s",
    "tool_call_us",
    "bridge_call_us",
    "bridge_ready_ms",
    "idle_rss_mb",
    "session_rss_mb",
    "version_ms",
]


@pytest.mark.slow
@pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("make") is None, reason="needs a git checkout and make: no clone"
)
def test_make_run_on_a_clean_clone_prints_an_address_and_the_page_there_answers(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--no-local", str(ROOT), str(clone)], check=True)
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GATEPOST_", "VIRTUAL_ENV", "MAKE", "MFLAGS")) and name != "SSL_CERT_FILE"
    }
    if users := os.environ["USERS_CERT_FILE"]:  # pip asks a host of the internet
        env["SSL_CERT_FILE"] = users
    env |= {"HOME": str(tmp_path), "HOME_DIR": str(tmp_path / "h"), "ARGS": "--listen 127.0.0.1:0"}
    up = subprocess.Popen(
        ["make", "-s", "run"], cwd=clone, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert up.stdout is not None
        line = next((line for line in up.stdout if line.startswith("gatepost is ready at ")), "")
        assert line, "no ready line was printed"
        address = line.removeprefix("gatepost is ready at ").strip()
        with urllib.request.urlopen(address.partition("#")[0], timeout=10) as page:
            assert page.status == 200 and b"<html" in page.read()
    finally:
        os.killpg(up.pid, signal.SIGTERM)
        up.communicate(timeout=PATIENCE_S)


def test_the_bench_measures_every_figure_that_was_promised() -> None:
    tree = ast.parse((ROOT / "bench" / "run.py").read_text(encoding="utf-8"))
    named = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert not set(FIGURES) - named
