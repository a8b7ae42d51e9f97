"""How the answers of units get from a writer's thread to whoever waits for them on a loop."""

import asyncio

from gatepost.core import log
from gatepost.store.write_queue import WriteUnit

_log = log.get("store")


def log_lost_error(future: asyncio.Future[object]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.error("what nobody waited for could not be written", error=repr(error))


def send_answers(group: list[WriteUnit]) -> None:
    """Settle all futures of a loop with one wake-up."""
    loops = {unit.loop for unit in group}
    for loop in loops:
        own = group if len(loops) == 1 else [unit for unit in group if unit.loop is loop]
        try:
            loop.call_soon_threadsafe(_set_futures, own)
        except RuntimeError:  # the loop is gone: nobody waits any more
            continue


def _set_futures(units: list[WriteUnit]) -> None:
    for unit in units:
        if unit.future.done():  # nobody waits, or was told that we are stopping
            continue
        if unit.error is not None:
            unit.future.set_exception(unit.error)
        else:
            unit.future.set_result(unit.answer)
