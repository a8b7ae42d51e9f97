"""The overview: how every agent stands, who waits for whom, and whether the gateway is well."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from gatepost.serve.control.declaration import OperationArgs, declares, option

READ = "overview.read"
MOST_SHOWN, LONGEST_SEARCH = 200, 200


class OverviewPart(StrEnum):
    ALL = "all"
    ATTENTION = "attention"  # who waits for a person, has no money left, or failed
    BUSY = "busy"  # who has work
    IDLE = "idle"


@declares("overview.show", right=READ, offline=False, answers_all=True)
class ShowOverviewArgs(OperationArgs[Any], frozen=True):
    """Show how every agent stands, with the one safe next step. Agents that need somebody come first.

    Each row has the last message, state, queue, sandbox and cost today, and who waits for whom. The findings on the
    gateway's health stand above.

    Each caller gets the groups where they have the right op:overview.read, and the findings with that right for the
    whole gateway.
    """

    folder: Annotated[str, option("Only this group and those below it."), Meta(max_length=255)] = ""
    part: Annotated[OverviewPart, option("Only those that need somebody, have work, or have none.")] = OverviewPart.ALL
    words: Annotated[
        str, option("Only those in whose group, title or provider these words stand."), Meta(max_length=LONGEST_SEARCH)
    ] = ""
    start: Annotated[int, option("Leave out so many.", least=0, most=1_000_000)] = 0
    limit: Annotated[int, option("At most so many.", least=1, most=MOST_SHOWN)] = 60
