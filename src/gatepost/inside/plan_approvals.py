"""Plans of agents that cannot carry one out in the turn that made it: shown, approved or not, and then that turn ends.

A plan is on the disk before anybody is asked. So a turn that broke off while it waited asks the same again, under the
same name, and the agent is not made to plan anew.
"""

import asyncio
import os
from hashlib import sha256
from pathlib import Path

import msgspec

from gatepost.inside.providers.contract import Batch, ItemKind, PermissionRequest, PermissionRequestKind

APPROVED = "The plan is approved. Carry it out now.\n\n{}"
LONGEST = 19_000  # characters of a plan that is said again


class PlanRecord(msgspec.Struct, frozen=True):
    """The plan of a turn; without one, the agent was only to make one."""

    conversation: str
    turn: str
    text: str = ""


class PlanApprovals:
    """`mode`: in which the agent goes on once its plan is approved."""

    def __init__(self, file: Path, mode: str) -> None:
        self._file, self._mode = file, mode
        self._waiting: tuple[str, asyncio.Event] | None = None

    def begin(self, conversation: str, turn: str) -> None:
        """A turn that is to plan."""
        self._write(PlanRecord(conversation, turn))

    def is_last_planned(self, conversation: str) -> bool:
        """Return True if the conversation's last plan was made, or to be made, here: the agent may think that it still
        is."""
        made = self._read()
        return made is not None and made.conversation == conversation

    def left(self, conversation: str, batch: Batch) -> str:
        """The plan that this turn had made when it broke off; '' if it had none, or has something else to answer."""
        made = self._read()
        if made is None or not batch.continued or (made.conversation, made.turn) != (conversation, batch.turn):
            return ""
        return made.text if all(item.kind == ItemKind.SYSTEM for item in batch.items) else ""

    def ask(self, conversation: str, turn: str, text: str) -> PermissionRequest:
        self._write(PlanRecord(conversation, turn, text))
        name = f"plan-{sha256(text.encode(errors='replace')).hexdigest()[:12]}"
        self._waiting = name, asyncio.Event()
        return PermissionRequest(
            name, "plan", {"plan": text}, PermissionRequestKind.PLAN, APPROVED.format(text[:LONGEST]), self._mode
        )

    def answer(self, request: str) -> bool:
        """Return True if this request was the one that waits. The content of the answer does not matter here: the
        gateway starts the next step."""
        if self._waiting is None or self._waiting[0] != request:
            return False
        self._waiting[1].set()
        return True

    def give_up(self) -> None:
        if self._waiting is not None:
            self._waiting[1].set()

    async def answered(self) -> None:
        if self._waiting is not None:
            await self._waiting[1].wait()
        self._waiting = None

    def _read(self) -> PlanRecord | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=PlanRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def _write(self, made: PlanRecord) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(made))
        os.replace(fresh, self._file)
