"""Scripts for the `scripted` provider, written in Python: what the agent does when it is asked.

    Script().turn(when="hello").say("hi").call("send", text="psst").turn(when="boom").crash().write(folder)

A message is answered by the first turn whose pattern is found in it, else by `otherwise` (an echo, if that is not
given). The provider itself is a real child process; `docs/extend/scripted.md` describes the format.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = "script.json"

Step = dict[str, Any]


@dataclass(slots=True)
class ScriptBuilder:
    """A builder: every step is added to the turn that was begun last."""

    crash_on_start: int = 0  # the first so many starts end before anything is read
    crash_after: int = 0
    _turns: list[dict[str, Any]] = field(default_factory=list, init=False)
    _default: list[Step] | None = field(default=None, init=False)
    _at: list[Step] | None = field(default=None, init=False)

    def turn(self, when: str = "", *, kind: str = "", once: bool = False) -> "ScriptBuilder":
        """Begin a turn, for messages in which the regular expression `when` is found."""
        self._at = []
        turn: dict[str, Any] = {"when": when, "do": self._at}
        if kind:
            turn["kind"] = kind
        if once:
            turn["once"] = True
        self._turns.append(turn)
        return self

    def otherwise(self) -> "ScriptBuilder":
        """Begin what is done with every other message."""
        self._at = self._default = []
        return self

    def say(self, text: str) -> "ScriptBuilder":
        return self._do({"say": text})

    def final(self, text: str) -> "ScriptBuilder":
        """The text that the turn ends with."""
        return self._do({"final": text})

    def call(self, tool: str, **arguments: object) -> "ScriptBuilder":
        return self._do({"call": tool, "with": arguments})

    def status(self, text: str) -> "ScriptBuilder":
        return self._do({"status": text})

    def draft(self, text: str) -> "ScriptBuilder":
        """Return what is written of the next message so far; `{now}` is the moment, in microseconds."""
        return self._do({"draft": text})

    def wait(self, for_s: float) -> "ScriptBuilder":
        return self._do({"wait": for_s})

    def wait_for(self, file: str) -> "ScriptBuilder":
        """Until a file of that name is in the group's folder: for what has to happen in the middle of a turn."""
        return self._do({"wait_for": file})

    def wait_for_message(self) -> "ScriptBuilder":
        """Until one more message is part of the turn; not in a turn that is continued."""
        return self._do({"wait_for_message": True})

    def ask(self, question: str, *options: str) -> "ScriptBuilder":
        return self._do({"ask": {"question": question, "options": list(options)}})

    def write_file(self, path: str, text: str) -> "ScriptBuilder":
        """Into the group's folder, from inside."""
        return self._do({"write_file": {"path": path, "text": text}})

    def crash(self, times: int | str = "once") -> "ScriptBuilder":
        """End the whole process as a kill would: so many times, `once` or `always`."""
        return self._do({"crash": times})

    def hang(self) -> "ScriptBuilder":
        """Never go on."""
        return self._do({"hang": True})

    def error(
        self, message: str, *, kind: str = "fatal", retry_after: float | None = None, times: int = -1
    ) -> "ScriptBuilder":
        """Fail as a model's endpoint would; a negative `times` means always."""
        return self._do({"error": {"message": message, "kind": kind, "retry_after": retry_after, "times": times}})

    def json(self) -> str:
        whole: dict[str, Any] = {"turns": self._turns}
        if self._default is not None:
            whole["default"] = self._default
        if self.crash_on_start:
            whole["crash_on_start"] = self.crash_on_start
        if self.crash_after:
            whole["crash_after"] = self.crash_after
        return json.dumps(whole, indent=1, ensure_ascii=False)

    def write(self, folder: Path) -> Path:
        """Into a group's folder, in a home of the test's own."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        path.write_text(self.json(), encoding="utf-8")
        return path

    def _do(self, step: Step) -> "ScriptBuilder":
        if self._at is None:
            self.otherwise()
        assert self._at is not None
        self._at.append(step)
        return self
