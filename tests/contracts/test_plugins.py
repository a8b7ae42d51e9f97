"""Plug-ins from outside: one file of each kind, as the pages under docs/extend/ print them, dropped into a home. The
gateway hears the channel, has the provider answer in the sandbox, and serves the tool."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.sandboxes.child import NICE
from gatepost_testing import fork_server
from gatepost_testing.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "extend" / "examples"
SETTINGS = """
[channels]
on = ["spool"]
spool.folder = "{spool}"
spool.look_s = 0.05

[sandbox]
kind = "niced"
niced.around = "{around}"
"""


def drop_all(home: Path) -> None:
    """One file of each kind into the home's plug-in folders."""
    files = {
        "channels/spool.py": (EXAMPLES / "spool.py").read_text(encoding="utf-8"),
        "tools/dice.py": (EXAMPLES / "dice.py").read_text(encoding="utf-8"),
        "providers/parrot.py": (EXAMPLES / "parrot.py").read_text(encoding="utf-8"),
        "sandboxes/niced.py": (EXAMPLES / "niced.py").read_text(encoding="utf-8"),
    }
    for name, text in files.items():
        path = home / "plugins" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Home:
    """A home with the plug-ins, and the command line on it."""

    def __init__(self, path: Path, around: str) -> None:
        self.path, self.spool = path / "home", path / "spool"
        for part in ("in", "out"):
            (self.spool / "office" / part).mkdir(parents=True)
        self.path.mkdir(mode=0o700)
        drop_all(self.path)
        settings = SETTINGS.format(spool=self.spool, around=around)
        (self.path / "gatepost.toml").write_text(settings, encoding="utf-8")
        self.env = {**os.environ, "GATEPOST_HOME": str(self.path), "GATEPOST_LISTEN": "127.0.0.1:0"}

    def run(self, *args: str) -> str:
        done = fork_server.run(args, self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, *args: str) -> Any:
        return json.loads(self.run(*args, "--json"))

    @asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        """The gateway runs for the length of the block."""
        command = (sys.executable, "-m", "gatepost", "up")
        daemon = await asyncio.create_subprocess_exec(*command, env=self.env, stdout=asyncio.subprocess.PIPE)
        try:
            assert daemon.stdout is not None
            assert b"ready" in await asyncio.wait_for(daemon.stdout.readline(), PATIENCE_S)
            yield
        finally:
            daemon.terminate()
            await asyncio.wait_for(daemon.wait(), PATIENCE_S)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, "process")


async def test_one_file_of_each_kind_makes_a_whole_way(home: Home) -> None:
    async with home.up():
        home.run("group", "set", "home", "provider=parrot", "sandbox=niced", "options.mark=?!")
        assert home.ask("chat", "-m", "pieces of eight", "--wait")["replies"][0]["text"] == "PIECES OF EIGHT?! (1)"
        (home.spool / "office" / "in" / "ann.1.txt").write_text("hello")
        async with asyncio.timeout(PATIENCE_S):
            while len(home.ask("ledger", "list")) < 3:  # noqa: ASYNC110  another process records it
                await asyncio.sleep(0.02)

    stranger = home.ask("ledger", "list")[-1]
    assert (stranger["address"], stranger["state"]) == ("spool:office", "refused")  # heard, and nobody knows ann
    assert "roll_dice" in home.run("tools", "--folder", "home")
    assert "sandbox.niced.level" in home.run("settings")
    assert home.ask("ledger", "check")["unaccounted"] == 0


@pytest.mark.slow
async def test_an_agent_calls_the_plugged_in_tool(home: Home) -> None:
    script = {"default": [{"call": "roll_dice", "with": {"dice": 3, "sides": 2}}, {"say": "{result}"}]}
    async with home.up():
        home.run("group", "set", "home", "provider=scripted", f"options.script={json.dumps(script)}")
        said = home.ask("chat", "-m", "roll", "--wait")["replies"][0]["text"]

    rolled = json.loads(said)
    assert len(rolled["faces"]) == 3 and set(rolled["faces"]) <= {1, 2} and rolled["total"] == sum(rolled["faces"])
    assert [row["action"] for row in home.ask("audit", "list") if row["action"].endswith("roll_dice")]


@pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")
@pytest.mark.slow
async def test_a_sandbox_laid_around_bubblewrap_is_as_isolated_and_nicer(tmp_path: Path) -> None:
    home = Home(tmp_path, "bubblewrap")
    async with home.up():
        assert home.run("sandbox", "run", "home", "--", "nice").strip() == str(os.nice(0) + NICE + 10)


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        ("tools", "def (", "dice2.py does not load: SyntaxError"),
        ("channels", "import no_such_library", "dice2.py does not load: ModuleNotFoundError"),
        ("tools", (EXAMPLES / "dice.py").read_text(encoding="utf-8"), "two tools are named 'roll_dice'"),
    ],
)
def test_a_broken_or_second_plugin_stops_the_start_by_name(home: Home, kind: str, text: str, complaint: str) -> None:
    (home.path / "plugins" / kind / "dice2.py").write_text(text, encoding="utf-8")
    done = fork_server.run(["up"], home.env)
    assert done.returncode == 1 and complaint in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
