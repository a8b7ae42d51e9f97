"""Which call is which: the key of a call stays the same when the call is made again because its answer was lost.

Equal calls of a turn (the same tool, the same arguments) are numbered. A new one gets the lowest number whose outcome
the agent does not know: its connection broke, or it failed. The same holds for a call of an earlier attempt of the turn
that was killed before the agent went on. Else it gets a number of its own. The number is written with the call's first
write, so it is on the disk before any effect that follows `call.note()` or `call.write()`.
"""

import asyncio
from bisect import insort
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from gatepost.store.port import Store
from gatepost.store.sessions import tool_calls
from gatepost.store.sessions.tool_calls import CallIdentity
from gatepost.store.sessions.turns import Turn

MOST_CALLS = 10_000  # of one turn that are told apart; a turn that makes more has keys of no use for retries

_encode = msgspec.json.Encoder(order="sorted").encode


class CallKeys:
    """The calls of one session's running turn."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at: tuple[str, int] = ("", 0)
        self._lane = ""  # the session: what is settled is written before its next call
        self._last: dict[str, int] = {}  # the highest number, by digest
        self._unknown: dict[str, list[int]] = {}  # numbers whose outcome the agent does not know, by digest
        self.unsettled: list[CallIdentity] = []  # the agent has the answer, and did not go on yet
        self._count = 0
        self._loading = asyncio.Lock()

    async def identify(self, turn: Turn, tool: str, arguments: Mapping[str, Any]) -> CallIdentity | None:
        """The identity of a call that begins now; None if there are too many to tell apart."""
        if (turn.id, turn.attempt) != self._at:
            async with self._loading:
                if (turn.id, turn.attempt) != self._at:
                    await self._load(turn)
        digest = sha256(_encode([tool, arguments])).hexdigest()[:32]
        if unknown := self._unknown.get(digest):
            return CallIdentity(turn.id, digest, unknown.pop(0))
        if self._count >= MOST_CALLS:
            return None
        self._count += 1
        self._last[digest] = number = self._last.get(digest, 0) + 1
        return CallIdentity(turn.id, digest, number)

    def answered(self, call: CallIdentity) -> None:
        if call.turn_id == self._at[0]:
            self.unsettled.append(call)

    def failed(self, call: CallIdentity) -> None:
        """It failed, or nobody waits for its answer any more: the same again is the same call."""
        if call.turn_id == self._at[0]:
            insort(self._unknown.setdefault(call.digest, []), call.number)

    def settle_answered(self) -> None:
        """Record that the agent has had the answers in `unsettled`: it said or did something else."""
        settled, self.unsettled = self.unsettled, []
        self._store.post(tool_calls.record_settled, settled, lane=self._lane)

    async def _load(self, turn: Turn) -> None:
        made = await self._store.read(tool_calls.list_for_turn, turn.id)
        self._at, self._last, self._unknown, self.unsettled = (turn.id, turn.attempt), {}, {}, []
        self._lane = turn.session_id
        self._count = len(made)
        for call, settled in made:
            self._last[call.digest] = max(call.number, self._last.get(call.digest, 0))
            if not settled:
                self._unknown.setdefault(call.digest, []).append(call.number)
