"""Wrong tokens: whoever shows one waits for the answer, longer each time, and the audit counts them.

A right token never waits, so nobody is locked out by somebody else at the same address. Nothing here holds the loop:
each answer waits by itself, and an address has only so many waiting. The table of addresses is bounded, and so are the
rows of the audit: one for the 1st, 2nd, 4th, 8th … wrong token of an address.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError
from gatepost.serve.peers import peer_of
from gatepost.store.port import Store
from gatepost.store.rights import audit

FREE = 2  # wrong ones that are answered at once: everybody mistypes
FIRST_S, LONGEST_S = 0.25, 8.0
MOST_WAITING = 16  # answers to one address that wait
FORGOTTEN_S = 600.0  # after so long without a wrong one, an address begins anew
MOST_PEERS = 1024
ROWS, WINDOW_S = 60, 60.0  # at most so many rows in so many seconds, over all addresses
ACTION = "door.token"

_log = log.get("door")

Record = Callable[[str, int, int], Awaitable[None]]  # (address, wrong tokens so far, rows that were left out)


@dataclass(slots=True)
class _PeerFailures:
    count: int = 0
    waiting: int = 0
    last: float = 0.0


class AuthThrottle:
    def __init__(
        self,
        record: Record,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._record, self._pause, self._now = record, pause, now
        self._peers: OrderedDict[str, _PeerFailures] = OrderedDict()
        self._rows, self._window, self._left_out = 0, float("-inf"), 0

    async def strike(self, address: str) -> bool:
        """Returns when the answer may be sent. False: too many wait already, say so at once."""
        name = peer_of(address)
        peer = self._get_peer(name)
        peer.count += 1
        if peer.count & (peer.count - 1) == 0:
            await self._write(name, peer.count)
        if peer.waiting >= MOST_WAITING:
            return False
        peer.waiting += 1
        try:
            await self._pause(backoff_delay(peer.count))
        finally:
            peer.waiting -= 1
        return True

    def reset(self, address: str) -> None:
        """It has shown a right one."""
        if self._peers:
            self._peers.pop(peer_of(address), None)

    def _get_peer(self, name: str) -> _PeerFailures:
        peer, now = self._peers.pop(name, None), self._now()
        if peer is None or (now - peer.last > FORGOTTEN_S and not peer.waiting):
            peer = _PeerFailures()
        peer.last = now
        self._peers[name] = peer
        while len(self._peers) > MOST_PEERS:
            self._peers.popitem(last=False)
        return peer

    async def _write(self, name: str, count: int) -> None:
        now = self._now()
        if now - self._window >= WINDOW_S:
            self._window, self._rows = now, 0
        if self._rows >= ROWS:
            self._left_out += 1
            return
        self._rows += 1
        left_out, self._left_out = self._left_out, 0
        await self._record(name, count, left_out)


def backoff_delay(count: int) -> float:
    """Seconds that the answer to the nth wrong token waits."""
    if count <= FREE:
        return 0.0
    return min(LONGEST_S, FIRST_S * float(2 ** min(count - FREE - 1, 16)))


def make_audit_recorder(store: Store, clock: Clock, where: str) -> Record:
    """Into the audit. A store that cannot be written does not keep a refusal from being one."""

    async def record(peer: str, count: int, left_out: int) -> None:
        _log.warning("a wrong token was shown", where=where, peer=peer, times=count)
        details = {"where": where, "times": count} | ({"not_recorded": left_out} if left_out else {})
        try:
            await store.write(audit.append, audit.AuditRecord(clock.now(), f"peer:{peer}", ACTION, "refused", details))
        except GatepostError as error:
            _log.warning("a wrong token could not be recorded", error=str(error))

    return record
