"""After a crash: end what the last daemon left, and continue its turns. Runs once, before anything is served."""

from contextlib import suppress

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.untrusted import open_root
from gatepost.sandboxes.contract import SandboxKind
from gatepost.store import turns
from gatepost.store.port import Db, Store
from gatepost.store.turns import Broken, Policy

_log = log.get("recover")


def sweep_leftovers(home: Home, kinds: list[SandboxKind], prefix: str) -> int:
    """Sandboxes, cgroups and sockets of a daemon that is gone: we hold the lock, so nobody else can be using them."""
    ended = sum(kind.sweep(prefix) for kind in kinds)
    with suppress(FileNotFoundError, GatepostError), open_root(home.run) as run:
        for name in run.list("s"):
            run.remove_tree(f"s/{name}")
    return ended


async def continue_turns(store: Store, clock: Clock, policy: Policy) -> list[Broken]:
    """Turns that the last daemon had open: its end is not the messages' fault, so nothing is counted against them."""

    def settle(db: Db) -> list[Broken]:
        now, broken = clock.now(), []
        for turn in turns.open_turns(db):
            found = turns.break_off(db, turn.id, turn.epoch, "the gateway was restarted", policy, now, blame=False)
            if found is not None:
                broken.append(found)
        return broken

    settled = await store.write(settle)
    if settled:
        _log.info("turns of the last run were settled", count=len(settled))
    return settled
