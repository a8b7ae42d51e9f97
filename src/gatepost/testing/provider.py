"""Scripts for the `scripted` provider, written in Python: what the agent does when it is asked.

    Script().turn(when="hello").say("hi").call("send", text="psst").turn(when="boom").crash().write(folder)

Each message is answered by the first turn whose `when` stands in it, else by `otherwise`. The provider itself is a real
child process; the format is described in `docs/extend/scripted.md`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = "script.json"

Step = dict[str, Any]


@dataclass(slots=True)
class Script:
    """A builder: every step is added to the turn that was begun last."""

    _turns: list[dict[str, Any]] = field(default_factory=list)
    _default: list[Step] = field(default_factory=list)
    _at: list[Step] | None = None
    _crash_on_start: int = 0

    def turn(self, when: str = "") -> "Script":
        """Begin a turn, for messages in which `when` stands."""
        self._at = []
        self._turns.append({"when": when, "do": self._at})
        return self

    def otherwise(self) -> "Script":
        """Begin what is done with every other message."""
        self._at = self._default
        return self

    def say(self, text: str) -> "Script":
        return self._do({"say": text})

    def call(self, tool: str, **arguments: object) -> "Script":
        return self._do({"call": tool, "with": arguments})

    def status(self, text: str) -> "Script":
        return self._do({"status": text})

    def wait(self, for_s: float) -> "Script":
        return self._do({"wait": for_s})

    def ask(self, question: str) -> "Script":
        return self._do({"ask": question})

    def crash(self) -> "Script":
        """End the whole process, as a kill would."""
        return self._do({"crash": True})

    def hang(self) -> "Script":
        """Never go on."""
        return self._do({"hang": True})

    def error(self, text: str) -> "Script":
        return self._do({"error": text})

    def crash_on_start(self, times: int) -> "Script":
        """The first so many starts of the provider end before it has read anything."""
        self._crash_on_start = times
        return self

    def json(self) -> str:
        whole: dict[str, Any] = {"turns": self._turns}
        if self._default:
            whole["default"] = self._default
        if self._crash_on_start:
            whole["crash_on_start"] = self._crash_on_start
        return json.dumps(whole, indent=1, ensure_ascii=False)

    def write(self, folder: Path) -> Path:
        """Into a group's folder of a test's own home."""
        path = folder / FILE
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(self.json(), encoding="utf-8")
        return path

    def _do(self, step: Step) -> "Script":
        if self._at is None:
            self.otherwise()
        assert self._at is not None
        self._at.append(step)
        return self
