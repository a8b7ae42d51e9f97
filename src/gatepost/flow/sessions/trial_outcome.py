"""The outcome of a trial, as commands and the API tell it."""

from msgspec import Struct


class TrialOutcome(Struct, frozen=True, kw_only=True):
    """`trouble`: '' if it answered; else sandbox, agent, auth, quota, budget, network, busy, price, time, stopped."""

    trouble: str = ""
    reason: str = ""
    answer: str = ""
    sandbox: str = ""
    tools: int = 0
    models: tuple[str, ...] = ()  # that it was run on
    micro: int = 0
    seconds: float = 0.0
