"""Whether this gateway may act. Where several share a store, one that has lost touch with it calls nobody: another may
be doing the same by now.

It is asked right before a platform, a model, a host, a connector or a tool with an effect is called.
"""

from collections.abc import Callable

from gatepost.core.errors import Unavailable

RETRY_S = 1  # when whoever was refused may ask again: a beat later contact may be back

MayAct = Callable[[], bool]


def always() -> bool:
    """A gateway by itself."""
    return True


def check_contact(may_act: MayAct) -> None:
    """Raises Unavailable: nothing was called, and the same may be asked again."""
    if not may_act():
        why = "it has lost touch with the database, so another may be acting in its place; try again in a moment"
        raise Unavailable("this gateway", why, retry_after=RETRY_S)
