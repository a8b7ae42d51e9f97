"""parrot: a provider that repeats what it hears, louder, and counts. Put it into `plugins/providers/` of the home.

It runs inside the sandbox, so it imports the standard library and the contract alone. It names no conversation, because
no later process of it could resume one; so a continued turn gives it its messages again.
"""

from collections.abc import AsyncIterator
from typing import Any

from gatepost.inside.providers.contract import Batch, Event, ProviderContext, Text, TurnFailed, TurnResult, provider


def answered_before(batch: Batch) -> set[int]:
    """The messages that were answered before the turn broke off."""
    notes = [item.content for item in batch.items if item.kind == "system"]
    return {done["inReplyTo"] for note in notes for done in note.get("done", ()) if done.get("inReplyTo")}


@provider("parrot")
class Parrot:
    def __init__(self, place: ProviderContext) -> None:
        self._heard = place.state / "heard"  # kept between sandboxes
        self._mark = str(place.options.get("mark", "!"))  # gatepost group set FOLDER options.mark='?!'
        self._stopped = False

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._stopped = False
        done = answered_before(batch)
        for item in batch.items:
            if item.kind == "system" or item.seq in done:
                continue
            if self._stopped:
                yield TurnFailed("interrupted")
                return
            yield Text(f"{item.text.upper()}{self._mark} ({self._count()})", in_reply_to=item.seq)
        yield TurnResult()

    async def push(self, batch: Batch) -> None:
        raise NotImplementedError("one turn at a time")  # the runner keeps it for the next one

    async def interrupt(self) -> None:
        self._stopped = True

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        raise LookupError("a parrot asks nobody for permission")

    async def set_mode(self, mode: str) -> None:
        raise NotImplementedError("a parrot has one mode")

    async def fork(self, conversation: str) -> str:
        raise NotImplementedError("there is only one parrot")

    async def close(self) -> None:
        pass

    def _count(self) -> int:
        number = int(self._heard.read_text()) + 1 if self._heard.exists() else 1
        self._heard.write_text(str(number))
        return number
