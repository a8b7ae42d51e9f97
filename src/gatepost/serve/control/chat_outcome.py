"""The outcome of a message that was written at a terminal, as the control API answers it."""

from msgspec import Struct

from gatepost.store.messages.outbox import EffectState


class ChatReply(Struct, frozen=True, kw_only=True):
    text: str
    seq: int
    state: EffectState


class ChatOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a message so far. `done`: nothing more will."""

    message: int
    state: str
    reason: str
    done: bool
    halted: bool = False  # by somebody: what waits goes on waiting until then
    until: str = ""  # the command by which it goes on
    replies: tuple[ChatReply, ...] = ()
    asks: str = ""  # the request that a person has to decide: of its turn, or for which it is held
