"""Replays of sessions: repeat one with other settings, and compare both."""

from typing import Annotated

from msgspec import Meta, Struct, field

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.arguments.sessions import READ, WRITE, SessionId
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.replays import ReplayedTurn, StartedReplay


class ReplayComparison(Struct, frozen=True, kw_only=True):
    """`finished`: every turn of the replay has ended."""

    id: str
    source: str
    folder: str
    changes: dict[str, str]
    finished: bool
    turns: list[ReplayedTurn]


@declares("session.replay", right=WRITE, offline=False)
class ReplaySessionArgs(OperationArgs[StartedReplay], frozen=True):
    """Give the messages of a session to a new one with other settings. Nothing that the new one says is delivered.

    Its tools only read, it reaches models and nothing else of the network, and it works on a copy of the group's
    folder. `gatepost session compare` shows both side by side.
    """

    id: SessionId
    model: Annotated[str, option("Another model."), Meta(max_length=200)] = ""
    provider: Annotated[str, option("Another provider, with its usual model unless one is named.")] = ""
    agents_md: Annotated[
        str,
        option("The text of another AGENTS.md.", metavar="FILE", cli="A file in the place of AGENTS.md.", secret=True),
        Meta(max_length=100_000),
    ] = ""
    skill: Annotated[
        dict[str, str],
        option(
            "The SKILL.md of skills, by their names.",
            metavar="NAME=FILE",
            cli="A file in the place of the SKILL.md of this skill; may be repeated.",
            secret=True,
        ),
    ] = field(default_factory=dict)
    turns: Annotated[int, option("The newest so many turns.", least=1, most=50)] = 20


@declares("session.compare", right=READ, reads=True)
class CompareReplayArgs(OperationArgs[ReplayComparison], frozen=True):
    """Show a replay beside the session that it repeats, turn by turn: what was asked, both answers, what each cost and
    how long it took."""

    id: Annotated[str, argument("The replay's id.", "replay")]
