"""docs/scale.md, followed by a shell: from two empty homes to a gateway that is killed."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from gatepost_testing.waiting import PATIENCE_S, block_until

SCALE = Path(__file__).parents[2] / "docs" / "scale.md"
URL = "postgresql://gatepost:PASSWORD@db.example:5432/gatepost?sslmode=verify-full"
SHARED = "/mnt/gatepost"

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]


class Machine:
    """A shell on one of two machines: a home of its own, and what it exported stays."""

    def __init__(self, folder: Path, first: Path) -> None:
        self.folder, self.home = folder, Home(folder / ".gatepost")
        tools = folder / "bin"
        tools.mkdir(parents=True)
        (tools / "gatepost").write_text(f'#!/bin/sh\nexec {sys.executable} -m gatepost "$@"\n')
        (tools / "scp").write_text(f'#!/bin/sh\nexec cp "{first}/${{1#first:}}" "$2"\n')
        for tool in tools.iterdir():
            tool.chmod(0o755)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GATEPOST_")},
            "HOME": str(folder),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "GATEPOST_LISTEN": "127.0.0.1:0",
            "GATEPOST_SESSIONS_PROVIDER": "demo",
            "GATEPOST_STORE_UNSAFE": "true",
        }

    def run(self, block: str) -> str:
        """Return what the lines print. `gatepost up` goes on beside them."""
        said = ""
        for line in block.splitlines():
            if line == "gatepost up":
                self._start()
            elif found := re.fullmatch(r"export (\w+)='?([^']*)'?", line):
                self.env[found[1]] = found[2]
            elif not line.startswith("#"):
                done = subprocess.run(
                    ["bash", "-ec", line],
                    env=self.env,
                    capture_output=True,
                    text=True,
                    timeout=2 * PATIENCE_S,
                    check=False,
                )
                assert done.returncode == 0, (line, done.stdout, done.stderr)
                said += done.stdout
        return said

    def _start(self) -> None:
        with (self.folder / "up.log").open("wb") as log:
            subprocess.Popen(["gatepost", "up"], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        block_until(lambda: "gatepost is ready at" in (self.folder / "up.log").read_text(), "the gateway to be ready")

    def stop(self) -> None:
        holder = home_lock.find_holder(self.home) if self.home.path.is_dir() else None
        if holder is not None:
            os.kill(holder.pid, signal.SIGKILL)


@pytest.fixture
def machines() -> Iterator[dict[str, Machine]]:
    """In a short folder: the page names the homes, and the path of a home has at most 80 bytes."""
    with tempfile.TemporaryDirectory(prefix="gp-", dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o711)  # agents of a root's gateway are other users
        (folder / "shared").mkdir(mode=0o711)
        machines = {name: Machine(folder / name, folder / "first") for name in ("first", "second")}
        yield machines
        for machine in machines.values():
            machine.stop()


def list_blocks(url: str, shared: Path) -> list[tuple[str, str]]:
    """(machine, lines) of the chapter, with the address of a real database and a folder that is here."""
    chapter = SCALE.read_text(encoding="utf-8").partition("## Two machines")[2].partition("\n## ")[0]
    found = re.findall(r"```\n(# on the (\w+) machine\n.*?)```", chapter, re.S)
    return [(name, text.replace(URL, url).replace(SHARED, str(shared))) for text, name in found]


def test_the_page_leads_from_two_empty_homes_to_a_takeover(machines: dict[str, Machine]) -> None:
    with PostgresServer() as server:
        blocks = list_blocks(server.add_database("scale"), machines["first"].folder.with_name("shared"))
        assert [name for name, _ in blocks] == ["first", "second", "second", "first", "second"]
        said = [machines[name].run(text) for name, text in blocks[:4]]
        assert re.search(r"^first +running.*\n(?:.*\n)?second +running", said[2], re.M), said[2]
        assert "the key ring is made: " in said[0] and "; copy it to the other gateways" in said[0]
        assert "Noted" in said[3]
        assert re.search(r"gateways +first is running on", said[2])
        block_until(
            lambda: "first  gone" in machines["second"].run("gatepost gateway show first"), "the second to take over"
        )
        told = machines["second"].run(blocks[4][1])
        assert "Noted. That makes 2" in told and "buy milk" in told, told
        machines["second"].run("gatepost down --drain --within 1")
