"""Activity: everything that happened, in words."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares

MOST_SHOWN, LONGEST_SEARCH = 200, 200


class ActivityKind(StrEnum):
    MESSAGE = "message"
    CALL = "call"  # of a tool
    DECISION = "decision"
    COST = "cost"
    TASK = "task"
    CHANNEL = "channel"
    CHANGE = "change"  # of anything else, by a person or an agent
    TROUBLE = "trouble"  # what failed, of whatever kind


class ActivityEntry(Struct, frozen=True, kw_only=True):
    """Something that happened. `agent`, `person` and `room`: by which it can be asked for again; '' where it has none.
    `message`: whose life tells more."""

    at: Annotated[int, shown("When", ShownAs.MOMENT)]
    what: Annotated[str, shown("What happened", head="what")]
    said: Annotated[str, shown("Words", head="words")]
    kind: ActivityKind
    is_trouble: bool
    agent: str
    person: str
    person_name: str
    room: str
    room_name: str
    message: int | None


class ActivityPage(Struct, frozen=True, kw_only=True):
    """`more`: where the next look goes on; '' at the end of what is kept. With a rare filter a page may be short or
    empty and have more. `agents`: that the caller may ask for, by their folders."""

    entries: list[ActivityEntry]
    more: str
    agents: dict[str, str]


@declares("activity.list", right="audit.read", answers_all=True)
class ListActivityArgs(OperationArgs[ActivityPage], frozen=True):
    """Show what happened, in words, the newest first: messages, tool calls, decisions, costs, tasks, channels, changes.

    Each caller gets what they may see: messages with op:ledger.read in a group that has them, calls, decisions and
    changes with op:audit.read, costs with op:budgets.read, tasks with op:tasks.read.

    One look goes through the last 5,000 rows of each kind at most. If a filter finds little there, `more` says where
    the next look goes on.
    """

    kind: Annotated[ActivityKind | None, option("Only this kind.")] = None
    agent: Annotated[str, option("Only of this agent.", metavar="FOLDER"), Meta(max_length=255)] = ""
    person: Annotated[str, option("Only of this person.", metavar="ID"), Meta(max_length=600)] = ""
    room: Annotated[str, option("Only in this room.", metavar="ADDRESS"), Meta(max_length=600)] = ""
    words: Annotated[str, option("Only what has all of these words in it."), Meta(max_length=LONGEST_SEARCH)] = ""
    since: Annotated[str, option("Only from then on: 90m, 24h, 7d, or a time.")] = ""
    until: Annotated[str, option("Only until then.")] = ""
    before: Annotated[str, option("Go on where an earlier look ended."), Meta(max_length=120)] = ""
    limit: Annotated[int, option("At most so many.", least=1, most=MOST_SHOWN)] = 50
