"""Plays an example as its README says, in a process of its own, and reads what it printed."""

import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from gatepost_testing.waiting import PATIENCE_S

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class PlayedExample(Struct, frozen=True):
    """What somebody who played it has on the screen."""

    lines: list[str]

    def list_answers(self, room: str) -> list[str]:
        """Return what agents said in a room; further lines of a message are part of it."""
        found: list[str] = []
        inside = False
        for line in self.lines:
            head, _, text = line.partition(": ")
            if head == f"agent in {room}":
                found.append(text)
            elif inside and line.startswith("    "):
                found[-1] += "\n" + line[4:]
            inside = head == f"agent in {room}" or (inside and line.startswith("    "))
        return found


def play_example(name: str) -> PlayedExample:
    """To its end. It must end well, and account for every message."""
    command = [sys.executable, str(EXAMPLES / name / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.splitlines()[-1] == "0 unaccounted"
    return PlayedExample(done.stdout.splitlines())
