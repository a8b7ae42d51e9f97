"""How an awake session ends, as one value: why, whether its turn is tried again, and what that costs its messages."""

from enum import StrEnum

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.store.sessions.sleeping_turns import ASLEEP
from gatepost.store.sessions.turn_failures import MOST_SPARED, FailureCause
from gatepost.store.sessions.turns import Turn

SPARED_PAUSE, SPARED_LONGEST = 5 * SECOND, 60 * SECOND  # before such a turn goes on


class Retry(StrEnum):
    NEVER = "never"  # a person ended it
    NEXT = "next"  # by the next sandbox
    DECIDED = "decided"  # it sleeps: when somebody has decided what it asked
    LATER = "later"  # the host lacks something for a while: when it is there again


class Ending(Struct, frozen=True):
    cause: str  # as people read it
    retry: Retry = Retry.NEXT
    counts: bool = True  # against the session's messages; False: the gateway had a reason of its own
    final: bool = False  # its turn is not continued: it would do the same again

    @classmethod
    def by_person(cls, cause: str) -> "Ending":
        return cls(cause, Retry.NEVER, False)

    @classmethod
    def by_gateway(cls, cause: str) -> "Ending":
        """To make room, to rest, to apply a change, to go down: no message is to blame for it."""
        return cls(cause, counts=False)

    @classmethod
    def for_disk(cls, cause: str) -> "Ending":
        """It took too much of the disk. Its files stay, so its turn would meet the same end again."""
        return cls(cause, final=True)

    @classmethod
    def to_sleep(cls) -> "Ending":
        """Its turn waits for a person, and needs no sandbox for that."""
        return cls(ASLEEP, Retry.DECIDED, False)

    def join(self, later: "Ending") -> "Ending":
        """Both, if it is ended again before it is gone: the first cause stays, and the milder consequence."""
        order = (Retry.NEVER, Retry.DECIDED, Retry.LATER, Retry.NEXT)
        retry = min(self.retry, later.retry, key=order.index)
        return Ending(self.cause, retry, self.counts and later.counts, self.final or later.final)

    def during(self, shortage: str) -> "Ending":
        """The same while the machine lacks something. Whoever took too much themselves goes on for no other reason."""
        if not shortage or self.final or not self.counts or self.retry is not Retry.NEXT:
            return self
        return Ending(shortage, Retry.LATER)

    def to_failure(self, turn: Turn, *, final: bool) -> FailureCause:
        """Return what it means for the turn that ran."""
        spared = self.retry is Retry.LATER and turn.spared < MOST_SPARED
        counts = self.counts and not spared
        return FailureCause(
            reason=self.cause,
            wait=min(SPARED_PAUSE << min(turn.spared, 10), SPARED_LONGEST) if spared else None,
            final=final or self.final,
            counts_as_failure=counts,
            keeps_continuation=not counts,
            passing=self.retry is Retry.LATER,
        )
