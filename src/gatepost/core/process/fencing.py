"""The right of this gateway to act. If several gateways share a store, one that has lost its connection to it calls
nobody: another may be doing the same by now.

It is asked right before a platform, a model, a host, a connector or a tool with an effect is called.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from gatepost.core.errors import Unavailable

RETRY_S = 1  # when whoever was refused may ask again: a beat later contact may be back
LOOK_S = 0.1

FenceCheck = Callable[[], bool]


def always() -> bool:
    """A gateway by itself."""
    return True


# Of the flow that a call belongs to. A channel that listens is not asked each time, since it makes its calls itself.
MAY_ACT: ContextVar[FenceCheck] = ContextVar("MAY_ACT", default=always)


async def wait_for_contact() -> None:
    """Until this flow may act; whoever takes its work away cancels it meanwhile."""
    may_act = MAY_ACT.get()
    while not may_act():  # noqa: ASYNC110  a clock ends it, or a thread
        await asyncio.sleep(LOOK_S)


def check_contact(may_act: FenceCheck) -> None:
    """Raises Unavailable: nothing was called, and the same may be asked again."""
    if not may_act():
        why = "it has lost touch with the database, so another may be acting in its place; try again in a moment"
        raise Unavailable("this gateway", why, retry_after=RETRY_S)
