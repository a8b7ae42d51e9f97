"""How long a test waits for what has to happen, and how it waits for what nobody announces.

    await until(lambda: path.exists(), "the file")

A wait ends with its event, so a generous bound costs nothing. A busy machine needs ten times as long as an idle one.
"""

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 60.0
_STEP_S = 0.005


async def until(holds: Callable[[], object], what: str = "it") -> None:
    """Wait on the loop until this holds."""
    bound = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < bound, f"waited in vain for {what}"
        await asyncio.sleep(_STEP_S)


def block_until(holds: Callable[[], object], what: str = "it", patience: float = PATIENCE_S) -> None:
    """The same where no loop runs."""
    bound = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < bound, f"waited in vain for {what}"
        time.sleep(_STEP_S)
