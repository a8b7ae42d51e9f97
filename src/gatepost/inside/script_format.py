"""The scripted provider's script: its format, which turn answers a message, and what was said before a crash. Pure,
but for `read_script`. Described for users in docs/extend/scripted.md."""

import re
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside.providers.contract import ItemKind, Misconfigured
from gatepost.mailbox.runner_frames import TurnErrorClass


class AskStep(msgspec.Struct, forbid_unknown_fields=True):
    """A question to a person, a permission to use a tool, or a plan to be approved. Waits for the answer."""

    question: str = ""
    options: list[str] = []
    permission: str = ""
    input: dict[str, Any] = {}
    plan: str = ""
    follow_up: str = ""
    next_mode: str = ""


class ErrorStep(msgspec.Struct, forbid_unknown_fields=True):
    message: str = "the script says so"
    kind: TurnErrorClass = TurnErrorClass.FATAL
    retry_after: float | None = None
    times: int = -1  # negative: always


class WriteFileStep(msgspec.Struct, forbid_unknown_fields=True):
    path: str  # from where the agent starts
    text: str = ""


class ScriptStep(msgspec.Struct, forbid_unknown_fields=True):
    """One thing to do. A step has one of these keys (`with` belongs to `call`)."""

    say: str | None = None
    call: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict, name="with")
    status: str = ""
    draft: str | None = None
    wait: float = 0.0
    wait_for: str = ""  # a file in the group's folder
    wait_for_message: bool = False  # one more, in the same turn
    ask: AskStep | None = None
    final: str | None = None
    usage: dict[str, Any] = {}
    write_file: WriteFileStep | None = None
    crash: str | int = 0  # once | always | a number of times
    hang: bool = False
    error: ErrorStep | None = None

    def crashes(self) -> int:
        if isinstance(self.crash, int):
            return self.crash
        return -1 if self.crash == "always" else 1


class ScriptTurn(msgspec.Struct, forbid_unknown_fields=True):
    do: list[ScriptStep]
    when: str = ""
    kind: ItemKind | None = None  # None: any but system
    once: bool = False


class Script(msgspec.Struct, forbid_unknown_fields=True):
    turns: list[ScriptTurn] = []
    default: list[ScriptStep] = msgspec.field(default_factory=lambda: [ScriptStep(say="echo: {text}")])
    crash_on_start: int = 0
    crash_after: int = 0

    def choose(self, kind: ItemKind, text: str, used: set[int]) -> tuple[int, ScriptTurn | None, dict[str, str]]:
        """The first turn that fits, its number, and the groups of its pattern as words; -1: none does."""
        for index, turn in enumerate(self.turns):
            if turn.once and index in used:
                continue
            if turn.kind != kind and (turn.kind or kind == ItemKind.SYSTEM):
                continue
            found = re.search(turn.when, text)
            if found is not None:
                groups = {str(number): group or "" for number, group in enumerate(found.groups(), 1)}
                return index, turn, groups
        return -1, None, {}

    def default_for(self, kind: ItemKind) -> list[ScriptStep]:
        return [] if kind == ItemKind.SYSTEM else self.default


def read_script(inline: object, path: Path) -> Script:
    """Return the script given in the options, else the file's, else an echo. An error names the place."""
    try:
        if inline is not None:
            return msgspec.convert(inline, Script)
        return msgspec.json.decode(path.read_bytes(), type=Script)
    except FileNotFoundError:
        return Script()
    except (msgspec.MsgspecError, OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path.name if inline is None else 'the option script'}: {error}") from None


class CompletedEffect(msgspec.Struct, rename="camel"):
    """Something that people already have."""

    text: str = ""
    seq: int | None = None
    in_reply_to: int | None = None


class CompletedEffects:
    """Effects that happened before the turn broke off; each entry accounts for one step of the script."""

    def __init__(self, done: list[CompletedEffect], *, continued: bool = False) -> None:
        self.continued = continued
        self._left = list(done)

    def add(self, done: list[CompletedEffect]) -> None:
        """Add what was done for messages that join the turn and were worked on before."""
        self._left += done

    def claim_text(self, text: str, seq: int) -> bool:
        """Return True if this answer to that message is among it. A long one may have gone out in several parts."""
        for entry in self._left:
            same = entry.text.strip() == text.strip() or (entry.text != "" and text.startswith(entry.text))
            if same and entry.in_reply_to in (seq, None):
                self._left.remove(entry)
                return True
        return False

    def claim_call(self, arguments: dict[str, Any]) -> bool:
        """Return True if a tool's use with these arguments is among it, as far as it can be told by its text."""
        texts = {value for key, value in arguments.items() if key in ("text", "caption") and isinstance(value, str)}
        for entry in self._left:
            if entry.text and entry.text in texts:
                self._left.remove(entry)
                return True
        return False
