"""Errands: what agents gave to other agents to do."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.errands import ErrandState

READ = "errands.read"


class ErrandView(Struct, frozen=True, kw_only=True):
    """An errand. `depth`: the steps from agent to agent behind it. `cost`: of its own turns, in millionths. `age_s`:
    until now, or until its end. `instance`, `address`, `thread`: where the result goes."""

    id: Annotated[str, shown("Id", ShownAs.ID, head="errand")]
    caller_folder: Annotated[str, shown("Asked by", head="asked by")]
    caller_session: str
    folder: Annotated[str, shown("Done by", head="done by")]
    session_id: str
    depth: Annotated[int, shown("Depth", ShownAs.NUMBER)]
    state: Annotated[ErrandState, shown("State", ShownAs.BADGE)]
    reason: Annotated[str, shown("Why", head="why", details=True)]
    cost: Annotated[int, shown("Cost", ShownAs.MONEY)]
    created_at: Annotated[int, shown("Given", ShownAs.MOMENT, head="given", details=True)]
    ended_at: Annotated[int | None, shown("Ended", ShownAs.MOMENT, head="ended", details=True)]
    age_s: Annotated[float, shown("Age", head="age")]
    instance: str
    address: Annotated[str, shown("Answer to", head="answer to")]
    thread: str


class ErrandDetails(ErrandView, frozen=True, kw_only=True):
    """`people`: on whose behalf it is done. `above`: the errands in whose work it was given out, the nearest first.
    `below`: those that were given out for it."""

    people: Annotated[list[str], shown("For", head="for", details=True)]
    above: Annotated[list[str], shown("Above", details=True)]
    below: Annotated[list[str], shown("Below", details=True)]
    asked: Annotated[str, shown("Asked", ShownAs.LONG, details=True)]
    answer: Annotated[str, shown("Answer", ShownAs.LONG, details=True)]


@declares("errand.list", right=READ, reads=True)
class ListErrandsArgs(OperationArgs[list[ErrandView]], frozen=True):
    """Errands, the newest first: who asked whom, how far from the person, the state, the cost and the age."""

    folder: Annotated[str, option("Only those that this group or one below it gave out or has to do.", scope=True)] = ""
    open: Annotated[bool, option("Only those that have not returned yet.")] = False
    before: Annotated[str, option("Only those older than this one.", metavar="ID")] = ""
    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 100


@declares("errand.show", right=READ, reads=True)
class ShowErrandArgs(OperationArgs[ErrandDetails], frozen=True):
    """One errand: who is behind it, the errands above and below it, what was asked, and what came back."""

    id: Annotated[str, argument("The errand's id, as `errand list` shows it.", "errand")]
